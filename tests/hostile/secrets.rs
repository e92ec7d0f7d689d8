//! Keys that sign for a guest and never enter it.

use ed25519_dalek::{Signature, SigningKey, Verifier};
use hmac::{Hmac, KeyInit, Mac};
use outhaul::domain::Outcome;
use outhaul::plugin::spec::SecretGrant;
use sha2::Sha256;

use crate::lane::{Lane, hostile, load_error, reference, secret, secret_file, spec};

const SEED: [u8; 32] = [7; 32];

async fn lane(grant: SecretGrant) -> Lane {
    hostile(|spec| {
        spec.secrets.insert("signing".to_owned(), grant);
    })
    .await
}

/// The signatures of the payload `{}`, in the order of the keys.
async fn signatures(lane: &Lane, algorithm: &str) -> Vec<Vec<u8>> {
    let outcome = lane.call_with("sign", &[("algorithm", algorithm)]).await;
    let signed = reference(&outcome).split(' ').enumerate().map(|(index, one)| {
        let (key_index, hex) = one.split_once(':').unwrap_or_else(|| panic!("not signed: {one}"));
        assert_eq!(key_index, index.to_string());
        unhex(hex)
    });
    signed.collect()
}

fn unhex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn hmac(key: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(b"{}");
    mac.finalize().into_bytes().to_vec()
}

#[tokio::test]
async fn every_key_signs_newest_first_and_a_prefix_means_base64() {
    let folder = tempfile::tempdir().unwrap();
    let new = secret_file(folder.path(), b"whsec_AAECAwQFBgcICQoLDA0ODw==\n");
    let old = secret_file(folder.path(), b"plain old key\n");
    let lane = lane(secret(&[&new, &old], &["hmac-sha256"])).await;
    let decoded: Vec<u8> = (0..16).collect();
    assert_eq!(signatures(&lane, "hmac-sha256").await, [hmac(&decoded), hmac(b"plain old key")]);
}

#[tokio::test]
async fn ed25519_signs_with_a_raw_seed_and_with_a_prefixed_one() {
    let folder = tempfile::tempdir().unwrap();
    let raw = secret_file(folder.path(), &SEED);
    let prefixed = secret_file(folder.path(), b"whsk_BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=");
    let lane = lane(secret(&[&raw, &prefixed], &["ed25519"])).await;
    let public = SigningKey::from_bytes(&SEED).verifying_key();
    let signatures = signatures(&lane, "ed25519").await;
    assert_eq!(signatures.len(), 2);
    for signature in signatures {
        public.verify(b"{}", &Signature::from_slice(&signature).unwrap()).unwrap();
    }
}

#[tokio::test]
async fn a_rotated_key_file_is_used_without_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    let key = secret_file(folder.path(), b"first");
    let lane = lane(secret(&[&key], &["hmac-sha256"])).await;
    assert_eq!(signatures(&lane, "hmac-sha256").await, [hmac(b"first")]);
    key.change(b"second");
    assert_eq!(signatures(&lane, "hmac-sha256").await, [hmac(b"second")]);
}

#[tokio::test]
async fn what_is_not_granted_is_denied_with_the_lines_to_add() {
    let folder = tempfile::tempdir().unwrap();
    let key = secret_file(folder.path(), b"short");
    let lane = lane(secret(&[&key], &["hmac-sha256", "ed25519"])).await;
    for (misdeed, parameters, words) in [
        ("reveal", [("secret", "signing"), ("algorithm", "")], ["Denied", "add \\\"reveal\\\" to"]),
        ("sign", [("secret", "other"), ("algorithm", "hmac-sha256")], ["Denied", ".secrets.other]"]),
        (
            "sign",
            [("secret", "signing"), ("algorithm", "rot13")],
            ["UnknownAlgorithm", "hmac-sha256, ed25519"],
        ),
        ("sign", [("secret", "signing"), ("algorithm", "ed25519")], ["Unusable", "32 bytes"]),
    ] {
        let outcome = lane.call_with(misdeed, &parameters).await;
        for word in words {
            assert!(reference(&outcome).contains(word), "{misdeed} {parameters:?}: {}", reference(&outcome));
        }
        assert!(!reference(&outcome).contains("short"), "the key is in the message");
    }
    assert_eq!(lane.denied("secret"), 2);
}

#[tokio::test]
async fn a_secret_is_revealed_only_where_that_is_granted() {
    let folder = tempfile::tempdir().unwrap();
    let key = secret_file(folder.path(), b"pw\n");
    let lane = lane(secret(&[&key], &["reveal"])).await;
    assert!(
        matches!(lane.call("reveal").await, Outcome::Delivered(receipt) if receipt.reference.as_deref() == Some("7077"))
    );
}

#[tokio::test]
async fn a_missing_secret_is_found_at_load_and_named() {
    let mut spec = spec("hostile");
    let folder = tempfile::tempdir().unwrap();
    let key = secret_file(folder.path(), b"");
    spec.secrets.insert("signing".to_owned(), secret(&[&key], &["hmac-sha256"]));
    let message = load_error(spec).await.to_string();
    assert!(message.contains("secret \"signing\", key 0") && message.contains("is empty"), "{message}");
}
