//! Components that differ in nothing but their digest, and files that change as editors and
//! deployments change them.

use std::path::Path;

use crate::guests::guest;

/// A built component with a custom section more, which no host looks at: another file of the same
/// behaviour.
pub fn variant(name: &str, number: u32) -> Vec<u8> {
    let mut bytes = std::fs::read(guest(name)).expect("the component can be read");
    let label = format!("variant-{number}");
    let length = |text: &[u8]| u8::try_from(text.len()).expect("below 128, so one byte of LEB128");
    let content = [&[length(label.as_bytes())], label.as_bytes()].concat();
    bytes.extend([0, length(&content)]);
    bytes.extend(content);
    bytes
}

/// Whole or not at all, as `mv` does it.
pub fn replace(path: &Path, bytes: &[u8]) {
    let new = path.with_extension("new");
    std::fs::write(&new, bytes).expect("the new file is written");
    std::fs::rename(&new, path).expect("it takes the old one's place");
}
