//! Components from a registry: Debian's own, and scripted ones that lie.

use std::path::Path;
use std::sync::Arc;

use outhaul::clock::SystemClock;
use outhaul::plugin::spec::{PluginSpec, Pull, RegistryAccess, SecretSource};
use outhaul::plugin::{Deliver, LoadProblem, PullError, Pulled, Reference, Runtime, RuntimeSettings};
use outhaul_tests::guests::guest;
use outhaul_tests::http::{Received, Reply, Server};
use outhaul_tests::registry::{PASSWORD, Plan, Registry, USER, WASM, descriptor, sha256};
use outhaul_tests::tls::Authority;
use serde_json::json;
use tempfile::TempDir;

use crate::lane::{PROCESS, spec};

const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0 it is not loaded here";

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// A runtime that keeps what it pulls in a folder of the test's own.
fn runtime(cache: &Path) -> Runtime {
    let mut settings = RuntimeSettings::new(Arc::new(SystemClock));
    settings.cache_dir = Some(cache.join("cache"));
    settings.guest_threads = 1;
    Runtime::new(settings).unwrap()
}

fn open() -> RegistryAccess {
    RegistryAccess { insecure: true, ..RegistryAccess::default() }
}

fn pinned(host: &str, digest: &str) -> Reference {
    Reference::parse(&format!("oci://{host}/plugins/test@sha256:{digest}")).unwrap()
}

async fn pull(cache: &Path, reference: &Reference, access: &RegistryAccess) -> Result<Pulled, PullError> {
    let _among_others = PROCESS.read().await;
    runtime(cache).pull(reference, access).await
}

async fn refusal(reference: &Reference, access: &RegistryAccess) -> PullError {
    pull(folder().path(), reference, access).await.expect_err("it was pulled")
}

#[tokio::test]
async fn a_component_is_pulled_by_its_digest_and_loads_again_without_the_registry() {
    let (data, cache) = (folder(), folder());
    let registry = Registry::start(data.path());
    let component = std::fs::read(guest("noop")).unwrap();
    let digest = registry.push("plugins/test", "v1", &component);
    let reference = pinned(&registry.host(), &digest).to_string();
    let pull = Pull { reference, access: open() };
    let spec = PluginSpec { pull: Some(pull), ..spec("noop") };
    let _among_others = PROCESS.read().await;
    let loaded = runtime(cache.path()).load(spec.clone()).await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(loaded.component_digest(), sha256(&component));
    drop(registry);
    let again = runtime(cache.path()).load(spec.clone()).await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(again.component_digest(), sha256(&component));

    // A pin of the component's own is heeded as well.
    let other = PluginSpec { sha256: Some("0".repeat(64)), ..spec.clone() };
    let Err(error) = runtime(cache.path()).load(other).await else { panic!("it loaded") };
    assert!(matches!(error.problem, LoadProblem::Pin { .. }), "{error}");

    // What was kept is checked, too: here nothing is left to take its place.
    let kept = cache.path().join("cache/components").join(format!("{}.wasm", sha256(&component)));
    let mut damaged = component.clone();
    damaged.push(0);
    std::fs::write(kept, damaged).unwrap();
    let Err(error) = runtime(cache.path()).load(spec).await else { panic!("it loaded") };
    assert!(error.problem.is_passing() && error.to_string().contains("can't be asked"), "{error}");
}

#[tokio::test]
async fn a_tag_is_answered_with_its_digest_and_asked_for_each_time() {
    let (data, cache) = (folder(), folder());
    let registry = Registry::start(data.path());
    let tag = Reference::parse(&format!("oci://{}/plugins/test:v1", registry.host())).unwrap();
    for component in [b"one", b"two"] {
        let digest = registry.push("plugins/test", "v1", component);
        let pulled = pull(cache.path(), &tag, &open()).await.unwrap();
        assert_eq!(pulled.reference, pinned(&registry.host(), &digest));
        assert_eq!((pulled.sha256, pulled.bytes), (sha256(component), 3));
        assert_eq!(std::fs::read(pulled.path).unwrap(), component);
    }
}

#[tokio::test]
async fn a_damaged_kept_component_is_pulled_again() {
    let (data, cache) = (folder(), folder());
    let registry = Registry::start(data.path());
    let digest = registry.push("plugins/test", "v1", COMPONENT);
    let reference = pinned(&registry.host(), &digest);
    let pulled = pull(cache.path(), &reference, &open()).await.unwrap();
    std::fs::write(&pulled.path, "damaged").unwrap();
    let again = pull(cache.path(), &reference, &open()).await.unwrap();
    assert_eq!(again, pulled);
    assert_eq!(std::fs::read(again.path).unwrap(), COMPONENT);
}

