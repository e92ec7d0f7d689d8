//! `wasi:sockets` for guests with a client of their own: to the granted addresses and no other.

use outhaul::plugin::spec::SocketsGrant;
use outhaul_tests::tcp::{Behaviour, TcpServer};

use crate::lane::{Lane, hostile, reference};
use crate::names;
use crate::net::{self, finding, send};

/// A lane whose guest may reach these, on this machine too.
async fn lane(tcp: &[&str], resolve: bool, private: bool) -> Lane {
    let tcp = tcp.iter().map(|address| address.to_string()).collect();
    // The guest imports both kinds of connections, and loads only with one of the other kind.
    net::lane(net::grant("127.0.0.1:1"), |spec| {
        spec.sockets = Some(SocketsGrant { tcp, resolve, private });
    })
    .await
}

async fn to_address(lane: &Lane, address: &str) -> String {
    finding(lane, "sockets.echo", &[("address", address)]).await
}

async fn to_name(lane: &Lane, name: &str, port: u16) -> String {
    finding(lane, "sockets.echo", &[("name", name), ("port", &port.to_string())]).await
}

#[tokio::test]
async fn a_granted_address_is_reached_and_its_bytes_come_back() {
    let server = TcpServer::start(Behaviour::Echo).await;
    let address = server.address.to_string();
    let lane = lane(&[&address], false, true).await;
    let payload = vec![7; 300_000];
    let outcome = send(&lane, "sockets.echo", &[("address", &address)], &payload).await;
    assert_eq!(reference(&outcome), "echoed=300000 same=true");
    assert_eq!(lane.denied("sockets"), 0);
}

#[tokio::test]
async fn another_port_or_address_is_denied_when_the_socket_connects() {
    let (server, other) = (TcpServer::start(Behaviour::Echo).await, TcpServer::start(Behaviour::Echo).await);
    let lane = lane(&[&server.address.to_string()], false, true).await;
    for address in [other.address.to_string(), format!("[::1]:{}", server.address.port())] {
        assert_eq!(to_address(&lane, &address).await, "finish-connect: access-denied", "{address}");
    }
    assert_eq!((lane.denied("sockets"), server.accepted(), other.accepted()), (2, 0, 0));
}

#[tokio::test]
async fn without_a_grant_there_is_not_even_a_socket() {
    let lane = hostile(|_| {}).await;
    let outcome = lane.call_with("connect-tcp", &[("address", "1.1.1.1:80")]).await;
    assert!(
        reference(&outcome).contains("create: ErrorCode { code: 1, name: \"access-denied\""),
        "{outcome:?}"
    );
    assert_eq!(lane.denied("sockets"), 1);
}

#[tokio::test]
async fn s26_an_address_that_is_not_public_needs_a_word_of_its_own() {
    let server = TcpServer::start(Behaviour::Echo).await;
    let port = server.address.port();
    let name = names::name("turned.test", &["127.0.0.1"]);
    let lane = lane(&[&server.address.to_string(), &format!("{name}:{port}")], true, false).await;
    let by_address = to_address(&lane, &server.address.to_string()).await;
    let by_name = to_name(&lane, &name, port).await;
    for told in [by_address, by_name] {
        assert!(told.starts_with("finish-connect: ") && told.contains("access-denied"), "{told}");
    }
    assert_eq!((lane.denied("sockets"), server.accepted()), (2, 0));
}

#[tokio::test]
async fn names_are_resolved_by_the_host_when_a_socket_connects() {
    let server = TcpServer::start(Behaviour::Echo).await;
    let address = server.address.to_string();
    let name = names::name("moving.test", &["127.0.0.9"]);
    let lane = lane(&[&format!("{name}:{}", server.address.port())], false, true).await;
    assert!(to_address(&lane, &address).await.contains("access-denied"));
    names::lead(&name, &["127.0.0.1"]);
    assert_eq!(to_address(&lane, &address).await, "echoed=5 same=true");
}

#[tokio::test]
async fn a_guest_resolves_only_granted_names_and_only_where_that_is_granted() {
    let server = TcpServer::start(Behaviour::Echo).await;
    let port = server.address.port();
    let (name, other) = (names::name("a.test", &["127.0.0.1"]), names::name("a.test", &["127.0.0.1"]));
    let unresolving = lane(&[&format!("{name}:{port}")], false, true).await;
    let told = finding(&unresolving, "sockets.resolve", &[("name", &name)]).await;
    assert!(told.starts_with("resolve: ") && told.contains("access-denied"), "{told}");
    let resolving = lane(&[&format!("{name}:{port}")], true, true).await;
    assert_eq!(finding(&resolving, "sockets.resolve", &[("name", &name.to_uppercase())]).await, "resolved=1");
    assert_eq!(to_name(&resolving, &name, port).await, "echoed=5 same=true");
    let told = finding(&resolving, "sockets.resolve", &[("name", &other)]).await;
    assert!(told.starts_with("resolve: ") && told.contains("access-denied"), "{told}");
    assert_eq!(
        finding(&resolving, "sockets.resolve", &[("name", "not a name")]).await,
        "resolve: invalid-argument"
    );
    assert_eq!((unresolving.denied("sockets"), resolving.denied("sockets")), (1, 1));
}

#[tokio::test]
async fn a_name_that_has_other_addresses_by_now_still_leads_where_the_guest_was_told() {
    let server = TcpServer::start(Behaviour::Echo).await;
    let port = server.address.port();
    let name = names::name("many.test", &["127.0.0.1"]);
    let lane = lane(&[&format!("{name}:{port}")], true, true).await;
    assert_eq!(finding(&lane, "sockets.resolve", &[("name", &name)]).await, "resolved=1");
    names::lead(&name, &["127.0.0.9"]);
    assert_eq!(to_address(&lane, &server.address.to_string()).await, "echoed=5 same=true");
}

#[tokio::test]
async fn nobody_listens_and_nobody_sends_datagrams() {
    let lane = lane(&["127.0.0.1:1"], true, true).await;
    for (topic, step) in [("sockets.listen", "listen: "), ("sockets.udp", "create: ")] {
        let told = finding(&lane, topic, &[]).await;
        assert!(told.starts_with(step) && told.contains("access-denied"), "{topic}: {told}");
    }
    assert_eq!(lane.denied("sockets"), 2);
}
