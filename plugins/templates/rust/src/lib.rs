//! my-plugin: an Outhaul destination.

mod bindings {
    wit_bindgen::generate!({ path: "wit", world: "plugin", generate_all });
}

use std::cell::RefCell;

use bindings::exports::outhaul::delivery::deliver::{ConfigureError, Event, Failure, Guest, Receipt};
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

struct MyPlugin;

impl Guest for MyPlugin {
    fn configure(settings_json: String) -> Result<(), ConfigureError> {
        let settings = serde_json::from_str(&settings_json).map_err(|error| {
            let problem = SettingsProblem { pointer: String::new(), message: error.to_string() };
            ConfigureError::Settings(vec![problem])
        })?;
        SETTINGS.set(settings);
        Ok(())
    }

    fn deliver(event: Event) -> Result<Receipt, Failure> {
        let mut line = format!("event {} of topic {}", event.dedup_id, event.topic);
        if SETTINGS.with_borrow(|settings| settings.payload) {
            line += &format!(": {}", String::from_utf8_lossy(&event.payload));
        }
        log(Level::Info, &line);
        Ok(Receipt { disposition: Disposition::Delivered, reference: None, attributes: Vec::new() })
    }
}

bindings::export!(MyPlugin with_types_in bindings);
