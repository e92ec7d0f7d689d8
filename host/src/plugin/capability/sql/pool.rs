//! The connections of a named database, shared by all destinations it is granted to.
//!
//! Our own, and not the driver's, because that one waits out its time at a database that refuses
//! connections, and then says only that it waited: an outage must be told from a pool too small.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::session::{Failed, Server, Session};
use crate::clock::SharedClock;
use crate::plugin::bindings::sql::{Dialect, SqlError};
use crate::plugin::spec::{SqlGrant, SqlIsolation};

/// A connection that has just worked works; one that was idle for longer is asked first.
const FRESH: Duration = Duration::from_secs(1);
const PING_TIMEOUT: Duration = Duration::from_secs(1);
/// One that nobody used for longer is closed when the next is taken.
const IDLE_MAX: Duration = Duration::from_secs(300);

/// All pools of the process. Those that no loaded plugin uses any more are gone.
#[derive(Default)]
pub struct Pools(Mutex<HashMap<Key, Weak<Pool>>>);

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    name: String,
    url: String,
    connections: u32,
    isolation: SqlIsolation,
}

impl Pools {
    pub fn of(
        &self,
        name: &str,
        url: &str,
        grant: &SqlGrant,
        clock: &SharedClock,
    ) -> Result<Arc<Pool>, String> {
        let key = Key {
            name: name.to_owned(),
            url: url.to_owned(),
            connections: grant.pool,
            isolation: grant.isolation,
        };
        let mut pools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pools.get(&key).and_then(Weak::upgrade) {
            return Ok(pool);
        }
        pools.retain(|_, pool| pool.strong_count() > 0);
        let pool = Arc::new(Pool {
            name: name.to_owned(),
            server: Server::parse(url)?,
            connections: grant.pool,
            isolation: grant.isolation,
            places: Arc::new(Semaphore::new(grant.pool.max(1) as usize)),
            idle: Mutex::default(),
            clock: clock.clone(),
        });
        pools.insert(key, Arc::downgrade(&pool));
        Ok(pool)
    }
}

pub struct Pool {
    name: String,
    server: Server,
    connections: u32,
    pub isolation: SqlIsolation,
    places: Arc<Semaphore>,
    idle: Mutex<Vec<Idle>>,
    clock: SharedClock,
}

struct Idle {
    session: Box<dyn Session>,
    since: Duration,
}

impl Pool {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn dialect(&self) -> Dialect {
        self.server.dialect()
    }

    /// A connection that works, within `limit`. The flag says whether it was opened now.
    pub async fn take(self: &Arc<Self>, limit: Duration) -> Result<(Lease, bool), SqlError> {
        let waits_until = self.clock.since_boot() + limit;
        let place = tokio::time::timeout(limit, self.places.clone().acquire_owned()).await;
        let Ok(Ok(place)) = place else {
            let (connections, name) = (self.connections, &self.name);
            return Err(SqlError::Unavailable(format!(
                "all {connections} connections were busy for {} ms; raise  pool  in [sql.{name}], or lower the \
                 concurrency of its destinations",
                limit.as_millis()
            )));
        };
        while let Some(Idle { mut session, since }) = self.last_idle() {
            if self.clock.since_boot().saturating_sub(since) < FRESH
                || tokio::time::timeout(PING_TIMEOUT, session.is_alive()).await.unwrap_or(false)
            {
                return Ok((Lease { session, pool: self.clone(), _place: place }, false));
            }
        }
        let left = waits_until.saturating_sub(self.clock.since_boot());
        let session = match tokio::time::timeout(left, self.server.connect(&self.clock)).await {
            Ok(connected) => connected.map_err(|Failed { error, .. }| error)?,
            Err(_) => {
                let text = format!("no connection could be made within {} ms", limit.as_millis());
                return Err(SqlError::Unavailable(text));
            }
        };
        Ok((Lease { session, pool: self.clone(), _place: place }, true))
    }

    fn last_idle(&self) -> Option<Idle> {
        let now = self.clock.since_boot();
        let mut idle = self.idle();
        let old: Vec<Idle> = idle.extract_if(.., |one| now.saturating_sub(one.since) > IDLE_MAX).collect();
        let last = idle.pop();
        std::mem::drop(idle);
        std::mem::drop(old);
        last
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection in use. Dropped, it is closed, and the server rolls back what was open on it.
pub struct Lease {
    pub session: Box<dyn Session>,
    pool: Arc<Pool>,
    _place: OwnedSemaphorePermit,
}

impl Lease {
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Keeps the connection for the next, which finds no transaction on it.
    pub fn give_back(self) {
        let since = self.pool.clock.since_boot();
        self.pool.idle().push(Idle { session: self.session, since });
    }
}
