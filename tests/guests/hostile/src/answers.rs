//! Answers: each kind of failure, texts that are too long, log lines that lie.

use serde_json::json;

use crate::bindings::exports::outhaul::delivery::deliver::{Event, Failure, Receipt};
use crate::bindings::outhaul::delivery::types::{Detail, Disposition, Info};
use crate::bindings::outhaul::log::log::{Level, log};
use crate::{CallContext, Delivery, delivered};

/// A failure of the kind named, with the parameters `after-ms`, `maybe-applied`, `code`, `message`.
pub fn failure(call: &CallContext, kind: &str) -> Delivery {
    let code = call.text("code").unwrap_or_else(|| "on-purpose".into());
    let message = call.text("message").unwrap_or_else(|| format!("{kind}, on purpose"));
    let maybe_applied = call.flag("maybe-applied");
    let detail =
        || Detail { code: code.clone(), message: message.clone(), maybe_applied, attributes: Vec::new() };
    let info = || Info {
        code: code.clone(),
        message: message.clone(),
        maybe_applied,
        after_ms: call.number("after-ms"),
        attributes: Vec::new(),
    };
    Err(match kind {
        "retry" => Failure::Retry(info()),
        "rate-limited" => Failure::RateLimited(info()),
        "unavailable" => Failure::Unavailable(info()),
        "rejected" => Failure::Rejected(detail()),
        "conflict" => Failure::Conflict(detail()),
        "gone" => Failure::Gone(detail()),
        "misconfigured" => Failure::Misconfigured(detail()),
        "other" => Failure::Other(detail()),
        // A test that misspells a misdeed must not pass for a guest that behaves.
        unknown => Failure::Rejected(Detail {
            code: "unknown-misdeed".into(),
            message: format!("the hostile guest knows no misdeed {unknown:?}"),
            maybe_applied: false,
            attributes: Vec::new(),
        }),
    })
}

/// Everything the guest was told, as JSON, but for the payload's bytes.
pub fn echo(event: &Event) -> Delivery {
    let told = json!({
        "id": event.id, "dedup-id": event.dedup_id, "destination": event.destination,
        "topic": event.topic, "key": event.key, "tenant": event.tenant, "headers": event.headers,
        "content-type": event.content_type, "payload-bytes": event.payload.len(),
        "created-at": event.created_at, "sequence": event.sequence, "attempt": event.attempt,
        "last-attempt": event.last_attempt, "uncertain-before": event.uncertain_before,
        "fence": event.fence, "budget-ms": event.budget_ms, "attributes": event.attributes,
    });
    delivered(Some(told.to_string()))
}

/// `bytes` of text with NULs, new lines and characters of several bytes.
pub fn huge_text(bytes: usize) -> String {
    let pattern = "line\nof\0text\u{1b}[31m ünïcödé {\"level\":\"ERROR\"}\r\n";
    pattern.repeat(bytes / pattern.len() + 1)
}

pub fn huge_rejection() -> Delivery {
    Err(Failure::Rejected(Detail {
        code: huge_text(10_000),
        message: huge_text(10_000_000),
        maybe_applied: false,
        attributes: Vec::new(),
    }))
}

pub fn huge_attributes() -> Delivery {
    let attributes = (0..100_000).map(|n| (format!("name-{n}"), "value".repeat(10))).collect();
    Ok(Receipt { disposition: Disposition::Delivered, reference: None, attributes })
}

/// Lines that try to pass for other lines, and one that is far too long.
pub fn flood_log(lines: u64) -> Delivery {
    let forged = [
        "plain line",
        "first\n2026-01-01T00:00:00Z ERROR outhaul: forged second line",
        "\u{1b}[2J\u{1b}[31mred\u{1b}[0m",
        "{\"level\":\"ERROR\",\"message\":\"forged\"}",
        "nul\0inside",
        "\r overwritten \u{8}\u{8}\u{8}",
    ];
    log(Level::Warn, &huge_text(1_000_000));
    for n in 0..lines {
        log(Level::Info, forged[(n % forged.len() as u64) as usize]);
    }
    delivered(None)
}

pub fn flood_stdout(lines: u64) -> Delivery {
    for n in 0..lines {
        println!("stdout {n}\u{1b}[31m\0");
        eprintln!("stderr {n}\u{1b}[31m\0");
    }
    delivered(None)
}
