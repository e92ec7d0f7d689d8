//! `outhaul:sql`: transactions on databases the operator named, for ledgers: an effect and the record
//! of it in one. The connections are the host's, and so are begin and end of every transaction.

mod functions;
mod mysql;
mod numeric;
mod pool;
mod postgres;
mod session;
mod slot;
mod sqlite;
mod statement;
mod traces;
mod transaction;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use wasmtime::Result as Done;
use wasmtime::component::Resource;

use self::pool::Pool;
pub use self::pool::Pools;
use self::transaction::Place;
pub use self::transaction::{OpenTransactions, Transaction};
use super::denials::{Denials, Denied};
use super::dial::DialError;
use super::secrets;
use crate::clock::SharedClock;
use crate::plugin::bindings::sql::{self as wit, Dialect, Rows, SqlError, Value};
use crate::plugin::needs::{self, Capability};
use crate::plugin::offline::Offline;
use crate::plugin::spec::{Limits, PluginSpec, SqlGrant, SqlUrl};
use crate::plugin::state::GuestState;
use crate::plugin::stats::Stats;

/// The databases of one destination.
pub struct Databases {
    granted: BTreeMap<String, Arc<Pool>>,
    limits: Limits,
    /// No transaction begins where this stands in for what is outside.
    offline: Option<Offline>,
    clock: SharedClock,
    denials: Arc<Denials>,
    stats: Arc<Stats>,
}

/// A database a guest has opened.
#[derive(Clone)]
pub struct Database(Arc<Pool>);

impl Databases {
    /// Reads the URLs and connects to nothing.
    pub fn new(
        spec: &PluginSpec,
        pools: &Pools,
        offline: Option<Offline>,
        stats: Arc<Stats>,
        denials: Arc<Denials>,
        clock: SharedClock,
    ) -> Result<Self, String> {
        let mut granted = BTreeMap::new();
        for (name, grant) in &spec.sql {
            granted.insert(name.clone(), pool(name, grant, pools, &clock)?);
        }
        Ok(Self { granted, limits: spec.limits.clone(), offline, clock, denials, stats })
    }

    fn open(&self, name: &str) -> Result<Database, SqlError> {
        if let Some(pool) = self.granted.get(name) {
            return Ok(Database(pool.clone()));
        }
        let fix = needs::lines(Capability::Sql, name, self.denials.destination());
        self.denials.deny(Denied::Sql, name, &fix);
        let known: Vec<&str> = self.granted.keys().map(String::as_str).collect();
        let known = match known.is_empty() {
            true => String::new(),
            false => format!(" (its databases: {})", known.join(", ")),
        };
        Err(SqlError::Denied(format!("database \"{name}\" is not granted to this destination{known}; {fix}")))
    }
}

/// The pool of a grant; those of equal grants are one.
pub fn pool(name: &str, grant: &SqlGrant, pools: &Pools, clock: &SharedClock) -> Result<Arc<Pool>, String> {
    let url = match &grant.url {
        SqlUrl::Text(url) => url.clone(),
        SqlUrl::Secret(source) => {
            let secret = secrets::Secret::read(source).map_err(|why| format!("sql.{name}.url: {why}"))?;
            String::from_utf8(secret.get().as_bytes().to_vec())
                .map_err(|_| format!("sql.{name}.url: the secret is not text"))?
        }
    };
    pools.of(name, &url, grant, clock).map_err(|why| format!("sql.{name}.url: {why}"))
}

/// What a database calls itself, or why it can't be used.
pub async fn ask(pool: Arc<Pool>, limit: Duration) -> Result<String, String> {
    let (mut lease, _) = pool.take(limit).await.map_err(text)?;
    let version = tokio::time::timeout(limit, lease.session.version()).await;
    let version = version.map_err(|_| format!("it did not answer within {} ms", limit.as_millis()))?;
    let version = version.map_err(|failed| text(failed.error))?;
    lease.give_back();
    Ok(version)
}

