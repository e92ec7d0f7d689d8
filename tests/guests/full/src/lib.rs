//! Exports everything a plugin may. What is optional must cost a host nothing that does not use it,
//! and a host that does finds here what it calls.

mod bindings {
    wit_bindgen::generate!({
        path: ["../../../wit/log", "../../../wit/secrets", "../../../wit/delivery"],
        world: "outhaul:delivery/destination-full",
        generate_all,
    });
}

use std::cell::Cell;

use bindings::exports::outhaul::delivery::deliver::{ConfigureError, Event, Failure, Receipt};
use bindings::exports::outhaul::delivery::describe::{Description, Need};
use bindings::exports::outhaul::delivery::{batch, check, close, deliver, describe, tick};
use bindings::outhaul::delivery::types::{Detail, Disposition};
use bindings::outhaul::log::log::{Level, log};

thread_local! {
    static TICKS: Cell<u64> = const { Cell::new(0) };
}

struct Full;

impl deliver::Guest for Full {
    fn configure(_settings_json: String) -> Result<(), ConfigureError> {
        Ok(())
    }

    fn deliver(event: Event) -> Result<Receipt, Failure> {
        answer(&event, "one")
    }
}

impl batch::Guest for Full {
    fn deliver_batch(events: Vec<Event>) -> Vec<Result<Receipt, Failure>> {
        let size = events.len();
        events.iter().map(|event| answer(event, &format!("batch of {size}"))).collect()
    }
}

/// An event of a topic that ends with `.reject` is refused, so that results can be told apart.
fn answer(event: &Event, how: &str) -> Result<Receipt, Failure> {
    if event.topic.ends_with(".reject") {
        return Err(Failure::Rejected(Detail {
            code: "asked".into(),
            message: how.into(),
            maybe_applied: false,
            attributes: Vec::new(),
        }));
    }
    let reference = Some(format!("{how}, ticks={}", TICKS.get()));
    Ok(Receipt { disposition: Disposition::Delivered, reference, attributes: Vec::new() })
}

impl describe::Guest for Full {
    fn describe() -> Description {
        let need = |capability: &str, name: &str| Need {
            capability: capability.into(),
            name: name.into(),
            uses: Vec::new(),
            optional: true,
            purpose: "none, it is a test".into(),
            attributes: Vec::new(),
        };
        Description {
            name: "full".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            settings_schema: r#"{"type":"object","properties":{}}"#.into(),
            needs: vec![
                need("http", ""),
                need("secret", "signing"),
                need("net", "broker"),
                need("sql", "stock"),
            ],
            attributes: vec![("language".into(), "rust".into())],
        }
    }
}

impl check::Guest for Full {
    fn check() -> Result<(), Failure> {
        Ok(())
    }
}

impl tick::Guest for Full {
    fn tick() -> u64 {
        TICKS.set(TICKS.get() + 1);
        1_000
    }
}

impl close::Guest for Full {
    fn close() {
        log(Level::Info, "closed");
    }
}

bindings::export!(Full with_types_in bindings);
