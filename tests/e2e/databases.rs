//! A database of its own for each test, written to by a producer that knows one `INSERT`, and read
//! through the operators' trait.

use std::path::{Path, PathBuf};

use outhaul::service::config::Config;
use outhaul::service::stores::{Stores, open_stores};
use outhaul::store::{DeliveryFilter, DeliveryRow, DeliveryStatus};
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};

/// Declares one test function as two tests, one for each database.
macro_rules! on_both {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(#[test] fn $name() { $crate::databases::run(super::$name($crate::databases::Scene::sqlite())) })+
        }
        mod postgres {
            $(#[test] fn $name() { $crate::databases::run(super::$name($crate::databases::Scene::postgres())) })+
        }
    };
}

pub fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime starts").block_on(test);
}

/// A folder with a config, and a database that only this test uses.
pub struct Scene {
    pub folder: tempfile::TempDir,
    database: Database,
}

enum Database {
    Sqlite(PathBuf),
    Postgres { server: String, name: String },
}

impl Scene {
    pub fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let database = Database::Sqlite(folder.path().join("outbox.db"));
        Self { folder, database }
    }

    pub fn postgres() -> Self {
        let server = std::env::var("OUTHAUL_TEST_POSTGRES").expect(
            "OUTHAUL_TEST_POSTGRES is not set; run  cargo xtask test , which starts a server, or name one of your own",
        );
        let name = format!("outhaul_e2e_{}", uuid::Uuid::new_v4().simple());
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self { folder, database: Database::Postgres { server, name } }
    }

    /// Creates the database and the outbox's tables, as an operator does before producers start.
    pub async fn migrate(&self) {
        if let Database::Postgres { name, .. } = &self.database {
            self.on_server(&format!("create database {name}")).await;
        }
        self.stores().await.schema.migrate().await.expect("the schema is installed");
    }

    /// On the server, outside the test's own database.
    pub async fn on_server(&self, sql: &str) {
        let Database::Postgres { server, .. } = &self.database else { panic!("this test is PostgreSQL's") };
        let mut connection = PgConnection::connect(server).await.expect("the test server answers");
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.expect(sql);
        connection.close().await.ok();
    }

    pub fn url(&self) -> String {
        match &self.database {
            Database::Sqlite(path) => format!("sqlite:{}", path.display()),
            Database::Postgres { server, name } => {
                let (host, _) = server.rsplit_once('/').expect("the test server's URL names a database");
                format!("{host}/{name}")
            }
        }
    }

    /// The name of the test's database on its server.
    pub fn database_name(&self) -> &str {
        match &self.database {
            Database::Postgres { name, .. } => name,
            Database::Sqlite(_) => panic!("this test is PostgreSQL's"),
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a config with the outbox of this scene, in front of `rest`.
    pub fn write_config(&self, rest: &str) -> PathBuf {
        self.write_config_with("", "", rest)
    }

    /// The same, with further keys of `[outbox]` and `[server]`. Timeouts are short, so that leases
    /// can be, and a takeover is soon seen.
    pub fn write_config_with(&self, outbox: &str, server: &str, rest: &str) -> PathBuf {
        self.write_config_of("1s", outbox, server, rest)
    }

    /// For a host whose statements must not run out of time on a busy machine.
    pub fn write_patient_config(&self, rest: &str) -> PathBuf {
        self.write_config_of("8s", "", "", rest)
    }

    fn write_config_of(&self, timeout: &str, outbox: &str, server: &str, rest: &str) -> PathBuf {
        let text = format!(
            "version = 1\n[outbox]\nurl = \"{}\"\ntimeout = \"{timeout}\"\npoll = \"500ms\"\n{outbox}\n\
             [server]\nlisten = \"127.0.0.1:0\"\n{server}\n[runtime]\ncache = \"{}\"\n\
             {rest}\n",
            self.url(),
            compile_cache().display()
        );
        let path = self.path().join("outhaul.toml");
        std::fs::write(&path, text).expect("the config is written");
        path
    }

    /// The operators' view of the database.
    pub async fn stores(&self) -> Stores {
        let text = format!("version = 1\n[outbox]\nurl = \"{}\"\npool = 3\n", self.url());
        let file = outhaul::service::config::read_text(&text, self.path()).expect("the URL is valid");
        let config = Config { path: self.path().join("reader.toml"), file };
        open_stores(&config).await.expect("the database opens")
    }

    pub async fn producer(&self) -> Producer {
        match &self.database {
            Database::Sqlite(path) => {
                let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
                let options = options.busy_timeout(std::time::Duration::from_secs(30));
                Producer::Sqlite(SqliteConnection::connect_with(&options).await.expect("the database opens"))
            }
            Database::Postgres { .. } => {
                Producer::Postgres(PgConnection::connect(&self.url()).await.expect("the database opens"))
            }
        }
    }
}

impl Drop for Scene {
    /// A server of one's own is thrown away whole; one that lives on must not fill up.
    fn drop(&mut self) {
        let Database::Postgres { server, name } = &self.database else { return };
        let (server, sql) = (server.clone(), format!("drop database if exists {name} with (force)"));
        // On a thread without a runtime, since this may run inside one.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let mut connection = PgConnection::connect(&server).await?;
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await?;
                Ok::<_, anyhow::Error>(())
            })
        });
        if !matches!(dropping.join(), Ok(Ok(()))) {
            eprintln!("the test's database {name} is left on the server");
        }
    }
}

/// Compiled plugins are shared by the tests of one run and later runs.
fn compile_cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled")
}

/// An application: it knows the `INSERT` and nothing else of Outhaul.
pub enum Producer {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl Producer {
    pub async fn execute(&mut self, sql: &str) {
        let sql = AssertSqlSafe(sql.to_owned());
        match self {
            Self::Sqlite(connection) => sqlx::raw_sql(sql).execute(connection).await.map(drop),
            Self::Postgres(connection) => sqlx::raw_sql(sql).execute(connection).await.map(drop),
        }
        .expect("the producer's statement succeeds");
    }

    /// Events `prefix-1` to `prefix-count` in one transaction.
    pub async fn insert(&mut self, topic: &str, prefix: &str, count: usize) {
        let payload = match self {
            Self::Sqlite(_) => "cast('{}' as blob)",
            Self::Postgres(_) => "convert_to('{}', 'UTF8')",
        };
        let rows: Vec<String> =
            (1..=count).map(|n| format!("('{prefix}-{n}', '{topic}', {payload})")).collect();
        let sql = format!("insert into outbox_event (event_id, topic, payload) values {}", rows.join(", "));
        self.execute(&sql).await;
    }
}

/// Deliveries of a database, by what they are.
pub async fn deliveries(stores: &Stores) -> Vec<DeliveryRow> {
    let filter = DeliveryFilter { limit: 100_000, ..Default::default() };
    stores.operate.deliveries(&filter).await.expect("the deliveries are listed")
}

pub async fn count(stores: &Stores, status: DeliveryStatus) -> usize {
    deliveries(stores).await.iter().filter(|row| row.status == status).count()
}

/// Asks again and again until there is an answer; the patience only bounds a test that fails.
pub async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(120);
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(std::time::Instant::now() < patience, "waited in vain: {what}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

pub async fn until_delivered(stores: &Stores, wanted: usize) {
    let what = format!("{wanted} deliveries delivered");
    until(&what, async || (count(stores, DeliveryStatus::Delivered).await >= wanted).then_some(())).await;
}
