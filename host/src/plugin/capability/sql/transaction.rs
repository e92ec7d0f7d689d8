//! A guest's transaction: its deadlines, and its end whatever the guest does.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::pool::{Lease, Pool};
use super::session::{After, Bounds, Failed, Terms, told};
use super::slot::{self, Slot, Watch};
use super::statement;
use crate::clock::SharedClock;
use crate::plugin::bindings::sql::{Rows, SqlError, Value};
use crate::plugin::capability::waits_until;
use crate::plugin::spec::Limits;
use crate::plugin::stats::Stats;

/// The database ends a statement at its deadline and says so; this much later the host no longer
/// waits for it to.
const GRACE: Duration = Duration::from_millis(500);
const ROLLBACK_TIMEOUT: Duration = Duration::from_secs(1);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// What one instance has open.
#[derive(Default)]
pub struct OpenTransactions(Vec<Weak<Slot>>);

/// Where a transaction may be begun.
pub struct Place(Arc<Slot>);

impl OpenTransactions {
    /// None if `most` are open.
    pub fn place(&mut self, most: u32) -> Option<Place> {
        self.0.retain(|slot| slot.upgrade().is_some_and(|slot| slot.is_open()));
        if self.0.len() >= most as usize {
            return None;
        }
        let slot = Arc::new(Slot::default());
        self.0.push(Arc::downgrade(&slot));
        Some(Place(slot))
    }

    /// Rolls back what is open, beside whatever comes next. Called on the guests' threads.
    pub fn end(&mut self) {
        let open = std::mem::take(&mut self.0);
        for active in open.iter().filter_map(Weak::upgrade).filter_map(|slot| slot.take().ok()) {
            tokio::spawn(active.roll_back());
        }
    }
}

impl Place {
    pub async fn begin(
        self,
        pool: Arc<Pool>,
        limits: &Limits,
        call_ends_at: Duration,
        clock: SharedClock,
        stats: Arc<Stats>,
    ) -> Result<Transaction, SqlError> {
        let transaction = Transaction { slot: self.0, name: pool.name().to_owned(), stats: stats.clone() };
        match Active::begin(pool, limits, call_ends_at, clock, stats).await {
            Ok(mut active) => {
                active.watch = slot::watch(&transaction.slot, active.ends_at, active.clock.clone());
                transaction.go_on(active, Ok(())).await?;
                Ok(transaction)
            }
            Err(error) => Err(transaction.failed(error)),
        }
    }
}

/// What the guest holds.
#[derive(Clone)]
pub struct Transaction {
    slot: Arc<Slot>,
    name: String,
    stats: Arc<Stats>,
}

impl Transaction {
    pub async fn execute(&self, statement: &str, parameters: &[Value]) -> Result<u64, SqlError> {
        let mut active = self.take()?;
        let done = match active.check(statement, parameters) {
            Ok(wait) => {
                let done = within(wait, active.lease.session.execute(statement, parameters)).await;
                active.lease.answered(&done);
                done
            }
            Err(failed) => Err(failed),
        };
        self.go_on(active, done).await
    }

    pub async fn query(&self, statement: &str, parameters: &[Value]) -> Result<Rows, SqlError> {
        let mut active = self.take()?;
        let bounds = active.bounds;
        let done = match active.check(statement, parameters) {
            Ok(wait) => {
                let done = within(wait, active.lease.session.query(statement, parameters, bounds)).await;
                active.lease.answered(&done);
                done
            }
            Err(failed) => Err(failed),
        };
        self.go_on(active, done).await
    }

    pub async fn commit(&self) -> Result<(), SqlError> {
        let mut active = self.take()?;
        let wait = match active.wait() {
            Ok(wait) => wait,
            Err(failed) => return self.go_on(active, Err(failed)).await,
        };
        let committed = tokio::time::timeout(wait + GRACE, active.lease.session.commit()).await;
        let committed = committed.unwrap_or_else(|_| {
            Err(Failed::broken(SqlError::CommitUnknown(
                "the database did not answer in time; whether the transaction was committed is not known"
                    .to_owned(),
            )))
        });
        active.lease.answered(&committed);
        match committed {
            Ok(after) => {
                self.stats.sql_commits.add_one();
                active.end(after).await;
                Ok(())
            }
            Err(failed) => self.go_on(active, Err(failed)).await,
        }
    }

