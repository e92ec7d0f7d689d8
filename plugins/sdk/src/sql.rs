//! Databases the operator granted (`outhaul:sql`): transactions, for an effect and the record of it in one.
//!
//! ```no_run
//! use outhaul_plugin::{Event, Outcome, Receipt, sql};
//!
//! fn deliver(event: Event) -> Outcome {
//!     let database = sql::open("shop")?;
//!     let transaction = database.transaction()?;
//!     let insert = database.numbered("insert into seen (dedup_id, payload) values (?, ?)");
//!     transaction.execute(&insert, &[event.dedup_id.into(), event.payload.into()])?;
//!     transaction.commit()?;
//!     Ok(Receipt::delivered())
//! }
//! ```
//!
//! After any error a transaction is rolled back and over, on every database. `?` makes of an [`SqlError`]
//! the [`Failure`](crate::Failure) it means for most plugins.

mod failure;
mod value;

pub use crate::bindings::sql::outhaul::sql::sql::{
    Database, Dialect, Rows, SqlError, Transaction, Value, Violation, open,
};

impl Database {
    /// The statement with its parameters, written `?`, as this database wants them. A `?` inside quotes
    /// is left alone.
    pub fn numbered(&self, statement: &str) -> String {
        numbered(self.dialect(), statement)
    }
}

/// The same without a database.
pub fn numbered(dialect: Dialect, statement: &str) -> String {
    if dialect != Dialect::Postgresql {
        return statement.to_owned();
    }
    let (mut numbered, mut count, mut quote) = (String::new(), 0, None);
    for c in statement.chars() {
        match (c, quote) {
            ('?', None) => {
                count += 1;
                numbered.push_str(&format!("${count}"));
                continue;
            }
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            _ => {}
        }
        numbered.push(c);
    }
    numbered
}

/// A name quoted as the dialect does it, part by part where it has dots, as in `schema.table`.
pub fn quoted(dialect: Dialect, name: &str) -> String {
    // SQLite takes a column in double quotes that does not exist for a text.
    let quote = if dialect == Dialect::Postgresql { '"' } else { '`' };
    let part = |part: &str| format!("{quote}{}{quote}", part.replace(quote, &format!("{quote}{quote}")));
    name.split('.').map(part).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_written_as_the_dialect_wants_them() {
        let statement = "insert into t (a, \"b?\") values (?, '?', ?)";
        assert_eq!(
            numbered(Dialect::Postgresql, statement),
            "insert into t (a, \"b?\") values ($1, '?', $2)"
        );
        assert_eq!(numbered(Dialect::Sqlite, statement), statement);
    }

    #[test]
    fn a_quoted_name_can_hold_nothing_but_a_name() {
        assert_eq!(quoted(Dialect::Postgresql, "shop.Stock"), "\"shop\".\"Stock\"");
        assert_eq!(quoted(Dialect::Mysql, "a`; drop"), "`a``; drop`");
    }
}
