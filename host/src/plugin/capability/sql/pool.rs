//! The connections of a named database, shared by all destinations it is granted to.
//!
//! Our own, and not the driver's, because that one waits out its time at a database that refuses
//! connections, and then says only that it waited: an outage must be told from a pool too small.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::session::{Failed, Server, Session, Work, told};
use crate::clock::SharedClock;
use crate::plugin::bindings::sql::{Dialect, SqlError};
use crate::plugin::spec::{SqlGrant, SqlIsolation};

/// A connection that has just worked works; one that was idle for longer is asked first.
const FRESH: Duration = Duration::from_secs(1);
const PING_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a place of the pool waits for the end of a statement that nobody waits for any more.
const END_TIMEOUT: Duration = Duration::from_secs(5);
const END_PAUSE: Duration = Duration::from_millis(200);
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
        let ends_at = self.clock.since_boot() + limit;
        let place = tokio::time::timeout(limit, self.places.clone().acquire_owned()).await;
        let Ok(Ok(place)) = place else {
            let (connections, name) = (self.connections, &self.name);
            return Err(SqlError::Unavailable(format!(
                "all {connections} connections were busy for {} ms; raise  pool  in [sql.{name}], or lower the \
                 concurrency of its destinations",
                limit.as_millis()
            )));
        };
        if let Some(session) = self.idle_and_alive(ends_at).await {
            return Ok((self.lease(session, place), false));
        }
        let address = self.server.address();
        let session = match tokio::time::timeout(self.left(ends_at), self.server.connect(&self.clock)).await {
            Ok(connected) => connected.map_err(|Failed { error, .. }| told(error, &address))?,
            Err(_) => {
                let text = format!("{address} made no connection within {} ms", limit.as_millis());
                return Err(SqlError::Unavailable(text));
            }
        };
        Ok((self.lease(session, place), true))
    }

    fn lease(self: &Arc<Self>, session: Box<dyn Session>, place: OwnedSemaphorePermit) -> Lease {
        let ending =
            Ending { work: None, place: Some(place), pool: self.clone(), runtime: Handle::current() };
        Lease { session, ending }
    }

    /// Ends what a connection left running, over one that is idle or over one of its own.
    async fn end(&self, work: Work) {
        let ended = async {
            while let Err(Failed { .. }) = self.try_end(work).await {
                tokio::time::sleep(END_PAUSE).await;
            }
        };
        if tokio::time::timeout(END_TIMEOUT, ended).await.is_err() {
            tracing::warn!(
                database = self.name,
                "a statement that took too long could not be ended at the server, which may still hold its locks; \
                 end it there, and see to it that the role may open one connection more than  pool  has"
            );
        }
    }

    async fn try_end(&self, work: Work) -> Result<(), Failed> {
        if let Some(Idle { mut session, since }) = self.last_idle()
            && tokio::time::timeout(PING_TIMEOUT, session.end_other(work))
                .await
                .is_ok_and(|done| done.is_ok())
        {
            self.idle().push(Idle { session, since });
            return Ok(());
        }
        let mut session = self.server.connect(&self.clock).await?;
        session.end_other(work).await?;
        session.close().await;
        Ok(())
    }

    /// One that was used lately, or else answers. Asking takes half of what is left at most, so that a new
    /// one can still be made.
    async fn idle_and_alive(&self, ends_at: Duration) -> Option<Box<dyn Session>> {
        while let Some(Idle { mut session, since }) = self.last_idle() {
            if self.clock.since_boot().saturating_sub(since) < FRESH {
                return Some(session);
            }
            let wait = PING_TIMEOUT.min(self.left(ends_at) / 2);
            match tokio::time::timeout(wait, session.is_alive()).await {
                Ok(true) => return Some(session),
                Ok(false) => {}
                // Nobody answers there any more: the others would each take as long to find it out.
                Err(_) => drop(std::mem::take(&mut *self.idle())),
            }
        }
        None
    }

    fn left(&self, ends_at: Duration) -> Duration {
        ends_at.saturating_sub(self.clock.since_boot())
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
    /// After the connection: it is closed first.
    ending: Ending,
}

