//! What came of an attempt: the plugin's own result, or the host's word for why there is none.

use std::time::Duration;

/// A plugin's explanation of a failure, already cut to the limits of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    pub code: String,
    pub message: String,
    /// The effect may have happened at the destination although the attempt failed.
    pub maybe_applied: bool,
}

impl Detail {
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), maybe_applied: false }
    }
}

/// A plugin's proof of delivery, kept with the delivery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receipt {
    pub reference: Option<String>,
}

/// The closed set of what can come of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Delivered(Receipt),
    Duplicate(Receipt),
    Retry {
        detail: Detail,
        after: Option<Duration>,
    },
    RateLimited {
        detail: Detail,
        after: Option<Duration>,
    },
    Unavailable {
        detail: Detail,
        after: Option<Duration>,
    },
    Rejected(Detail),
    Conflict(Detail),
    Gone(Detail),
    Misconfigured(Detail),
    /// The contract's escape hatch, treated as a retry.
    Other(Detail),
    Host(HostFailure, Detail),
}

/// Why the host has no result from the plugin. Never mistaken for the plugin's own `rejected`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostFailure {
    Trap,
    OutOfMemory,
    /// The call ran past its budget, in the guest or waiting for the host.
    Deadline,
    /// Trust in the lease ended while the call ran, and the call was dropped.
    LostLease,
    /// The host shut down before the call ended, and dropped it.
    Interrupted,
    BadOutput,
    /// A batch returned a list of another length than it was given.
    WrongBatchLength,
    /// The event is larger than the destination's limit; it is never truncated.
    PayloadTooLarge,
    /// The database has no payload for the event, or can't hand it over although it answers.
    PayloadUnreadable,
    /// The component could not be loaded or instantiated.
    Load,
    /// `configure` refused the settings.
    Configure,
}

impl HostFailure {
    /// Whether the guest ran far enough that its effect may have happened.
    pub fn is_uncertain(self) -> bool {
        match self {
            Self::Trap
            | Self::OutOfMemory
            | Self::Deadline
            | Self::LostLease
            | Self::Interrupted
            | Self::BadOutput
            | Self::WrongBatchLength => true,
            Self::PayloadTooLarge | Self::PayloadUnreadable | Self::Load | Self::Configure => false,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trap => "trap",
            Self::OutOfMemory => "out-of-memory",
            Self::Deadline => "deadline",
            Self::LostLease => "lost-lease",
            Self::Interrupted => "interrupted",
            Self::BadOutput => "bad-output",
            Self::WrongBatchLength => "wrong-batch-length",
            Self::PayloadTooLarge => "payload-too-large",
            Self::PayloadUnreadable => "payload-unreadable",
            Self::Load => "load-failed",
            Self::Configure => "configure-failed",
        }
    }
}

impl Outcome {
    /// The word for it in history rows, metrics and messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Delivered(_) => "delivered",
            Self::Duplicate(_) => "duplicate",
            Self::Retry { .. } => "retry",
            Self::RateLimited { .. } => "rate-limited",
            Self::Unavailable { .. } => "unavailable",
            Self::Rejected(_) => "rejected",
            Self::Conflict(_) => "conflict",
            Self::Gone(_) => "gone",
            Self::Misconfigured(_) => "misconfigured",
            Self::Other(_) => "other",
            Self::Host(failure, _) => failure.as_str(),
        }
    }

    /// The explanation of a failure; none for a success.
    pub fn detail(&self) -> Option<&Detail> {
        match self {
            Self::Delivered(_) | Self::Duplicate(_) => None,
            Self::Retry { detail, .. }
            | Self::RateLimited { detail, .. }
            | Self::Unavailable { detail, .. } => Some(detail),
            Self::Rejected(detail)
            | Self::Conflict(detail)
            | Self::Gone(detail)
            | Self::Misconfigured(detail)
            | Self::Other(detail)
            | Self::Host(_, detail) => Some(detail),
        }
    }

    pub fn detail_mut(&mut self) -> Option<&mut Detail> {
        match self {
            Self::Delivered(_) | Self::Duplicate(_) => None,
            Self::Retry { detail, .. }
            | Self::RateLimited { detail, .. }
            | Self::Unavailable { detail, .. } => Some(detail),
            Self::Rejected(detail)
            | Self::Conflict(detail)
            | Self::Gone(detail)
            | Self::Misconfigured(detail)
            | Self::Other(detail)
            | Self::Host(_, detail) => Some(detail),
        }
    }

    /// Whether the effect may have happened although the attempt did not succeed.
    pub fn is_uncertain(&self) -> bool {
        match self {
            Self::Host(failure, detail) => failure.is_uncertain() || detail.maybe_applied,
            _ => self.detail().is_some_and(|detail| detail.maybe_applied),
        }
    }

    pub fn is_success(&self) -> bool {
        matches!(self, Self::Delivered(_) | Self::Duplicate(_))
    }
}
