//! Installing and upgrading, with a log of our own.

use sqlx::{AssertSqlSafe, PgConnection};

use super::*;

struct Migration {
    version: i64,
    name: &'static str,
    sql: &'static str,
}

const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    name: "0001_outbox",
    sql: include_str!("../../../../migrations/postgres/0001_outbox.sql"),
}];

const LOG: &str = "
    create table if not exists {schema}outbox_migration (
        version    bigint primary key,
        name       text not null,
        applied_at timestamptz not null default clock_timestamp()
    )";

const STANDBY: &str = "this server is a standby, which takes no writes; name the primary in outbox.url";
const READ_ONLY: &str = "transactions are read-only here; set  default_transaction_read_only = off  for the server, \
                         the database and the role (ALTER DATABASE …, ALTER ROLE …), or name another in outbox.url";

pub(super) fn newest_known() -> i64 {
    MIGRATIONS.last().map_or(0, |migration| migration.version)
}

#[async_trait]
impl Schema for PostgresStore {
    async fn refuses_writes(&self) -> StoreResult<Option<String>> {
        self.bounded(async {
            let mut work = self.one().await?;
            let (is_standby, is_read_only): (bool, bool) = sqlx::query_as(
                "select pg_is_in_recovery(), current_setting('transaction_read_only')::boolean",
            )
            .fetch_one(work.connection())
            .await
            .map_err(map)?;
            work.done().await?;
            Ok(match (is_standby, is_read_only) {
                (true, _) => Some(STANDBY.to_owned()),
                (false, true) => Some(READ_ONLY.to_owned()),
                (false, false) => None,
            })
        })
        .await
    }

    async fn status(&self) -> StoreResult<SchemaStatus> {
        self.bounded(async {
            let mut work = self.one().await?;
            let schema = self.schema_name(work.connection()).await?;
            let dialect = self.in_schema(&schema);
            let installed = installed(work.connection(), &dialect).await?;
            work.done().await?;
            refuse_newer(installed)?;
            let done = installed.unwrap_or(0);
            let pending = MIGRATIONS.iter().filter(|migration| migration.version > done);
            Ok(SchemaStatus {
                installed,
                newest_known: newest_known(),
                pending: pending.map(|m| (m.name.to_owned(), dialect.text(m.sql))).collect(),
            })
        })
        .await
    }

    async fn migrate(&self) -> StoreResult<Vec<String>> {
        let mut connection = self.pool.acquire().await.map_err(map)?;
        let schema = self.schema_name(&mut connection).await?;
        let dialect = self.in_schema(&schema);
        let mut applied = Vec::new();
        loop {
            let next = self.next_migration(&mut connection, &schema, &dialect).await?;
            let Some(name) = next else { return Ok(applied) };
            applied.push(name);
        }
    }
}

impl PostgresStore {
    /// Migrations name the schema always: a trigger function must not depend on the search path.
    async fn schema_name(&self, connection: &mut PgConnection) -> StoreResult<String> {
        if let Some(schema) = &self.options.schema {
            return Ok(schema.clone());
        }
        let current: Option<String> =
            sqlx::query_scalar("select current_schema()::text").fetch_one(connection).await.map_err(map)?;
        current.ok_or_else(|| {
            StoreError::Schema(
                "the role's search_path names no schema that exists; set outbox.schema".to_owned(),
            )
        })
    }

    fn in_schema(&self, schema: &str) -> Dialect {
        Dialect { schema: schema_prefix(schema), ..self.dialect.clone() }
    }

    /// Applies the first migration that is missing. Hosts that start together take turns.
    async fn next_migration(
        &self,
        connection: &mut PgConnection,
        schema: &str,
        dialect: &Dialect,
    ) -> StoreResult<Option<String>> {
        let mut transaction =
            sqlx::Connection::begin_with(connection, self.begin.clone()).await.map_err(map)?;
        run(
            &mut transaction,
            // Building takes as long as it takes; waiting for a table's lock would make every
            // producer wait behind us.
            "set local statement_timeout = 0; set local lock_timeout = '3s'; set local client_min_messages = warning;
             set local idle_in_transaction_session_timeout = 0"
                .to_owned(),
        )
        .await?;
        sqlx::query("select pg_advisory_xact_lock(hashtextextended('outhaul migrates ' || $1, 0))::text")
            .bind(schema)
            .execute(&mut *transaction)
            .await
            .map_err(map)?;
        if installed(&mut transaction, dialect).await?.is_none() {
            run(
                &mut transaction,
                format!("create schema if not exists {}", dialect.schema.trim_end_matches('.')),
            )
            .await?;
        }
        run(&mut transaction, dialect.text(LOG)).await?;
        let done = installed(&mut transaction, dialect).await?;
        refuse_newer(done)?;
        let done = done.unwrap_or(0);
        let Some(migration) = MIGRATIONS.iter().find(|migration| migration.version > done) else {
            transaction.commit().await.map_err(map)?;
            return Ok(None);
        };
        run(&mut transaction, dialect.text(migration.sql)).await?;
        sqlx::query(AssertSqlSafe(
            dialect.text("insert into {schema}outbox_migration (version, name) values ($1, $2)"),
        ))
        .bind(migration.version)
        .bind(migration.name)
        .execute(&mut *transaction)
        .await
        .map_err(map)?;
        transaction.commit().await.map_err(map)?;
        Ok(Some(migration.name.to_owned()))
    }
}

fn refuse_newer(installed: Option<i64>) -> StoreResult<()> {
    match installed {
        Some(version) if version > newest_known() => Err(StoreError::Schema(format!(
            "the database has schema version {version}, and this host knows versions up to {}; \
             run a host at least as new as the one that migrated it",
            newest_known()
        ))),
        _ => Ok(()),
    }
}

/// In another encoding an event may hold text that this host can't write, and in SQL_ASCII text
/// that it can't read.
pub(super) fn refuse_other_encodings(encoding: &str) -> StoreResult<()> {
    if encoding == "UTF8" {
        return Ok(());
    }
    Err(StoreError::Refused(format!(
        "outbox.url: the database has the encoding {encoding}, and an outbox needs UTF8; put it in a database \
         made with  create database NAME encoding 'UTF8' template template0"
    )))
}

async fn installed(connection: &mut PgConnection, dialect: &Dialect) -> StoreResult<Option<i64>> {
    let is_there: bool = sqlx::query_scalar("select to_regclass($1) is not null")
        .bind(dialect.text("{schema}outbox_migration"))
        .fetch_one(&mut *connection)
        .await
        .map_err(map)?;
    if !is_there {
        return Ok(None);
    }
    sqlx::query_scalar(AssertSqlSafe(dialect.text("select max(version) from {schema}outbox_migration")))
        .fetch_one(connection)
        .await
        .map_err(map)
}

async fn run(connection: &mut PgConnection, sql: String) -> StoreResult<()> {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.map_err(map)?;
    Ok(())
}
