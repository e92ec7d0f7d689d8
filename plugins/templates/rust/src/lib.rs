//! my-plugin: an Outhaul destination that posts each event to a URL.

use outhaul_plugin::{
    ConfigureError, Describe, Description, Destination, Event, Kind, Need, Outcome, http, log, secrets,
};
use serde::Deserialize;

/// The destination's `settings` table in the host's config. `deny_unknown_fields` makes a misspelled
/// setting an error that names it, not a setting without effect. `settings.schema.json` says the same to
/// editors and to `outhaul plugin check`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    /// Where events are posted.
    url: String,
    /// The secret that signs each payload, if the receiver checks signatures.
    signing_secret: Option<String>,
}

struct Plugin {
    settings: Settings,
}

impl Destination for Plugin {
    type Settings = Settings;

    /// Once for each instance. Look at the settings here, and have no effect at the destination.
    fn configure(settings: Settings) -> Result<Self, ConfigureError> {
        if !settings.url.starts_with("http://") && !settings.url.starts_with("https://") {
            return Err(ConfigureError::setting("/url", "it begins with http:// or https://"));
        }
        if let Some(secret) = &settings.signing_secret {
            // A secret that is not granted shows now, not at the first event.
            secrets::sign(secret, "hmac-sha256", b"").map_err(|error| error.in_settings("/signing_secret"))?;
        }
        Ok(Self { settings })
    }

    /// Once for each event, one at a time. What is returned decides what happens to the delivery:
    /// `outhaul_plugin::Failure` has a constructor for each kind.
    fn deliver(&mut self, event: Event) -> Outcome {
        let mut request = http::Request::post(&self.settings.url)
            .header("content-type", &event.content_type)
            // The same on every attempt: how the receiver knows a repetition.
            .header("idempotency-key", &event.dedup_id)
            // Ends before the host would end the call, so that the outcome is ours to say.
            .timeout(event.time_for_a_request(None));
        if let Some(secret) = &self.settings.signing_secret {
            // One signature for each key, newest first, so that keys can be rotated.
            for signature in secrets::sign(secret, "hmac-sha256", &event.payload)? {
                request = request.header("x-signature", hex(&signature.bytes));
            }
        }
        // Without an answer, `?` returns the failure that fits: unavailable where nothing left, a retry
        // that may have been applied where it may have arrived.
        let answer = request.body(event.payload).send()?;
        log::debug(format!("attempt {} of {} drew {}", event.attempt, event.dedup_id, answer.status));
        answer.outcome_as(match answer.status {
            // This receiver has the ID with other content.
            409 => Kind::Conflict,
            status => Kind::of_status(status),
        })
    }
}

impl Describe for Plugin {
    fn describe() -> Description {
        Description::new("my-plugin", env!("CARGO_PKG_VERSION"), include_str!("../settings.schema.json"))
            .needs(Need::http("the origin of the setting url"))
            .needs(Need::secret("", "the key named by the setting signing_secret").optional())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

// Implement `Batch`, `Check`, `Tick` or `Close` too, and name it after `with`.
outhaul_plugin::export!(Plugin with describe);
