//! A guest's transaction: its deadlines, and its end whatever the guest does.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::pool::{Lease, Pool};
use super::session::{Bounds, Failed, Terms};
use super::statement;
use crate::clock::SharedClock;
use crate::plugin::bindings::sql::{Rows, SqlError, Value, Violation};
use crate::plugin::spec::SqlLimits;
use crate::plugin::stats::Stats;

/// The database ends a statement at its deadline and says so; this much later the host no longer
/// waits for it to.
const GRACE: Duration = Duration::from_millis(500);
const ROLLBACK_TIMEOUT: Duration = Duration::from_secs(1);

/// None once it has ended, and while a step of it runs.
type Slot = Mutex<Option<Active>>;

fn take(slot: &Slot) -> Option<Active> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn put(slot: &Slot, active: Active) {
    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(active);
}

/// What one instance has open.
#[derive(Default)]
pub struct OpenTransactions(Vec<Weak<Slot>>);

/// Where a transaction may be begun.
pub struct Place(Arc<Slot>);

impl OpenTransactions {
    /// None if `most` are open.
    pub fn place(&mut self, most: u32) -> Option<Place> {
        self.0.retain(|slot| slot.upgrade().is_some_and(|slot| is_open(&slot)));
        if self.0.len() >= most as usize {
            return None;
        }
        let slot = Arc::new(Slot::default());
        self.0.push(Arc::downgrade(&slot));
        Some(Place(slot))
    }

    /// Rolls back what is open, beside whatever comes next. Called on the guests' threads.
    pub fn end(&mut self) {
        for active in
            std::mem::take(&mut self.0).iter().filter_map(Weak::upgrade).filter_map(|slot| take(&slot))
        {
            tokio::spawn(active.roll_back());
        }
    }
}

fn is_open(slot: &Slot) -> bool {
    slot.lock().unwrap_or_else(PoisonError::into_inner).is_some()
}

impl Place {
    pub async fn begin(
        self,
        pool: Arc<Pool>,
        limits: &SqlLimits,
        call_ends_at: Duration,
        clock: SharedClock,
        stats: Arc<Stats>,
    ) -> Result<Transaction, SqlError> {
        let begun = Active::begin(pool.clone(), limits, call_ends_at, clock, stats.clone()).await;
        let active = begun.map_err(|error| {
            stats.sql_failures.add_one();
            in_database(pool.name(), error)
        })?;
        put(&self.0, active);
        Ok(Transaction { slot: self.0, name: pool.name().to_owned(), stats })
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
        let mut active = take(&self.slot).ok_or(SqlError::Closed)?;
        let done = match active.check(statement, parameters) {
            Ok(wait) => within(wait, active.lease.session.execute(statement, parameters)).await,
            Err(failed) => Err(failed),
        };
        self.go_on(active, done).await
    }

    pub async fn query(&self, statement: &str, parameters: &[Value]) -> Result<Rows, SqlError> {
        let mut active = take(&self.slot).ok_or(SqlError::Closed)?;
        let bounds = active.bounds;
        let done = match active.check(statement, parameters) {
            Ok(wait) => within(wait, active.lease.session.query(statement, parameters, bounds)).await,
            Err(failed) => Err(failed),
        };
        self.go_on(active, done).await
    }

    pub async fn commit(&self) -> Result<(), SqlError> {
        let mut active = take(&self.slot).ok_or(SqlError::Closed)?;
        let wait = match active.wait() {
            Ok(wait) => wait,
            Err(failed) => return self.go_on(active, Err(failed)).await,
        };
        let committed = tokio::time::timeout(wait + GRACE, active.lease.session.commit()).await;
        let failed = match committed {
            Ok(Ok(())) => {
                self.stats.sql_commits.add_one();
                active.lease.give_back();
                return Ok(());
            }
            Ok(Err(failed)) => failed,
            Err(_) => Failed::broken(SqlError::CommitUnknown(
                "the database did not answer in time; whether the transaction was committed is not known"
                    .to_owned(),
            )),
        };
        self.go_on(active, Err(failed)).await
    }

    pub async fn rollback(&self) -> Result<(), SqlError> {
        let active = take(&self.slot).ok_or(SqlError::Closed)?;
        active.roll_back().await;
        Ok(())
    }