#[tokio::test]
async fn a_registry_that_wants_a_password_gets_the_one_of_the_config() {
    let data = folder();
    let digest = Registry::start(data.path()).push("plugins/test", "v1", COMPONENT);
    let registry = Registry::start_as(data.path(), Plan { wants_password: true, ..Plan::default() });
    let reference = pinned(&registry.host(), &digest);
    let secret = |name: &str, text: &str| {
        let path = data.path().join(name);
        std::fs::write(&path, text).unwrap();
        Some(SecretSource::File(path))
    };
    let error = refusal(&reference, &open()).await.to_string();
    assert!(error.contains("401") && error.contains("add  username"), "{error}");
    let wrong =
        RegistryAccess { username: secret("user", USER), password: secret("wrong", "hunter2"), ..open() };
    let error = refusal(&reference, &wrong).await.to_string();
    assert!(error.contains("check  username") && !error.contains("hunter2"), "{error}");
    let right = RegistryAccess { password: secret("right", PASSWORD), ..wrong };
    pull(folder().path(), &reference, &right).await.unwrap();
}

#[tokio::test]
async fn a_registry_is_asked_by_tls_with_the_roots_of_the_config() {
    let data = folder();
    let digest = Registry::start(data.path()).push("plugins/test", "v1", COMPONENT);
    let authority = Authority::default();
    let identity = authority.identity(&["127.0.0.1"]);
    let plan = Plan { tls: Some(&identity), ..Plan::default() };
    let registry = Registry::start_as(data.path(), plan);
    let reference = pinned(&registry.host(), &digest);
    let (roots, others) = (data.path().join("roots.pem"), data.path().join("others.pem"));
    std::fs::write(&roots, &authority.pem).unwrap();
    std::fs::write(&others, Authority::default().pem).unwrap();
    let with = |roots: &Path| RegistryAccess { roots: Some(roots.to_owned()), ..RegistryAccess::default() };
    let error = refusal(&reference, &with(&others)).await.to_string();
    assert!(error.contains("certificate is not trusted"), "{error}");
    pull(folder().path(), &reference, &with(&roots)).await.unwrap();
}

/// A manifest with one layer of these bytes.
fn manifest(media_type: &str, component: &[u8]) -> Vec<u8> {
    json!({ "schemaVersion": 2, "layers": [descriptor(media_type, component)] }).to_string().into_bytes()
}

fn ok(body: &[u8]) -> Reply {
    Reply::with_headers(200, &[], body)
}

async fn registry_of(manifest: Vec<u8>, blob: Reply) -> Server {
    Server::start(move |request, _| match request.path.contains("/manifests/") {
        true => ok(&manifest),
        false => blob.clone(),
    })
    .await
}

#[tokio::test]
async fn a_registry_that_sends_something_else_is_not_believed() {
    let good = manifest(WASM, COMPONENT);
    let wanted = sha256(&good);
    let longer = [COMPONENT, b"!"].concat();
    let same_length = vec![b'x'; COMPONENT.len()];
    for (sent, blob, words) in [
        (manifest(WASM, &longer), ok(COMPONENT), ["sent a manifest with sha256", wanted.as_str()]),
        (good.clone(), ok(&same_length), ["sent a component with sha256", &sha256(COMPONENT)]),
        (good.clone(), ok(&longer), ["more than the", "bytes it may"]),
        (good.clone(), Reply::status(404), ["does not have it", "404"]),
        (good.clone(), Reply::status(503), ["answered 503", "127.0.0.1"]),
        (good.clone(), Reply::Close, ["can't be asked", "127.0.0.1"]),
        (
            good.clone(),
            Reply::Endless(b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), longer.clone()),
            ["more than", "may"],
        ),
    ] {
        let server = registry_of(sent, blob).await;
        let error = refusal(&pinned(&server.address.to_string(), &wanted), &open()).await.to_string();
        for word in words {
            assert!(error.contains(word), "{error}");
        }
    }
}

