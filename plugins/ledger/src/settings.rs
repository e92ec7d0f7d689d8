//! The ledger's table, by settings or of our own making.

use outhaul_plugin::Event;
use outhaul_plugin::sql::{Dialect, Value, quoted};
use serde::Deserialize;

use crate::Name;

/// The `ledger` table of a plugin's settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ledger {
    pub table: Name,
    pub columns: Columns,
}

/// Which column holds what. One that is set to `false` is not written.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Columns {
    pub dedup_id: Name,
    pub content_hash: Name,
    pub event_id: Column,
    pub tenant: Column,
    pub topic: Column,
    pub fence: Column,
    pub attempt: Column,
    pub applied_at: Column,
}

/// A column's name, or `false`.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Given")]
pub struct Column(pub Option<Name>);

#[derive(Deserialize)]
#[serde(untagged, expecting = "write a column's name, or false")]
enum Given {
    Name(String),
    Not(bool),
}

impl TryFrom<Given> for Column {
    type Error = String;

    fn try_from(given: Given) -> Result<Self, String> {
        match given {
            Given::Name(name) => Name::try_from(name).map(Some).map(Self),
            Given::Not(false) => Ok(Self(None)),
            Given::Not(true) => Err("write the column's name, or false".to_owned()),
        }
    }
}

impl Default for Ledger {
    fn default() -> Self {
        Self { table: Name::of("outhaul_ledger"), columns: Columns::default() }
    }
}

impl Default for Columns {
    fn default() -> Self {
        let column = |name| Column(Some(Name::of(name)));
        Self {
            dedup_id: Name::of("dedup_id"),
            content_hash: Name::of("content_hash"),
            event_id: column("event_id"),
            tenant: column("tenant"),
            topic: column("topic"),
            fence: column("fence"),
            attempt: column("attempt"),
            applied_at: column("applied_at"),
        }
    }
}

/// What the ledger's columns are made of.
#[derive(Clone, Copy)]
enum Kind {
    /// Visible ASCII.
    Key,
    Text,
    Number,
    Time,
}

impl Ledger {
    pub fn named(table: &str) -> Self {
        Self { table: Name::of(table), columns: Columns::default() }
    }

    /// Those that are written, with the values of an event.
    pub fn row(&self, event: &Event, content_hash: &str, now_us: i64) -> Vec<(&Name, Value)> {
        let of_event = |column: &str| match column {
            "dedup_id" => event.dedup_id.as_str().into(),
            "content_hash" => content_hash.into(),
            "event_id" => event.id.as_str().into(),
            "tenant" => event.tenant.as_str().into(),
            "topic" => event.topic.as_str().into(),
            "fence" => Value::Integer(i64::try_from(event.fence).unwrap_or(i64::MAX)),
            "attempt" => Value::Integer(event.attempt.into()),
            _ => Value::Timestamp(now_us),
        };
        self.columns().into_iter().map(|(what, name, _)| (name, of_event(what))).collect()
    }

    /// `create table if not exists`, where the operator lets the plugin make it.
    pub fn create(&self, dialect: Dialect) -> String {
        let columns: Vec<String> = self
            .columns()
            .into_iter()
            .map(|(what, name, kind)| {
                let key = if what == "dedup_id" { " primary key" } else { "" };
                format!("{} {} not null{key}", name.quoted(dialect), of_kind(kind, dialect))
            })
            .collect();
        let (table, columns) = (self.table.quoted(dialect), columns.join(", "));
        format!("create table if not exists {table} ({columns}){}", with_transactions(dialect))
    }

    /// A query that needs every column and returns no row.
    pub fn probe(&self, dialect: Dialect) -> String {
        let columns: Vec<String> =
            self.columns().into_iter().map(|(_, name, _)| name.quoted(dialect)).collect();
        format!("select {} from {} where 1 = 0", columns.join(", "), self.table.quoted(dialect))
    }

