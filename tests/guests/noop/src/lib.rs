//! Reports every event as delivered at once, so that what remains is the host's own cost.

mod bindings {
    wit_bindgen::generate!({
        path: ["../../../wit/log", "../../../wit/secrets", "../../../wit/delivery"],
        world: "outhaul:delivery/destination",
        generate_all,
    });
}

use bindings::exports::outhaul::delivery::deliver::{ConfigureError, Event, Failure, Guest, Receipt};
use bindings::outhaul::delivery::types::Disposition;

struct Noop;

impl Guest for Noop {
    fn configure(_settings_json: String) -> Result<(), ConfigureError> {
        Ok(())
    }

    fn deliver(_event: Event) -> Result<Receipt, Failure> {
        Ok(Receipt { disposition: Disposition::Delivered, reference: None, attributes: Vec::new() })
    }
}

bindings::export!(Noop with_types_in bindings);
