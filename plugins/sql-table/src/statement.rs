//! The one statement of an event, inside the ledger's transaction.

use outhaul_ledger::{Effect, Name, insert};
use outhaul_plugin::sql::{Database, Dialect, Transaction, Value};
use outhaul_plugin::{Event, Failure};
use serde_json::Value as Json;

use crate::settings::{Action, NoRow, Rule, Settings};
use crate::value;

impl Effect for Settings {
    fn apply(&self, database: &Database, transaction: &Transaction, event: &Event) -> Result<(), Failure> {
        let rule = self.rule(&event.topic).ok_or_else(|| {
            Failure::rejected("no-rule", format!("no rule of the settings names the topic {:?}", event.topic))
        })?;
        let payload: Json = serde_json::from_slice(&event.payload)
            .map_err(|error| Failure::rejected("payload", format!("the payload is not JSON: {error}")))?;
        let read = |(name, source)| Ok((name, value::of(source, Name::as_str(name), event, &payload)?));
        let values: Vec<(&Name, Value)> = rule.columns.iter().map(read).collect::<Result<_, Failure>>()?;
        let (statement, parameters) = rule.statement(database.dialect(), values);
        let rows = transaction.execute(&database.numbered(&statement), &parameters)?;
        let wants_row =
            matches!(rule.action, Action::Update | Action::Delete) && rule.no_row == NoRow::Reject;
        if rows == 0 && wants_row {
            let why = format!("no row of {} has the key that the event names", rule.table.as_str());
            return Err(Failure::rejected("no-row", why));
        }
        Ok(())
    }
}

impl Rule {
    fn statement(&self, dialect: Dialect, values: Vec<(&Name, Value)>) -> (String, Vec<Value>) {
        let table = self.table.quoted(dialect);
        let (key, rest): (Vec<_>, Vec<_>) = values.into_iter().partition(|(name, _)| self.key.contains(name));
        let equal = |pairs: &[(&Name, Value)], between: &str| {
            let pairs: Vec<String> =
                pairs.iter().map(|(name, _)| format!("{} = ?", name.quoted(dialect))).collect();
            pairs.join(between)
        };
        let found = equal(&key, " and ");
        match self.action {
            Action::Insert | Action::Upsert => {
                let tail = match self.action {
                    Action::Upsert => on_conflict(dialect, &key, &rest),
                    _ => String::new(),
                };
                let (names, values): (Vec<_>, Vec<_>) = key.into_iter().chain(rest).unzip();
                (insert(dialect, &self.table, &names) + &tail, values)
            }
            Action::Update => {
                let statement = format!("update {table} set {} where {found}", equal(&rest, ", "));
                (statement, rest.into_iter().chain(key).map(|(_, value)| value).collect())
            }
            Action::Delete => (
                format!("delete from {table} where {found}"),
                key.into_iter().map(|(_, value)| value).collect(),
            ),
        }
    }

    /// A query that needs every column and returns no row.
    pub fn probe(&self, dialect: Dialect) -> String {
        let columns: Vec<String> = self.columns.keys().map(|name| name.quoted(dialect)).collect();
        format!("select {} from {} where 1 = 0", columns.join(", "), self.table.quoted(dialect))
    }
}

fn on_conflict(dialect: Dialect, key: &[(&Name, Value)], rest: &[(&Name, Value)]) -> String {
    let name = |(name, _): &(&Name, Value)| name.quoted(dialect);
    let set = |of_new: &dyn Fn(&str) -> String| -> String {
        rest.iter()
            .map(|pair| format!("{0} = {1}", name(pair), of_new(&name(pair))))
            .collect::<Vec<_>>()
            .join(", ")
    };
    match dialect {
        Dialect::Mysql => format!(" on duplicate key update {}", set(&|column| format!("values({column})"))),
        Dialect::Sqlite | Dialect::Postgresql => {
            let key: Vec<String> = key.iter().map(name).collect();
            let set = set(&|column| format!("excluded.{column}"));
            format!(" on conflict ({}) do update set {set}", key.join(", "))
        }
    }
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
        let (text, _) = statement("upsert", Dialect::Mysql);
        assert!(
            text.ends_with(" on duplicate key update `name` = values(`name`), `seen` = values(`seen`)"),
            "{text}"
        );
    }
}
