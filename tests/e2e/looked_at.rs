//! Commands that only look: they make no database, read one that can't be written, and connect to
//! nothing offline.

use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use outhaul_tests::databases::Database;
use outhaul_tests::guests::guest;
use sqlx::{Connection, SqliteConnection};

use crate::databases::{Scene, run, until_delivered};
use crate::first_event::noop;
use crate::host::{Host, outhaul, program};

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[test]
fn a_database_that_is_missing_is_made_by_migrate_and_run_and_nothing_else() {
    run(async {
        let scene = Scene::sqlite();
        let config = scene.write_config(&noop("noop", "*", ""));
        let file = scene.path().join("outbox.db");
        let component = guest("noop").display().to_string();
        for command in [
            &["status"][..],
            &["lanes", "list"],
            &["lanes", "pause", "noop"],
            &["events", "list"],
            &["events", "show", "e"],
            &["dead", "list"],
            &["emit", "order.created"],
            &["config", "apply"],
            &["plugin", "replay", &component, "--destination", "noop"],
        ] {
            let output = outhaul(&config, command);
            let told = text(&output);
            assert_eq!(output.status.code(), Some(1), "{command:?}: {told}");
            assert!(told.contains("outbox.db does not exist"), "{command:?}: {told}");
            assert!(told.contains("outhaul migrate"), "{command:?}: {told}");
        }
        let dry = outhaul(&config, &["migrate", "--dry-run"]);
        assert!(dry.status.success() && text(&dry).contains("CREATE TABLE outbox_event"), "{}", text(&dry));
        let checked = outhaul(&config, &["check"]);
        assert!(checked.status.success(), "{}", text(&checked));
        assert!(text(&checked).contains("`outhaul run` will make it"), "{}", text(&checked));
        let unwilling = scene.write_config_with("migrate = false", "", &noop("noop", "*", ""));
        for command in [["check"], ["run"]] {
            let output = outhaul(&unwilling, &command);
            assert_eq!(output.status.code(), Some(1), "{command:?}: {}", text(&output));
            assert!(text(&output).contains("outhaul migrate"), "{command:?}: {}", text(&output));
        }
        assert!(!file.exists(), "something made it");
        assert!(outhaul(&config, &["migrate"]).status.success());
        assert!(file.exists());
        assert!(outhaul(&config, &["status"]).status.success());
    });
}

#[test]
fn a_check_finds_an_outbox_that_takes_no_writes_and_a_host_waits_until_it_does() {
    run(async {
        let scene = Scene::sqlite();
        scene.migrate().await;
        let config = scene.write_config(&noop("noop", "*", ""));
        let file = scene.path().join("outbox.db");
        let set = |mode| std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        set(0o444);
        let checked = bound(&config, &["check"]);
        assert_eq!(checked.status.code(), Some(1), "{}", text(&checked));
        assert!(text(&checked).contains("takes no writes"), "{}", text(&checked));
        assert!(
            text(&checked).contains("-shm files beside it and its directory writable"),
            "{}",
            text(&checked)
        );
        let mut host = Host::start_as(bound_program(), &config);
        host.wait_for_record("waiting for the database");
        // SQLite makes the files beside it with the same rights.
        for beside in ["outbox.db-wal", "outbox.db-shm"].map(|name| scene.path().join(name)) {
            if beside.exists() {
                std::fs::set_permissions(&beside, Permissions::from_mode(0o644)).unwrap();
            }
        }
        set(0o644);
        host.wait_for_record("ready");
        host.kill();
    });
}

#[test]
fn a_check_finds_a_postgres_whose_transactions_are_read_only() {
    run(async {
        let scene = Scene::postgres();
        scene.migrate().await;
        let config = scene.write_config(&noop("noop", "*", ""));
        assert!(outhaul(&config, &["check"]).status.success());
        let name = scene.database_name();
        scene.on_server(&format!("alter database {name} set default_transaction_read_only = on")).await;
        let checked = outhaul(&config, &["check"]);
        assert_eq!(checked.status.code(), Some(1), "{}", text(&checked));
        assert!(text(&checked).contains("default_transaction_read_only = off"), "{}", text(&checked));
    });
}

/// A user whom the files' permissions bind: root is not, unless it gives that up.
fn bound(config: &Path, arguments: &[&str]) -> Output {
    bound_program().args(arguments).arg("--config").arg(config).output().expect("the program starts")
}

fn bound_program() -> Command {
    // SAFETY: it takes nothing and can't fail.
    match unsafe { libc::geteuid() } {
        0 => {
            let mut command = Command::new("setpriv");
            command.args(["--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search"]);
            command.arg(program());
            command
        }
        _ => Command::new(program()),
    }
}

const LOOKS: [&[&str]; 5] =
    [&["status"], &["lanes", "list"], &["events", "list"], &["events", "show", "o-1"], &["dead", "list"]];

fn assert_can_be_read(config: &Path, why: &str) {
    for command in LOOKS {
        let output = bound(config, command);
        assert!(output.status.success(), "{why}, {command:?}: {}", text(&output));
    }
    let listed = text(&bound(config, &["events", "list"]));
    assert!(listed.contains("o-1"), "{why}: {listed}");
    let act = bound(config, &["lanes", "pause", "noop"]);
    assert_eq!(act.status.code(), Some(1), "{why}: {}", text(&act));
    assert!(text(&act).contains("writable for this user"), "{why}: {}", text(&act));
}

