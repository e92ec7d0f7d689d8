//! `cargo xtask test`: everything, on every database, none skipped because a service was missing.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::mariadb::MariaDb;
use crate::postgres::Postgres;
use crate::{guests, languages, newcomer, setup, workspace_root};

/// How much the suites with a budget do.
struct Budgets {
    simulation_secs: u32,
    replacements: u32,
    /// Of instances of each language.
    engine_replacements: u32,
    requests: u32,
    /// Through one destination of Python, and one of JavaScript.
    stream_events: u32,
    /// To each broker.
    broker_events: u32,
}

pub fn run(full: bool, filter: &[String]) -> Result<()> {
    let budgets = if full {
        Budgets {
            simulation_secs: 900,
            replacements: 10_000,
            engine_replacements: 10_000,
            requests: 50_000,
            stream_events: 10_000,
            broker_events: 10_000,
        }
    } else {
        Budgets {
            simulation_secs: 90,
            replacements: 2_000,
            engine_replacements: 200,
            requests: 1_000,
            stream_events: 1_000,
            broker_events: 1_000,
        }
    };
    setup::verifiers()?;
    setup::registry()?;
    setup::brokers()?;
    let guest_folder = guests::build_all()?;
    languages::build(&languages::Language::ALL)?;
    // The crash and end-to-end suites run the real program.
    cargo(&["build", "--workspace", "--bins"])?;
    newcomer::run(if full { &newcomer::Author::ALL } else { &newcomer::Author::QUICK }, false)?;
    let (postgres, mariadb) = (Postgres::start()?, MariaDb::start()?);
    let mut tests = command(&["test", "--workspace", "--no-fail-fast", "--"]);
    tests.args(filter);
    tests
        .env("OUTHAUL_TEST_POSTGRES", postgres.url())
        .env("OUTHAUL_TEST_MARIADB", mariadb.url())
        .env("OUTHAUL_GUESTS", &guest_folder)
        .env("OUTHAUL_VERIFIERS", setup::verifiers_folder())
        .env("OUTHAUL_SIM_SECONDS", budgets.simulation_secs.to_string())
        .env("OUTHAUL_REPLACEMENTS", budgets.replacements.to_string())
        .env("OUTHAUL_ENGINE_REPLACEMENTS", budgets.engine_replacements.to_string())
        .env("OUTHAUL_REQUESTS", budgets.requests.to_string())
        .env("OUTHAUL_STREAM_EVENTS", budgets.stream_events.to_string())
        .env("OUTHAUL_BROKER_EVENTS", budgets.broker_events.to_string());
    let host = succeeded(&mut tests);
    drop((postgres, mariadb));
    // The plugins' pure parts run natively, in their own workspace.
    let plugins = guests::test_natively();
    host.and(plugins)
}

fn cargo(arguments: &[&str]) -> Result<()> {
    succeeded(&mut command(arguments))
}

fn command(arguments: &[&str]) -> Command {
    let mut command = crate::cargo();
    command.args(arguments).current_dir(workspace_root());
    command
}

fn succeeded(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("starting {command:?}"))?;
    if !status.success() {
        bail!("{:?} failed with {status}", command.get_args().collect::<Vec<_>>());
    }
    Ok(())
}

/// Runs one command beside a server of its own, for work on a single suite.
pub fn with_postgres(words: &[String]) -> Result<()> {
    let postgres = Postgres::start()?;
    beside(words, &[("OUTHAUL_TEST_POSTGRES", postgres.url())])
}

/// The same beside one of each kind.
pub fn with_databases(words: &[String]) -> Result<()> {
    let (postgres, mariadb) = (Postgres::start()?, MariaDb::start()?);
    beside(words, &[("OUTHAUL_TEST_POSTGRES", postgres.url()), ("OUTHAUL_TEST_MARIADB", mariadb.url())])
}

fn beside(words: &[String], servers: &[(&str, String)]) -> Result<()> {
    let (program, arguments) = words.split_first().context("no command was given")?;
    let mut command = if program == "cargo" { crate::cargo() } else { Command::new(program) };
    command.args(arguments).envs(servers.iter().cloned());
    succeeded(
        command.env("OUTHAUL_GUESTS", guests::folder()).env("OUTHAUL_VERIFIERS", setup::verifiers_folder()),
    )
}

/// Runs the benchmark beside a server of its own. The dependencies are those of the tests, which are
/// optimised already; only our own code is built again, so that measuring takes no second build of
/// everything. The benchmark of destinations takes one, once: what it compares with wants other features.
pub fn bench(arguments: &[String]) -> Result<()> {
    guests::build_all()?;
    let what = arguments.first().map(String::as_str).unwrap_or_default();
    // The brokers' own clients, for which nothing else should wait.
    let mut features: &[&str] = &[];
    match what {
        "languages" => drop(languages::build(&languages::Language::ALL)?),
        "destinations" => {
            setup::brokers()?;
            setup::cpp_compiler()?;
            features = &["--features=outhaul-bench/destinations"];
        }
        _ => {}
    }
    let optimised = |package: &str| format!("--config=profile.dev.package.{package}.opt-level=3");
    // The whole workspace, as the tests build it: another choice of packages chooses other features.
    let mut build = command(&["build", "--workspace", "--bins"]);
    succeeded(build.args(features).args(["outhaul", "outhaul-bench"].map(optimised)))?;
    let program = crate::target_dir().join("debug/outhaul-bench").display().to_string();
    let words: Vec<String> = std::iter::once(program).chain(arguments.iter().cloned()).collect();
    with_postgres(&words)
}
