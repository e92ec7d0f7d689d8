//! What of a config can be applied while the host runs, and what waits for its next start.

use serde_json::Value;

use crate::service::config::Config;

/// The config as it can be applied now, and the keys whose change takes effect at the next start.
pub fn applicable(found: Config, running: &Config) -> (Config, Vec<String>) {
    let mut config = found;
    let (new, old) = (&mut config.file, &running.file);
    let mut later = Vec::new();
    for (name, new, old) in [
        ("outbox", json(&new.outbox), json(&old.outbox)),
        ("server", json(&new.server), json(&old.server)),
        ("runtime", json(&new.runtime), json(&old.runtime)),
    ] {
        later.extend(differing(&new, &old).into_iter().map(|key| format!("{name}.{key}")));
    }
    // The other keys of [relay] are defaults of destinations, and those are replaced.
    if new.relay.drain != old.relay.drain {
        later.push("relay.drain".to_owned());
    }
    if new.relay.payload_memory != old.relay.payload_memory {
        later.push("relay.payload_memory".to_owned());
    }
    new.outbox = old.outbox.clone();
    new.server = old.server.clone();
    new.runtime = old.runtime.clone();
    new.relay.drain = old.relay.drain;
    new.relay.payload_memory = old.relay.payload_memory;
    (config, later)
}

fn json(section: &impl serde::Serialize) -> Value {
    serde_json::to_value(section).expect("the config is JSON")
}

fn differing(new: &Value, old: &Value) -> Vec<String> {
    let (Value::Object(new), Value::Object(old)) = (new, old) else { return Vec::new() };
    let keys: std::collections::BTreeSet<&String> = new.keys().chain(old.keys()).collect();
    keys.into_iter().filter(|key| new.get(*key) != old.get(*key)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::service::config::read_text;

    fn config(outbox: &str, rest: &str) -> Config {
        let text = format!("version = 1\n[outbox]\nurl = \"sqlite:o.db\"\n{outbox}\n{rest}\n");
        Config { path: "x".into(), file: read_text(&text, Path::new("/x")).unwrap() }
    }

    #[test]
    fn what_waits_for_the_next_start_is_named_by_its_key_and_the_rest_is_applied() {
        let running = config("", "");
        let found = config(
            "poll = \"2s\"",
            "[relay]\nbatch = 7\ndrain = \"1s\"\npayload_memory = \"1MiB\"\n[server]\n\
             listen = \"127.0.0.1:9\"\n[runtime]\nthreads = 3\n[destination.a]\ncomponent = \"c\"\ntopics = [\"*\"]",
        );
        let (applied, later) = applicable(found, &running);
        let expected =
            ["outbox.poll", "server.listen", "runtime.threads", "relay.drain", "relay.payload_memory"];
        assert_eq!(later, expected);
        assert_eq!((applied.file.relay.batch, applied.file.destination.len()), (7, 1));
        assert_eq!(json(&applied.file.outbox), json(&running.file.outbox));
        assert_eq!(applied.file.relay.drain, running.file.relay.drain);
        assert_eq!(applicable(applied.clone(), &applied).1, Vec::<String>::new());
    }
}
