//! What every template does while its host shares connections, replaces instances and swaps generations.

use std::sync::Arc;

use crate::harness::{Plan, call, runtime};
use crate::receiver::{Receiver, bare_server, send};
use outhaul::plugin::Deliver;
use outhaul::plugin::spec::{SecretGrant, SecretSource};
use outhaul_tests::budget::from_env;
use outhaul_tests::components::replace;
use outhaul_tests::http::{Reply, Server};
use serde_json::json;
use tokio::sync::Semaphore;

pub async fn s34_the_requests_of_many_events_share_a_few_connections(component: &str) {
    const AT_ONCE: u64 = 4;
    let requests = from_env("OUTHAUL_REQUESTS").unwrap_or(200);
    let server = Server::start(|_, _| Reply::with_headers(200, &[], b"some body")).await;
    let origin = server.url("");
    let plan = Plan::of(component, json!({ "url": server.url("/orders") })).reaching(&origin);
    let lane = plan.change(|spec| (spec.concurrency, spec.limits.http.connections) = (4, 2)).load().await;
    let senders = (0..AT_ONCE).map(|_| {
        let plugin = lane.plugin.clone();
        tokio::spawn(async move {
            for _ in 0..requests / AT_ONCE {
                let outcome = plugin.deliver(call(b"{}")).await;
                assert!(outcome.is_success(), "{outcome:?}");
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await.expect("each is delivered");
    }
    assert_eq!(server.received().len() as u64, requests);
    assert!(server.open_most() <= 2, "{} at once", server.open_most());
    assert!(server.connections() <= 2, "{} connections", server.connections());
}

/// The key is what the second and further instances can't start without.
pub async fn s36_a_pool_whose_replacements_fail_heals(component: &str) {
    let receiver = Receiver::accepting().await;
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("key");
    replace(&key, b"whsec_bmV3");
    let grant = SecretGrant {
        keys: vec![SecretSource::File(key.clone())],
        uses: ["hmac-sha256".to_owned()].into_iter().collect(),
    };
    let settings = json!({ "url": receiver.origin(), "signing_secret": "signing" });
    let plan = Plan::of(component, settings).reaching(&receiver.origin()).change(|spec| {
        (spec.concurrency, spec.limits.calls_per_instance) = (2, 1);
        spec.secrets.insert("signing".to_owned(), grant);
    });
    let lane = plan.load().await;
    assert!(lane.send(b"{}").await.is_success());
    replace(&key, b"whsec_no base64");
    for _ in 0..5 {
        let outcome = lane.send(b"{}").await;
        assert_eq!(outcome.kind(), "unavailable", "{outcome:?}");
        assert!(!outcome.is_uncertain());
    }
    replace(&key, b"whsec_b2xk");
    for _ in 0..2 {
        let outcome = lane.send(b"{}").await;
        assert!(outcome.is_success(), "{outcome:?}");
    }
    assert_eq!((receiver.received().len(), lane.stats().instances_failed), (3, 5));
}

/// Three swaps while calls wait for their answers.
pub async fn s39_calls_under_way_end_on_the_generation_they_began_with(component: &str) {
    const CALLS: u32 = 3;
    let (arrived, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let address = {
        let (arrived, gate) = (arrived.clone(), gate.clone());
        bare_server(move |mut stream| {
            let (arrived, gate) = (arrived.clone(), gate.clone());
            async move {
                arrived.add_permits(1);
                gate.acquire().await.expect("it is never closed").forget();
                send(&mut stream, "HTTP/1.1 204 No Content\r\n\r\n").await;
            }
        })
        .await
    };
    let origin = format!("http://{address}");
    let plan = Plan::of(component, json!({ "url": origin })).reaching(&origin);
    let plan = plan.change(|spec| spec.concurrency = CALLS);
    let spec = plan.spec.clone();
    let mut running = plan.load().await.plugin;
    let mut under_way = Vec::new();
    for _ in 0..CALLS {
        let plugin = running.clone();
        under_way.push(tokio::spawn(async move { plugin.deliver(call(b"{}")).await }));
    }
    arrived.acquire_many(CALLS).await.expect("it is never closed").forget();
    let mut retiring = Vec::new();
    for _ in 0..3 {
        let next = runtime().load_after(spec.clone(), Some(&running)).await;
        let replaced = std::mem::replace(&mut running, next.unwrap_or_else(|error| panic!("{error}")));
        retiring.push(tokio::spawn(async move { replaced.retire().await }));
    }
    let plugin = running.clone();
    under_way.push(tokio::spawn(async move { plugin.deliver(call(b"{}")).await }));
    arrived.acquire().await.expect("it is never closed").forget();
    assert!(under_way.iter().all(|call| !call.is_finished()), "a swap ended a call");
    gate.add_permits(CALLS as usize + 1);
    for call in under_way {
        let outcome = call.await.expect("it ends");
        assert!(outcome.is_success(), "{outcome:?}");
    }
    for retired in retiring {
        retired.await.expect("it ends with its last call");
    }
    let stats = running.stats();
    assert_eq!((stats.calls, stats.traps, stats.cancelled), (u64::from(CALLS) + 1, 0, 0));
    assert_eq!(arrived.available_permits(), 0, "a call was made twice");
}
