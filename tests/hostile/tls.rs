//! TLS: whom the host believes, and what the guest is told when it does not.

use std::path::Path;
use std::time::Duration;

use outhaul::plugin::spec::{ClientCert, HttpGrant, PluginSpec};
use outhaul_tests::http::{Reply, Server};
use outhaul_tests::tls::{Authority, Identity};
use tokio::net::TcpListener;

use crate::lane::{Lane, hostile, http_grant, load_error, reference, retry_message, secret_file, spec};

async fn server(authority: &Authority, names: &[&str], clients: Option<&Authority>) -> Server {
    let acceptor = authority.acceptor(&authority.identity(names), clients);
    Server::start_tls(acceptor, |_, _| Reply::with_headers(200, &[], b"secret")).await
}

/// A grant for the server that trusts the authority.
fn grant(server: &Server, folder: &Path, authority: &Authority) -> HttpGrant {
    let roots = folder.join(format!("roots-{}.pem", uuid::Uuid::new_v4().simple()));
    std::fs::write(&roots, &authority.pem).unwrap();
    HttpGrant { roots: Some(roots), ..http_grant(&format!("https://localhost:{}", server.address.port())) }
}

fn client_cert(folder: &Path, identity: &Identity) -> ClientCert {
    let cert = folder.join("client.pem");
    std::fs::write(&cert, &identity.cert).unwrap();
    ClientCert { cert, key: secret_file(folder, identity.key.as_bytes()).source() }
}

async fn get(lane: &Lane, origin: &str) -> outhaul::domain::Outcome {
    lane.call_with("http-get", &[("url", &format!("{origin}/"))]).await
}

async fn lane(grant: HttpGrant) -> (Lane, String) {
    let origin = grant.origin.clone();
    let lane = hostile(|spec| {
        spec.http = vec![grant];
        // A second request waits for the first one's connection, however late that is given back.
        spec.limits.http.connections = 1;
    });
    (lane.await, origin)
}

#[tokio::test]
async fn a_server_whose_authority_is_trusted_is_reached_and_its_connection_kept() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::default();
    let server = server(&authority, &["localhost"], None).await;
    let (lane, origin) = lane(grant(&server, folder.path(), &authority)).await;
    for _ in 0..3 {
        assert_eq!(reference(&get(&lane, &origin).await), "status=200 bytes=6");
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn an_unknown_authority_or_another_name_is_a_certificate_error_and_nothing_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, stranger) = (Authority::default(), Authority::default());
    let right_name = server(&authority, &["localhost"], None).await;
    let wrong_name = server(&authority, &["elsewhere.example"], None).await;
    for grant in [grant(&right_name, folder.path(), &stranger), grant(&wrong_name, folder.path(), &authority)]
    {
        let (lane, origin) = lane(grant).await;
        let outcome = get(&lane, &origin).await;
        assert!(retry_message(&outcome).contains("TlsCertificateError"), "{outcome:?}");
    }
    assert!(right_name.received().is_empty() && wrong_name.received().is_empty());
}

#[tokio::test]
async fn a_client_certificate_is_shown_where_it_is_configured() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, clients) = (Authority::default(), Authority::default());
    let server = server(&authority, &["localhost"], Some(&clients)).await;
    let mut with = grant(&server, folder.path(), &authority);
    let without = with.clone();
    with.client_cert = Some(client_cert(folder.path(), &clients.identity(&["client"])));
    let (with, origin) = lane(with).await;
    assert_eq!(reference(&get(&with, &origin).await), "status=200 bytes=6");
    let (without, origin) = lane(without).await;
    let outcome = get(&without, &origin).await;
    assert!(retry_message(&outcome).contains("TlsAlertReceived"), "{outcome:?}");
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn a_handshake_that_never_ends_is_a_connection_timeout() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let roots = folder.path().join("roots.pem");
    std::fs::write(&roots, &Authority::default().pem).unwrap();
    let origin = format!("https://localhost:{port}");
    let in_time = |spec: &mut PluginSpec| spec.limits.http.tls = Duration::from_millis(200);
    // Its own limit comes after the call's end, before which the guest is still told.
    let too_late = |spec: &mut PluginSpec| spec.limits.call = Duration::from_secs(4);
    for change in [in_time, too_late] {
        let lane = hostile(|spec| {
            spec.http = vec![HttpGrant { roots: Some(roots.clone()), ..http_grant(&origin) }];
            change(spec);
        })
        .await;
        assert!(retry_message(&get(&lane, &origin).await).contains("ConnectionTimeout"));
    }
}

#[tokio::test]
async fn certificates_and_grants_that_cannot_be_used_are_named_at_load() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let https = |change: &dyn Fn(&mut HttpGrant)| {
        let mut grant = http_grant("https://localhost");
        change(&mut grant);
        grant
    };
    for (grants, words) in [
        (vec![https(&|grant| grant.roots = Some("/no/such.pem".into()))], ["roots", "/no/such.pem"]),
        (vec![https(&|grant| grant.roots = Some(empty.clone()))], ["roots", "holds no certificate"]),
        (vec![http_grant("localhost:80")], ["origin \"localhost:80\"", "https://host"]),
        (vec![http_grant("http://a"), http_grant("http://A:80")], ["http://a", "granted twice"]),
        (
            vec![https(&|grant| {
                grant.origin = "http://localhost".into();
                grant.roots = Some(empty.clone());
            })],
            ["http://localhost", "https origins"],
        ),
    ] {
        let mut spec = spec("hostile");
        spec.http = grants;
        let message = load_error(spec).await.to_string();
        for word in words {
            assert!(message.contains(word), "{message}");
        }
    }
}
