//! What a project's README tells its author to do.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

pub struct Readme {
    /// The lines of the first block of shell, without their comments.
    pub commands: Vec<String>,
    /// The first block of TOML.
    block: String,
}

impl Readme {
    pub fn read(project: &Path) -> Result<Self> {
        let path = project.join("README.md");
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("in {}", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let commands = block(text, "sh").context("there is no block of commands")?;
        let commands = commands.lines().map(|line| line.split(" #").next().unwrap_or_default().trim());
        let commands: Vec<_> = commands.filter(|line| !line.is_empty()).map(str::to_owned).collect();
        ensure!(commands.iter().any(|command| command == "./build.sh"), "no command builds: {commands:?}");
        let tests = commands.iter().any(|command| command.starts_with("outhaul plugin test "));
        ensure!(tests, "no command tests: {commands:?}");
        let block = block(text, "toml").context("there is no block for the config")?.to_owned();
        Ok(Self { commands, block })
    }

    /// The destination's name in the block.
    pub fn destination(&self) -> Result<String> {
        let found = self.block.lines().find_map(|line| line.strip_prefix("[destination.")?.strip_suffix(']'));
        Ok(found.context("the block has no [destination.NAME]")?.to_owned())
    }

    /// The block for a project `name` beside the config, whose receiver is at `origin` on this machine.
    pub fn block_for(&self, name: &str, origin: &str) -> Result<String> {
        let mut lines = Vec::new();
        let (mut has_component, mut has_origin) = (false, false);
        for line in self.block.lines() {
            let line = line
                .replace("https://hooks.example.com", origin)
                .replace("https://example.com", origin)
                .replace(&format!("\"{name}.wasm\""), &format!("\"{name}/{name}.wasm\""));
            has_component |= line.starts_with(&format!("component = \"{name}/"));
            let is_origin = line.starts_with("origin = ");
            lines.push(line);
            if is_origin {
                has_origin = true;
                lines.push("private = true".to_owned());
            }
        }
        ensure!(has_component && has_origin, "the block names no component or no origin:\n{}", self.block);
        Ok(lines.join("\n") + "\n")
    }
}

/// The first block in this language.
fn block<'a>(text: &'a str, language: &str) -> Option<&'a str> {
    let fence = format!("```{language}\n");
    let begin = text.find(&fence)? + fence.len();
    let end = text[begin..].find("```")?;
    Some(&text[begin..begin + end])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# hook\n\n```sh\nnpm install        # once\n./build.sh   # makes hook.wasm\n\
        outhaul plugin test hook.wasm\n```\n\n```toml\n[destination.orders]\ncomponent = \"hook.wasm\"\n\
        settings = { url = \"https://example.com/orders\" }   # also: timeout_ms\n\
        [[destination.orders.http]]\norigin = \"https://example.com\"\n```\n";

    #[test]
    fn commands_and_block_are_those_of_the_readme() {
        let readme = Readme::parse(TEXT).unwrap();
        assert_eq!(readme.commands, ["npm install", "./build.sh", "outhaul plugin test hook.wasm"]);
        assert_eq!(readme.destination().unwrap(), "orders");
        let block = readme.block_for("hook", "http://127.0.0.1:9").unwrap();
        for line in [
            "component = \"hook/hook.wasm\"",
            "settings = { url = \"http://127.0.0.1:9/orders\" }   # also: timeout_ms",
            "origin = \"http://127.0.0.1:9\"\nprivate = true",
        ] {
            assert!(block.contains(line), "{block}");
        }
    }

    #[test]
    fn a_readme_that_leaves_the_author_alone_is_refused() {
        for gone in ["./build.sh", "outhaul plugin test", "```toml", "```sh"] {
            assert!(Readme::parse(&TEXT.replace(gone, "")).is_err(), "{gone}");
        }
        let readme = Readme::parse(&TEXT.replace("origin = ", "root = ")).unwrap();
        assert!(readme.block_for("hook", "http://127.0.0.1:9").is_err());
    }
}