    pub async fn rollback(&self) -> Result<(), SqlError> {
        let active = self.take()?;
        active.roll_back().await;
        Ok(())
    }

    fn take(&self) -> Result<Active, SqlError> {
        self.slot.take().map_err(|error| match error {
            SqlError::Closed => SqlError::Closed,
            error => self.failed(error),
        })
    }

    /// After an error the transaction is over, on every database, and so it is past its deadline.
    async fn go_on<T>(&self, active: Active, done: Result<T, Failed>) -> Result<T, SqlError> {
        let (active, failed) = match done {
            Ok(value) => match self.slot.put(active) {
                None => return Ok(value),
                Some(active) => (active, Failed::clean(slot::overdue())),
            },
            Err(failed) => (active, failed),
        };
        if failed.is_clean {
            active.roll_back().await;
        }
        Err(self.failed(failed.error))
    }

    /// Names the database, so that a plugin can hand the sentence on as it is.
    fn failed(&self, error: SqlError) -> SqlError {
        self.stats.sql_failures.add_one();
        told(error, &format!("database \"{}\"", self.name))
    }
}

/// A transaction on a connection.
pub struct Active {
    lease: Lease,
    ends_at: Duration,
    statement: Duration,
    bounds: Bounds,
    clock: SharedClock,
    /// Ends it at its deadline.
    watch: Watch,
}

impl Active {
    async fn begin(
        pool: Arc<Pool>,
        limits: &Limits,
        call_ends_at: Duration,
        clock: SharedClock,
        stats: Arc<Stats>,
    ) -> Result<Self, SqlError> {
        let payload_bytes = usize::try_from(limits.payload_bytes).unwrap_or(usize::MAX);
        let value_bytes = payload_bytes.saturating_add(limits.sql.result_bytes);
        let limits = &limits.sql;
        let now = clock.since_boot();
        let wait = limits.connect.min(waits_until(call_ends_at, now) - now);
        let (lease, is_new) = pool.take(wait).await?;
        if is_new {
            stats.sql_connections_opened.add_one();
        }
        stats.sql_transactions.add_one();
        let bounds = Bounds { rows: limits.rows as usize, bytes: limits.result_bytes };
        let terms = Terms {
            isolation: pool.isolation,
            statement: limits.statement,
            transaction: limits.transaction,
            value_bytes,
        };
        let mut active = Self {
            lease,
            ends_at: clock.since_boot() + limits.transaction,
            statement: limits.statement,
            bounds,
            clock,
            watch: Watch::default(),
        };
        match within(limits.statement, active.lease.session.begin(&terms)).await {
            Ok(()) => Ok(active),
            Err(Failed { error, .. }) => Err(error),
        }
    }

    fn check(&mut self, statement: &str, parameters: &[Value]) -> Result<Duration, Failed> {
        let dialect = self.lease.pool().dialect();
        statement::check(statement, parameters.len(), dialect)
            .map_err(|why| Failed::clean(SqlError::Syntax(why)))?;
        self.wait()
    }

    /// How long the next statement may take, which is about to be sent.
    fn wait(&mut self) -> Result<Duration, Failed> {
        if self.is_overdue() {
            return Err(Failed::clean(slot::overdue()));
        }
        self.lease.asked();
        Ok(self.ends_at.saturating_sub(self.clock.since_boot()).min(self.statement))
    }

    pub fn is_overdue(&self) -> bool {
        self.clock.since_boot() >= self.ends_at
    }

    /// A connection that does not answer is dropped, and what it runs is ended at the server.
    pub async fn roll_back(mut self) {
        self.lease.asked();
        let rolled_back = tokio::time::timeout(ROLLBACK_TIMEOUT, self.lease.session.rollback()).await;
        if let Ok(rolled_back) = rolled_back {
            self.lease.answered(&rolled_back);
            if let Ok(after) = rolled_back {
                self.end(after).await;
            }
        }
    }

    async fn end(self, after: After) {
        match after {
            After::Clean => self.lease.give_back(),
            After::Spent => self.lease.close(CLOSE_TIMEOUT).await,
        }
    }
}

async fn within<T>(wait: Duration, step: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
    tokio::time::timeout(wait + GRACE, step).await.unwrap_or_else(|_| {
        let text = format!("the statement took longer than {} ms", wait.as_millis());
        Err(Failed::broken(SqlError::Timeout(text)))
    })
}
