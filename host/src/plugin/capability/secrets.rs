//! `outhaul:secrets`: signatures by keys that never enter the guest, and the references to secrets
//! that config holds.

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use ed25519_dalek::{Signer, SigningKey};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::denials::{Denials, Denied};
use crate::plugin::bindings::secrets::{self, SecretError, Signature};
use crate::plugin::spec::{SecretGrant, SecretSource};
use crate::plugin::state::GuestState;

const HMAC_SHA256: &str = "hmac-sha256";
const ED25519: &str = "ed25519";
const REVEAL: &str = "reveal";
const ALGORITHMS: [&str; 2] = [HMAC_SHA256, ED25519];
/// Prefixes of Standard Webhooks' keys: what follows is base64.
const BASE64_PREFIXES: [&[u8]; 2] = [b"whsec_", b"whsk_"];

/// A secret's bytes. Shows nothing of itself.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretBytes(Vec<u8>);

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretBytes(…)")
    }
}

impl SecretBytes {
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The key itself: decoded where a prefix says so, else as it is.
    fn key(&self) -> Result<Vec<u8>, String> {
        let Some(encoded) = BASE64_PREFIXES.iter().find_map(|prefix| self.0.strip_prefix(*prefix)) else {
            return Ok(self.0.clone());
        };
        let lenient = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
        GeneralPurpose::new(&base64::alphabet::STANDARD, lenient)
            .decode(encoded)
            .map_err(|_| "it begins with whsec_ or whsk_, but what follows is not base64".to_owned())
    }
}

/// A secret and where it comes from. A file is read again when it changes, so that a rotated one
/// is used without a restart.
pub struct Secret {
    source: SecretSource,
    current: Mutex<Read>,
}

struct Read {
    bytes: SecretBytes,
    version: Option<FileVersion>,
}

#[derive(PartialEq, Eq)]
struct FileVersion {
    inode: u64,
    bytes: u64,
    modified_ns: i128,
}

impl Secret {
    pub fn read(source: &SecretSource) -> Result<Self, String> {
        Ok(Self { source: source.clone(), current: Mutex::new(read(source)?) })
    }

    pub fn get(&self) -> SecretBytes {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let SecretSource::File(path) = &self.source
            && file_version(path).is_some_and(|version| current.version != Some(version))
        {
            // A file that can't be read now is being replaced: the bytes at hand still serve.
            if let Ok(changed) = read(&self.source) {
                *current = changed;
            }
        }
        current.bytes.clone()
    }
}

fn read(source: &SecretSource) -> Result<Read, String> {
    match source {
        SecretSource::Env(name) => match std::env::var_os(name) {
            Some(value) => {
                let bytes = SecretBytes(std::os::unix::ffi::OsStringExt::into_vec(value));
                Ok(Read { bytes, version: None })
            }
            None => Err(format!("the environment variable {name} is not set; set it for the host's process")),
        },
        SecretSource::File(path) => read_file(path),
    }
}

fn read_file(path: &PathBuf) -> Result<Read, String> {
    // The version first: a file changed in between is read once more, rather than missed.
    let version = file_version(path);
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        return Err(format!("{} is not a regular file", path.display()));
    }
    let mut bytes =
        std::fs::read(path).map_err(|error| format!("the file {} can't be read: {error}", path.display()))?;
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
    }
    if bytes.is_empty() {
        return Err(format!("the file {} is empty", path.display()));
    }
    Ok(Read { bytes: SecretBytes(bytes), version })
}

fn file_version(path: &Path) -> Option<FileVersion> {
    let found = std::fs::metadata(path).ok()?;
    let modified_ns = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
    Some(FileVersion { inode: found.ino(), bytes: found.size(), modified_ns })
}

/// The secrets granted to one destination.
pub struct Secrets {
    granted: BTreeMap<String, Granted>,
    denials: Arc<Denials>,
}

struct Granted {
    keys: Vec<Secret>,
    uses: Vec<String>,
}

