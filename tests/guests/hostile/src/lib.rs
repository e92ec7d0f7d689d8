//! One component with every misdeed the host must survive.
//!
//! The misdeed is named by the setting `misdeed`, or else by the event's topic (`hostile.spin`).
//! Parameters come from the event's headers, or else from the settings: `until-attempt = 3` behaves
//! well from the third attempt on, whatever the misdeed; the others stand where they are read.
//! A probe of what the guest can reach is always `delivered`, with its finding as the reference.

// `table.grow` needs the assembler, which is unstable on this target; `cargo xtask guests` allows it.
#![feature(asm_experimental_arch)]

mod answers;
mod burn;
mod reach;
mod web;

mod bindings {
    wit_bindgen::generate!({
        path: [
            "../../../wit/deps/io.wit",
            "../../../wit/deps/clocks.wit",
            "../../../wit/deps/random.wit",
            "../../../wit/deps/filesystem.wit",
            "../../../wit/deps/sockets.wit",
            "../../../wit/deps/cli.wit",
            "../../../wit/deps/http.wit",
            "../../../wit/log",
            "../../../wit/secrets",
            "../../../wit/delivery",
        ],
        inline: "
            package outhaul:hostile;
            world hostile {
                include outhaul:delivery/destination@1.0.0;
                import wasi:cli/environment@0.2.12;
                import wasi:cli/exit@0.2.12;
                import wasi:clocks/monotonic-clock@0.2.12;
                import wasi:filesystem/preopens@0.2.12;
                import wasi:sockets/instance-network@0.2.12;
                import wasi:sockets/tcp-create-socket@0.2.12;
                import wasi:sockets/ip-name-lookup@0.2.12;
                import wasi:http/outgoing-handler@0.2.12;
            }
        ",
        world: "outhaul:hostile/hostile",
        generate_all,
    });
}

use std::cell::{Cell, RefCell};

use bindings::exports::outhaul::delivery::deliver::{ConfigureError, Event, Failure, Guest, Receipt};
use bindings::outhaul::delivery::types::{Disposition, SettingsProblem};
use bindings::outhaul::secrets::secrets;
use serde_json::Value;

type Delivery = Result<Receipt, Failure>;

