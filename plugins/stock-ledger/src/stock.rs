//! The change of the stock, inside the ledger's transaction.

use outhaul_ledger::{Effect, Name, with_transactions};
use outhaul_plugin::sql::{Database, Dialect, SqlError, Transaction, Value};
use outhaul_plugin::{Event, Failure};

use crate::movement;
use crate::settings::{Settings, Stock};

impl Effect for Settings {
    fn apply(&self, database: &Database, transaction: &Transaction, event: &Event) -> Result<(), Failure> {
        let adds = self.adds(&event.topic);
        for (sku, quantity) in movement::read(&event.payload, &self.payload)? {
            let change = if adds { quantity } else { -quantity };
            self.stock.change(database, transaction, &sku, change, self.allow_negative || adds)?;
        }
        Ok(())
    }
}

impl Stock {
    fn change(
        &self,
        database: &Database,
        transaction: &Transaction,
        sku: &str,
        change: i64,
        allow_negative: bool,
    ) -> Result<(), Failure> {
        let (table, of_sku, quantity) = self.quoted(database.dialect());
        let mut update = format!("update {table} set {quantity} = {quantity} + ? where {of_sku} = ?");
        let mut parameters = vec![Value::Integer(change), sku.into()];
        if !allow_negative {
            // In the statement that changes it, so that nobody changes it in between.
            update.push_str(&format!(" and {quantity} >= ?"));
            parameters.push(Value::Integer(-change));
        }
        match transaction.execute(&database.numbered(&update), &parameters) {
            Ok(0) => {}
            Ok(1) => return Ok(()),
            Ok(rows) => {
                let why =
                    format!("{rows} rows of {} have the SKU {sku:?}; it must be unique", self.table.as_str());
                return Err(Failure::misconfigured("stock-sku-not-unique", why));
            }
            // The table's own CHECK against what falls below zero.
            Err(SqlError::Constraint(why)) if change < 0 => {
                return Err(Failure::rejected("insufficient-stock", why));
            }
            Err(error) => return Err(error.into()),
        }
        let find = database.numbered(&format!("select {quantity} from {table} where {of_sku} = ?"));
        let found = transaction.query(&find, &[sku.into()])?;
        Err(match found.rows.first() {
            Some(row) => Failure::rejected(
                "insufficient-stock",
                format!("{} of {sku:?} are asked for, and {} are there", -change, told(&row[0])),
            ),
            None => {
                Failure::rejected("unknown-sku", format!("there is no {sku:?} in {}", self.table.as_str()))
            }
        })
    }

    pub fn create(&self, dialect: Dialect) -> String {
        let (table, sku, quantity) = self.quoted(dialect);
        let (text, number) = match dialect {
            Dialect::Sqlite => ("text", "integer"),
            Dialect::Postgresql => ("text collate \"C\"", "bigint"),
            Dialect::Mysql => ("varchar(255) character set utf8mb4 collate utf8mb4_bin", "bigint"),
        };
        format!(
            "create table if not exists {table} \
             ({sku} {text} not null primary key, {quantity} {number} not null){}",
            with_transactions(dialect)
        )
    }

    /// A query that needs every column and returns no row.
    pub fn probe(&self, dialect: Dialect) -> String {
        let (table, sku, quantity) = self.quoted(dialect);
        format!("select {sku}, {quantity} from {table} where 1 = 0")
    }

    fn quoted(&self, dialect: Dialect) -> (String, String, String) {
        let quoted = |name: &Name| name.quoted(dialect);
        (quoted(&self.table), quoted(&self.sku), quoted(&self.quantity))
    }
}

/// A table of the operator's own may hold fractions, and nothing.
fn told(quantity: &Value) -> String {
    match quantity {
        Value::Null => "none".to_owned(),
        Value::Float(value) => value.to_string(),
        value => value
            .as_text()
            .map(str::to_owned)
            .or_else(|| value.as_i64().map(|whole| whole.to_string()))
            .unwrap_or_else(|| "other than a number".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_told_as_the_table_has_it() {
        for (value, expected) in [
            (Value::Integer(7), "7"),
            (Value::Decimal("2.50".into()), "2.50"),
            (Value::Float(0.5), "0.5"),
            (Value::Null, "none"),
        ] {
            assert_eq!(told(&value), expected);
        }
    }
}