    pub fn find(&self, dialect: Dialect) -> String {
        let Columns { dedup_id, content_hash, .. } = &self.columns;
        let (id, hash) = (dedup_id.quoted(dialect), content_hash.quoted(dialect));
        format!("select {id}, {hash} from {} where {id} = ?", self.table.quoted(dialect))
    }

    fn columns(&self) -> Vec<(&'static str, &Name, Kind)> {
        let of = &self.columns;
        let optional = [
            ("event_id", &of.event_id, Kind::Text),
            ("tenant", &of.tenant, Kind::Text),
            ("topic", &of.topic, Kind::Text),
            ("fence", &of.fence, Kind::Number),
            ("attempt", &of.attempt, Kind::Number),
            ("applied_at", &of.applied_at, Kind::Time),
        ];
        let written =
            optional.into_iter().filter_map(|(what, column, kind)| Some((what, column.0.as_ref()?, kind)));
        let required = [("dedup_id", &of.dedup_id, Kind::Key), ("content_hash", &of.content_hash, Kind::Key)];
        required.into_iter().chain(written).collect()
    }
}

/// Behind a table's columns: whatever engine the server takes for others.
pub fn with_transactions(dialect: Dialect) -> &'static str {
    if dialect == Dialect::Mysql { " engine = InnoDB" } else { "" }
}

/// Compared byte by byte everywhere: two IDs that differ in case are two events.
fn of_kind(kind: Kind, dialect: Dialect) -> &'static str {
    match (kind, dialect) {
        (Kind::Key, Dialect::Mysql) => "varchar(255) character set ascii collate ascii_bin",
        (Kind::Text, Dialect::Mysql) => "varchar(255) character set utf8mb4 collate utf8mb4_bin",
        (Kind::Key | Kind::Text, Dialect::Postgresql) => "text collate \"C\"",
        (Kind::Key | Kind::Text, Dialect::Sqlite) => "text",
        (Kind::Number, Dialect::Sqlite) => "integer",
        (Kind::Number, _) => "bigint",
        (Kind::Time, Dialect::Sqlite) => "integer",
        (Kind::Time, Dialect::Postgresql) => "timestamptz",
        (Kind::Time, Dialect::Mysql) => "datetime(6)",
    }
}

/// `insert into TABLE (…) values (?, …)`.
pub fn insert(dialect: Dialect, table: &Name, columns: &[&Name]) -> String {
    let names: Vec<String> = columns.iter().map(|name| quoted(dialect, name.as_str())).collect();
    let places = vec!["?"; columns.len()].join(", ");
    format!("insert into {} ({}) values ({places})", table.quoted(dialect), names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::tests::event;

    #[test]
    fn the_row_has_what_an_audit_asks_for_and_leaves_out_what_is_not_wanted() {
        let ledger = Ledger::named("stock_ledger");
        let event = Event { fence: 4, attempt: 2, ..event() };
        let names = |ledger: &Ledger| -> Vec<String> {
            ledger.row(&event, "h", 9).iter().map(|(name, _)| name.as_str().to_owned()).collect()
        };
        assert_eq!(
            names(&ledger),
            ["dedup_id", "content_hash", "event_id", "tenant", "topic", "fence", "attempt", "applied_at"]
        );
        let mut narrow = ledger.clone();
        narrow.columns.tenant = Column(None);
        narrow.columns.applied_at = Column(None);
        assert_eq!(names(&narrow), ["dedup_id", "content_hash", "event_id", "topic", "fence", "attempt"]);
        let row = ledger.row(&event, "h", 9);
        assert_eq!(
            (&row[5].1, &row[6].1, &row[7].1),
            (&Value::Integer(4), &Value::Integer(2), &Value::Timestamp(9))
        );
    }

    #[test]
    fn the_tables_key_is_compared_byte_by_byte() {
        let create = Ledger::default().create(Dialect::Mysql);
        assert!(
            create.starts_with("create table if not exists `outhaul_ledger` (`dedup_id` varchar(255)"),
            "{create}"
        );
        assert!(create.contains("ascii_bin not null primary key"), "{create}");
        assert!(create.ends_with(") engine = InnoDB"), "{create}");
    }
}
