//! `outhaul plugin`: the plugin author's commands, one file each.

mod new;

use std::io::Write;

use clap::Subcommand;

use super::Exit;

/// Makes plugins, looks at them and tries them.
#[derive(Subcommand, Clone, Debug)]
pub enum PluginCommand {
    New(new::NewArgs),
}

pub async fn run(command: &PluginCommand, out: &mut (dyn Write + Send)) -> anyhow::Result<Exit> {
    match command {
        PluginCommand::New(args) => new::run(args, out),
    }
}
