//! Webhooks of a running host, judged by independent libraries while its key is rotated.

use outhaul_tests::guests::guest;
use outhaul_tests::verifiers::{Request, arguments, assert_refused, assert_verified};

use crate::databases::Scene;
use crate::host::Host;
use crate::receiver::Receiver;

on_both!(independent_libraries_accept_the_signatures_before_and_after_a_key_is_rotated);

/// Seeds of RFC 8032, 7.1, TEST 1 and TEST 2 as keys, and their public keys: the same 32 bytes serve
/// HMAC and ed25519.
const OLD: (&str, &str) =
    ("whsec_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=", "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=");
const NEW: (&str, &str) =
    ("whsec_TM0Imyj/ltqdtsNG7BFOD1uKMZ81q6Yk2oz27U+4pvs=", "PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=");

async fn independent_libraries_accept_the_signatures_before_and_after_a_key_is_rotated(scene: Scene) {
    scene.migrate().await;
    let receiver = Receiver::start().await;
    let first = scene.path().join("first.key");
    let second = scene.path().join("second.key");
    std::fs::write(&first, format!("{}\n", OLD.0)).unwrap();
    std::fs::write(&second, OLD.0).unwrap();
    let config = scene.write_config(&destination(&receiver.origin));
    let host = Host::start(&config);

    scene.producer().await.insert("order.created", "before.the.rotation", 10).await;
    receiver.wait_for(10).await;
    let before = requests(&receiver, 0);
    assert_verified(&before, &[arguments("--hmac", &[OLD.0]), arguments("--ed25519", &[OLD.1])].concat());
    assert_refused(&before, &arguments("--hmac", &[NEW.0]));
    assert_refused(&before, &arguments("--ed25519", &[NEW.1]));

    // As an operator does it: the new key in front, and the host goes on running.
    let replacement = scene.path().join("replacement.key");
    std::fs::write(&replacement, NEW.0).unwrap();
    std::fs::rename(&replacement, &first).unwrap();
    scene.producer().await.insert("order.created", "after.the.rotation", 10).await;
    receiver.wait_for(20).await;
    let after = requests(&receiver, 10);
    for (hmac, ed25519) in [OLD, NEW] {
        assert_verified(&after, &[arguments("--hmac", &[hmac]), arguments("--ed25519", &[ed25519])].concat());
    }
    host.stop();
}

fn requests(receiver: &Receiver, from: usize) -> Vec<Request> {
    let received = receiver.received().split_off(from);
    assert_eq!(received.len(), 10);
    received.into_iter().map(|one| Request { headers: one.headers, body: one.body }).collect()
}

fn destination(origin: &str) -> String {
    format!(
        r#"[destination.hook]
component = "{component}"
topics = ["order.*"]
settings = {{ url = "{origin}/orders", signing = {{ secret = "signing", algorithms = ["hmac-sha256", "ed25519"] }} }}
[[destination.hook.http]]
origin = "{origin}"
private = true
[destination.hook.secrets.signing]
keys = [{{ file = "first.key" }}, {{ file = "second.key" }}]
use = ["hmac-sha256", "ed25519"]
"#,
        component = guest("http").display(),
    )
}