thread_local! {
    static SETTINGS: RefCell<Value> = const { RefCell::new(Value::Null) };
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

struct Hostile;

impl Guest for Hostile {
    fn configure(settings_json: String) -> Result<(), ConfigureError> {
        let settings: Value = serde_json::from_str(&settings_json).map_err(|error| {
            ConfigureError::Settings(vec![SettingsProblem {
                pointer: String::new(),
                message: format!("not JSON: {error}"),
            }])
        })?;
        let misdeed = settings["misdeed"].as_str().unwrap_or_default().to_owned();
        SETTINGS.set(settings);
        if switched_off() {
            burn::trap();
        }
        match misdeed.as_str() {
            "spin-in-configure" => burn::spin(),
            "trap-in-configure" => burn::trap(),
            "refuse-settings" => Err(ConfigureError::Settings(vec![
                SettingsProblem { pointer: "/misdeed".into(), message: "refused on purpose".into() },
                SettingsProblem { pointer: "/also".into(), message: "a second problem".into() },
            ])),
            "fetches-in-configure" => {
                let url =
                    SETTINGS.with_borrow(|settings| settings["url"].as_str().unwrap_or_default().to_owned());
                web::reach(&url).map_err(ConfigureError::Unavailable)
            }
            "unavailable-in-configure" => Err(ConfigureError::Unavailable("not now, on purpose".into())),
            "huge-settings-problem" => Err(ConfigureError::Settings(vec![SettingsProblem {
                pointer: answers::huge_text(10_000_000),
                message: answers::huge_text(10_000_000),
            }])),
            _ => Ok(()),
        }
    }

    fn deliver(event: Event) -> Delivery {
        CALLS.set(CALLS.get() + 1);
        let call = CallContext { event };
        if call.number("until-attempt").is_some_and(|attempt| u64::from(call.event.attempt) >= attempt) {
            return delivered(None);
        }
        misbehave(&call)
    }
}

/// The secret named by the setting `switch` says `off`: new instances fail until it changes.
fn switched_off() -> bool {
    let name = SETTINGS.with_borrow(|settings| settings["switch"].as_str().map(str::to_owned));
    name.is_some_and(|name| secrets::reveal(&name).is_ok_and(|keys| keys.concat() == b"off"))
}

fn misbehave(call: &CallContext) -> Delivery {
    match call.misdeed().as_str() {
        "ok" | "fetches-in-configure" => delivered(None),
        "remember" => delivered(Some(format!("calls={}", CALLS.get()))),
        "echo" => answers::echo(&call.event),
        "duplicate" => {
            Ok(Receipt { disposition: Disposition::Duplicate, reference: None, attributes: Vec::new() })
        }
        "huge-text" => answers::huge_rejection(),
        "huge-reference" => delivered(Some(answers::huge_text(10_000_000))),
        "huge-attributes" => answers::huge_attributes(),
        "flood-log" => answers::flood_log(call.number("lines").unwrap_or(100_000)),
        "flood-stdout" => answers::flood_stdout(call.number("lines").unwrap_or(100_000)),

        "spin" => burn::spin(),
        "trap" => burn::trap(),
        "trap-every-third" if CALLS.get() % 3 == 0 => burn::trap(),
        "trap-every-third" => delivered(None),
        "trap-third-sequence" if call.event.sequence % 3 == 0 => burn::trap(),
        "trap-third-sequence" => delivered(None),
        "spin-every-third" if CALLS.get() % 3 == 0 => burn::spin(),
        "spin-every-third" => delivered(None),
        "recursion" => burn::recursion(),
        "allocate" => burn::allocate(),
        "leak" => burn::leak(call.number("bytes").unwrap_or(1 << 20)),
        "table-growth" => burn::table_growth(),
        "handles-leak" => burn::handles_leak(call.number("count").unwrap_or(u64::MAX)),
        "sleep" => burn::sleep(call.number("ms").unwrap_or(100)),
        "sleep-past-budget" => burn::sleep(call.event.budget_ms.saturating_mul(4).max(60_000)),
        "exit" => burn::exit(),

        "read-env" => reach::environment(),
        "open-file" => reach::file(&call.text("path").unwrap_or_else(|| "etc/passwd".into())),
        "connect-tcp" => reach::tcp(&call.text("address").unwrap_or_else(|| "127.0.0.1:80".into())),
        "resolve-name" => reach::name(&call.text("name").unwrap_or_else(|| "localhost".into())),
        "sign" => reach::sign(call),
        "reveal" => reach::reveal(call),

        "headers" => web::many_headers(call, call.number("count").unwrap_or(40_000)),
        "http-get" => web::get(call),
        "http-post" => web::post(call, call.number("bytes").unwrap_or(0)),
        "leave-request-open" => web::leave_open(call),

        "trap-in-configure" | "spin-in-configure" => delivered(None),
        other => answers::failure(call, other),
    }
}

fn delivered(reference: Option<String>) -> Delivery {
    Ok(Receipt { disposition: Disposition::Delivered, reference, attributes: Vec::new() })
}

/// The event, and where its parameters are looked up.
struct CallContext {
    event: Event,
}

impl CallContext {
    fn misdeed(&self) -> String {
        let chosen = SETTINGS.with_borrow(|settings| settings["misdeed"].as_str().map(str::to_owned));
        chosen.unwrap_or_else(|| {
            self.event.topic.strip_prefix("hostile.").unwrap_or(&self.event.topic).to_owned()
        })
    }

    fn text(&self, name: &str) -> Option<String> {
        let header = self.event.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        header.map(|(_, value)| value.clone()).or_else(|| {
            SETTINGS.with_borrow(|settings| match &settings[name] {
                Value::Null => None,
                Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            })
        })
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.text(name).and_then(|text| text.parse().ok())
    }

    fn flag(&self, name: &str) -> bool {
        self.text(name).is_some_and(|text| text == "true")
    }

    /// Where `http-get` and its like go: the parameter `url`, or else the payload.
    fn url(&self) -> String {
        self.text("url").unwrap_or_else(|| String::from_utf8_lossy(&self.event.payload).trim().to_owned())
    }
}

bindings::export!(Hostile with_types_in bindings);