impl Secrets {
    /// Reads every key once, so that a missing one is found at load and not at the first event.
    pub fn read(grants: &BTreeMap<String, SecretGrant>, denials: Arc<Denials>) -> Result<Self, String> {
        let mut granted = BTreeMap::new();
        for (name, grant) in grants {
            let keys = grant
                .keys
                .iter()
                .enumerate()
                .map(|(index, source)| {
                    Secret::read(source)
                        .map_err(|problem| format!("secret \"{name}\", key {index}: {problem}"))
                })
                .collect::<Result<Vec<_>, _>>()?;
            if keys.is_empty() {
                return Err(format!("secret \"{name}\" has no keys; add  keys = [{{ env = \"NAME\" }}]"));
            }
            granted.insert(name.clone(), Granted { keys, uses: grant.uses.clone() });
        }
        Ok(Self { granted, denials })
    }

    fn sign(&self, name: &str, algorithm: &str, data: &[u8]) -> Result<Vec<Signature>, SecretError> {
        if !ALGORITHMS.contains(&algorithm) {
            let known = ALGORITHMS.join(", ");
            return Err(SecretError::UnknownAlgorithm(format!(
                "this host signs with {known}, not \"{algorithm}\""
            )));
        }
        let granted = self.granted_for(name, algorithm)?;
        let sign_with = |(index, secret): (usize, &Secret)| {
            let unusable =
                |problem| SecretError::Unusable(format!("secret \"{name}\", key {index}: {problem}"));
            let key = secret.get().key().map_err(unusable)?;
            let bytes = match algorithm {
                HMAC_SHA256 => hmac_sha256(&key, data),
                _ => ed25519(&key, data).map_err(unusable)?,
            };
            Ok(Signature { key_index: index as u32, bytes })
        };
        granted.keys.iter().enumerate().map(sign_with).collect()
    }

    fn reveal(&self, name: &str) -> Result<Vec<Vec<u8>>, SecretError> {
        let granted = self.granted_for(name, REVEAL)?;
        Ok(granted.keys.iter().map(|secret| secret.get().0).collect())
    }

    fn granted_for(&self, name: &str, usage: &str) -> Result<&Granted, SecretError> {
        let destination = self.denials.destination();
        let fix = match self.granted.get(name) {
            Some(granted) if granted.uses.iter().any(|granted| granted == usage) => return Ok(granted),
            Some(_) => format!(
                "secret \"{name}\" is not granted for {usage} to destination \"{destination}\"; \
                 add \"{usage}\" to  use  in [destination.{destination}.secrets.{name}]"
            ),
            None => format!(
                "secret \"{name}\" is not granted to destination \"{destination}\"; add \
                 [destination.{destination}.secrets.{name}] with  keys = [{{ env = \"NAME\" }}]  \
                 and  use = [\"{usage}\"]"
            ),
        };
        self.denials.deny(Denied::Secret, &format!("{name} for {usage}"), &fix);
        Err(SecretError::Denied(fix))
    }
}

fn hmac_sha256(key: &[u8], data: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(data);
    mac.finalize().into_bytes().to_vec()
}

fn ed25519(key: &[u8], data: &[u8]) -> Result<Vec<u8>, String> {
    let key = match key.len() {
        32 => SigningKey::from_bytes(key.try_into().expect("the length was just matched")),
        // A seed followed by its own public key, as some tools write it.
        64 => SigningKey::from_keypair_bytes(key.try_into().expect("the length was just matched"))
            .map_err(|_| "its second 32 bytes are not the public key of the first 32".to_owned())?,
        other => return Err(format!("an ed25519 key is a seed of 32 bytes, and this one has {other}")),
    };
    Ok(key.sign(data).to_bytes().to_vec())
}

impl secrets::Host for GuestState {
    fn sign(
        &mut self,
        name: String,
        algorithm: String,
        data: Vec<u8>,
    ) -> wasmtime::Result<Result<Vec<Signature>, SecretError>> {
        Ok(self.secrets.sign(&name, &algorithm, &data))
    }

    fn reveal(&mut self, name: String) -> wasmtime::Result<Result<Vec<Vec<u8>>, SecretError>> {
        Ok(self.secrets.reveal(&name))
    }
}
