//! TLS of named endpoints: made by the host, judged by the host, told to the guest in one word.

use std::path::Path;
use std::time::Duration;

use outhaul::plugin::spec::{ClientCert, NetGrant, NetTls};
use outhaul_tests::tcp::{Behaviour, TcpServer};
use outhaul_tests::tls::Authority;

use crate::lane::{load_error, reference, secret_file, spec};
use crate::names;
use crate::net::{finding, grant, lane, send};

async fn server(behaviour: Behaviour, authority: &Authority, clients: Option<&Authority>) -> TcpServer {
    let acceptor = authority.acceptor(&authority.identity(&["localhost", "*.cluster.test"]), clients);
    TcpServer::start_with(behaviour, Some(acceptor)).await
}

/// A grant that trusts the authority.
fn trusting(server: &TcpServer, folder: &Path, authority: &Authority) -> NetGrant {
    let roots = folder.join(format!("roots-{}.pem", uuid::Uuid::new_v4().simple()));
    std::fs::write(&roots, &authority.pem).unwrap();
    let address = format!("localhost:{}", server.address.port());
    NetGrant { tls: NetTls::AtOnce, roots: Some(roots), ..grant(address) }
}

#[tokio::test]
async fn the_guest_sees_what_is_inside_tls_and_the_name_dialled_is_the_one_proven() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::default();
    let server = server(Behaviour::Echo, &authority, None).await;
    let port = server.address.port();
    let (node, stranger) =
        (names::name("cluster.test", &["127.0.0.1"]), names::name("elsewhere.test", &["127.0.0.1"]));
    let mut granted = trusting(&server, folder.path(), &authority);
    granted.also = vec![format!("*.cluster.test:{port}"), format!("*.elsewhere.test:{port}")];
    let lane = lane(granted, |_| {}).await;
    let payload = vec![7; 300_000];
    assert_eq!(reference(&send(&lane, "net.echo", &[], &payload).await), "echoed=300000 same=true");
    let address = format!("{node}:{port}");
    assert_eq!(finding(&lane, "net.echo", &[("address", &address)]).await, "echoed=5 same=true");
    let address = format!("{stranger}:{port}");
    let told = finding(&lane, "net.echo", &[("address", &address)]).await;
    assert!(told.starts_with("tls:") && told.contains(&address), "{told}");
}

#[tokio::test]
async fn an_unknown_authority_is_a_tls_error_that_names_the_key_to_set() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, stranger) = (Authority::default(), Authority::default());
    let server = server(Behaviour::Echo, &authority, None).await;
    let lane = lane(trusting(&server, folder.path(), &stranger), |_| {}).await;
    let told = finding(&lane, "net.echo", &[]).await;
    assert!(told.starts_with("tls:") && told.contains("roots = \"ca.pem\""), "{told}");
    assert_eq!((lane.stats().net_connections_opened, lane.stats().net_bytes_sent), (0, 0));
}

#[tokio::test]
async fn a_client_certificate_is_shown_where_it_is_configured_and_missed_where_it_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, clients) = (Authority::default(), Authority::default());
    let server = server(Behaviour::Echo, &authority, Some(&clients)).await;
    let without = trusting(&server, folder.path(), &authority);
    let identity = clients.identity(&["client"]);
    let cert = folder.path().join("client.pem");
    std::fs::write(&cert, &identity.cert).unwrap();
    let key = secret_file(folder.path(), identity.key.as_bytes()).source();
    let with = NetGrant { client_cert: Some(ClientCert { cert, key }), ..without.clone() };
    assert_eq!(finding(&lane(with, |_| {}).await, "net.echo", &[]).await, "echoed=5 same=true");
    // With TLS 1.3 the refusal comes after the handshake, in place of an answer.
    let told = finding(&lane(without, |_| {}).await, "net.echo", &[]).await;
    assert!(told.contains("CertificateRequired"), "{told}");
}

