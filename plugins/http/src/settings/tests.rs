use std::time::Duration;

use serde_json::{Value, json};

use super::*;

fn problems(settings: Value) -> Vec<(String, String)> {
    let problems = Settings::parse(&settings.to_string()).unwrap_err();
    problems.into_iter().map(|problem| (problem.pointer, problem.message)).collect()
}

fn parse(settings: Value) -> Settings {
    Settings::parse(&settings.to_string()).unwrap()
}

#[test]
fn a_url_is_all_that_is_needed() {
    let settings = parse(json!({ "url": "https://hooks.example.com:8443/orders?shop=1" }));
    assert_eq!(
        settings.url,
        Target {
            is_https: true,
            authority: "hooks.example.com:8443".into(),
            path_with_query: "/orders?shop=1".into()
        }
    );
    assert_eq!(settings.method, Method::POST);
    assert_eq!(settings.timeout, None);
    assert!(settings.headers.is_empty() && settings.signing.is_none() && settings.cloudevents.is_none());
}

#[test]
fn every_setting_is_read() {
    let settings = parse(json!({
        "url": "http://[::1]:8080",
        "method": "PUT",
        "headers": { "X-Shop": "north" },
        "timeout": "1500ms",
        "status": { "409": "duplicate", "5xx": "unavailable" },
        "signing": { "secret": "signing", "algorithms": ["ed25519", "hmac-sha256"] },
        "cloudevents": { "mode": "structured", "source": "/shop" },
    }));
    assert_eq!(settings.url.authority, "[::1]:8080");
    assert_eq!(settings.url.path_with_query, "/");
    assert_eq!(settings.method, Method::PUT);
    assert_eq!(settings.headers, [("x-shop".parse().unwrap(), "north".parse().unwrap())]);
    assert_eq!(settings.timeout, Some(Duration::from_millis(1500)));
    assert_eq!(settings.overrides.get(409), Some(Kind::Duplicate));
    assert_eq!(settings.overrides.get(599), Some(Kind::Unavailable));
    assert_eq!(settings.overrides.get(404), None);
    let signing = settings.signing.unwrap();
    assert_eq!(signing.secret, "signing");
    assert_eq!(signing.algorithms, [Algorithm::Ed25519, Algorithm::HmacSha256]);
    let expected = CloudEvents { mode: Mode::Structured, source: "/shop".into() };
    assert_eq!(settings.cloudevents, Some(expected));
}

#[test]
fn signing_is_hmac_unless_said_otherwise_and_cloudevents_has_a_short_form() {
    let settings = parse(json!({
        "url": "http://a/", "signing": { "secret": "s" }, "cloudevents": "binary",
    }));
    assert_eq!(settings.signing.unwrap().algorithms, [Algorithm::HmacSha256]);
    assert_eq!(settings.cloudevents.unwrap().mode, Mode::Binary);
}

#[test]
fn a_wrong_key_is_named_with_the_nearest_known_one() {
    assert_eq!(
        problems(json!({ "url": "http://a/", "metod": "PUT" })),
        [("/metod".into(), "there is no such setting; did you mean \"method\"?".into())]
    );
    assert_eq!(
        problems(json!({ "url": "http://a/", "signing": { "secret": "s", "algorithm": [] } })),
        [("/signing/algorithm".into(), "there is no such setting; did you mean \"algorithms\"?".into())]
    );
    assert_eq!(
        problems(json!({ "url": "http://a/", "x/y~z": 1 })),
        [(
            "/x~1y~0z".into(),
            "there is no such setting; the choices are \
             url, method, headers, timeout, status, signing, cloudevents"
                .into()
        )]
    );
}

