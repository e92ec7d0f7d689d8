//! Guests that trap, and guests that want more than they are given.

use outhaul::domain::{HostFailure, Outcome};
use outhaul::plugin::Deliver;

use crate::lane::{call, host_failure, hostile, reference};

#[tokio::test]
async fn s31_a_trap_ends_one_instance_and_the_next_event_gets_a_fresh_one() {
    let lane = hostile(|_| {}).await;
    assert_eq!(reference(&lane.call("remember").await), "calls=1");
    assert_eq!(reference(&lane.call("remember").await), "calls=2");
    let outcome = lane.call("trap").await;
    let (failure, detail) = host_failure(&outcome);
    assert_eq!(failure, HostFailure::Trap);
    assert!(detail.message.contains("unreachable"), "{}", detail.message);
    assert!(outcome.is_uncertain());
    assert_eq!(reference(&lane.call("remember").await), "calls=1");
    assert_eq!((lane.stats().instances_created, lane.stats().instances_dropped), (2, 1));
}

#[tokio::test]
async fn a_plugin_that_allocates_past_its_limit_uses_an_attempt_and_is_told_from_a_trap() {
    let lane = hostile(|spec| spec.limits.memory_bytes = 16 << 20).await;
    let outcome = lane.call("allocate").await;
    let (failure, detail) = host_failure(&outcome);
    assert_eq!(failure, HostFailure::OutOfMemory);
    assert!(detail.message.contains("limits.memory"), "{}", detail.message);
    assert_eq!(host_failure(&lane.call("trap").await).0, HostFailure::Trap);
    assert_eq!((lane.stats().out_of_memory, lane.stats().traps), (1, 1));
}

#[tokio::test]
async fn a_plugin_that_traps_on_every_third_event_delivers_the_others() {
    let lane = hostile(|_| {}).await;
    let mut kinds = Vec::new();
    for sequence in 1..=9 {
        let mut call = call("trap-third-sequence", &[]);
        call.event.seq.0 = sequence;
        kinds.push(lane.plugin.deliver(call).await.kind());
    }
    let expected = ["delivered", "delivered", "trap"].repeat(3);
    assert_eq!(kinds, expected);
}

#[tokio::test]
async fn recursion_tables_handles_and_exit_end_in_a_trap_and_the_host_lives() {
    let lane = hostile(|_| {}).await;
    for (misdeed, word) in [
        ("recursion", "out of bounds"),
        ("table-growth", "limits.tables"),
        ("handles-leak", ""),
        ("exit", "exit"),
    ] {
        let outcome = lane.call(misdeed).await;
        let (failure, detail) = host_failure(&outcome);
        assert_eq!(failure, HostFailure::Trap, "{misdeed}: {detail:?}");
        assert!(detail.message.contains(word), "{misdeed}: {}", detail.message);
        assert_eq!(reference(&lane.call("remember").await), "calls=1", "after {misdeed}");
    }
}

#[tokio::test]
async fn ten_megabytes_of_text_are_cut_and_hold_no_nul() {
    let lane = hostile(|_| {}).await;
    let Outcome::Rejected(detail) = lane.call("huge-text").await else { panic!("not rejected") };
    assert!((2045..=2048).contains(&detail.message.len()), "{}", detail.message.len());
    assert!(detail.message.starts_with("line\nof\u{fffd}text\u{fffd}[31m"), "{:?}", &detail.message[..40]);
    assert!(!detail.message.contains('\0') && !detail.code.contains(['\0', '\n']));
    assert!(detail.code.len() <= 128);
    let outcome = lane.call("huge-reference").await;
    assert!((1021..=1024).contains(&reference(&outcome).len()), "{}", reference(&outcome).len());
    assert!(!reference(&outcome).contains('\0'));
}

#[tokio::test]
async fn a_payload_past_the_limit_never_reaches_the_guest() {
    let lane = hostile(|spec| spec.limits.payload_bytes = 1000).await;
    let mut just_fits = call("echo", &[]);
    just_fits.payload = vec![b'x'; 1000].into();
    assert!(reference(&lane.plugin.deliver(just_fits).await).contains("\"payload-bytes\":1000"));
    let mut too_large = call("echo", &[]);
    too_large.payload = vec![b'x'; 1001].into();
    let outcome = lane.plugin.deliver(too_large).await;
    assert_eq!(host_failure(&outcome).0, HostFailure::PayloadTooLarge);
    assert!(!outcome.is_uncertain());
    assert_eq!(lane.stats().calls, 1);
}

#[tokio::test]
async fn a_leaking_instance_is_replaced_before_it_runs_out_of_memory() {
    let lane = hostile(|spec| spec.limits.memory_bytes = 32 << 20).await;
    for _ in 0..20 {
        // Four mebibytes a call that are never given back.
        assert!(lane.call_with("leak", &[("bytes", "4194304")]).await.is_success());
    }
    let stats = lane.stats();
    assert_eq!(stats.out_of_memory, 0);
    assert!((3..=10).contains(&stats.instances_created), "{} instances", stats.instances_created);
}

#[tokio::test]
async fn a_pool_never_holds_more_instances_than_the_concurrency_and_keeps_them_warm() {
    let lane = hostile(|spec| spec.concurrency = 3).await;
    let calls = (0..30).map(|_| lane.call_with("sleep", &[("ms", "5")]));
    for outcome in futures_util::future::join_all(calls).await {
        assert_eq!(reference(&outcome), "slept=5");
    }
    assert_eq!((lane.stats().instances_created, lane.plugin.idle_instances()), (3, 3));
    assert_eq!(lane.stats().instances_dropped, 0);
}
