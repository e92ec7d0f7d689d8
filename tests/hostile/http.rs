//! Servers that misbehave, and guests that ask for what they are not granted.

use std::time::Duration;

use outhaul::domain::{HostFailure, Outcome};
use outhaul::plugin::Deliver;
use outhaul::plugin::spec::{HttpLimits, PluginSpec};
use outhaul_tests::budget::from_env;
use outhaul_tests::http::{Reply, Server};

use crate::lane::{Lane, call, host_failure, hostile, http_grant, reference, retry_message, secret_file};

/// A lane that may reach the server.
async fn lane_to(server: &Server, change: impl FnOnce(&mut PluginSpec)) -> Lane {
    let origin = format!("http://{}", server.address);
    hostile(|spec| {
        spec.http = vec![http_grant(&origin)];
        change(spec);
    })
    .await
}

async fn get(lane: &Lane, url: &str) -> Outcome {
    lane.call_with("http-get", &[("url", url)]).await
}

async fn post(lane: &Lane, url: &str, bytes: u64) -> Outcome {
    lane.call_with("http-post", &[("url", url), ("bytes", &bytes.to_string())]).await
}

fn body(bytes: u64) -> Vec<u8> {
    (0..bytes).map(|n| (n % 251) as u8).collect()
}

#[tokio::test]
async fn a_request_reaches_a_granted_origin_and_its_answer_comes_back() {
    let server = Server::start(|_, _| Reply::with_headers(202, &[], b"accepted")).await;
    let lane = lane_to(&server, |_| {}).await;
    assert_eq!(reference(&post(&lane, &server.url("/orders?x=1"), 5).await), "status=202 bytes=8");
    let received = server.received();
    assert_eq!(received.len(), 1);
    assert_eq!((received[0].method.as_str(), received[0].path.as_str()), ("POST", "/orders?x=1"));
    assert_eq!(received[0].body, body(5));
    assert_eq!(received[0].header("host"), [server.address.to_string()]);
}

