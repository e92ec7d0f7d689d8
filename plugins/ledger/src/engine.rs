//! MySQL and MariaDB keep tables in engines, and some of these have no transactions: MyISAM, Aria, MEMORY. What
//! is written there stays, whatever is rolled back.

use outhaul_plugin::sql::{SqlError, Transaction, Value};

use crate::Name;

/// The server compares these names as it compares those of tables.
const ENGINE: &str = "select t.engine from information_schema.tables t \
                      join information_schema.engines e on e.engine = t.engine \
                      where t.table_schema = coalesce(?, database()) and t.table_name = ? \
                      and coalesce(e.transactions, 'NO') <> 'YES'";

/// The engine of a table that has no transactions.
pub fn without_transactions(transaction: &Transaction, table: &Name) -> Result<Option<String>, SqlError> {
    let (schema, name) = match table.as_str().rsplit_once('.') {
        Some((schema, name)) => (Value::from(schema), name),
        None => (Value::Null, table.as_str()),
    };
    let found = transaction.query(ENGINE, &[schema, name.into()])?;
    Ok(found.rows.first().and_then(|row| row[0].as_text()).map(str::to_owned))
}

pub fn told(table: &Name, engine: &str) -> String {
    format!(
        "the table {0} is in the engine {engine}, which has no transactions, so that a change in it could not be \
         undone together with the ledger's row; run  alter table {0} engine = InnoDB",
        table.as_str()
    )
}
