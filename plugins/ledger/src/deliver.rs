//! From an event to its outcome: effect and record in one transaction, or neither.

use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

use outhaul_plugin::sql::{self, Database, Dialect, SqlError, Transaction};
use outhaul_plugin::{ConfigureError, Event, Failure, Outcome, Receipt};

use crate::settings::insert;
use crate::{Ledger, Name, content_hash, engine};

/// What an event does besides being recorded.
pub trait Effect {
    /// Applies it in the ledger's transaction. A failure undoes all of it.
    fn apply(&self, database: &Database, transaction: &Transaction, event: &Event) -> Result<(), Failure>;
}

/// A ledger on its database.
pub struct Keeper {
    database: Database,
    ledger: Ledger,
    /// What else a delivery changes, each with the pointer of the setting that names it.
    tables: Vec<(String, Name)>,
    /// The tables were seen to have transactions.
    are_tables_seen: Cell<bool>,
}

impl Keeper {
    /// Opens the database and, if asked, creates the tables: the ledger's, and those that `more` names
    /// by statements. `tables` are those that effects change.
    pub fn open(
        database: &str,
        ledger: Ledger,
        tables: Vec<(String, Name)>,
        create: Option<&dyn Fn(Dialect) -> Vec<String>>,
    ) -> Result<Self, ConfigureError> {
        let opened =
            sql::open(database).map_err(|error| ConfigureError::setting("/database", error.message()))?;
        let tables = [vec![("/ledger/table".to_owned(), ledger.table.clone())], tables].concat();
        let keeper = Self { database: opened, ledger, tables, are_tables_seen: Cell::new(false) };
        if let Some(more) = create {
            keeper.create(more)?;
            if let Some((pointer, why)) = keeper.without_transactions().map_err(of_creation)? {
                return Err(ConfigureError::setting(pointer, why));
            }
        }
        Ok(keeper)
    }

    fn create(&self, more: &dyn Fn(Dialect) -> Vec<String>) -> Result<(), ConfigureError> {
        let dialect = self.database.dialect();
        let statements = [vec![self.ledger.create(dialect)], more(dialect)].concat();
        for statement in &statements {
            let once = || {
                let transaction = self.database.transaction()?;
                transaction.execute(statement, &[])?;
                transaction.commit()
            };
            // PostgreSQL lets two who create the same table at once run into each other.
            let created = once().or_else(|error| match error {
                SqlError::UniqueViolation(_) | SqlError::Serialization(_) | SqlError::Deadlock(_) => once(),
                error => Err(error),
            });
            created.map_err(of_creation)?;
        }
        Ok(())
    }

    pub fn database(&self) -> &Database {
        &self.database
    }

    /// The first table that is in an engine without transactions, by its setting, and what to do about it.
    fn without_transactions(&self) -> Result<Option<(&str, String)>, SqlError> {
        if self.database.dialect() != Dialect::Mysql {
            return Ok(None);
        }
        let transaction = self.database.transaction()?;
        for (pointer, table) in &self.tables {
            if let Some(engine) = engine::without_transactions(&transaction, table)? {
                return Ok(Some((pointer, engine::told(table, &engine))));
            }
        }
        transaction.rollback()?;
        Ok(None)
    }

    /// Once an instance: an effect in such a table would stay when the ledger's row is rolled back.
    fn require_transactions(&self) -> Result<(), Failure> {
        if !self.are_tables_seen.get() {
            if let Some((_, why)) = self.without_transactions()? {
                return Err(Failure::misconfigured("sql-no-transactions", why));
            }
            self.are_tables_seen.set(true);
        }
        Ok(())
    }

    /// Whether the database answers and has the ledger and whatever the further queries read.
    pub fn check(&self, queries: &[String]) -> Result<(), Failure> {
        self.are_tables_seen.set(false);
        self.require_transactions()?;
        let transaction = self.database.transaction()?;
        transaction.query(&self.ledger.probe(self.database.dialect()), &[])?;
        for query in queries {
            transaction.query(query, &[])?;
        }
        transaction.rollback()?;
        Ok(())
    }

