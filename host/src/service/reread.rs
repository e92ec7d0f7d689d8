//! SIGHUP: another look at the config file. This version says what a restart would change.

use super::config::Config;
use super::config::digest::of_destination;

pub fn report(running: &Config) {
    match Config::load(&running.path) {
        Err(problems) => {
            tracing::error!(%problems, "the config on disk can't be used; the host goes on with the one it has");
        }
        Ok(found) => {
            let changes = changes(running, &found);
            if changes.is_empty() {
                tracing::info!("the config on disk is the one that runs");
            } else {
                tracing::warn!(
                    changes = changes.join(", "),
                    "the config on disk differs; restart the host to apply it"
                );
            }
        }
    }
}

fn json(section: &impl serde::Serialize) -> serde_json::Value {
    serde_json::to_value(section).expect("the config is JSON")
}

/// What differs, by section and by destination.
fn changes(running: &Config, found: &Config) -> Vec<String> {
    let (old, new) = (&running.file, &found.file);
    let mut changes = Vec::new();
    for (name, is_changed) in [
        ("outbox", json(&old.outbox) != json(&new.outbox)),
        ("relay", json(&old.relay) != json(&new.relay)),
        ("server", json(&old.server) != json(&new.server)),
        ("runtime", json(&old.runtime) != json(&new.runtime)),
    ] {
        if is_changed {
            changes.push(format!("{name} changed"));
        }
    }
    for (name, destination) in &new.destination {
        match old.destination.get(name) {
            None => changes.push(format!("destination.{name} is new")),
            Some(known) if of_destination(known) != of_destination(destination) => {
                changes.push(format!("destination.{name} changed"));
            }
            Some(_) => {}
        }
    }
    let removed = old.destination.keys().filter(|name| !new.destination.contains_key(*name));
    changes.extend(removed.map(|name| format!("destination.{name} is gone")));
    changes
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::service::config::read_text;

    fn config(lines: &str, destinations: &[&str]) -> Config {
        let mut text = format!("version = 1\n[outbox]\nurl = \"sqlite:o.db\"\n{lines}\n");
        for name in destinations {
            text += &format!("[destination.{name}]\ncomponent = \"c.wasm\"\ntopics = [\"*\"]\n");
        }
        Config { path: "x".into(), file: read_text(&text, Path::new("/x")).unwrap() }
    }

    #[test]
    fn what_a_restart_would_change_is_named_by_section_and_destination() {
        let running = config("", &["a", "b"]);
        assert_eq!(changes(&running, &config("", &["a", "b"])), Vec::<String>::new());
        let found = config("poll = \"2s\"\n[relay]\nbatch = 7", &["b", "c"]);
        let expected = ["outbox changed", "relay changed", "destination.c is new", "destination.a is gone"];
        assert_eq!(changes(&running, &found), expected);
    }
}
