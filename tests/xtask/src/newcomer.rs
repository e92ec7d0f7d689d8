//! `cargo xtask newcomer`: what a plugin author does first, in each language. A new project in an empty folder,
//! the commands of its README, its config block in the config of a host that runs, and an event that arrives.

mod readme;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::host::{self, Delivery, Host, PATIENCE, program, start_receiver};
use crate::languages::{self, Language};
use crate::{guests, setup, target_dir};
use readme::Readme;

const NAME: &str = "order-hook";

/// What an author writes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Author {
    Rust,
    Go,
    C,
    Python,
    Js,
    Ts,
}

impl Author {
    pub const ALL: [Self; 6] = [Self::Rust, Self::Go, Self::C, Self::Python, Self::Js, Self::Ts];

    /// Those whose components bring no engine along, which takes long to compile.
    pub const QUICK: [Self; 3] = [Self::Rust, Self::Go, Self::C];

    /// What `--lang` takes.
    fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Go => "go",
            Self::C => "c",
            Self::Python => "python",
            Self::Js => "js",
            Self::Ts => "ts",
        }
    }

    /// Whose compiler is no part of the tests' own toolchain.
    fn language(self) -> Option<Language> {
        match self {
            Self::Rust => None,
            Self::Go => Some(Language::Go),
            Self::C => Some(Language::C),
            Self::Python => Some(Language::Python),
            Self::Js | Self::Ts => Some(Language::Js),
        }
    }
}

/// A plugin in TypeScript on top of the template's own, which is renamed.
const PLUGIN_TS: &str = r#"import type { Event, Receipt } from "outhaul:delivery/types@1.0.0";
import { batch, deliver as posting, describe } from "./posting.js";

export const deliver = {
  configure(settingsJson: string): void {
    posting.configure(settingsJson);
  },

  deliver(event: Event): Receipt {
    return posting.deliver(event);
  },
};

export { batch, describe };
"#;

/// How long each step of one author took.
struct Walk {
    author: Author,
    steps: Vec<(String, Duration)>,
}

/// With `fresh`, what a README says to install is installed into the project; else the tools of the tests
/// serve. Expects the program and the plugins to be built.
pub fn run(authors: &[Author], fresh: bool) -> Result<()> {
    let mut walks = Vec::new();
    for &author in authors {
        let walk = walk(author, fresh).with_context(|| format!("as a newcomer in {}", author.name()))?;
        walks.push(walk);
    }
    println!("newcomer: an event was delivered in each of {} languages", walks.len());
    for walk in &walks {
        let total: Duration = walk.steps.iter().map(|(_, took)| *took).sum();
        println!("newcomer {}: {:.1} s", walk.author.name(), total.as_secs_f64());
        for (step, took) in &walk.steps {
            println!("    {:6.1} s  {step}", took.as_secs_f64());
        }
    }
    Ok(())
}

fn walk(author: Author, fresh: bool) -> Result<Walk> {
    let folder = target_dir().join("newcomer").join(author.name());
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let desk = Desk::new(author, fresh, folder)?;
    let (port, received) = start_receiver()?;
    let config = desk.write_config()?;
    let host = Host::start("newcomer", &config)?;
    let mut walk = Walk { author, steps: Vec::new() };
    walk.step(&format!("outhaul plugin new --lang {} {NAME}", author.name()), |words| {
        desk.run(&desk.folder, words)
    })?;
    let project = desk.folder.join(NAME);
    desk.prepare(&project)?;
    let readme = Readme::read(&project)?;
    for command in readme.commands.iter().filter(|command| fresh || !is_set_up(command.as_str())) {
        walk.step(command, |words| desk.command(&project, words))?;
    }
    walk.step("its block in the config of the running host", |_| {
        desk.add_destination(&config, &readme, port)
    })?;
    walk.step("an event, delivered", |_| deliver(&config, &received))?;
    host.stop()?;
    desk.all_delivered(&config)?;
    Ok(walk)
}

impl Walk {
    fn step(&mut self, name: &str, step: impl FnOnce(&str) -> Result<()>) -> Result<()> {
        println!("newcomer {}: {name}", self.author.name());
        let began = Instant::now();
        step(name)?;
        self.steps.push((name.to_owned(), began.elapsed()));
        Ok(())
    }
}

/// A line of the README that comes before the build: it installs something.
fn is_set_up(command: &str) -> bool {
    !command.starts_with("./build.sh") && !command.starts_with("outhaul ")
}

/// Where an author sits: an empty folder, a shell, the tools in `PATH`.
struct Desk {
    author: Author,
    is_fresh: bool,
    folder: PathBuf,
    path: Vec<PathBuf>,
    go_workspace: Option<String>,
}

impl Desk {
    fn new(author: Author, is_fresh: bool, folder: PathBuf) -> Result<Self> {
        let program = program();
        let mut path = vec![program.parent().context("the program has a folder")?.to_owned()];
        let mut go_workspace = None;
        if let Some(language) = author.language() {
            path.extend(languages::template_toolchain(language)?.path);
            if language == Language::Go {
                go_workspace = Some(languages::go_workspace()?);
            }
        }
        Ok(Self { author, is_fresh, folder, path, go_workspace })
    }

