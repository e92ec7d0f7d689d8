//! Secrets the operator granted to the destination. Signing keys never enter the plugin.

use crate::bindings::destination::outhaul::secrets::secrets;
pub use crate::bindings::destination::outhaul::secrets::secrets::{SecretError, Signature};
use crate::{ConfigureError, Failure};

/// Signs `data` with every key of the secret `name`, newest first. Algorithms: `hmac-sha256`, `ed25519`.
pub fn sign(name: &str, algorithm: &str, data: &[u8]) -> Result<Vec<Signature>, SecretError> {
    secrets::sign(name, algorithm, data)
}

/// The secret's bytes, newest key first, where the operator granted `reveal`.
pub fn reveal(name: &str) -> Result<Vec<Vec<u8>>, SecretError> {
    secrets::reveal(name)
}

impl SecretError {
    /// For `configure`: a missing grant then shows when the plugin is loaded, not when the first event
    /// comes. `pointer` is the setting that names the secret.
    pub fn in_settings(self, pointer: &str) -> ConfigureError {
        match &self {
            Self::Denied(_) | Self::UnknownAlgorithm(_) => ConfigureError::setting(pointer, sentence(&self)),
            // A key that can't be read now may be there in a moment.
            Self::Unusable(_) => ConfigureError::Unavailable(sentence(&self)),
        }
    }
}

impl From<SecretError> for Failure {
    fn from(error: SecretError) -> Self {
        Self::misconfigured("secret", sentence(&error))
    }
}

/// The host's own sentence, which names the secret and the lines to add.
fn sentence(error: &SecretError) -> String {
    let (SecretError::Denied(why) | SecretError::UnknownAlgorithm(why) | SecretError::Unusable(why)) = error;
    why.clone()
}