    pub fn deliver(&self, event: &Event, effect: &impl Effect) -> Outcome {
        self.require_transactions()?;
        let hash = content_hash(event);
        let transaction = self.database.transaction()?;
        match self.record(&transaction, event, &hash) {
            Ok(()) => {}
            Err(SqlError::UniqueViolation(violation)) => {
                // Whoever had inserted it has rolled back since, or another constraint refuses it for ever.
                let unsettled = || Err(Failure::retry("ledger-unsettled", violation.message));
                return self.known(event, &hash)?.unwrap_or_else(unsettled);
            }
            Err(error) => return Err(error.into()),
        }
        effect.apply(&self.database, &transaction, event)?;
        match transaction.commit() {
            Ok(()) => Ok(Receipt::delivered().with_reference(self.reference(event))),
            // A deferred constraint: the ledger's own, or one of the tables that the effect changed.
            Err(error @ SqlError::UniqueViolation(_)) => {
                self.known(event, &hash)?.unwrap_or_else(|| Err(error.into()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// All in one transaction, for the price of one commit. If any of them can't be applied as it is,
    /// none is, and each goes by itself.
    pub fn deliver_batch(&self, events: &[Event], effect: &impl Effect) -> Vec<Outcome> {
        let together = self.require_transactions().map_err(Refused::All);
        match together.and_then(|()| self.together(events, effect)) {
            Ok(()) => events
                .iter()
                .map(|event| Ok(Receipt::delivered().with_reference(self.reference(event))))
                .collect(),
            Err(Refused::All(failure)) => events.iter().map(|_| Err(failure.clone())).collect(),
            Err(Refused::One) => events.iter().map(|event| self.deliver(event, effect)).collect(),
        }
    }

    fn together(&self, events: &[Event], effect: &impl Effect) -> Result<(), Refused> {
        let transaction = self.database.transaction().map_err(Refused::all)?;
        for event in events {
            self.record(&transaction, event, &content_hash(event)).map_err(Refused::of)?;
            effect.apply(&self.database, &transaction, event).map_err(|failure| match failure {
                Failure::Unavailable(_) | Failure::Misconfigured(_) => Refused::All(failure),
                _ => Refused::One,
            })?;
        }
        transaction.commit().map_err(|error| match error {
            SqlError::CommitUnknown(_) => Refused::all(error),
            error => Refused::of(error),
        })
    }

    fn record(&self, transaction: &Transaction, event: &Event, hash: &str) -> Result<(), SqlError> {
        let row = self.ledger.row(event, hash, now_us());
        let (names, values): (Vec<_>, Vec<_>) = row.into_iter().unzip();
        let statement = insert(self.database.dialect(), &self.ledger.table, &names);
        transaction.execute(&self.database.numbered(&statement), &values)?;
        Ok(())
    }

    /// What the ledger's row of the ID makes of the event; none if there is no row. The transaction that
    /// met it is over: this is another.
    fn known(&self, event: &Event, hash: &str) -> Result<Option<Outcome>, Failure> {
        let transaction = self.database.transaction()?;
        let find = self.database.numbered(&self.ledger.find(self.database.dialect()));
        let found = transaction.query(&find, &[event.dedup_id.as_str().into()])?;
        transaction.rollback()?;
        let Some([id, kept]) = found.rows.first().map(Vec::as_slice) else { return Ok(None) };
        if id.as_text() != Some(&event.dedup_id) {
            let message = format!(
                "the ledger takes the ID {:?} for {:?}; give its column a collation that compares bytes",
                event.dedup_id,
                id.as_text().unwrap_or_default()
            );
            return Err(Failure::misconfigured("ledger-collation", message));
        }
        let kept = kept.as_text().unwrap_or_default();
        if kept == hash {
            return Ok(Some(Ok(Receipt::duplicate().with_reference(self.reference(event)))));
        }
        let message = format!(
            "the ledger has {} with content {kept}, and this event's content is {hash}; nothing was applied",
            event.dedup_id
        );
        Ok(Some(Err(Failure::conflict("ledger-conflict", message)
            .with_attribute("ledger-content-hash", kept)
            .with_attribute("event-content-hash", hash))))
    }

    fn reference(&self, event: &Event) -> String {
        format!("{}/{}", self.ledger.table.as_str(), event.dedup_id)
    }
}

/// Why a batch was not applied.
enum Refused {
    /// Each of them meets the same.
    All(Failure),
    /// One of them is to blame, and which will show.
    One,
}

impl Refused {
    fn all(error: SqlError) -> Self {
        Self::All(error.into())
    }

    fn of(error: SqlError) -> Self {
        match error {
            SqlError::Unavailable(_) | SqlError::Denied(_) | SqlError::Syntax(_) => Self::all(error),
            _ => Self::One,
        }
    }
}

fn of_creation(error: SqlError) -> ConfigureError {
    match error {
        SqlError::Unavailable(why) | SqlError::Timeout(why) => ConfigureError::Unavailable(why),
        error => ConfigureError::setting("/create_tables", error.message()),
    }
}

fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