/// The end of a lease: what its connection still runs is ended before the place is another's.
struct Ending {
    work: Option<Work>,
    place: Option<OwnedSemaphorePermit>,
    pool: Arc<Pool>,
    /// A guest is dropped wherever its call was.
    runtime: Handle,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let (Some(work), place) = (self.work, self.place.take()) else { return };
        let pool = self.pool.clone();
        self.runtime.spawn(async move {
            pool.end(work).await;
            drop(place);
        });
    }
}

impl Lease {
    pub fn pool(&self) -> &Pool {
        &self.ending.pool
    }

    /// The server is asked for something: from here on only its answer says that it has stopped.
    pub fn asked(&mut self) {
        self.ending.work = self.session.work();
    }

    pub fn answered<T>(&mut self, answer: &Result<T, Failed>) {
        let goes_on = matches!(answer, Err(failed) if failed.goes_on());
        if !goes_on {
            self.ending.work = None;
        }
    }

    /// Keeps the connection for the next, which finds neither a transaction nor anything else on it.
    pub fn give_back(self) {
        let since = self.ending.pool.clock.since_boot();
        self.ending.pool.idle().push(Idle { session: self.session, since });
    }

    /// For one that must not be used again: as the server wants to be told of it, within `limit`.
    pub async fn close(self, limit: Duration) {
        let _ = tokio::time::timeout(limit, self.session.close()).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use async_trait::async_trait;

    use super::super::session::{After, Bounds, Terms};
    use super::*;
    use crate::clock::SystemClock;
    use crate::plugin::bindings::sql::{Rows, Value};
    use crate::plugin::spec::SqlUrl;

    /// A connection whose server has fallen silent.
    struct Silent(Arc<AtomicU32>);

    #[async_trait]
    impl Session for Silent {
        async fn begin(&mut self, _: &Terms) -> Result<(), Failed> {
            std::future::pending().await
        }

        async fn execute(&mut self, _: &str, _: &[Value]) -> Result<u64, Failed> {
            std::future::pending().await
        }

        async fn query(&mut self, _: &str, _: &[Value], _: Bounds) -> Result<Rows, Failed> {
            std::future::pending().await
        }

        async fn commit(&mut self) -> Result<After, Failed> {
            std::future::pending().await
        }

        async fn rollback(&mut self) -> Result<After, Failed> {
            std::future::pending().await
        }

        async fn is_alive(&mut self) -> bool {
            self.0.fetch_add(1, Ordering::Relaxed);
            std::future::pending().await
        }

        async fn version(&mut self) -> Result<String, Failed> {
            std::future::pending().await
        }

        async fn close(self: Box<Self>) {}
    }

    #[tokio::test]
    async fn one_idle_connection_without_an_answer_speaks_for_all_of_them() {
        let url = "sqlite:/nowhere/at/all.db";
        let grant =
            SqlGrant { url: SqlUrl::Text(url.to_owned()), pool: 9, isolation: SqlIsolation::ReadCommitted };
        let clock: SharedClock = Arc::new(SystemClock);
        let pool = Pools::default().of("shop", url, &grant, &clock).unwrap();
        let asked = Arc::new(AtomicU32::new(0));
        for _ in 0..9 {
            let since = clock.since_boot() - 2 * FRESH;
            pool.idle().push(Idle { session: Box::new(Silent(asked.clone())), since });
        }
        let taken = pool.take(Duration::from_millis(100)).await;
        let Err(SqlError::Unavailable(why)) = taken.map(drop) else { panic!("it is not there") };
        assert!(why.starts_with("/nowhere/at/all.db: "), "{why}");
        assert_eq!((asked.load(Ordering::Relaxed), pool.idle().len()), (1, 0));
    }
}
