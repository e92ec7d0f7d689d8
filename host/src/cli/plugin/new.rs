//! `outhaul plugin new`: a working project in a language.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};

use crate::cli::{Exit, Misuse};
use crate::kit::project::{self, NewError};

/// Writes a working plugin project: source, build command, settings schema, test case and README.
#[derive(Args, Clone, Debug)]
pub struct NewArgs {
    /// The language
    #[arg(long, value_parser = languages())]
    lang: String,
    /// The plugin's name: lower-case words joined by hyphens
    name: String,
    /// Where the project is written; else a folder of the plugin's name
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

fn languages() -> PossibleValuesParser {
    let value = |language: &'static str| {
        PossibleValue::new(language).aliases(match language {
            "js" => &["javascript", "typescript", "ts"][..],
            "python" => &["py"],
            "go" => &["golang"],
            _ => &[],
        })
    };
    PossibleValuesParser::new(project::languages().into_iter().map(value))
}

pub fn run(args: &NewArgs, out: &mut (dyn Write + Send)) -> anyhow::Result<Exit> {
    let name = &args.name;
    let folder = args.dir.as_deref().unwrap_or(Path::new(name));
    let language = canonical(&args.lang);
    let files = project::create(language, name, folder).map_err(|error| match error {
        NewError::Unwritable(..) => anyhow::Error::new(error),
        NewError::Name(..) | NewError::Language { .. } | NewError::Occupied(_) => {
            Misuse(error.to_string()).into()
        }
    })?;
    let folder = folder.display();
    writeln!(out, "{folder} has {} files. Next:\n", files.len())?;
    writeln!(out, "    cd {folder}")?;
    writeln!(out, "    ./build.sh                # makes {name}.wasm, or says which tool is missing")?;
    writeln!(out, "    outhaul plugin test {name}.wasm")?;
    writeln!(out, "    outhaul plugin inspect {name}.wasm       # a config block to paste")?;
    writeln!(out, "\nREADME.md says where to change what.")?;
    Ok(Exit::Fine)
}

/// Clap hands on an alias as it was written.
fn canonical(language: &str) -> &str {
    match language {
        "javascript" | "typescript" | "ts" => "js",
        "py" => "python",
        "golang" => "go",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use clap::{Parser, Subcommand};

    use super::*;
    use crate::cli::plugin::PluginCommand;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: Command,
    }

    #[derive(Subcommand)]
    enum Command {
        #[command(subcommand)]
        Plugin(PluginCommand),
    }

    fn new(words: &[&str]) -> anyhow::Result<String> {
        let Command::Plugin(PluginCommand::New(args)) =
            Line::try_parse_from([&["outhaul", "plugin", "new"], words].concat())?.command
        else {
            panic!("it is no other command")
        };
        let mut out = Vec::new();
        run(&args, &mut out)?;
        Ok(String::from_utf8(out)?)
    }

    #[test]
    fn a_new_project_says_what_to_do_next() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("sink");
        let text = new(&["--lang", "rust", "order-sink", "--dir", project.to_str().unwrap()]).unwrap();
        assert!(text.contains("./build.sh") && text.contains("order-sink.wasm"), "{text}");
        assert!(project.join("build.sh").is_file());
    }

    #[test]
    fn what_can_not_be_made_is_refused_with_the_reason() {
        let error = new(&["--lang", "cobol", "order-sink"]).unwrap_err().to_string();
        assert!(error.contains("rust"), "{error}");
        let error = new(&["--lang", "rust", "Order_Sink"]).unwrap_err();
        assert!(error.is::<Misuse>() && error.to_string().contains("lower-case"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("mine"), "").unwrap();
        let error = new(&["--lang", "rust", "sink", "--dir", folder.path().to_str().unwrap()]).unwrap_err();
        assert!(error.is::<Misuse>() && error.to_string().contains("--dir"), "{error}");
    }
}