    /// What is different on a machine without a proxy of Go modules, and for an author of TypeScript.
    fn prepare(&self, project: &Path) -> Result<()> {
        if let Some(workspace) = &self.go_workspace {
            fs::write(project.join("go.work"), workspace)?;
        }
        if self.author == Author::Ts {
            fs::rename(project.join("src/plugin.js"), project.join("src/posting.js"))?;
            fs::write(project.join("src/plugin.ts"), PLUGIN_TS)?;
        }
        Ok(())
    }

    /// A line of the README, as a shell takes it.
    fn command(&self, project: &Path, words: &str) -> Result<()> {
        if self.author == Author::Rust && words == "./build.sh" {
            return guests::build_project(project, NAME, self.is_fresh);
        }
        self.run(project, words)
    }

    fn run(&self, folder: &Path, words: &str) -> Result<()> {
        let log = self.folder.join("commands.log");
        let file = fs::OpenOptions::new().create(true).append(true).open(&log)?;
        let mut shell = Command::new("sh");
        shell.args(["-c", words]).current_dir(folder).stdin(Stdio::null());
        shell.env("PATH", setup::path_with(&self.path)?);
        // A compiler's own cache is as warm as the tests left it, unless all is to be fresh.
        if self.is_fresh || words.starts_with("outhaul ") {
            shell.env("XDG_CACHE_HOME", cache());
        }
        let status = shell.stdout(file.try_clone()?).stderr(file).status()?;
        if !status.success() {
            bail!("{words} failed with {status}:\n{}", fs::read_to_string(&log).unwrap_or_default());
        }
        Ok(())
    }

    /// The host runs with another destination before there is a plugin.
    fn write_config(&self) -> Result<PathBuf> {
        let path = self.folder.join("outhaul.toml");
        let log = guests::folder().join("log.wasm");
        let config = format!(
            "version = 1\n[outbox]\nurl = \"sqlite:outhaul.db\"\n[server]\nlisten = \"127.0.0.1:0\"\n\
             [runtime]\ncache = \"{}\"\n[destination.audit]\ncomponent = \"{}\"\ntopics = [\"audit.*\"]\n",
            cache().join("outhaul").display(),
            log.display()
        );
        fs::write(&path, config)?;
        Ok(path)
    }

    /// Pastes the README's block, with the receiver's address in it, and waits until the host runs it.
    fn add_destination(&self, config: &Path, readme: &Readme, port: u16) -> Result<()> {
        let block = readme.block_for(NAME, &format!("http://127.0.0.1:{port}"))?;
        let text = fs::read_to_string(config)?;
        fs::write(config, format!("{text}\n{block}"))?;
        let destination = readme.destination()?;
        until(&format!("the host runs {destination}"), || {
            let status = self.json(config, &["status", "--json"])?;
            let hosts = status["hosts"].as_array().cloned().unwrap_or_default();
            let mut loaded = hosts.iter().filter_map(|host| host["loaded"].as_array()).flatten();
            let found = loaded.find(|note| note["destination"] == destination.as_str());
            if let Some(problem) = found.and_then(|note| note["reload_error"].as_str()) {
                bail!("the host refuses {destination}: {problem}");
            }
            Ok(found.is_some_and(|note| note["generation"].as_u64() > Some(0)))
        })
    }

    /// What the database says after the host has stopped.
    fn all_delivered(&self, config: &Path) -> Result<()> {
        let rows = self.json(config, &["events", "list", "--json"])?;
        let rows = rows.as_array().context("events list is a list")?;
        if rows.len() != 1 || rows[0]["status"] != "delivered" || rows[0]["attempts"] != 1 {
            bail!("one delivery, delivered at its first attempt, was expected: {rows:?}");
        }
        Ok(())
    }

    fn json(&self, config: &Path, arguments: &[&str]) -> Result<Value> {
        let output = Command::new(program()).args(arguments).arg("--config").arg(config).output()?;
        if !output.status.success() {
            bail!("outhaul {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

fn deliver(config: &Path, received: &Receiver<Delivery>) -> Result<()> {
    let payload = r#"{"order":1,"total":"10.00"}"#;
    host::emit(config, "order-1", payload)?;
    let delivery = received.recv_timeout(PATIENCE).context("no event arrived at the receiver")?;
    anyhow::ensure!(delivery.body == payload, "another event arrived: {}", delivery.body);
    Ok(())
}

fn until(what: &str, is_so: impl Fn() -> Result<bool>) -> Result<()> {
    let patience = Instant::now() + PATIENCE;
    while !is_so()? {
        if Instant::now() > patience {
            bail!("it was not so in {PATIENCE:?}: {what}");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Compiled components of this task, kept from one run to the next.
fn cache() -> PathBuf {
    target_dir().join("newcomer/cache")
}
