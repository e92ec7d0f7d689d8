//! Connects as the event's topic says, with parameters from its headers, and delivers its finding as
//! the reference. What is refused is a finding too: nothing here traps unless it is meant to.

mod named;
mod sockets;
mod streams;

mod bindings {
    wit_bindgen::generate!({
        path: [
            "../../../wit/deps/io.wit",
            "../../../wit/deps/clocks.wit",
            "../../../wit/deps/sockets.wit",
            "../../../wit/log",
            "../../../wit/secrets",
            "../../../wit/net",
            "../../../wit/delivery",
        ],
        inline: "
            package outhaul:connections;
            world connections {
                include outhaul:delivery/destination@1.0.0;
                import outhaul:net/net@1.0.0;
                import wasi:sockets/instance-network@0.2.12;
                import wasi:sockets/tcp-create-socket@0.2.12;
                import wasi:sockets/udp-create-socket@0.2.12;
                import wasi:sockets/ip-name-lookup@0.2.12;
            }
        ",
        world: "outhaul:connections/connections",
        generate_all,
    });
}

use bindings::exports::outhaul::delivery::deliver::{ConfigureError, Event, Failure, Guest, Receipt};
use bindings::outhaul::delivery::types::Disposition;

struct Connections;

impl Guest for Connections {
    fn configure(_settings_json: String) -> Result<(), ConfigureError> {
        Ok(())
    }

    fn deliver(event: Event) -> Result<Receipt, Failure> {
        let finding = match event.topic.as_str() {
            "net.echo" => named::echo(&event),
            "net.start-tls" => named::start_tls(&event),
            "net.keep" => named::keep(&event),
            "net.many" => named::many(&event),
            "net.read" => named::read(&event),
            "net.last-word" => named::last_word(&event),
            "net.flood" => named::flood(&event),
            "net.overwrite" => named::overwrite(&event),
            "sockets.echo" => sockets::echo(&event),
            "sockets.resolve" => sockets::resolve(&event),
            "sockets.listen" => sockets::listen(),
            "sockets.udp" => sockets::udp(),
            other => Err(format!("no such topic: {other}")),
        };
        let reference = Some(finding.unwrap_or_else(|refused| refused));
        Ok(Receipt { disposition: Disposition::Delivered, reference, attributes: Vec::new() })
    }
}

fn header<'a>(event: &'a Event, name: &str) -> Option<&'a str> {
    event.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

bindings::export!(Connections with_types_in bindings);
