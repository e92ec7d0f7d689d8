//! Receipts, and what a plugin says of itself.

use std::time::Duration;

use crate::{Description, Disposition, Event, Need, Receipt, http};

impl Receipt {
    /// The destination has it now.
    pub fn delivered() -> Self {
        Self { disposition: Disposition::Delivered, reference: None, attributes: Vec::new() }
    }

    /// The destination had it before, with the same content.
    pub fn duplicate() -> Self {
        Self { disposition: Disposition::Duplicate, ..Self::delivered() }
    }

    /// The destination's own name for what it stored.
    pub fn with_reference(self, reference: impl Into<String>) -> Self {
        Self { reference: Some(reference.into()), ..self }
    }

    pub fn with_attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.push((name.into(), value.into()));
        self
    }
}

impl Event {
    /// How long one request may take: `setting` where there is one, but never so long that the host
    /// would end the call first, for then nobody could say what happened.
    pub fn time_for_a_request(&self, setting: Option<Duration>) -> Duration {
        http::request_timeout(setting, Duration::from_millis(self.budget_ms))
    }
}

impl Description {
    /// `settings_schema` is a JSON Schema, such as `include_str!("../settings.schema.json")`.
    pub fn new(
        name: impl Into<String>,
        version: impl Into<String>,
        settings_schema: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            settings_schema: settings_schema.into(),
            needs: Vec::new(),
            attributes: Vec::new(),
        }
    }

    pub fn needs(mut self, need: Need) -> Self {
        self.needs.push(need);
        self
    }
}

impl Need {
    /// Requests to an origin that the settings name.
    pub fn http(purpose: impl Into<String>) -> Self {
        Self::new("http", "", purpose)
    }

    /// Connections to an endpoint; `name` is empty where the settings say which.
    pub fn net(name: impl Into<String>, purpose: impl Into<String>) -> Self {
        Self::new("net", name, purpose)
    }

    /// A secret; `name` is empty where the settings say which.
    pub fn secret(name: impl Into<String>, purpose: impl Into<String>) -> Self {
        Self::new("secret", name, purpose)
    }

    pub fn new(capability: impl Into<String>, name: impl Into<String>, purpose: impl Into<String>) -> Self {
        Self {
            capability: capability.into(),
            name: name.into(),
            uses: Vec::new(),
            optional: false,
            purpose: purpose.into(),
            attributes: Vec::new(),
        }
    }

    /// What a secret must be granted for: an algorithm it signs by, or `reveal`.
    pub fn uses(mut self, what: impl Into<String>) -> Self {
        self.uses.push(what.into());
        self
    }

    /// The plugin works without it.
    pub fn optional(self) -> Self {
        Self { optional: true, ..self }
    }
}
