//! Which servers the suite meets.

use outhaul_tests::databases::{Database, Kind};

outhaul_tests::on_each_database!(the_server_is_named);

async fn the_server_is_named(database: Database) {
    let version = match database.kind {
        Kind::Sqlite => database.text("select sqlite_version()").await,
        Kind::Postgres | Kind::MariaDb => database.text("select version()").await,
    };
    println!("{:?}: {version}", database.kind);
    assert!(version.starts_with(|c: char| c.is_ascii_digit() || c == 'P'), "{version}");
}