    /// After an error the transaction is over, on every database.
    async fn go_on<T>(&self, active: Active, done: Result<T, Failed>) -> Result<T, SqlError> {
        match done {
            Ok(value) => {
                put(&self.slot, active);
                Ok(value)
            }
            Err(Failed { error, is_clean }) => {
                self.stats.sql_failures.add_one();
                if is_clean {
                    active.roll_back().await;
                }
                Err(in_database(&self.name, error))
            }
        }
    }
}

/// A transaction on a connection.
struct Active {
    lease: Lease,
    ends_at: Duration,
    statement: Duration,
    bounds: Bounds,
    clock: SharedClock,
}

impl Active {
    async fn begin(
        pool: Arc<Pool>,
        limits: &SqlLimits,
        call_ends_at: Duration,
        clock: SharedClock,
        stats: Arc<Stats>,
    ) -> Result<Self, SqlError> {
        let call_left = call_ends_at.saturating_sub(clock.since_boot());
        let (lease, is_new) = pool.take(limits.connect.min(call_left)).await?;
        if is_new {
            stats.sql_connections_opened.add_one();
        }
        stats.sql_transactions.add_one();
        let terms =
            Terms { isolation: pool.isolation, statement: limits.statement, transaction: limits.transaction };
        let mut active = Self {
            lease,
            ends_at: clock.since_boot() + limits.transaction,
            statement: limits.statement,
            bounds: Bounds { rows: limits.rows as usize, bytes: limits.result_bytes },
            clock,
        };
        match within(limits.statement, active.lease.session.begin(&terms)).await {
            Ok(()) => Ok(active),
            Err(Failed { error, .. }) => Err(error),
        }
    }

    fn check(&self, statement: &str, parameters: &[Value]) -> Result<Duration, Failed> {
        let dialect = self.lease.pool().dialect();
        statement::check(statement, parameters.len(), dialect)
            .map_err(|why| Failed::clean(SqlError::Syntax(why)))?;
        self.wait()
    }

    /// How long the next statement may take.
    fn wait(&self) -> Result<Duration, Failed> {
        let left = self.ends_at.saturating_sub(self.clock.since_boot());
        if left.is_zero() {
            let text = "the transaction took longer than limits.sql.transaction allows";
            return Err(Failed::clean(SqlError::Timeout(text.to_owned())));
        }
        Ok(left.min(self.statement))
    }

    async fn roll_back(mut self) {
        let rolled_back = tokio::time::timeout(ROLLBACK_TIMEOUT, self.lease.session.rollback()).await;
        if matches!(rolled_back, Ok(Ok(()))) {
            self.lease.give_back();
        }
    }
}

async fn within<T>(wait: Duration, step: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
    tokio::time::timeout(wait + GRACE, step).await.unwrap_or_else(|_| {
        let text = format!("the statement took longer than {} ms", wait.as_millis());
        Err(Failed::broken(SqlError::Timeout(text)))
    })
}

/// Names the database, so that a plugin can hand the sentence on as it is.
fn in_database(name: &str, error: SqlError) -> SqlError {
    let told = |text: String| format!("database \"{name}\": {text}");
    match error {
        SqlError::UniqueViolation(Violation { constraint, message }) => {
            SqlError::UniqueViolation(Violation { constraint, message: told(message) })
        }
        SqlError::Constraint(text) => SqlError::Constraint(told(text)),
        SqlError::Data(text) => SqlError::Data(told(text)),
        SqlError::Serialization(text) => SqlError::Serialization(told(text)),
        SqlError::Deadlock(text) => SqlError::Deadlock(told(text)),
        SqlError::Unavailable(text) => SqlError::Unavailable(told(text)),
        SqlError::Denied(text) => SqlError::Denied(told(text)),
        SqlError::Timeout(text) => SqlError::Timeout(told(text)),
        SqlError::CommitUnknown(text) => SqlError::CommitUnknown(told(text)),
        SqlError::Closed => SqlError::Closed,
        SqlError::Syntax(text) => SqlError::Syntax(told(text)),
        SqlError::TooLarge(text) => SqlError::TooLarge(told(text)),
        SqlError::Other(text) => SqlError::Other(told(text)),
    }
}
