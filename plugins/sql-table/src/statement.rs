//! What an event does to the table, inside the ledger's transaction.

use outhaul_ledger::{Effect, Name, insert};
use outhaul_plugin::sql::{Database, Dialect, SqlError, Transaction, Value};
use outhaul_plugin::{Event, Failure};
use serde_json::Value as Json;

use crate::settings::{Action, NoRow, Rule, Settings};
use crate::value;

/// A statement and its parameters.
type Bound = (String, Vec<Value>);

/// Columns and what they get.
type Pairs<'r> = Vec<(&'r Name, Value)>;

impl Effect for Settings {
    fn apply(&self, database: &Database, transaction: &Transaction, event: &Event) -> Result<(), Failure> {
        let rule = self.rule(&event.topic).ok_or_else(|| {
            Failure::rejected("no-rule", format!("no rule of the settings names the topic {:?}", event.topic))
        })?;
        let payload: Json = serde_json::from_slice(&event.payload)
            .map_err(|error| Failure::rejected("payload", format!("the payload is not JSON: {error}")))?;
        let read = |(name, source)| Ok((name, value::of(source, Name::as_str(name), event, &payload)?));
        let values: Pairs<'_> = rule.columns.iter().map(read).collect::<Result<_, Failure>>()?;
        let dialect = database.dialect();
        let rows = match (rule.action, dialect) {
            (Action::Upsert, Dialect::Mysql) => rule.upsert_in_two(database, transaction, values)?,
            _ => run(database, transaction, rule.statement(dialect, values))?,
        };
        let wants_row =
            matches!(rule.action, Action::Update | Action::Delete) && rule.no_row == NoRow::Reject;
        if rows == 0 && wants_row {
            let why = format!("no row of {} has the key that the event names", rule.table.as_str());
            return Err(Failure::rejected("no-row", why));
        }
        Ok(())
    }
}

fn run(database: &Database, transaction: &Transaction, bound: Bound) -> Result<u64, SqlError> {
    let (statement, parameters) = bound;
    transaction.execute(&database.numbered(&statement), &parameters)
}

impl Rule {
    fn statement(&self, dialect: Dialect, values: Pairs<'_>) -> Bound {
        let (key, rest) = self.apart(values);
        match self.action {
            Action::Insert => self.insert(dialect, key, rest),
            Action::Upsert => {
                let tail = on_conflict(dialect, &key, &rest);
                let (statement, values) = self.insert(dialect, key, rest);
                (statement + &tail, values)
            }
            Action::Update => self.update(dialect, key, rest),
            Action::Delete => (
                format!("delete from {} where {}", self.table.quoted(dialect), equal(dialect, &key, " and ")),
                key.into_iter().map(|(_, value)| value).collect(),
            ),
        }
    }

    /// MySQL's `on duplicate key` takes any unique key for the rule's, and would change the row of another.
    fn upsert_in_two(
        &self,
        database: &Database,
        transaction: &Transaction,
        values: Pairs<'_>,
    ) -> Result<u64, Failure> {
        let (key, rest) = self.apart(values);
        let found = run(database, transaction, self.update(Dialect::Mysql, key.clone(), rest.clone()))?;
        if found > 1 {
            let why = format!("{found} rows of {} have one key; it must be unique", self.table.as_str());
            return Err(Failure::misconfigured("key-not-unique", why));
        }
        if found == 1 {
            return Ok(found);
        }
        match run(database, transaction, self.insert(Dialect::Mysql, key.clone(), rest)) {
            // The row may have come between the two statements: then the next attempt updates it.
            Err(SqlError::UniqueViolation(violation)) if self.has_row(database, key)? => {
                Err(Failure::retry("sql-row-appeared", violation.message))
            }
            inserted => Ok(inserted?),
        }
    }

