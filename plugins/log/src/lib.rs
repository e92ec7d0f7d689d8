//! The smallest useful plugin: it writes each event to the host's log. It uses the contract's bindings as
//! they are; `outhaul plugin new` begins with the SDK.

mod bindings {
    wit_bindgen::generate!({
        path: ["../../wit/log", "../../wit/secrets", "../../wit/delivery"],
        inline: "
            package outhaul:log-plugin;
            world log-plugin {
                include outhaul:delivery/destination@1.0.0;
                export outhaul:delivery/describe@1.0.0;
            }
        ",
        world: "outhaul:log-plugin/log-plugin",
        generate_all,
    });
}

use std::cell::RefCell;

use bindings::exports::outhaul::delivery::deliver::{ConfigureError, Event, Failure, Guest, Receipt};
use bindings::exports::outhaul::delivery::describe::{Description, Guest as Describe};
use bindings::outhaul::delivery::types::{Disposition, SettingsProblem};
use bindings::outhaul::log::log::{Level, log};
use serde::Deserialize;

/// The destination's `settings` table. `deny_unknown_fields` makes a misspelled setting an error
/// that names it, not a setting without effect.
#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    /// Write the payload too; it may hold what a log should not.
    payload: bool,
}

thread_local! {
    /// An instance is configured once and takes one call at a time.
    static SETTINGS: RefCell<Settings> = RefCell::default();
}

struct Log;

impl Guest for Log {
    fn configure(settings_json: String) -> Result<(), ConfigureError> {
        // In two steps: what is wrong with a value is told without its line and column, which mean
        // nothing to whoever wrote the settings as TOML.
        let value = serde_json::from_str::<serde_json::Value>(&settings_json);
        let settings = value.and_then(serde_json::from_value).map_err(|error| {
            let problem = SettingsProblem { pointer: String::new(), message: error.to_string() };
            ConfigureError::Settings(vec![problem])
        })?;
        SETTINGS.set(settings);
        Ok(())
    }

    fn deliver(event: Event) -> Result<Receipt, Failure> {
        let mut line = format!(
            "event {} of topic {}: attempt {}, {} bytes of {}",
            event.dedup_id,
            event.topic,
            event.attempt,
            event.payload.len(),
            event.content_type,
        );
        if SETTINGS.with_borrow(|settings| settings.payload) {
            line += &format!(": {}", String::from_utf8_lossy(&event.payload));
        }
        log(Level::Info, &line);
        Ok(Receipt { disposition: Disposition::Delivered, reference: None, attributes: Vec::new() })
    }
}

/// What `outhaul plugin inspect` shows and `outhaul check` compares with the config.
impl Describe for Log {
    fn describe() -> Description {
        Description {
            name: "log".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            settings_schema: include_str!("../settings.schema.json").to_owned(),
            // The log is every plugin's.
            needs: Vec::new(),
            attributes: Vec::new(),
        }
    }
}

bindings::export!(Log with_types_in bindings);
