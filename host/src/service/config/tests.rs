use std::path::Path;

use super::*;

pub(super) const SMALL: &str = r#"
version = 1
[outbox]
url = "sqlite:outhaul.db"
[destination.hook]
component = "plugins/http.wasm"
topics = ["order.*"]
"#;

fn read(text: &str) -> ConfigFile {
    read_text(text, Path::new("/etc/outhaul")).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

/// `line key: text` of each problem.
fn problems(text: &str) -> Vec<String> {
    let problems = read_text(text, Path::new("/etc/outhaul")).expect_err("the config is wrong");
    problems.iter().map(|Problem { line, key, text }| format!("{line} {key}: {text}")).collect()
}

pub(super) fn only_problem(text: &str) -> String {
    let mut found = problems(text);
    assert_eq!(found.len(), 1, "{found:#?}");
    found.remove(0)
}

#[test]
fn the_smallest_config_has_the_documented_defaults() {
    let file = read(SMALL);
    assert_eq!(file.relay.lease, units::Span::secs(30));
    assert_eq!(file.server.listen.to_string(), "127.0.0.1:8780");
    let hook = &file.destination["hook"];
    assert_eq!((hook.concurrency, hook.retry.max_attempts), (16, 12));
    assert_eq!(hook.limits.memory, units::Bytes(64 << 20));
    assert_eq!(hook.component, "/etc/outhaul/plugins/http.wasm");
}

#[test]
fn an_unknown_key_is_refused_with_its_line_and_the_nearest_known_key() {
    let wrong = format!("{SMALL}concurency = 4\nlimits = {{ memroy = \"1MiB\" }}\n");
    assert_eq!(
        problems(&wrong),
        [
            "8 destination.hook.concurency: unknown key; did you mean `concurrency`?",
            "9 destination.hook.limits.memroy: unknown key; did you mean `memory`?",
        ]
    );
    assert_eq!(only_problem(&format!("{SMALL}[relya]\n")), "8 relya: unknown key; did you mean `relay`?");
}

#[test]
fn settings_are_the_plugins_own_and_never_unknown() {
    let file = read(&format!(
        "{SMALL}settings = {{ url = \"https://x\", deep = {{ any = [1, 2] }}, on = 2026-01-01 }}\n"
    ));
    let settings = serde_json::to_value(&file.destination["hook"].settings).unwrap();
    assert_eq!(
        settings,
        serde_json::json!({ "url": "https://x", "deep": { "any": [1, 2] }, "on": "2026-01-01" })
    );
}

#[test]
fn several_problems_are_told_at_once_with_their_lines() {
    let wrong = r#"version = 1
[outbox]
url = "mysql://localhost/shop"
timeout = 5
[relay]
lease = "30"
[destination."bad name"]
component = "x.wasm"
topics = ["a..b"]
[destination.b]
topics = ["*"]
"#;
    let found = problems(wrong);
    assert!(
        found[0].starts_with("4 outbox.timeout: invalid type: integer `5`, expected a duration"),
        "{found:#?}"
    );
    assert!(found[1].starts_with("6 relay.lease: \"30\" is not a duration; write"), "{found:#?}");
    assert!(
        found[2].starts_with("9 destination.bad name.topics: \"a..b\" is not a topic pattern"),
        "{found:#?}"
    );
    assert_eq!(found[3], "10 destination.b: the key `component` is missing; add it");
    assert_eq!(found.len(), 4);
}

#[test]
fn keys_of_versions_to_come_are_refused_rather_than_ignored() {
    let problem = only_problem(&format!("{SMALL}[intake]\nlisten = \"127.0.0.1:1\"\n"));
    assert!(problem.contains(" intake: "), "{problem}");
    assert!(problem.ends_with("is not in this version of outhaul; remove this key"), "{problem}");
    let mysql = SMALL.replace("sqlite:outhaul.db", "mysql://h/x");
    assert!(only_problem(&mysql).contains("4 outbox.url: MySQL and MariaDB are not in this version"));
}

#[test]
fn a_signature_and_its_key_stand_beside_the_config_and_neither_goes_without_the_other() {
    let file = read(&format!("{SMALL}signature = {{ key = \"plugins.pub\", file = \"a.minisig\" }}\n"));
    let signature = file.destination["hook"].signature.as_ref().unwrap();
    assert_eq!(signature.key, Path::new("/etc/outhaul/plugins.pub"));
    assert_eq!(signature.file, Path::new("/etc/outhaul/a.minisig"));
    let problem = only_problem(&format!("{SMALL}signature = {{ key = \"plugins.pub\" }}\n"));
    assert!(problem.contains("the key `file` is missing"), "{problem}");
}

#[test]
fn a_component_in_a_registry_is_named_by_its_digest_and_asked_for_as_the_registrys_section_says() {
    let component = |text: &str| SMALL.replace("plugins/http.wasm", text);
    let pinned = format!("oci://r.example:5000/plugins/http@sha256:{}", "ab".repeat(32));
    let section = "[registry.\"r.example:5000\"]\nusername = { env = \"U\" }\npassword = { file = \"p\" }\n\
                   roots = \"ca.pem\"\n";
    let file = read(&format!("{}{section}", component(&pinned)));
    let hook = &file.destination["hook"];
    assert_eq!(hook.component, pinned);
    assert_eq!(hook.registry.password, Some(SecretRef::File("/etc/outhaul/p".into())));
    assert_eq!(hook.registry.roots.as_deref(), Some(Path::new("/etc/outhaul/ca.pem")));
    assert!(!hook.registry.insecure);

    let tag = only_problem(&component("oci://r.example/plugins/http:v1"));
    assert!(tag.starts_with("6 destination.hook.component: a tag may lead to another"), "{tag}");
    assert!(tag.contains("outhaul plugin pull oci://r.example/plugins/http:v1 "), "{tag}");
    let short = only_problem(&component("oci://r.example/x@sha256:00"));
    assert!(short.contains("64 hex digits"), "{short}");
    let alone = only_problem(&format!("{SMALL}[registry.\"r\"]\nusername = {{ env = \"U\" }}\n"));
    assert!(alone.contains("registry.r.username: ") && alone.contains("password"), "{alone}");
    let url = only_problem(&format!("{SMALL}[registry.\"https://r\"]\n"));
    assert!(url.contains("name the registry by host"), "{url}");
}

#[test]
fn endpoints_and_sockets_are_granted_and_their_files_stand_beside_the_config() {
    let file = read(&format!(
        "{SMALL}allow = {{ tcp = [\"h:1\", \"[::1]:2\"] }}\n[destination.hook.net.broker]\naddress = \"h:1\"\n\
         tls = true\nalso = [\"*.h:1\"]\nroots = \"ca.pem\"\n\
         client_cert = {{ cert = \"c.pem\", key = {{ file = \"k.pem\" }} }}\n"
    ));
    let hook = &file.destination["hook"];
    let allow = hook.allow.as_ref().unwrap();
    assert!(!allow.resolve && !allow.private);
    let broker = &hook.net["broker"];
    assert_eq!(broker.tls, file::EndpointTls::AtOnce);
    assert_eq!(broker.roots.as_deref(), Some(Path::new("/etc/outhaul/ca.pem")));
    let client = broker.client_cert.as_ref().unwrap();
    assert_eq!(client.cert, Path::new("/etc/outhaul/c.pem"));
    assert_eq!(client.key, SecretRef::File("/etc/outhaul/k.pem".into()));
}

#[test]
fn an_address_that_is_none_is_refused_with_its_key_and_how_to_write_it() {
    for (lines, key, word) in [
        ("allow = { tcp = [] }", "allow.tcp", "at least one address"),
        ("allow = { tcp = [\"h:1\", \"h\"] }", "allow.tcp.1", "write host:port"),
        ("[destination.hook.net.broker]\naddress = \"nats://h:1\"", "net.broker.address", "write host:port"),
        (
            "[destination.hook.net.broker]\naddress = \"h:1\"\nalso = [\"*:1\"]",
            "net.broker.also.0",
            "*.domain:port",
        ),
        (
            "[destination.hook.net.broker]\naddress = \"h:1\"\nroots = \"ca.pem\"",
            "net.broker.roots",
            "tls = true",
        ),
        (
            "[destination.hook.net.broker]\naddress = \"h:1\"\ntls = \"starttls\"",
            "net.broker.tls",
            "\"start\" where the protocol",
        ),
        ("limits = { net = { connections = 0 } }", "limits.net.connections", "it may be 1 to 10000"),
    ] {
        let problem = only_problem(&format!("{SMALL}{lines}\n"));
        assert!(
            problem.contains(&format!(" destination.hook.{key}: ")) && problem.contains(word),
            "{problem}"
        );
    }
}

#[test]
fn a_secret_is_a_reference_and_a_message_never_repeats_a_text_in_its_place() {
    let good = format!(
        "{SMALL}[[destination.hook.http]]\norigin = \"https://x.example\"\nheaders = {{ Authorization = {{ file = \"t\" }} }}\n"
    );
    let file = read(&good);
    assert_eq!(
        file.destination["hook"].http[0].headers["Authorization"],
        SecretRef::File("/etc/outhaul/t".into())
    );
    let bad = good.replace("{ file = \"t\" }", "\"hunter2\"");
    let problem = only_problem(&bad);
    assert!(
        problem.starts_with("10 destination.hook.http.0.headers.Authorization: a secret is never"),
        "{problem}"
    );
    assert!(!problem.contains("hunter2"));
    let misspelt = good.replace("file =", "fil =");
    assert_eq!(
        only_problem(&misspelt),
        "10 destination.hook.http.0.headers.Authorization.fil: unknown key; did you mean `file`?"
    );
}

#[test]
fn anything_but_loopback_needs_a_token() {
    let open = format!("{SMALL}[server]\nlisten = \"0.0.0.0:8780\"\n");
    assert!(only_problem(&open).starts_with("9 server.listen: 0.0.0.0:8780 is not a loopback address"));
    read(&format!("{open}token = {{ env = \"T\" }}\n"));
}

#[test]
fn a_wrong_version_names_both() {
    let newer = SMALL.replace("version = 1", "version = 2");
    assert!(
        only_problem(&newer).starts_with("2 version: the config has version 2, this outhaul reads version 1")
    );
    assert!(only_problem("").starts_with("0 version: the config starts with"));
}

#[test]
fn a_syntax_error_names_its_line() {
    let problem = only_problem(&format!("{SMALL}concurrency = = 4\n"));
    assert!(problem.starts_with("8 : this is not TOML"), "{problem}");
}

#[test]
fn keys_that_belong_together_are_checked_together() {
    assert!(
        only_problem(&format!("{SMALL}on_dead = \"skip\"\n")).contains("on_dead: this only means something")
    );
    let renamed = format!("{SMALL}renamed_from = \"hook\"\n");
    assert!(only_problem(&renamed).contains("renamed_from: [destination.hook] is still in this file"));
    let backoff = format!("{SMALL}retry = {{ base = \"2h\" }}\n");
    assert!(only_problem(&backoff).contains("retry.base: the first wait (2h)"));
}

#[test]
fn the_routes_digest_sees_routes_only_and_a_destinations_digest_sees_everything() {
    let routes = |text: &str| digest::of_routes(&read(text));
    let whole = |text: &str| digest::of_destination(&read(text).destination["hook"]);
    let other_settings = format!("{SMALL}settings = {{ a = 1 }}\n");
    let other_topics = SMALL.replace("order.*", "*");
    let same_topics = SMALL.replace("[\"order.*\"]", "[\"order.*\", \"order.*\"]");
    assert_eq!(routes(SMALL), routes(&other_settings));
    assert_eq!(routes(SMALL), routes(&same_topics));
    assert_ne!(routes(SMALL), routes(&other_topics));
    assert_ne!(whole(SMALL), whole(&other_settings));
    assert_eq!(whole(SMALL), whole(&format!("{SMALL}concurrency = 16\n")));
}

#[test]
fn sqlite_paths_start_at_the_configs_folder() {
    let folder = Path::new("/etc/outhaul");
    assert_eq!(resolve_sqlite("sqlite:a.db", folder), "sqlite:/etc/outhaul/a.db");
    assert_eq!(resolve_sqlite("sqlite://a.db?mode=rwc", folder), "sqlite:/etc/outhaul/a.db?mode=rwc");
    assert_eq!(resolve_sqlite("sqlite:/var/a.db", folder), "sqlite:/var/a.db");
    assert_eq!(resolve_sqlite("sqlite::memory:", folder), "sqlite::memory:");
    assert_eq!(resolve_sqlite("postgres://h/x", folder), "postgres://h/x");
}

#[test]
fn a_limit_of_rejections_that_is_never_counted_to_is_refused() {
    for limit in [0, 1, 1_000] {
        let file = read(&format!("{SMALL}stop_after_rejections = {limit}\n"));
        assert_eq!(file.destination["hook"].stop_after_rejections, limit);
    }
    assert_eq!(
        only_problem(&format!("{SMALL}stop_after_rejections = 1001\n")),
        "8 destination.hook.stop_after_rejections: 1001 is out of range: it may be 0 to 1000"
    );
}

#[test]
fn a_value_that_makes_no_sense_is_refused_with_its_range() {
    let lane = |line: &str| format!("{SMALL}{line}\n");
    for (text, expected) in [
        (lane("limits = { call = \"1ns\" }"), "limits.call: 1ns is out of range: it may be 1ms to 1d"),
        (
            lane("limits = { http = { connections = 0 } }"),
            "limits.http.connections: 0 is out of range: it may be 1 to 10000",
        ),
        (
            lane("limits = { http = { total = \"0s\" } }"),
            "limits.http.total: 0s is out of range: it may be 1ms to 1d",
        ),
        (lane("limits = { tables = 0 }"), "limits.tables: 0 is out of range: it may be 1 to 10000000"),
        (
            lane("limits = { memory = \"5GiB\" }"),
            "limits.memory: 5GiB is out of range: it may be 64KiB to 4GiB",
        ),
        (lane("limits = { payload = \"0B\" }"), "limits.payload: 0B is out of range: it may be 1B to 1GiB"),
        (lane("retry = { cap = \"2y\" }"), "retry.cap: 2years is out of range: it may be 1ms to 30d"),
        (
            lane("retry = { max_attempts = 0 }"),
            "retry.max_attempts: 0 is out of range: it may be 1 to 1000000",
        ),
        (lane("concurrency = 0"), "hook.concurrency: 0 is out of range: it may be 1 to 10000"),
        (lane("lease = \"0s\""), "hook.lease: 0s is out of range: it may be 100ms to 1d"),
        (
            lane("[relay]\npayload_memory = \"0B\""),
            "relay.payload_memory: 0B is out of range: it may be 1KiB to 1024GiB",
        ),
        (lane("[runtime]\nthreads = 100000"), "runtime.threads: 100000 is out of range: it may be 0 to 1024"),
        (
            SMALL.replace("outhaul.db\"", "outhaul.db\"\npoll = \"1000d\""),
            "outbox.poll: 1000d is out of range: it may be 10ms to 1h",
        ),
    ] {
        let problem = only_problem(&text);
        assert!(problem.ends_with(expected), "{problem}");
    }
    // A wait of years is out of range, and longer than its cap besides.
    let years = problems(&lane("retry = { base = \"3y\" }"));
    assert!(years.iter().any(|problem| problem.contains("retry.base: 3years is out of range")), "{years:?}");
}

#[test]
fn an_empty_old_name_is_no_name() {
    let problem = only_problem(&format!("{SMALL}renamed_from = \"\"\n"));
    assert!(problem.contains("renamed_from: \"\" is no name"), "{problem}");
}

#[test]
fn an_origin_is_one_host() {
    let granted = |origin: &str| format!("{SMALL}[[destination.hook.http]]\norigin = \"{origin}\"\n");
    for origin in
        ["http://*", "https://*.example.com", "https://h:0", "https://h:99999", "https://a,b", "http://[::x]"]
    {
        let problem = only_problem(&granted(origin));
        assert!(problem.contains("http.0.origin: ") && problem.contains("write scheme://host"), "{problem}");
    }
    for origin in ["http://127.0.0.1:8000", "https://hooks.example.com", "http://[::1]:80", "http://my_host"]
    {
        read(&granted(origin));
    }
}

#[test]
fn a_canary_of_a_signed_component_is_signed_too() {
    let signature = "signature = { key = \"k.pub\", file = \"a.minisig\" }";
    let canary = |more: &str| {
        format!("{SMALL}{signature}\ncanary = {{ component = \"n.wasm\", share = \"5%\"{more} }}\n")
    };
    assert!(only_problem(&canary("")).contains("so must its canary be"));
    assert!(read_text(&canary(&format!(", {signature}")), Path::new("/")).is_ok());
}

#[test]
fn a_canary_has_a_component_and_a_share_and_leaves_the_last_attempt_to_the_stable_one() {
    let hook = |lines: &str| read(&format!("{SMALL}{lines}")).destination["hook"].clone();
    let canary = hook("canary = { component = \"next.wasm\", share = \"0.5%\" }\n").canary.unwrap();
    assert_eq!(
        (canary.component.as_str(), canary.share.0.to_string()),
        ("/etc/outhaul/next.wasm", "0.5%".into())
    );
    let nothing = only_problem(&format!("{SMALL}canary = {{ component = \"n.wasm\", share = \"0%\" }}\n"));
    assert!(
        nothing.starts_with("8 destination.hook.canary.share: \"0%\" is not a share; write"),
        "{nothing}"
    );
    let wrong =
        "canary = { component = \"oci://h/x\", share = \"5%\", sha256 = \"12\" }\nretry.max_attempts = 1\n";
    let found = problems(&format!("{SMALL}{wrong}"));
    let starts = [
        "8 destination.hook.canary.component: a tag may lead",
        "8 destination.hook.canary.sha256: a pin is",
        "8 destination.hook.canary: a canary needs  retry.max_attempts  of 2 or more",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for start in starts {
        assert!(found.iter().any(|one| one.starts_with(start)), "no {start} in {found:#?}");
    }
    let unknown = format!("{SMALL}canary = {{ component = \"n.wasm\", share = \"5%\", shares = 1 }}\n");
    assert!(only_problem(&unknown).contains("did you mean `share`?"));
}