    /// In a transaction of its own: the one that met the row is over.
    fn has_row(&self, database: &Database, key: Pairs<'_>) -> Result<bool, SqlError> {
        let dialect = database.dialect();
        let table = self.table.quoted(dialect);
        let find = format!("select 1 from {table} where {}", equal(dialect, &key, " and "));
        let parameters: Vec<Value> = key.into_iter().map(|(_, value)| value).collect();
        let transaction = database.transaction()?;
        let found = transaction.query(&database.numbered(&find), &parameters)?;
        transaction.rollback()?;
        Ok(!found.rows.is_empty())
    }

    /// The columns of the key, and the others.
    fn apart<'r>(&self, values: Pairs<'r>) -> (Pairs<'r>, Pairs<'r>) {
        values.into_iter().partition(|(name, _)| self.key.contains(name))
    }

    fn insert(&self, dialect: Dialect, key: Pairs<'_>, rest: Pairs<'_>) -> Bound {
        let (names, values): (Vec<_>, Vec<_>) = key.into_iter().chain(rest).unzip();
        (insert(dialect, &self.table, &names), values)
    }

    fn update(&self, dialect: Dialect, key: Pairs<'_>, rest: Pairs<'_>) -> Bound {
        let (table, found) = (self.table.quoted(dialect), equal(dialect, &key, " and "));
        let statement = format!("update {table} set {} where {found}", equal(dialect, &rest, ", "));
        (statement, rest.into_iter().chain(key).map(|(_, value)| value).collect())
    }

    /// A query that needs every column and returns no row.
    pub fn probe(&self, dialect: Dialect) -> String {
        let columns: Vec<String> = self.columns.keys().map(|name| name.quoted(dialect)).collect();
        format!("select {} from {} where 1 = 0", columns.join(", "), self.table.quoted(dialect))
    }
}

fn equal(dialect: Dialect, pairs: &[(&Name, Value)], between: &str) -> String {
    let pairs: Vec<String> = pairs.iter().map(|(name, _)| format!("{} = ?", name.quoted(dialect))).collect();
    pairs.join(between)
}

/// Of the rule's key, and of no other.
fn on_conflict(dialect: Dialect, key: &[(&Name, Value)], rest: &[(&Name, Value)]) -> String {
    let name = |(name, _): &(&Name, Value)| name.quoted(dialect);
    let key: Vec<String> = key.iter().map(name).collect();
    let set: Vec<String> = rest.iter().map(|pair| format!("{0} = excluded.{0}", name(pair))).collect();
    format!(" on conflict ({}) do update set {}", key.join(", "), set.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::settings;
    use serde_json::json;

    fn statement(action: &str, dialect: Dialect) -> (String, Vec<Value>) {
        let settings = settings(json!([{
            "topics": ["*"], "action": action, "table": "shop.customers", "key": ["id"],
            "columns": { "id": "/id", "name": "/name", "seen": "/seen" }
        }]));
        let rule = &settings.rules[0];
        let values = rule.columns.keys().zip([1, 2, 3].map(Value::Integer)).collect();
        rule.statement(dialect, values)
    }

    #[test]
    fn each_action_is_one_statement_with_its_parameters_in_order() {
        for (action, dialect, expected, order) in [
            (
                "insert",
                Dialect::Sqlite,
                "insert into `shop`.`customers` (`id`, `name`, `seen`) values (?, ?, ?)",
                &[1, 2, 3][..],
            ),
            (
                "update",
                Dialect::Mysql,
                "update `shop`.`customers` set `name` = ?, `seen` = ? where `id` = ?",
                &[2, 3, 1],
            ),
            ("delete", Dialect::Postgresql, "delete from \"shop\".\"customers\" where \"id\" = ?", &[1]),
        ] {
            let (text, values) = statement(action, dialect);
            let order: Vec<Value> = order.iter().map(|n| Value::Integer(*n)).collect();
            assert_eq!((text.as_str(), values), (expected, order));
        }
        let (text, _) = statement("upsert", Dialect::Postgresql);
        assert!(text.ends_with(" on conflict (\"id\") do update set \"name\" = excluded.\"name\", \"seen\" = excluded.\"seen\""), "{text}");
    }
}
