//! Every misdeed in what a plugin may export besides `deliver`.
//!
//! The misdeed is named by the setting `misdeed`. `describe` runs before there are settings: its
//! misdeed stands in the component's own data, where a test writes another over it.

mod bindings {
    wit_bindgen::generate!({
        path: ["../../../wit/log", "../../../wit/secrets", "../../../wit/delivery"],
        world: "outhaul:delivery/destination-full",
        generate_all,
    });
}

use std::cell::{Cell, RefCell};
use std::time::Duration;

use bindings::exports::outhaul::delivery::deliver::{ConfigureError, Event, Failure, Receipt};
use bindings::exports::outhaul::delivery::describe::{Description, Need};
use bindings::exports::outhaul::delivery::{batch, check, close, deliver, describe, tick};
use bindings::outhaul::delivery::types::{Detail, Disposition, Info};
use bindings::outhaul::log::log::{Level, log};
use serde_json::Value;

/// Overwritten by tests, always with as many bytes.
static DESCRIBE_MISDEED: &[u8; 32] = b"describe-misdeed=none...........";

thread_local! {
    static SETTINGS: RefCell<Value> = const { RefCell::new(Value::Null) };
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static TICKS: Cell<u64> = const { Cell::new(0) };
    static IS_CONFIGURED: Cell<bool> = const { Cell::new(false) };
}

type Delivery = Result<Receipt, Failure>;

struct Hostile;

fn misdeed() -> String {
    SETTINGS.with_borrow(|settings| settings["misdeed"].as_str().unwrap_or_default().to_owned())
}

fn spin() -> ! {
    let mut n = 0_u64;
    loop {
        n = std::hint::black_box(n.wrapping_add(1));
    }
}

fn hang() {
    std::thread::sleep(Duration::from_secs(3600));
}

impl deliver::Guest for Hostile {
    fn configure(settings_json: String) -> Result<(), ConfigureError> {
        SETTINGS.set(serde_json::from_str(&settings_json).unwrap_or_default());
        IS_CONFIGURED.set(true);
        Ok(())
    }

    fn deliver(event: Event) -> Delivery {
        CALLS.set(CALLS.get() + 1);
        answer(&event, "one")
    }
}

impl batch::Guest for Hostile {
    fn deliver_batch(events: Vec<Event>) -> Vec<Delivery> {
        CALLS.set(CALLS.get() + 1);
        let size = events.len();
        let mut answers: Vec<Delivery> = Vec::new();
        for event in &events {
            match misdeed().as_str() {
                "batch-traps-on-the-third" if answers.len() == 2 => panic!("the third event of a batch"),
                "batch-sleeps" => hang(),
                "batch-spins" => spin(),
                _ => answers.push(answer(event, &format!("batch of {size}"))),
            }
        }
        match misdeed().as_str() {
            "batch-answers-one-less" => drop(answers.pop()),
            "batch-answers-one-more" => answers.push(delivered("more".into())),
            "batch-answers-nothing" => answers.clear(),
            "batch-answers-huge" => answers = vec![delivered("x".repeat(10_000_000)); size],
            _ => {}
        }
        answers
    }
}

/// What comes of an event is named by the last word of its topic.
fn answer(event: &Event, how: &str) -> Delivery {
    let info = || Info {
        code: "asked".into(),
        message: how.into(),
        maybe_applied: false,
        after_ms: None,
        attributes: Vec::new(),
    };
    let detail =
        || Detail { code: "asked".into(), message: how.into(), maybe_applied: false, attributes: Vec::new() };
    match event.topic.rsplit('.').next().unwrap_or_default() {
        "retry" => Err(Failure::Retry(info())),
        "reject" => Err(Failure::Rejected(detail())),
        "unavailable" => Err(Failure::Unavailable(info())),
        "trap" => panic!("asked to"),
        "spin" => spin(),
        _ => {
            let (calls, ticks) = (CALLS.get(), TICKS.get());
            delivered(format!("{how}, calls={calls} ticks={ticks} payload={}", event.payload.len()))
        }
    }
}

fn delivered(reference: String) -> Delivery {
    Ok(Receipt { disposition: Disposition::Delivered, reference: Some(reference), attributes: Vec::new() })
}

impl describe::Guest for Hostile {
    fn describe() -> Description {
        // Read at run time: the compiler must not take the bytes for what they are here.
        let misdeed = unsafe { std::ptr::read_volatile(&raw const DESCRIBE_MISDEED) };
        let misdeed = String::from_utf8_lossy(std::hint::black_box(misdeed)).into_owned();
        let misdeed = misdeed.trim_start_matches("describe-misdeed=").trim_end_matches('.');
        let huge = || "x".repeat(10_000_000);
        let mut said = Description {
            name: "hostile-exports".into(),
            version: "0.1.0".into(),
            settings_schema: String::new(),
            needs: Vec::new(),
            attributes: vec![("configured".into(), IS_CONFIGURED.get().to_string())],
        };
        match misdeed {
            "traps" => panic!("it will not say"),
            "spins" => spin(),
            "hangs" => hang(),
            "hugename" => said.name = huge(),
            "hugeschema" => said.settings_schema = format!("{{\"x\":\"{}\"}}", huge()),
            "manyneeds" => {
                let need = Need {
                    capability: "http".into(),
                    name: String::new(),
                    uses: Vec::new(),
                    optional: false,
                    purpose: String::new(),
                    attributes: Vec::new(),
                };
                said.needs = vec![need; 1_000];
            }
            "notaschema" => said.settings_schema = "not JSON".into(),
            _ => {}
        }
        said
    }
}

impl check::Guest for Hostile {
    fn check() -> Result<(), Failure> {
        match misdeed().as_str() {
            "check-hangs" => hang(),
            "check-spins" => spin(),
            "check-traps" => panic!("it will not check"),
            "check-fails" => {
                return Err(Failure::Unavailable(Info {
                    code: "refused".into(),
                    message: "nothing listens there".into(),
                    maybe_applied: false,
                    after_ms: None,
                    attributes: Vec::new(),
                }));
            }
            _ => log(Level::Info, "checked"),
        }
        Ok(())
    }
}

impl tick::Guest for Hostile {
    fn tick() -> u64 {
        TICKS.set(TICKS.get() + 1);
        match misdeed().as_str() {
            "tick-spins" => spin(),
            "tick-hangs" => hang(),
            "tick-traps" => panic!("it will not tick"),
            "tick-asks-for-ever" => return u64::MAX,
            _ => {}
        }
        0
    }
}

impl close::Guest for Hostile {
    fn close() {
        log(Level::Info, "closed");
        match misdeed().as_str() {
            "close-hangs" => hang(),
            "close-spins" => spin(),
            "close-traps" => panic!("it will not close"),
            _ => {}
        }
    }
}

bindings::export!(Hostile with_types_in bindings);