#[tokio::test]
async fn a_handshake_that_never_ends_is_a_timeout() {
    let server = TcpServer::start(Behaviour::Silence).await;
    let folder = tempfile::tempdir().unwrap();
    let granted = trusting(&server, folder.path(), &Authority::default());
    let lane = lane(granted, |spec| spec.limits.net.tls = Duration::from_millis(200)).await;
    let told = finding(&lane, "net.echo", &[]).await;
    assert!(told.starts_with("timeout:") && told.contains("TLS handshake"), "{told}");
    server.ended(1).await;
}

/// The call is as short as its connection may take: it must still be able to say so.
#[tokio::test]
async fn a_connection_that_is_not_made_leaves_the_call_time_to_say_so() {
    let server = TcpServer::start(Behaviour::Silence).await;
    let folder = tempfile::tempdir().unwrap();
    let granted = trusting(&server, folder.path(), &Authority::default());
    let lane = lane(granted, |spec| spec.limits.call = Duration::from_secs(1)).await;
    let told = finding(&lane, "net.echo", &[]).await;
    assert!(told.starts_with("timeout:") && told.contains("TLS handshake"), "{told}");
}

/// As a proxy does whose server is down: nothing was said against the endpoint, so it may be there later.
#[tokio::test]
async fn a_handshake_that_is_cut_is_an_outage_and_no_fault_of_the_config() {
    let folder = tempfile::tempdir().unwrap();
    for behaviour in [Behaviour::Reset, Behaviour::SayAndDrop("")] {
        let server = TcpServer::start(behaviour.clone()).await;
        let lane = lane(trusting(&server, folder.path(), &Authority::default()), |_| {}).await;
        let told = finding(&lane, "net.echo", &[]).await;
        assert!(told.starts_with("unreachable:"), "{behaviour:?}: {told}");
        assert!(told.contains("closed during the TLS handshake"), "{behaviour:?}: {told}");
    }
}

#[tokio::test]
async fn an_end_without_tls_own_farewell_is_an_error_and_not_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::default();
    let proper = server(Behaviour::Say("all of it"), &authority, None).await;
    let to_proper = lane(trusting(&proper, folder.path(), &authority), |_| {}).await;
    assert_eq!(finding(&to_proper, "net.read", &[]).await, "read=all of it");
    let cut = server(Behaviour::SayAndDrop("half of"), &authority, None).await;
    let to_cut = lane(trusting(&cut, folder.path(), &authority), |_| {}).await;
    let told = finding(&to_cut, "net.read", &[]).await;
    assert!(told.contains("close_notify") && told.ends_with("after 7 bytes"), "{told}");
}

#[tokio::test]
async fn a_guest_that_ends_its_side_of_tls_still_hears_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::default();
    let server = server(Behaviour::LastWord, &authority, None).await;
    let lane = lane(trusting(&server, folder.path(), &authority), |_| {}).await;
    let outcome = send(&lane, "net.last-word", &[], &[1; 100_000]).await;
    assert_eq!(reference(&outcome), "read=heard 100000");
}

/// Greets with "ready\n", and makes TLS once a line was said.
async fn starting(folder: &Path, authority: &Authority) -> (TcpServer, NetGrant) {
    let server = server(Behaviour::StartTls("ready\n"), authority, None).await;
    let granted = NetGrant { tls: NetTls::Start, ..trusting(&server, folder, authority) };
    (server, granted)
}

#[tokio::test]
async fn tls_is_started_after_a_talk_in_the_clear() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::default();
    let (_server, granted) = starting(folder.path(), &authority).await;
    let to_it = lane(granted.clone(), |_| {}).await;
    let greeted = [("greeting", "6")];
    assert_eq!(
        reference(&send(&to_it, "net.start-tls", &greeted, &[7; 300_000]).await),
        "echoed=300000 same=true"
    );
    // A plugin whose protocol does not start it would speak in the clear.
    let told = finding(&to_it, "net.echo", &[]).await;
    assert!(told.starts_with("denied:") && told.contains("tls = true"), "{told}");
    // Where the operator wants none, there is none to start.
    let plain = NetGrant { tls: NetTls::None, roots: None, ..granted };
    let to_plain = lane(plain, |_| {}).await;
    let told = finding(&to_plain, "net.start-tls", &greeted).await;
    assert!(told.starts_with("heard=ready") && told.ends_with("tls=none"), "{told}");
}

