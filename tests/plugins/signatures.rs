//! The http plugin's signatures, judged by libraries that know nothing of Outhaul.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outhaul_tests::verifiers::{Request, arguments, assert_refused, assert_verified};
use serde_json::json;

use crate::harness::{call, http};
use crate::receiver::Receiver;

const OLD_KEY: &str = "whsec_b2xkIGtleSBvZiAzMiBieXRlcyBmb3IgdGhlIHRlc3Q=";
const NEW_KEY: &str = "whsec_bmV3IGtleSBvZiAzMiBieXRlcyBmb3IgdGhlIHRlc3Q=";
const OTHER_KEY: &str = "whsec_YSBrZXkgdGhhdCBub2JvZHkgc2lnbmVkIHdpdGg=";

/// RFC 8032, 7.1, TEST 1 and TEST 2: seed and public key in hex.
const ED25519: [(&str, &str); 2] = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
    ),
];

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn whsk((seed, _): (&str, &str)) -> String {
    format!("whsk_{}", STANDARD.encode(unhex(seed)))
}

fn public((_, public): (&str, &str)) -> String {
    STANDARD.encode(unhex(public))
}

/// Sends a few events, some awkward, and returns what the receiver got.
async fn signed_requests(keys: &[&[u8]], algorithms: &[&str]) -> Vec<Request> {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::accepting().await;
    let signing = json!({ "secret": "signing", "algorithms": algorithms });
    let plan = http(json!({ "url": receiver.origin(), "signing": signing })).reaching(&receiver.origin());
    let lane = plan.signing(folder.path(), keys, algorithms).load().await;
    let payloads =
        ["{\"order\":1}", "{ \"spaces\" : \"kept\" }\n", "{\"text\":\"ünïcödé \\u0000 .. .\"}", ""];
    for (n, payload) in payloads.into_iter().enumerate() {
        let mut call = call(payload.as_bytes());
        call.dedup_id = format!("order.{n}");
        let outcome = lane.deliver(call).await;
        assert!(outcome.is_success(), "{outcome:?}");
    }
    let received = receiver.received();
    assert_eq!(received.len(), payloads.len());
    received.into_iter().map(|one| Request { headers: one.headers, body: one.body }).collect()
}

#[tokio::test]
async fn standardwebhooks_accepts_v1_before_during_and_after_a_rotation() {
    let before = signed_requests(&[OLD_KEY.as_bytes()], &["hmac-sha256"]).await;
    assert_verified(&before, &arguments("--hmac", &[OLD_KEY]));
    assert_refused(&before, &arguments("--hmac", &[NEW_KEY]));

    let during = signed_requests(&[NEW_KEY.as_bytes(), OLD_KEY.as_bytes()], &["hmac-sha256"]).await;
    assert_verified(&during, &arguments("--hmac", &[OLD_KEY]));
    assert_verified(&during, &arguments("--hmac", &[NEW_KEY]));
    assert_refused(&during, &arguments("--hmac", &[OTHER_KEY]));

    let after = signed_requests(&[NEW_KEY.as_bytes()], &["hmac-sha256"]).await;
    assert_verified(&after, &arguments("--hmac", &[NEW_KEY]));
    assert_refused(&after, &arguments("--hmac", &[OLD_KEY]));
}

#[tokio::test]
async fn pynacl_accepts_v1a_of_each_key() {
    let keys = ED25519.map(whsk);
    let requests = signed_requests(&[keys[0].as_bytes(), keys[1].as_bytes()], &["ed25519"]).await;
    let [first, second] = ED25519.map(public);
    assert_verified(&requests, &arguments("--ed25519", &[&first, &second]));
    let other = STANDARD.encode(unhex("fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025"));
    assert_refused(&requests, &arguments("--ed25519", &[&other]));
}

#[tokio::test]
async fn a_changed_body_id_or_time_is_refused() {
    let requests = signed_requests(&[NEW_KEY.as_bytes()], &["hmac-sha256"]).await;
    let change = |change: &dyn Fn(&mut Request)| {
        let mut changed = requests.clone();
        changed.iter_mut().for_each(change);
        assert_refused(&changed, &arguments("--hmac", &[NEW_KEY]));
    };
    change(&|request| request.body = [&request.body[..], b" "].concat().into());
    change(&|request| {
        request.headers.insert("webhook-id", "another".parse().unwrap());
    });
    change(&|request| {
        let time: u64 = request.headers["webhook-timestamp"].to_str().unwrap().parse().unwrap();
        request.headers.insert("webhook-timestamp", (time + 1).into());
    });
}
