//! `outhaul plugin`: the plugin author's commands, one file each.

mod check;
mod destination;
mod inspect;
mod new;
mod pull;
mod replay;
mod settings;
mod test;

use std::io::Write;

use clap::Subcommand;

use super::{Common, Exit};

/// Makes plugins, looks at them and tries them.
#[derive(Subcommand, Clone, Debug)]
pub enum PluginCommand {
    New(new::NewArgs),
    Inspect(inspect::InspectArgs),
    Check(check::CheckArgs),
    Pull(pull::PullArgs),
    Replay(replay::ReplayArgs),
    Test(test::TestArgs),
}

pub async fn run(
    common: &Common,
    command: &PluginCommand,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<Exit> {
    match command {
        PluginCommand::New(args) => new::run(args, out),
        PluginCommand::Inspect(args) => inspect::run(args, out).await,
        PluginCommand::Check(args) => check::run(common, args, out).await,
        PluginCommand::Pull(args) => pull::run(common, args, out).await,
        PluginCommand::Replay(args) => replay::run(common, args, out).await,
        PluginCommand::Test(args) => test::run(args, out).await,
    }
}
