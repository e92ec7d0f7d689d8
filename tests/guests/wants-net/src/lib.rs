//! Imports `outhaul:net`, so that a host that does not grant it must say so when it loads this.

mod bindings {
    wit_bindgen::generate!({
        path: [
            "../../../wit/deps/io.wit",
            "../../../wit/log",
            "../../../wit/secrets",
            "../../../wit/net",
            "../../../wit/delivery",
        ],
        inline: "
            package outhaul:wants-net;
            world plugin {
                include outhaul:delivery/destination@1.0.0;
                import outhaul:net/net@1.0.0;
            }
        ",
        world: "outhaul:wants-net/plugin",
        generate_all,
    });
}

use bindings::exports::outhaul::delivery::deliver::{ConfigureError, Event, Failure, Guest, Receipt};
use bindings::outhaul::delivery::types::Disposition;
use bindings::outhaul::net::net;

struct Wants;

impl Guest for Wants {
    fn configure(_settings_json: String) -> Result<(), ConfigureError> {
        Ok(())
    }

    fn deliver(_event: Event) -> Result<Receipt, Failure> {
        let reference = Some(match net::connect("broker", None) {
            Ok(_) => "connected".to_owned(),
            Err(error) => format!("{error:?}"),
        });
        Ok(Receipt { disposition: Disposition::Delivered, reference, attributes: Vec::new() })
    }
}

bindings::export!(Wants with_types_in bindings);
