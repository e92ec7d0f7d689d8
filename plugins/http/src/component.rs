//! The plugin as the host sees it: contract in, contract out.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use outhaul_plugin::secrets::{self, SecretError};
use outhaul_plugin::{
    ConfigureError, Describe, Description, Destination, Event, Failure, Kind, Need, Outcome, SettingsProblem,
    http,
};
use serde_json::value::RawValue;

use crate::message::{self, Message};
use crate::settings::{self, Settings, Signing};
use crate::signing::{SignatureHeader, signed_text};

/// Of the answer's body, this much is shown to people, and it is not waited for longer than this: the
/// status has decided already.
const EXCERPT_BYTES: usize = 300;
const EXCERPT_TIME: Duration = Duration::from_millis(500);

struct Http {
    settings: Settings,
}

impl Destination for Http {
    /// Read by hand, so that every mistake is named at once.
    type Settings = Box<RawValue>;

    fn configure(json: Box<RawValue>) -> Result<Self, ConfigureError> {
        let settings = Settings::parse(json.get()).map_err(|problems| {
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
        Ok(Self { settings })
    }

    /// One attempt, from the event to the outcome.
    fn deliver(&mut self, event: Event) -> Outcome {
        let settings = &self.settings;
        let timestamp_s = now_s();
        let mut message = message::compose(settings, &(&event).into(), timestamp_s)?;
        if let Some(signing) = &settings.signing {
            sign(signing, &mut message, timestamp_s)?;
        }
        let mut request = http::Request::new(settings.method.as_str(), settings.url.to_string())
            .timeout(event.time_for_a_request(settings.timeout))
            .keep(EXCERPT_BYTES, Some(EXCERPT_TIME));
        for (name, value) in &message.headers {
            request = request.header(name.as_str(), value);
        }
        let answer = request.body(message.body).send()?;
        answer.outcome_as(
            settings.overrides.get(answer.status).unwrap_or_else(|| Kind::of_status(answer.status)),
        )
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn sign(signing: &Signing, message: &mut Message, timestamp_s: u64) -> Result<(), Failure> {
    let text = signed_text(&message.id, timestamp_s, &message.body);
    let mut header = SignatureHeader::default();
    for &algorithm in &signing.algorithms {
        let signatures = secrets::sign(&signing.secret, algorithm.as_str(), &text)
            .map_err(|error| Failure::misconfigured("signing", explain(signing, &error)))?;
        // An unsigned message would pass for one from somebody else.
        if signatures.is_empty() {
            let message = format!("the secret {:?} has no key", signing.secret);
            return Err(Failure::misconfigured("signing", message));
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
        return Err(ConfigureError::setting(pointer, message));
    }
    Ok(())
}

fn explain(signing: &Signing, error: &SecretError) -> String {
    let (SecretError::Denied(why) | SecretError::UnknownAlgorithm(why) | SecretError::Unusable(why)) = error;
    format!("signing with the secret {:?} failed: {why}", signing.secret)
}

impl Describe for Http {
    fn describe() -> Description {
        Description::new("http", env!("CARGO_PKG_VERSION"), settings::SCHEMA)
            .needs(Need::http("the origin of the setting url"))
            .needs(Need::secret("", "the key named by the setting signing.secret").optional())
    }
}

outhaul_plugin::export!(Http with describe);
