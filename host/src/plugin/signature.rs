//! Detached signatures of components: minisign's format, by a key the config pins.

use std::io::Read;
use std::path::Path;

use minisign_verify::{Error, PublicKey, Signature};

use super::spec::SignatureCheck;

/// Keys and signatures are a few lines; a larger file is something else.
const FILE_BYTES_MAX: u64 = 16 << 10;

/// Whether `component` is what the pinned key signed. The refusal is a sentence with the fix.
pub fn verify(check: &SignatureCheck, component: &[u8], path: &str) -> Result<(), String> {
    let (key_path, file_path) = (check.key.display(), check.file.display());
    let key = read(&check.key, "signature.key", "name the public key's file, which  minisign -G  writes")?;
    let key = public_key(&key).ok_or_else(|| {
        format!("signature.key: {key_path} is not a public key of minisign; name the .pub file that  minisign -G  writes")
    })?;
    let how_to_sign = format!("sign it with  minisign -S -m {path} -x {file_path}");
    let signature = read(&check.file, "signature.file", &how_to_sign)?;
    let signature = Signature::decode(&signature)
        .map_err(|_| format!("signature.file: {file_path} is not a signature of minisign; {how_to_sign}"))?;
    // Signatures over the bytes themselves, minisign's old mode, are refused.
    key.verify(component, &signature, false).map_err(|error| match error {
        Error::UnexpectedKeyId => format!(
            "the component {path} is signed by another key than {key_path}; use a component that is signed by that \
             key, or, if its maker has a new one, pin that as signature.key"
        ),
        Error::UnexpectedAlgorithm => format!(
            "signature.file: {file_path} is a signature in minisign's old mode; {how_to_sign}"
        ),
        _ => format!(
            "the signature {file_path} is not of the component {path} as it is now; fetch both again, or, if this \
             component is meant, have it signed: minisign -S -m {path} -x {file_path}"
        ),
    })
}

/// A key's file has a comment in its first line; the key alone will do, too.
fn public_key(text: &str) -> Option<PublicKey> {
    PublicKey::decode(text).or_else(|_| PublicKey::from_base64(text.trim())).ok()
}

fn read(path: &Path, key: &str, fix: &str) -> Result<String, String> {
    let unreadable =
        |why: &dyn std::fmt::Display| format!("{key}: {} can't be read: {why}; {fix}", path.display());
    // A device or a pipe could be read for ever.
    if !path.metadata().map_err(|error| unreadable(&error))?.is_file() {
        return Err(unreadable(&"it is not a regular file"));
    }
    let file = std::fs::File::open(path).map_err(|error| unreadable(&error))?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| unreadable(&error))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(unreadable(&format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| unreadable(&"it is not text"))
}