#[tokio::test]
async fn tls_that_can_not_be_started_ends_the_connection_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, stranger) = (Authority::default(), Authority::default());
    let (server, granted) = starting(folder.path(), &authority).await;
    let to_it = lane(granted, |_| {}).await;
    // What came in the clear and was not read could be anybody's.
    let told = finding(&to_it, "net.start-tls", &[("greeting", "2")]).await;
    assert!(told.starts_with("tls:") && told.contains("4 bytes that came in the clear"), "{told}");
    assert!(told.ends_with("then closed"), "{told}");
    let told = finding(&to_it, "net.start-tls", &[("greeting", "6"), ("drop", "yes")]).await;
    assert!(told.starts_with("unreachable:") && told.contains("has ended"), "{told}");
    let untrusting = NetGrant { tls: NetTls::Start, ..trusting(&server, folder.path(), &stranger) };
    let told = finding(&lane(untrusting, |_| {}).await, "net.start-tls", &[("greeting", "6")]).await;
    assert!(told.starts_with("tls:") && told.contains("roots = \"ca.pem\""), "{told}");
    assert!(told.ends_with("then closed"), "{told}");
}

/// As a server does that is full: it agreed to TLS, and says why it ends the talk.
#[tokio::test]
async fn a_server_that_speaks_in_the_clear_where_tls_begins_is_an_outage_and_no_fault_of_the_config() {
    let folder = tempfile::tempdir().unwrap();
    let server =
        TcpServer::start(Behaviour::NoTls("ready\n", "-ERR 'maximum connections exceeded'\r\n")).await;
    let granted = NetGrant { tls: NetTls::Start, ..trusting(&server, folder.path(), &Authority::default()) };
    let told = finding(&lane(granted, |_| {}).await, "net.start-tls", &[("greeting", "6")]).await;
    assert!(told.starts_with("unreachable:") && told.contains("spoke in the clear"), "{told}");
    assert!(!told.contains("tls = "), "{told}");
}

#[tokio::test]
async fn a_protocol_that_begins_in_the_clear_is_told_how_to_be_configured() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::default();
    let (_server, granted) = starting(folder.path(), &authority).await;
    let at_once = NetGrant { tls: NetTls::AtOnce, ..granted };
    let told = finding(&lane(at_once, |_| {}).await, "net.echo", &[]).await;
    assert!(told.starts_with("tls:") && told.contains("tls = \"start\""), "{told}");
}

#[tokio::test]
async fn grants_that_cannot_be_used_are_named_at_load() {
    let endpoint = |change: &dyn Fn(&mut NetGrant)| {
        let mut granted = grant("localhost:1");
        granted.tls = NetTls::AtOnce;
        change(&mut granted);
        granted
    };
    for (granted, words) in [
        (endpoint(&|grant| grant.roots = Some("/no/such.pem".into())), ["roots", "/no/such.pem"]),
        (endpoint(&|grant| grant.address = "localhost".into()), ["\"localhost\"", "write host:port"]),
        (endpoint(&|grant| grant.also = vec!["*:1".into()]), ["\"*:1\"", "*.domain:port"]),
        (
            endpoint(&|grant| {
                grant.tls = NetTls::None;
                grant.roots = Some("/no/such.pem".into());
            }),
            ["for TLS", "tls = true"],
        ),
    ] {
        let mut spec = spec("connections");
        spec.net.insert("broker".to_owned(), granted);
        let message = load_error(spec).await.to_string();
        assert!(message.contains("net \"broker\""), "{message}");
        for word in words {
            assert!(message.contains(word), "{message}");
        }
    }
}