#[tokio::test]
async fn an_origin_that_is_not_granted_is_denied_and_counted() {
    let server = Server::start(|_, _| Reply::status(200)).await;
    let lane = hostile(|_| {}).await;
    assert!(retry_message(&get(&lane, &server.url("/")).await).contains("HttpRequestDenied"));
    let other = lane_to(&server, |_| {}).await;
    let port = server.address.port();
    for url in [
        format!("http://localhost:{port}/"),
        format!("https://127.0.0.1:{port}/"),
        format!("http://127.0.0.1:{}/", port ^ 1),
        format!("http://user@127.0.0.1:{port}/"),
        format!("http://0x7f000001:{port}/"),
    ] {
        let outcome = get(&other, &url).await;
        assert!(retry_message(&outcome).contains("HttpRequestDenied"), "{url}: {outcome:?}");
    }
    assert_eq!((lane.denied("http"), other.denied("http")), (1, 5));
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn s26_every_spelling_of_a_loopback_address_is_refused_when_dialled() {
    let server = Server::start(|_, _| Reply::status(200)).await;
    let port = server.address.port();
    for host in
        ["127.0.0.1", "localhost", "0x7f000001", "2130706433", "[::ffff:127.0.0.1]", "[::1]", "0.0.0.0"]
    {
        let origin = format!("http://{host}:{port}");
        let lane = hostile(|spec| {
            let mut grant = http_grant(&origin);
            grant.private = false;
            spec.http = vec![grant];
        })
        .await;
        let outcome = get(&lane, &origin).await;
        let message = retry_message(&outcome);
        assert!(message.contains("DestinationIpProhibited"), "{host}: {message}");
        assert!(lane.denied("http") >= 1, "{host}");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn s26_a_redirect_is_an_answer_and_never_followed() {
    let target = Server::start(|_, _| Reply::status(200)).await;
    let location = target.url("/latest/meta-data");
    let server = Server::start(move |_, _| Reply::with_headers(302, &[("location", &location)], b"")).await;
    let lane = hostile(|spec| {
        spec.http = [&server, &target].map(|server| http_grant(&format!("http://{}", server.address))).into();
    })
    .await;
    assert_eq!(reference(&get(&lane, &server.url("/")).await), "status=302 bytes=0");
    assert_eq!((server.connections(), target.connections()), (1, 0));
}

#[tokio::test]
async fn s27_a_body_without_end_stops_at_the_limit() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 2000000000\r\n\r\n".to_vec();
    let server = Server::start(move |_, _| Reply::Endless(head.clone(), vec![b'x'; 65536])).await;
    let lane = lane_to(&server, |_| {}).await;
    let outcome = get(&lane, &server.url("/")).await;
    let message = retry_message(&outcome);
    assert!(message.contains("status=200") && message.contains("exceeds limit: 1048576 bytes"), "{message}");
}

#[tokio::test]
async fn s27_a_compressed_body_is_counted_as_it_comes_and_never_unpacked() {
    // Declared as gzip; the host counts bytes and looks no further.
    let bomb = vec![0x1f; 10_000];
    let server =
        Server::start(move |_, _| Reply::with_headers(200, &[("content-encoding", "gzip")], &bomb)).await;
    let lane = lane_to(&server, |_| {}).await;
    assert_eq!(reference(&get(&lane, &server.url("/")).await), "status=200 bytes=10000");
}

#[tokio::test]
async fn s27_ten_thousand_headers_and_a_huge_one_are_an_ordinary_failure() {
    let many = (0..10_000).map(|n| format!("x-{n}: y\r\n")).collect::<String>();
    let many = format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n{many}\r\n").into_bytes();
    let huge =
        format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nx: {}\r\n\r\n", "y".repeat(200_000)).into_bytes();
    let server =
        Server::start_with([Reply::BytesThenClose(many), Reply::BytesThenClose(huge), Reply::status(200)])
            .await;
    let lane = lane_to(&server, |_| {}).await;
    for _ in 0..2 {
        let outcome = get(&lane, &server.url("/")).await;
        let message = retry_message(&outcome);
        assert!(message.contains("HttpResponseHeaderSectionSize"), "{message}");
    }
    assert_eq!(reference(&get(&lane, &server.url("/")).await), "status=200 bytes=0");
}

#[tokio::test]
async fn s27_a_body_that_trickles_ends_with_the_exchanges_time() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nx".to_vec();
    let server = Server::start(move |_, _| Reply::BytesThenSilence(head.clone())).await;
    let lane = lane_to(&server, |spec| spec.limits.http.total = Duration::from_millis(300)).await;
    let outcome = get(&lane, &server.url("/")).await;
    let message = retry_message(&outcome);
    assert!(message.contains("body after 1 bytes"), "{message}");
    assert!(message.contains("timeout"), "{message}");
}

#[tokio::test]
async fn a_server_that_never_answers_is_a_response_timeout_which_is_after_the_request_left() {
    let server = Server::start(|_, _| Reply::BytesThenSilence(Vec::new())).await;
    let lane = lane_to(&server, |spec| spec.limits.http.first_byte = Duration::from_millis(200)).await;
    assert!(retry_message(&get(&lane, &server.url("/")).await).contains("HttpResponseTimeout"));
}

#[tokio::test]
async fn a_server_that_hangs_up_is_a_terminated_connection_and_a_closed_port_a_refused_one() {
    let server = Server::start(|_, _| Reply::Close).await;
    let lane = lane_to(&server, |_| {}).await;
    assert!(retry_message(&get(&lane, &server.url("/")).await).contains("ConnectionTerminated"));
    let url = server.url("/");
    drop(server);
    let message = loop {
        // The listener closes when its task is dropped, which may be a moment later.
        let outcome = get(&lane, &url).await;
        let message = retry_message(&outcome).to_owned();
        if !message.contains("ConnectionTerminated") {
            break message;
        }
    };
    assert!(message.contains("ConnectionRefused"), "{message}");
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_a_dns_error() {
    let lane = hostile(|spec| spec.http = vec![http_grant("http://no-such-host.invalid")]).await;
    assert!(retry_message(&get(&lane, "http://no-such-host.invalid/").await).contains("DnsError"));
}

#[tokio::test]
async fn a_kept_connection_that_was_closed_meanwhile_is_replaced_without_a_failure() {
    let ok = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_vec();
    let server = Server::start(move |_, _| Reply::BytesThenClose(ok.clone())).await;
    let lane = lane_to(&server, |_| {}).await;
    for _ in 0..5 {
        assert_eq!(reference(&post(&lane, &server.url("/"), 10).await), "status=200 bytes=0");
        // A request on its way when the end comes could have taken effect: that is another case.
        server.all_closed().await;
    }
    assert_eq!((server.received().len(), server.connections()), (5, 5));
}

#[tokio::test]
async fn s34_thousands_of_requests_share_a_few_connections() {
    const WORKERS: u64 = 8;
    let requests = from_env("OUTHAUL_REQUESTS").unwrap_or(1_000);
    let server = Server::start(|_, _| Reply::with_headers(200, &[], b"some body")).await;
    let lane = lane_to(&server, |spec| {
        spec.concurrency = WORKERS as u32;
        spec.limits.http.connections = 2;
    })
    .await;
    let workers = (0..WORKERS).map(|_| {
        let plugin = lane.plugin.clone();
        let url = server.url("/");
        tokio::spawn(async move {
            for _ in 0..requests / WORKERS {
                let outcome = plugin.deliver(call("http-get", &[("url", &url)])).await;
                assert_eq!(reference(&outcome), "status=200 bytes=9");
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
    assert_eq!(server.received().len() as u64, requests);
    assert!(server.open_most() <= 2, "{} at once", server.open_most());
    assert_eq!(server.connections() as u64, lane.stats().http_connections_opened);
    assert!(server.connections() <= 2, "{} connections", server.connections());
}

#[tokio::test]
async fn s34_responses_that_guests_leave_open_do_not_use_up_the_connections() {
    let server = Server::start(|_, _| Reply::status(200)).await;
    let lane = lane_to(&server, |spec| {
        spec.limits.http =
            HttpLimits { connections: 1, total: Duration::from_millis(500), ..HttpLimits::default() };
    })
    .await;
    for _ in 0..3 {
        let outcome = lane.call_with("leave-request-open", &[("url", &server.url("/"))]).await;
        assert_eq!(reference(&outcome), "left open");
    }
    // The one place is held by a request that never ends, until its time is over. Until then others
    // wait for it for as long as a request may take, and some get it with no time left to use it.
    loop {
        let outcome = get(&lane, &server.url("/")).await;
        if outcome.is_success() {
            break;
        }
        let message = retry_message(&outcome);
        let waited = ["ConnectionLimitReached", "ConnectionTimeout", "DnsTimeout", "HttpResponseTimeout"]
            .iter()
            .any(|error| message.contains(error));
        assert!(waited, "{message}");
    }
    assert!(server.received().iter().filter(|request| request.method == "GET").count() >= 1);
}

#[tokio::test]
async fn s35_bodies_around_a_page_and_past_two_mebibytes_go_out_whole() {
    let server = Server::start(|_, _| Reply::status(200)).await;
    let lane = lane_to(&server, |_| {}).await;
    let sizes = [4095, 4096, 4097, 65536, 2 * 1024 * 1024 + 4097];
    for bytes in sizes {
        assert_eq!(reference(&post(&lane, &server.url("/"), bytes).await), "status=200 bytes=0");
    }
    for (received, bytes) in server.received().iter().zip(sizes) {
        assert_eq!(received.body.len() as u64, bytes);
        assert!(received.body == body(bytes), "the body of {bytes} bytes arrived changed");
    }
}

#[tokio::test]
async fn forty_thousand_request_headers_end_the_call_and_not_the_host() {
    let server = Server::start(|_, _| Reply::status(200)).await;
    let lane = lane_to(&server, |_| {}).await;
    let outcome = lane.call_with("headers", &[("url", &server.url("/")), ("count", "40000")]).await;
    assert_eq!(host_failure(&outcome).0, HostFailure::Trap, "{outcome:?}");
    assert_eq!(reference(&get(&lane, &server.url("/")).await), "status=200 bytes=0");
}

#[tokio::test]
async fn secret_headers_are_the_hosts_whatever_the_guest_sets() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(|_, _| Reply::status(200)).await;
    let token = secret_file(folder.path(), b"Bearer first\n");
    let lane = lane_to(&server, |spec| {
        spec.http[0].headers =
            vec![("X-Header-0".into(), token.source()), ("Authorization".into(), token.source())];
    })
    .await;
    let send = || async {
        let outcome = lane.call_with("headers", &[("url", &server.url("/")), ("count", "1")]).await;
        assert_eq!(reference(&outcome), "status=200 bytes=0");
    };
    send().await;
    token.change(b"Bearer second\n");
    send().await;
    let received = server.received();
    for (request, expected) in received.iter().zip(["Bearer first", "Bearer second"]) {
        assert_eq!(request.header("authorization"), [expected]);
        assert_eq!(request.header("x-header-0"), [expected], "the guest's own value was sent");
    }
    assert_eq!(received.len(), 2);
}