fn text(error: SqlError) -> String {
    match error {
        SqlError::Constraint(text)
        | SqlError::Data(text)
        | SqlError::Serialization(text)
        | SqlError::Deadlock(text)
        | SqlError::Unavailable(text)
        | SqlError::Denied(text)
        | SqlError::Timeout(text)
        | SqlError::CommitUnknown(text)
        | SqlError::Syntax(text)
        | SqlError::TooLarge(text)
        | SqlError::Other(text) => text,
        SqlError::UniqueViolation(violation) => violation.message,
        SqlError::Closed => "it is closed".to_owned(),
    }
}

impl wit::Host for GuestState {
    async fn open(&mut self, name: String) -> Done<Result<Resource<Database>, SqlError>> {
        Ok(match self.databases.open(&name) {
            Ok(database) => Ok(self.table().push(database)?),
            Err(error) => Err(error),
        })
    }
}

impl wit::HostDatabase for GuestState {
    async fn dialect(&mut self, database: Resource<Database>) -> Done<Dialect> {
        Ok(self.table().get(&database)?.0.dialect())
    }

    async fn placeholder(&mut self, database: Resource<Database>) -> Done<String> {
        Ok(match self.table().get(&database)?.0.dialect() {
            Dialect::Postgresql => "$".to_owned(),
            Dialect::Sqlite | Dialect::Mysql => "?".to_owned(),
        })
    }

    async fn transaction(
        &mut self,
        database: Resource<Database>,
    ) -> Done<Result<Resource<Transaction>, SqlError>> {
        let Database(pool) = self.table().get(&database)?.clone();
        let databases = self.databases.clone();
        if let Some(offline) = &databases.offline {
            offline.answers.unreached(Denied::Sql.as_str(), pool.name());
            let why = format!("database \"{}\": {}", pool.name(), DialError::Offline);
            return Ok(Err(SqlError::Unavailable(why)));
        }
        let Some(place) = self.transactions.place(databases.limits.sql.transactions) else {
            return Ok(Err(too_many(databases.limits.sql.transactions, databases.denials.destination())));
        };
        let begun = Place::begin(
            place,
            pool,
            &databases.limits,
            self.deadline(),
            databases.clock.clone(),
            databases.stats.clone(),
        );
        Ok(match begun.await {
            Ok(transaction) => Ok(self.table().push(transaction)?),
            Err(error) => Err(error),
        })
    }

    async fn drop(&mut self, database: Resource<Database>) -> Done<()> {
        self.table().delete(database)?;
        Ok(())
    }
}

fn too_many(most: u32, destination: &str) -> SqlError {
    SqlError::Other(format!(
        "this instance has {most} transactions open, and may have no more; end those that are no longer \
         used, or raise  transactions  in [destination.{destination}.limits.sql]"
    ))
}

impl wit::HostTransaction for GuestState {
    async fn execute(
        &mut self,
        transaction: Resource<Transaction>,
        statement: String,
        parameters: Vec<Value>,
    ) -> Done<Result<u64, SqlError>> {
        let transaction = self.table().get(&transaction)?.clone();
        Ok(transaction.execute(&statement, &parameters).await)
    }

    async fn query(
        &mut self,
        transaction: Resource<Transaction>,
        statement: String,
        parameters: Vec<Value>,
    ) -> Done<Result<Rows, SqlError>> {
        let transaction = self.table().get(&transaction)?.clone();
        Ok(transaction.query(&statement, &parameters).await)
    }

    async fn commit(&mut self, transaction: Resource<Transaction>) -> Done<Result<(), SqlError>> {
        let transaction = self.table().get(&transaction)?.clone();
        Ok(transaction.commit().await)
    }

    async fn rollback(&mut self, transaction: Resource<Transaction>) -> Done<Result<(), SqlError>> {
        let transaction = self.table().get(&transaction)?.clone();
        Ok(transaction.rollback().await)
    }

    async fn drop(&mut self, transaction: Resource<Transaction>) -> Done<()> {
        let transaction = self.table().delete(transaction)?;
        // Closed is what most of them are by then.
        let _ = transaction.rollback().await;
        Ok(())
    }
}