#[test]
fn a_database_that_can_only_be_read_is_shown_and_not_written() {
    run(async {
        let scene = Scene::sqlite();
        scene.migrate().await;
        let config = scene.write_config(&noop("noop", "*", ""));
        let file = scene.path().join("outbox.db");
        let set = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let protect = |directory| {
            set(&file, 0o444);
            set(scene.path(), directory);
        };
        let host = Host::start(&config);
        scene.producer().await.insert("order.created", "o", 1).await;
        until_delivered(&scene.stores().await, 1).await;
        protect(0o555);
        assert_can_be_read(&config, "beside a host that writes");
        set(scene.path(), 0o755);
        set(&file, 0o644);
        host.kill();

        // What the killed host left in its log can't be read without a place for its index.
        std::fs::remove_file(scene.path().join("outbox.db-shm")).unwrap();
        protect(0o555);
        let output = bound(&config, &["status"]);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
        assert!(text(&output).contains("the changes in its -wal file"), "{}", text(&output));
        set(scene.path(), 0o755);
        set(&file, 0o644);

        // The last connection to end in good order leaves all in the file itself.
        end_the_log(&file).await;
        protect(0o555);
        assert_can_be_read(&config, "with nobody beside it");

        // Who goes on looking sees what others write in the meantime.
        let mut watch = bound_program();
        watch.args(["status", "--watch", "--config"]).arg(&config).stdout(Stdio::piped());
        let mut watch = watch.spawn().expect("the program starts");
        let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map_while(Result::ok);
        lines.find(|line| line.contains("noop") && !line.contains("paused")).expect("the lane");
        assert!(outhaul(&config, &["lanes", "pause", "noop"]).status.success());
        end_the_log(&file).await;
        lines.find(|line| line.contains("noop") && line.contains("paused")).expect("the paused lane");
        watch.kill().unwrap();
        watch.wait().unwrap();
        set(scene.path(), 0o755);
    });
}

/// Brings what stands in the log into the file itself, and leaves no log.
async fn end_the_log(file: &Path) {
    let mut connection = SqliteConnection::connect(&format!("sqlite:{}", file.display())).await.unwrap();
    sqlx::raw_sql("pragma wal_checkpoint(truncate)").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

#[test]
fn a_host_that_migrates_nothing_still_writes_with_a_log() {
    run(async {
        let scene = Scene::sqlite();
        scene.migrate().await;
        let url = format!("sqlite:{}", scene.path().join("outbox.db").display());
        let mut connection = SqliteConnection::connect(&url).await.unwrap();
        sqlx::raw_sql("pragma journal_mode = delete").execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        let config = scene.write_config_with("migrate = false", "", &noop("noop", "*", ""));
        let host = Host::start(&config);
        let mut connection = SqliteConnection::connect(&url).await.unwrap();
        let mode: String =
            sqlx::query_scalar("pragma journal_mode").fetch_one(&mut connection).await.unwrap();
        assert_eq!(mode, "wal");
        host.kill();
    });
}

#[test]
fn a_check_that_is_offline_lets_no_plugin_touch_its_database() {
    run(async {
        let (scene, shop) = (Scene::sqlite(), Database::sqlite().await);
        scene.migrate().await;
        shop.run("create table stock (sku text not null primary key, quantity bigint not null)").await;
        let config = scene.write_patient_config(&format!(
            "[destination.stock]\ncomponent = \"{}\"\ntopics = [\"*\"]\nsql = [\"shop\"]\n\
             settings = {{ database = \"shop\", create_tables = true }}\n[sql.shop]\nurl = \"{}\"\n",
            guest("stock-ledger").display(),
            shop.url()
        ));
        let tables = || shop.number("select count(*) from sqlite_schema where type = 'table'");
        let output = outhaul(&config, &["check", "--offline"]);
        assert!(output.status.success(), "{}", text(&output));
        assert!(text(&output).contains("its settings could not be judged"), "{}", text(&output));
        assert_eq!(tables().await, 1, "its configure reached the database");
        let component = guest("stock-ledger").display().to_string();
        let output =
            outhaul(&config, &["plugin", "check", &component, "--destination", "stock", "--offline"]);
        assert!(output.status.success(), "{}", text(&output));
        assert_eq!(tables().await, 1);
        let output = outhaul(&config, &["check"]);
        assert!(output.status.success(), "{}", text(&output));
        assert!(tables().await > 1, "with the database it makes its table");

        // The outbox of another machine is not asked either.
        let remote = "version = 1\n[outbox]\nurl = \"postgres://127.0.0.1:1/outbox\"\n[destination.noop]\n";
        let path = scene.path().join("remote.toml");
        std::fs::write(
            &path,
            format!("{remote}component = \"{}\"\ntopics = [\"*\"]\n", guest("noop").display()),
        )
        .unwrap();
        let output = outhaul(&path, &["check", "--offline"]);
        assert!(output.status.success(), "{}", text(&output));
    });
}
