//! The command line: one file a command. A command reads the config, asks [`crate::store::Operate`] and prints;
//! what it prints goes to a writer, so that tests read it too.

mod canaries;
mod check;
mod config;
mod context;
mod dead;
mod emit;
mod events;
mod lanes;
mod lines;
mod migrate;
mod plugin;
mod progress;
mod run;
mod show;
mod status;
/// Whoever acts is named in the record, in one line that says something.
fn a_name(text: &str) -> Result<String, String> {
    let is_name = !text.trim().is_empty() && text.len() <= 255 && !text.chars().any(char::is_control);
    is_name.then(|| text.to_owned()).ok_or("it takes 1 to 255 bytes, without control characters".to_owned())
}

#[cfg(test)]
mod tests;
mod time;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
pub use context::Context;

/// Delivers the events of a transactional outbox through WebAssembly plugins.
#[derive(Parser)]
#[command(name = "outhaul", version, about, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

#[derive(Args, Clone, Debug, Default)]
pub struct Common {
    /// The config file; else $OUTHAUL_CONFIG, else outhaul.toml
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Who acts, for the record; else $USER@HOST
    #[arg(long = "as", global = true, value_name = "NAME", value_parser = a_name)]
    pub who: Option<String>,
}

#[derive(Subcommand)]
enum Command {
    Run(run::RunArgs),
    Check(check::CheckArgs),
    Migrate(migrate::MigrateArgs),
    #[command(subcommand)]
    Config(config::ConfigCommand),
    Emit(emit::EmitArgs),
    Status(status::StatusArgs),
    #[command(subcommand)]
    Lanes(lanes::LanesCommand),
    #[command(subcommand)]
    Events(events::EventsCommand),
    #[command(subcommand)]
    Dead(dead::DeadCommand),
    #[command(subcommand)]
    Plugin(plugin::PluginCommand),
}

/// What a command's exit code tells a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Fine = 0,
    /// It did its work and found something wrong, or could not do it.
    Problem = 1,
    /// It was used wrongly.
    Misused = 2,
}

/// A command line that parses and still makes no sense; exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Misuse(pub String);

/// Parses, runs, prints and answers with the exit code.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let exit = match dispatch(cli) {
        Ok(exit) => exit,
        Err(error) => {
            eprintln!("outhaul: {error:#}");
            if error.is::<Misuse>() { Exit::Misused } else { Exit::Problem }
        }
    };
    ExitCode::from(exit as u8)
}

fn dispatch(cli: Cli) -> anyhow::Result<Exit> {
    let Cli { common, command } = cli;
    if let Command::Run(args) = command {
        return run::run(&common, &args);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut out = Forgiving(std::io::stdout());
    runtime.block_on(command_line(&common, command, &mut out))
}

async fn command_line(
    common: &Common,
    command: Command,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<Exit> {
    match command {
        Command::Run(_) => unreachable!("`run` has a runtime of its own"),
        Command::Check(args) => check::run(common, &args, out).await,
        Command::Config(args) => config::run(common, &args, out).await,
        Command::Migrate(args) => migrate::run(common, &args, out).await,
        Command::Emit(args) => emit::run(&Context::open(common).await?, &args, out).await,
        Command::Status(args) => status::run(common, &args, out).await,
        Command::Lanes(args) => lanes::run(&Context::open(common).await?, &args, out).await,
        Command::Events(args) => events::run(&Context::open(common).await?, &args, out).await,
        Command::Dead(args) => dead::run(&Context::open(common).await?, &args, out).await,
        Command::Plugin(args) => plugin::run(common, &args, out).await,
    }
}

/// Standard output whose reader may go away: `outhaul events list | head` is no error.
struct Forgiving(std::io::Stdout);

impl Write for Forgiving {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
            other => other,
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}
