//! A component that its config wants signed, and every way in which it is not.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signer, SigningKey};
use outhaul::plugin::LoadProblem;
use outhaul::plugin::spec::{PluginSpec, SignatureCheck};
use outhaul_tests::guests::guest;

use crate::lane::{Lane, load_error, spec};

/// A component with its signature, and the key it is by.
struct Signed {
    folder: tempfile::TempDir,
}

impl Signed {
    fn new() -> Self {
        let signed = Self { folder: tempfile::tempdir().unwrap() };
        let key = Key::new(*b"number-1", 1);
        std::fs::copy(guest("noop"), signed.path("noop.wasm")).unwrap();
        signed.write("plugins.pub", &key.public());
        signed.write("noop.wasm.minisig", &key.sign(&signed.path("noop.wasm")));
        signed
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn spec(&self) -> PluginSpec {
        let check = SignatureCheck { key: self.path("plugins.pub"), file: self.path("noop.wasm.minisig") };
        PluginSpec { component: self.path("noop.wasm"), signature: Some(check), ..spec("noop") }
    }

    /// The sentence of the refusal.
    async fn refusal(&self) -> String {
        match load_error(self.spec()).await.problem {
            LoadProblem::Signature(why) => why,
            other => panic!("another problem: {other}"),
        }
    }
}

/// A key as minisign's format has it: its number is in the open, only its seed is secret.
struct Key {
    number: [u8; 8],
    secret: SigningKey,
}

impl Key {
    fn new(number: [u8; 8], seed: u8) -> Self {
        Self { number, secret: SigningKey::from_bytes(&[seed; 32]) }
    }

    fn public(&self) -> String {
        let key = [b"Ed", &self.number[..], self.secret.verifying_key().as_bytes()].concat();
        format!("untrusted comment: a public key\n{}\n", STANDARD.encode(key))
    }

    /// Over the hash of the file, and once more over that signature and its comment.
    fn sign(&self, component: &Path) -> String {
        let hash = blake2b_simd::blake2b(&std::fs::read(component).unwrap());
        let signature = self.secret.sign(hash.as_bytes()).to_bytes();
        let line = [b"ED", &self.number[..], &signature[..]].concat();
        let comment = "timestamp:1";
        let whole = self.secret.sign(&[&signature[..], comment.as_bytes()].concat()).to_bytes();
        let (line, whole) = (STANDARD.encode(line), STANDARD.encode(whole));
        format!("untrusted comment: a signature\n{line}\ntrusted comment: {comment}\n{whole}\n")
    }
}

#[tokio::test]
async fn a_component_with_the_signature_of_the_pinned_key_loads() {
    let signed = Signed::new();
    Lane::load(signed.spec()).await;
    // The key by itself, as it stands in a README, and with the line ends of another system.
    let key = signed.read("plugins.pub").lines().nth(1).unwrap().to_owned();
    signed.write("plugins.pub", &key);
    signed.write("noop.wasm.minisig", &signed.read("noop.wasm.minisig").replace('\n', "\r\n"));
    Lane::load(signed.spec()).await;
}

#[tokio::test]
async fn a_component_changed_after_it_was_signed_is_refused() {
    let signed = Signed::new();
    let other = std::fs::read(guest("hostile")).unwrap();
    std::fs::write(signed.path("noop.wasm"), other).unwrap();
    let why = signed.refusal().await;
    assert!(why.contains("noop.wasm.minisig is not of the component"), "{why}");
    assert!(why.contains("minisign -S -m "), "{why}");
}

#[tokio::test]
async fn bytes_that_are_no_component_are_refused_for_their_signature_before_anything_reads_them() {
    let signed = Signed::new();
    signed.write("noop.wasm", "not even WebAssembly");
    assert!(signed.refusal().await.contains("is not of the component"));
}

#[tokio::test]
async fn a_signature_by_another_key_is_refused_and_says_so() {
    let signed = Signed::new();
    let other = Key::new(*b"number-2", 2);
    signed.write("noop.wasm.minisig", &other.sign(&signed.path("noop.wasm")));
    let why = signed.refusal().await;
    assert!(why.contains("by another key than") && why.contains("plugins.pub"), "{why}");
}

#[tokio::test]
async fn another_key_that_calls_itself_the_pinned_one_does_not_pass() {
    let signed = Signed::new();
    let forger = Key::new(*b"number-1", 2);
    signed.write("noop.wasm.minisig", &forger.sign(&signed.path("noop.wasm")));
    let why = signed.refusal().await;
    assert!(why.contains("is not of the component"), "{why}");
}

#[tokio::test]
async fn a_missing_or_damaged_signature_or_key_is_named_with_its_fix() {
    let signed = Signed::new();
    let (key, signature) = (signed.read("plugins.pub"), signed.read("noop.wasm.minisig"));
    let changed_comment = signature.replace("trusted comment: timestamp:", "trusted comment: timestamp:9");
    for (file, text, words) in [
        ("noop.wasm.minisig", None, ["signature.file: ", "can't be read", "minisign -S"]),
        ("noop.wasm.minisig", Some("hello"), ["signature.file: ", "is not a signature", "minisign -S"]),
        ("noop.wasm.minisig", Some(&*changed_comment), ["noop.wasm.minisig", "is not of the", "fetch both"]),
        ("plugins.pub", None, ["signature.key: ", "can't be read", "minisign -G"]),
        ("plugins.pub", Some("hello"), ["signature.key: ", "is not a public key", "minisign -G"]),
    ] {
        match text {
            Some(text) => signed.write(file, text),
            None => std::fs::remove_file(signed.path(file)).unwrap(),
        }
        let why = signed.refusal().await;
        for word in words {
            assert!(why.contains(word), "{file}: {why}");
        }
        signed.write("plugins.pub", &key);
        signed.write("noop.wasm.minisig", &signature);
    }
    signed.write("noop.wasm.minisig", &"x".repeat(1 << 20));
    assert!(signed.refusal().await.contains("more than 16384 bytes"));
    std::fs::remove_file(signed.path("noop.wasm.minisig")).unwrap();
    std::fs::create_dir(signed.path("noop.wasm.minisig")).unwrap();
    assert!(signed.refusal().await.contains("not a regular file"));
}
