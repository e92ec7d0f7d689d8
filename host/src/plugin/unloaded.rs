//! Stands in for a plugin that could not be loaded, so that its lane shows why while others run.

use async_trait::async_trait;

use super::{Call, Deliver, LoadError};
use crate::domain::{Detail, HostFailure, Outcome};

pub struct Unloaded {
    why: String,
}

impl Unloaded {
    pub fn new(error: &LoadError) -> Self {
        Self::because(error.problem.to_string())
    }

    pub fn because(why: String) -> Self {
        Self { why }
    }
}

#[async_trait]
impl Deliver for Unloaded {
    async fn deliver(&self, _call: Call) -> Outcome {
        Outcome::Host(HostFailure::Load, Detail::new(HostFailure::Load.as_str(), self.why.clone()))
    }

    fn component_digest(&self) -> &str {
        ""
    }

    fn unready(&self) -> Option<String> {
        Some(self.why.clone())
    }
}