#[tokio::test]
async fn what_no_later_pull_can_change_is_not_waited_for() {
    let huge = json!({ "layers": [{
        "mediaType": WASM, "digest": format!("sha256:{}", "0".repeat(64)), "size": (256 << 20) + 1,
    }] });
    for (sent, word) in [
        (manifest("application/vnd.oci.image.layer.v1.tar+gzip", COMPONENT), "tar+gzip"),
        (huge.to_string().into_bytes(), "at most 268435456"),
    ] {
        let digest = sha256(&sent);
        let server = registry_of(sent, Reply::status(500)).await;
        let error = refusal(&pinned(&server.address.to_string(), &digest), &open()).await;
        assert!(!error.is_passing() && error.to_string().contains(word), "{error}");
        assert_eq!(server.received().len(), 1, "the component is not asked for");
    }
    let gone = Server::start(|_, _| Reply::Close).await.address.to_string();
    let error = refusal(&pinned(&gone, &"0".repeat(64)), &open()).await;
    assert!(error.is_passing(), "{error}");
}

#[tokio::test]
async fn a_token_is_fetched_where_the_registry_says_and_shown_to_nobody_else() {
    let (data, good) = (folder(), manifest(WASM, COMPONENT));
    let digest = sha256(&good);
    let elsewhere = Server::start(|_, _| ok(COMPONENT)).await;
    let tokens = Server::start(|_, _| ok(br#"{"token":"t0ken"}"#)).await;
    let (realm, blob) = (tokens.url("/token"), elsewhere.url("/blob?signed=1"));
    let registry = Server::start(move |request, _| {
        let is_known = request.header("authorization") == ["Bearer t0ken"];
        match (is_known, request.path.contains("/manifests/")) {
            (false, _) => {
                let asked =
                    format!("Bearer realm=\"{realm}\",service=\"r\",scope=\"repository:plugins/test:pull\"");
                Reply::with_headers(401, &[("www-authenticate", &asked)], b"")
            }
            (true, true) => ok(&good),
            (true, false) => Reply::with_headers(307, &[("location", &blob)], b""),
        }
    })
    .await;
    let secret = |name: &str| {
        std::fs::write(data.path().join(name), name).unwrap();
        Some(SecretSource::File(data.path().join(name)))
    };
    let access = RegistryAccess { username: secret("user"), password: secret("pass"), ..open() };
    let reference = pinned(&registry.address.to_string(), &digest);
    let pulled = pull(data.path(), &reference, &access).await.unwrap();
    assert_eq!(pulled.sha256, sha256(COMPONENT));
    let asked = tokens.received();
    assert_eq!(asked[0].path, "/token?service=r&scope=repository%3Aplugins%2Ftest%3Apull");
    assert_eq!(asked[0].header("authorization"), ["Basic dXNlcjpwYXNz"]);
    let fetched: Vec<Received> = elsewhere.received();
    assert_eq!((fetched.len(), fetched[0].header("authorization")), (1, Vec::new()));
}

#[tokio::test]
async fn where_a_registry_redirects_to_can_not_ask_for_the_password() {
    let data = folder();
    let thief = Server::start(|_, _| ok(br#"{"token":"t0ken"}"#)).await;
    let realm = thief.url("/token");
    let elsewhere = Server::start(move |_, _| {
        let asked = format!("Bearer realm=\"{realm}\"");
        Reply::with_headers(401, &[("www-authenticate", &asked)], b"")
    })
    .await;
    let target = elsewhere.url("/manifest");
    let registry = Server::start(move |_, _| Reply::with_headers(307, &[("location", &target)], b"")).await;
    let secret = |name: &str| {
        std::fs::write(data.path().join(name), name).unwrap();
        Some(SecretSource::File(data.path().join(name)))
    };
    let access = RegistryAccess { username: secret("user"), password: secret("pass"), ..open() };
    let error = refusal(&pinned(&registry.address.to_string(), &"0".repeat(64)), &access).await;
    assert!(error.to_string().contains("401"), "{error}");
    assert_eq!((elsewhere.received().len(), thief.received().len()), (1, 0));
}

#[tokio::test]
async fn a_registry_does_not_lead_from_tls_to_plain_http() {
    let data = folder();
    let authority = Authority::default();
    let plain = Server::start(|_, _| ok(COMPONENT)).await;
    let target = plain.url("/blob");
    let tls = authority.acceptor(&authority.identity(&["127.0.0.1"]), None);
    let registry =
        Server::start_tls(tls, move |_, _| Reply::with_headers(307, &[("location", &target)], b"")).await;
    let roots = data.path().join("roots.pem");
    std::fs::write(&roots, &authority.pem).unwrap();
    let access = RegistryAccess { roots: Some(roots), ..RegistryAccess::default() };
    let reference = pinned(&registry.address.to_string(), &"0".repeat(64));
    let error = refusal(&reference, &access).await.to_string();
    assert!(error.contains("without TLS") && error.contains("insecure = true"), "{error}");
    assert_eq!(plain.received().len(), 0);
}
