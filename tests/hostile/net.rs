//! Endpoints of the config, through `outhaul:net`: where they lead, where not, and servers that
//! misbehave.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use outhaul::domain::{HostFailure, Outcome};
use outhaul::plugin::Deliver;
use outhaul::plugin::spec::{NetGrant, PluginSpec};
use outhaul_tests::tcp::{Behaviour, TcpServer};

use crate::lane::{Lane, call, host_failure, load_error, reference, spec};
use crate::names;

/// A grant for a server on this machine.
pub fn grant(address: impl ToString) -> NetGrant {
    NetGrant { address: address.to_string(), private: true, ..NetGrant::default() }
}

pub async fn lane(grant: NetGrant, change: impl FnOnce(&mut PluginSpec)) -> Lane {
    let mut spec = spec("connections");
    spec.net.insert("broker".to_owned(), grant);
    change(&mut spec);
    Lane::load(spec).await
}

/// One call with the topic, headers and payload.
pub async fn send(lane: &Lane, topic: &str, headers: &[(&str, &str)], payload: &[u8]) -> Outcome {
    let mut sent = call("", headers);
    sent.event.topic = topic.to_owned();
    sent.payload = Bytes::copy_from_slice(payload);
    lane.plugin.deliver(sent).await
}

/// What the guest found.
pub async fn finding(lane: &Lane, topic: &str, headers: &[(&str, &str)]) -> String {
    reference(&send(lane, topic, headers, b"hello").await).to_owned()
}

#[tokio::test]
async fn bytes_go_both_ways_at_once_and_are_counted() {
    let server = TcpServer::start(Behaviour::Echo).await;
    let lane = lane(grant(server.address), |_| {}).await;
    let payload: Vec<u8> = (0..1_000_000).map(|n| (n % 251) as u8).collect();
    let outcome = send(&lane, "net.echo", &[], &payload).await;
    assert_eq!(reference(&outcome), "echoed=1000000 same=true");
    let stats = lane.stats();
    assert_eq!((stats.net_connections_opened, stats.net_connections_failed), (1, 0));
    assert_eq!((stats.net_bytes_sent, stats.net_bytes_received), (1_000_000, 1_000_000));
}

#[tokio::test]
async fn a_connection_serves_many_calls_of_its_instance_and_ends_with_it() {
    let server = TcpServer::start(Behaviour::Echo).await;
    let lane = lane(grant(server.address), |_| {}).await;
    for _ in 0..3 {
        assert_eq!(finding(&lane, "net.keep", &[]).await, "echoed=5 same=true");
    }
    assert_eq!(server.accepted(), 1);
    drop(lane);
    server.ended(1).await;
}

#[tokio::test]
async fn an_endpoint_that_is_not_granted_is_denied_with_the_lines_to_add() {
    let server = TcpServer::start(Behaviour::Echo).await;
    let lane = lane(grant(server.address), |_| {}).await;
    let told = finding(&lane, "net.echo", &[("endpoint", "other")]).await;
    assert!(told.starts_with("denied: endpoint \"other\" is not granted"), "{told}");
    assert!(told.contains(".net.other] with  address = \"host:port\"") && told.contains("broker"), "{told}");
    assert_eq!((lane.denied("net"), server.accepted()), (1, 0));
}

#[tokio::test]
async fn an_endpoint_leads_to_its_own_address_and_those_it_may_also_lead_to() {
    let server = TcpServer::start(Behaviour::Echo).await;
    let port = server.address.port();
    let node = names::name("cluster.test", &["127.0.0.1"]);
    let stranger = names::name("elsewhere.test", &["127.0.0.1"]);
    let mut granted = grant(server.address);
    granted.also = vec![format!("*.cluster.test:{port}"), format!("localhost:{port}")];
    let lane = lane(granted, |_| {}).await;
    for address in [
        format!("127.0.0.1:{port}"),
        format!("LOCALHOST.:{port}"),
        format!("{node}:{port}"),
        format!("{}:{port}", node.to_uppercase()),
    ] {
        let told = finding(&lane, "net.echo", &[("address", &address)]).await;
        assert_eq!(told, "echoed=5 same=true", "{address}");
    }
    for address in [format!("{stranger}:{port}"), format!("{node}:1"), format!("[::1]:{port}")] {
        let told = finding(&lane, "net.echo", &[("address", &address)]).await;
        assert!(told.starts_with("denied:") && told.contains("add  also = ["), "{address}: {told}");
    }
    let told = finding(&lane, "net.echo", &[("address", "no address")]).await;
    assert!(told.starts_with("denied:") && told.contains("write host:port"), "{told}");
    assert_eq!((lane.denied("net"), server.accepted()), (3, 4));
}

#[tokio::test]
async fn s26_an_address_that_is_not_public_is_refused_however_it_is_reached() {
    let server = TcpServer::start(Behaviour::Echo).await;
    let port = server.address.port();
    let turned = names::name("turned.test", &["127.0.0.1"]);
    let mapped = names::name("turned.test", &["::ffff:127.0.0.1"]);
    for host in ["127.0.0.1", "localhost", "0x7f000001", "[::1]", "[::ffff:127.0.0.1]", &turned, &mapped] {
        let mut granted = grant(format!("{host}:{port}"));
        granted.private = false;
        let lane = lane(granted, |_| {}).await;
        let told = finding(&lane, "net.echo", &[]).await;
        assert!(told.starts_with("denied:") && told.contains("add  private = true  to"), "{host}: {told}");
        assert_eq!(lane.denied("net"), 1, "{host}");
    }
    assert_eq!(server.accepted(), 0);
}

