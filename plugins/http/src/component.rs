//! The plugin as the host sees it: contract in, contract out.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub mod bindings {
    wit_bindgen::generate!({
        path: [
            "../../wit/deps/io.wit",
            "../../wit/deps/clocks.wit",
            "../../wit/deps/random.wit",
            "../../wit/deps/filesystem.wit",
            "../../wit/deps/sockets.wit",
            "../../wit/deps/cli.wit",
            "../../wit/deps/http.wit",
            "../../wit/log",
            "../../wit/secrets",
            "../../wit/delivery",
        ],
        inline: "
            package outhaul:http-plugin;
            world plugin {
                include outhaul:delivery/destination@0.1.0;
                import wasi:clocks/monotonic-clock@0.2.12;
                import wasi:http/outgoing-handler@0.2.12;
                export outhaul:delivery/describe@0.1.0;
            }
        ",
        world: "outhaul:http-plugin/plugin",
        generate_all,
    });
}

use bindings::exports::outhaul::delivery::deliver::{self, ConfigureError, Failure, Receipt};
use bindings::exports::outhaul::delivery::describe::{self, Description, Need};
use bindings::outhaul::delivery::types::{Detail, Disposition, Info, SettingsProblem};
use bindings::outhaul::secrets::secrets::{self, SecretError};

use crate::message::{self, Event, Message};
use crate::settings::{self, Settings, Signing};
use crate::signing::{SignatureHeader, signed_text};
use crate::transport;
use crate::verdict::{self, Kind, Verdict};

thread_local! {
    /// An instance is configured once and takes one call at a time.
    static SETTINGS: RefCell<Option<Rc<Settings>>> = const { RefCell::new(None) };
}

struct Http;

impl deliver::Guest for Http {
    fn configure(settings_json: String) -> Result<(), ConfigureError> {
        let settings = Settings::parse(&settings_json).map_err(|problems| {
            let problems = problems.into_iter();
            ConfigureError::Settings(
                problems
                    .map(|problem| SettingsProblem { pointer: problem.pointer, message: problem.message })
                    .collect(),
            )
        })?;
        if let Some(signing) = &settings.signing {
            try_signing(signing)?;
        }
        SETTINGS.set(Some(Rc::new(settings)));
        Ok(())
    }

    fn deliver(event: deliver::Event) -> Result<Receipt, Failure> {
        let settings = SETTINGS.with_borrow(|settings| settings.clone());
        let settings = settings.expect("the host configures an instance before it delivers");
        report(attempt(&settings, &event).unwrap_or_else(|verdict| verdict))
    }
}

/// One attempt, from the event to the verdict.
fn attempt(settings: &Settings, event: &deliver::Event) -> Result<Verdict, Verdict> {
    let timeout = verdict::request_timeout(settings.timeout, Duration::from_millis(event.budget_ms));
    let timestamp_s = now_s();
    let event = Event {
        dedup_id: &event.dedup_id,
        topic: &event.topic,
        key: event.key.as_deref(),
        tenant: &event.tenant,
        headers: &event.headers,
        content_type: &event.content_type,
        payload: &event.payload,
        created_at_us: event.created_at,
    };
    let mut message = message::compose(settings, &event, timestamp_s)?;
    if let Some(signing) = &settings.signing {
        sign(signing, &mut message, timestamp_s)?;
    }
    let answer = transport::send(settings, &message, timeout)?;
    Ok(verdict::of_answer(&answer, &settings.overrides, now_s()))
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn sign(signing: &Signing, message: &mut Message, timestamp_s: u64) -> Result<(), Verdict> {
    let text = signed_text(&message.id, timestamp_s, &message.body);
    let mut header = SignatureHeader::default();
    for &algorithm in &signing.algorithms {
        let signatures = secrets::sign(&signing.secret, algorithm.as_str(), &text)
            .map_err(|error| Verdict::new(Kind::Misconfigured, "signing", explain(signing, &error)))?;
        // An unsigned message would pass for one from somebody else.
        if signatures.is_empty() {
            let message = format!("the secret {:?} has no key", signing.secret);
            return Err(Verdict::new(Kind::Misconfigured, "signing", message));
        }
        for signature in signatures {
            header.add(algorithm, &signature.bytes);
        }
    }
    message.add_signature(header);
    Ok(())
}

/// A missing grant shows when the plugin is loaded, not when the first event comes.
fn try_signing(signing: &Signing) -> Result<(), ConfigureError> {
    for (index, algorithm) in signing.algorithms.iter().enumerate() {
        let Err(error) = secrets::sign(&signing.secret, algorithm.as_str(), b"") else {
            continue;
        };
        let message = explain(signing, &error);
        let pointer = match &error {
            SecretError::Denied(_) => "/signing/secret".to_owned(),
            SecretError::UnknownAlgorithm(_) => format!("/signing/algorithms/{index}"),
            // A key that can't be read now may be there in a moment.
            SecretError::Unusable(_) => return Err(ConfigureError::Unavailable(message)),
        };
        return Err(ConfigureError::Settings(vec![SettingsProblem { pointer, message }]));
    }
    Ok(())
}

fn explain(signing: &Signing, error: &SecretError) -> String {
    let (SecretError::Denied(why) | SecretError::UnknownAlgorithm(why) | SecretError::Unusable(why)) = error;
    format!("signing with the secret {:?} failed: {why}", signing.secret)
}

/// The verdict in the contract's types.
fn report(verdict: Verdict) -> Result<Receipt, Failure> {
    let Verdict { kind, code, message, maybe_applied, after_ms, reference } = verdict;
    let receipt = |disposition| Receipt {
        disposition,
        reference,
        attributes: vec![("status".to_owned(), code.trim_start_matches("http-").to_owned())],
    };
    let attributes = Vec::new();
    let failure = match kind {
        Kind::Delivered => return Ok(receipt(Disposition::Delivered)),
        Kind::Duplicate => return Ok(receipt(Disposition::Duplicate)),
        Kind::Retry => Failure::Retry(Info { code, message, maybe_applied, after_ms, attributes }),
        Kind::RateLimited => {
            Failure::RateLimited(Info { code, message, maybe_applied, after_ms, attributes })
        }
        Kind::Unavailable => {
            Failure::Unavailable(Info { code, message, maybe_applied, after_ms, attributes })
        }
        Kind::Rejected => Failure::Rejected(Detail { code, message, maybe_applied, attributes }),
        Kind::Conflict => Failure::Conflict(Detail { code, message, maybe_applied, attributes }),
        Kind::Gone => Failure::Gone(Detail { code, message, maybe_applied, attributes }),
        Kind::Misconfigured => Failure::Misconfigured(Detail { code, message, maybe_applied, attributes }),
    };
    Err(failure)
}

impl describe::Guest for Http {
    fn describe() -> Description {
        let need = |capability: &str, optional, purpose: &str| Need {
            capability: capability.to_owned(),
            name: String::new(),
            optional,
            purpose: purpose.to_owned(),
        };
        Description {
            name: "http".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            settings_schema: settings::SCHEMA.to_owned(),
            needs: vec![
                need("http", false, "the origin of the setting url"),
                need("secret", true, "the key named by the setting signing.secret"),
            ],
            attributes: Vec::new(),
        }
    }
}

bindings::export!(Http with_types_in bindings);