#[test]
fn all_mistakes_are_told_at_once_each_by_its_pointer() {
    let found = problems(json!({
        "url": "ftp://a/",
        "method": "post",
        "headers": { "Webhook-Id": "mine", "Content-Type": "text/plain", "a b": "x", "ok": "a\nb", "n": 1 },
        "timeout": "10",
        "status": { "404": "reject", "6xx": "retry", "abc": "retry", "500": 5 },
        "signing": { "algorithms": ["hmac-sha265"] },
        "cloudevents": { "mode": "batched", "source": "" },
    }));
    let mut pointers: Vec<&str> = found.iter().map(|(pointer, _)| pointer.as_str()).collect();
    pointers.sort_unstable();
    assert_eq!(
        pointers,
        [
            "/cloudevents/mode",
            "/cloudevents/source",
            "/headers/Content-Type",
            "/headers/Webhook-Id",
            "/headers/a b",
            "/headers/n",
            "/headers/ok",
            "/method",
            "/signing/algorithms/0",
            "/signing/secret",
            "/status/404",
            "/status/500",
            "/status/6xx",
            "/status/abc",
            "/timeout",
            "/url",
        ]
    );
}

#[test]
fn a_url_that_would_not_do_what_it_seems_to_is_refused() {
    for url in [
        "",
        "hooks.example.com/a",
        "/a",
        "https://",
        "https://user:word@a/",
        "https://a/#part",
        "http://a b/",
    ] {
        let found = problems(json!({ "url": url }));
        assert_eq!(found.len(), 1, "{url:?} {found:?}");
        assert_eq!(found[0].0, "/url", "{url:?}");
    }
    assert_eq!(problems(json!({}))[0].0, "/url");
    assert_eq!(problems(json!({ "url": 5 })), [("/url".into(), "this setting is a text".into())]);
    assert_eq!(problems(json!([]))[0].0, "");
    assert_eq!(Settings::parse("{").unwrap_err()[0].pointer, "");
}

/// The schema is written by hand, for its descriptions; this keeps it and the reader together.
#[test]
fn the_schema_names_the_same_keys_and_choices_as_the_reader() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let keys = |value: &Value| {
        let mut keys: Vec<String> = value["properties"].as_object().unwrap().keys().cloned().collect();
        keys.sort_unstable();
        keys
    };
    let sorted = |known: &[&str]| {
        let mut known: Vec<String> = known.iter().map(|key| key.to_string()).collect();
        known.sort_unstable();
        known
    };
    let properties = &schema["properties"];
    assert_eq!(keys(&schema), sorted(&KEYS));
    assert_eq!(schema["required"], json!(["url"]));
    assert_eq!(schema["additionalProperties"], json!(false));
    assert_eq!(properties["method"]["enum"], json!(METHODS));
    assert_eq!(keys(&properties["signing"]), sorted(&SIGNING_KEYS));
    assert_eq!(
        properties["signing"]["properties"]["algorithms"]["items"]["enum"],
        json!(Algorithm::ALL.map(Algorithm::as_str))
    );
    assert_eq!(properties["status"]["additionalProperties"]["enum"], json!(Kind::ALL.map(Kind::as_str)));
    let forms = &properties["cloudevents"]["oneOf"];
    assert_eq!(forms[0]["enum"], json!(Mode::ALL.map(Mode::as_str)));
    assert_eq!(keys(&forms[1]), sorted(&CLOUDEVENTS_KEYS));
    assert_eq!(forms[1]["properties"]["mode"]["enum"], json!(Mode::ALL.map(Mode::as_str)));
    assert_eq!(forms[1]["properties"]["source"]["default"], json!(DEFAULT_SOURCE));
}

#[test]
fn an_exact_override_wins_over_a_class() {
    let overrides =
        parse(json!({ "url": "http://a/", "status": { "4xx": "rejected", "409": "duplicate" } })).overrides;
    assert_eq!(overrides.get(409), Some(Kind::Duplicate));
    assert_eq!(overrides.get(404), Some(Kind::Rejected));
    assert_eq!(overrides.get(429), Some(Kind::Rejected));
    assert_eq!(overrides.get(500), None);
}