#[tokio::test]
async fn s26_a_name_that_turns_private_between_two_dials_is_refused_at_the_second() {
    let server = TcpServer::start(Behaviour::Echo).await;
    // Public, and of a block that belongs to nobody: the first dial is allowed, and fails.
    let name = names::name("turning.test", &["3000::1"]);
    let mut granted = grant(format!("{name}:{}", server.address.port()));
    granted.private = false;
    let lane = lane(granted, |spec| spec.limits.net.connect = Duration::from_millis(200)).await;
    let first = finding(&lane, "net.echo", &[]).await;
    assert!(first.starts_with("timeout:") || first.starts_with("unreachable:"), "{first}");
    names::lead(&name, &["127.0.0.1"]);
    let second = finding(&lane, "net.echo", &[]).await;
    assert!(second.starts_with("denied:"), "{second}");
    assert_eq!((lane.denied("net"), server.accepted()), (1, 0));
}

#[tokio::test]
async fn what_does_not_answer_is_unreachable() {
    let gone: SocketAddr = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let nowhere = names::name("nowhere.test", &[]);
    for (address, word) in [(gone.to_string(), "nothing listens"), (format!("{nowhere}:1"), "no address")] {
        let lane = lane(grant(&address), |_| {}).await;
        let told = finding(&lane, "net.echo", &[]).await;
        assert!(told.starts_with("unreachable:") && told.contains(word) && told.contains(&address), "{told}");
        assert_eq!(lane.stats().net_connections_failed, 1);
    }
}

#[tokio::test]
async fn an_instance_has_no_more_connections_than_it_may_and_gets_back_those_it_closed() {
    let server = TcpServer::start(Behaviour::Echo).await;
    let lane = lane(grant(server.address), |spec| spec.limits.net.connections = 3).await;
    for _ in 0..2 {
        let told = finding(&lane, "net.many", &[]).await;
        assert!(told.starts_with("opened=3 then denied:") && told.contains(".limits.net]"), "{told}");
    }
    server.ended(6).await;
    assert_eq!((server.accepted(), lane.stats().instances_created), (6, 1));
}

#[tokio::test]
async fn s30_a_guest_that_waits_for_a_silent_or_a_deaf_server_is_ended_by_its_budget() {
    for (behaviour, topic) in [(Behaviour::Silence, "net.read"), (Behaviour::Deaf, "net.flood")] {
        let server = TcpServer::start(behaviour).await;
        let lane = lane(grant(server.address), |spec| spec.limits.call = Duration::from_millis(500)).await;
        let outcome = send(&lane, topic, &[], b"hello").await;
        assert_eq!(host_failure(&outcome).0, HostFailure::Deadline, "{topic}");
        // The next event finds an instance and a connection of its own.
        let outcome = send(&lane, topic, &[], b"hello").await;
        assert_eq!(host_failure(&outcome).0, HostFailure::Deadline, "{topic}");
        assert_eq!(server.accepted(), 2);
    }
}

#[tokio::test]
async fn the_connection_of_a_call_that_was_ended_is_closed() {
    let server = TcpServer::start(Behaviour::Silence).await;
    let lane = lane(grant(server.address), |spec| spec.limits.call = Duration::from_millis(500)).await;
    assert_eq!(host_failure(&send(&lane, "net.read", &[], b"").await).0, HostFailure::Deadline);
    server.ended(1).await;
}

#[tokio::test]
async fn a_server_that_closes_is_the_end_and_one_that_resets_is_an_error() {
    let server = TcpServer::start(Behaviour::Say("welcome")).await;
    let to_closing = lane(grant(server.address), |_| {}).await;
    assert_eq!(finding(&to_closing, "net.read", &[]).await, "read=welcome");
    let resetting = TcpServer::start(Behaviour::Reset).await;
    let to_resetting = lane(grant(resetting.address), |_| {}).await;
    let told = finding(&to_resetting, "net.last-word", &[]).await;
    assert!(told.starts_with("read: ") && told.contains("reset"), "{told}");
}

#[tokio::test]
async fn a_guest_that_ends_its_side_still_hears_the_answer() {
    let server = TcpServer::start(Behaviour::LastWord).await;
    let lane = lane(grant(server.address), |_| {}).await;
    let outcome = send(&lane, "net.last-word", &[], &[1; 100_000]).await;
    assert_eq!(reference(&outcome), "read=heard 100000");
}

#[tokio::test]
async fn writing_more_than_was_permitted_traps() {
    let server = TcpServer::start(Behaviour::Echo).await;
    let lane = lane(grant(server.address), |_| {}).await;
    let outcome = send(&lane, "net.overwrite", &[], b"").await;
    let (failure, detail) = host_failure(&outcome);
    assert_eq!(failure, HostFailure::Trap, "{detail:?}");
    assert!(detail.message.contains("check-write"), "{detail:?}");
}

#[tokio::test]
async fn a_component_that_imports_net_does_not_load_without_an_endpoint() {
    let message = load_error(spec("connections")).await.to_string();
    assert!(message.contains("outhaul:net") && message.contains(".net.ENDPOINT]"), "{message}");
}
