//! `cargo xtask`: sets up a machine, runs the demo and the tests.

mod demo;
mod guests;
mod host;
mod languages;
mod mariadb;
mod newcomer;
mod postgres;
mod setup;
mod test;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use clap::Parser;

/// Does all the set-up itself, and says what it installs.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
enum Task {
    /// Run the main job on SQLite: host, plugins, a local receiver, ten events.
    Demo {
        /// Exit with 0 when all events are delivered.
        #[arg(long)]
        once: bool,
    },
    /// Run all tests, on SQLite, PostgreSQL and MariaDB.
    Test {
        /// The long forms of the suites that have a budget.
        #[arg(long)]
        full: bool,
        /// Passed on to the test programs, such as a part of a test's name.
        filter: Vec<String>,
    },
    /// Build the plugins and the tests' guests to target/guests.
    Guests {
        /// Where the compiler comes from; left out, rustup's target if there is one or it can be
        /// added, else Debian's packages.
        #[arg(long)]
        toolchain: Option<guests::Source>,
    },
    /// Build the plugin templates, and the tests' guests in their languages, to target/guests.
    Templates {
        /// Only this language.
        #[arg(long)]
        lang: Option<languages::Language>,
    },
    /// Walk a plugin author's first steps in each language: a new project, its build, its tests, its block in
    /// the config of a running host, an event that arrives.
    Newcomer {
        /// Only these languages.
        #[arg(long, value_delimiter = ',')]
        lang: Vec<newcomer::Author>,
        /// Install what the project's README says to install, instead of using the tests' tools.
        #[arg(long)]
        fresh: bool,
    },
    /// Generate the templates' bindings anew, after a change in wit/.
    Bindings,
    /// Measure: `throughput`, `batch`, `latency`, `memory`, `calls`, `languages`, `destinations` or `notify`, with its
    /// options.
    Bench {
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Start a PostgreSQL for one command: `cargo xtask with-postgres -- cargo test …`.
    WithPostgres {
        #[arg(required = true, last = true)]
        command: Vec<String>,
    },
    /// Start a PostgreSQL and a MariaDB for one command.
    WithDatabases {
        #[arg(required = true, last = true)]
        command: Vec<String>,
    },
}

fn main() -> Result<()> {
    match Task::parse() {
        Task::Demo { once } => demo::run(once),
        Task::Test { full, filter } => test::run(full, &filter),
        Task::Guests { toolchain } => {
            let folder = toolchain.map_or_else(guests::build_all, guests::build_with)?;
            println!("{}", folder.display());
            Ok(())
        }
        Task::Templates { lang } => {
            let folder = match lang {
                Some(language) => languages::build(&[language])?,
                None => languages::build(&languages::Language::ALL)?,
            };
            println!("{}", folder.display());
            Ok(())
        }
        Task::Newcomer { lang, fresh } => {
            guests::build_all()?;
            host::build()?;
            newcomer::run(if lang.is_empty() { &newcomer::Author::ALL } else { &lang }, fresh)
        }
        Task::Bindings => languages::bindings::generate(),
        Task::Bench { arguments } => test::bench(&arguments),
        Task::WithPostgres { command } => test::with_postgres(&command),
        Task::WithDatabases { command } => test::with_databases(&command),
    }
}

pub fn workspace_root() -> &'static Path {
    // tests/xtask → the root, where Cargo.toml of the workspace is.
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate lives in tests/xtask")
}

/// The cargo that runs us, without what it told us about ourselves: build scripts that look at those
/// variables would build their crates anew each time a build starts from here and not from a shell.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    let names = std::env::vars_os().map(|(name, _)| name);
    let of_this_crate = ["CARGO_PKG_", "CARGO_MANIFEST_"];
    for name in
        names.filter(|name| of_this_crate.iter().any(|start| name.to_string_lossy().starts_with(start)))
    {
        command.env_remove(name);
    }
    command
}

pub fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => workspace_root().join(folder),
        None => workspace_root().join("target"),
    }
}
