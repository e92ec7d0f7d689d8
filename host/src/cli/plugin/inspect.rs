//! `outhaul plugin inspect`: what a component is and needs.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use crate::cli::{Exit, show};
use crate::clock::SystemClock;
use crate::kit::inspect::{Look, Name, look};
use crate::service::plugins::tool_runtime;

/// Shows what a component is, imports, exports and needs, and a config block to paste.
#[derive(Args, Clone, Debug)]
pub struct InspectArgs {
    component: PathBuf,
    #[arg(long)]
    json: bool,
}

pub async fn run(args: &InspectArgs, out: &mut (dyn Write + Send)) -> anyhow::Result<Exit> {
    let runtime = tool_runtime(Arc::new(SystemClock))?;
    let look = look(&runtime, &args.component).await?;
    if args.json {
        show::json(out, &look)?;
    } else {
        print(&look, out)?;
    }
    Ok(if look.description_problem.is_some() { Exit::Problem } else { Exit::Fine })
}

fn print(look: &Look, out: &mut (dyn Write + Send)) -> anyhow::Result<()> {
    let mut line = |name: &str, text: &str| writeln!(out, "{name:10}  {}", show::printable(text));
    line("component", &look.component)?;
    line("sha256", &look.sha256)?;
    line("size", &format!("{} KiB", look.bytes.div_ceil(1024)))?;
    line("world", &look.world)?;
    line("language", look.language.as_deref().unwrap_or("it does not say"))?;
    for (field, tools) in &look.producers {
        line(field, &tools.iter().map(String::as_str).collect::<Vec<_>>().join(", "))?;
    }
    match &look.description {
        Some(said) => line("plugin", &format!("{} {}", said.name, said.version))?,
        None => line("plugin", "it has no describe, and there is no plugin.toml beside it")?,
    }
    if let Some(problem) = &look.description_problem {
        line("BAD", &format!("what it says of itself can't be used: {problem}"))?;
    }
    names(out, "exports", &look.exports)?;
    names(out, "imports", &look.imports)?;
    if let Some(said) = &look.description {
        writeln!(out, "\nneeds")?;
        for need in &said.needs {
            let optional = if need.optional { "optional: " } else { "" };
            let what = format!("{} {}", need.capability, need.name);
            writeln!(
                out,
                "  {:20}  {optional}{}",
                show::printable(what.trim()),
                show::printable(&need.purpose)
            )?;
        }
        if said.needs.is_empty() {
            writeln!(out, "  nothing")?;
        }
    }
    writeln!(out, "\nconfig\n")?;
    look.config.lines().try_for_each(|line| writeln!(out, "{}", show::printable(line)))?;
    Ok(())
}

fn names(out: &mut (dyn Write + Send), title: &str, names: &[Name]) -> std::io::Result<()> {
    writeln!(out, "\n{title}")?;
    let width = names.iter().map(|it| it.name.len()).max().unwrap_or(0);
    names.iter().try_for_each(|it| writeln!(out, "  {:width$}  {}", show::printable(&it.name), it.meaning))
}
