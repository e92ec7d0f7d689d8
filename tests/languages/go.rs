//! Go, by its own compiler.

use crate::harness::{Plan, call, detail};
use crate::receiver::{Receiver, status};
use crate::records;
use bytes::Bytes;
use outhaul::plugin::Deliver;
use serde_json::json;

// Its instances begin with less memory than engines do.
crate::promises::promises! { "template-go":
    an_event_is_posted_whole_with_its_identity,
    s34_the_requests_of_many_events_share_a_few_connections,
    s35_bodies_around_a_buffers_size_and_past_two_mebibytes_go_out_whole,
    s36_a_pool_whose_replacements_fail_heals,
    s39_calls_under_way_end_on_the_generation_they_began_with,
    every_answer_has_its_meaning,
    s22_a_wish_to_wait_is_seconds_or_a_date_and_anything_else_is_none,
    nobody_listening_pauses_the_lane_and_costs_no_instance,
    silence_and_a_lost_answer_are_uncertain,
    a_request_that_the_config_does_not_allow_names_the_section_to_add,
    each_wrong_setting_is_refused_at_its_pointer,
    requests_are_signed_with_each_key_of_the_secret,
    a_secret_that_is_not_granted_shows_when_the_plugin_is_loaded,
    what_it_logs_comes_out,
    s38_it_fits_the_default_limits,
}

mod hostile {
    crate::engines::survived! { "hostile-go":
        endless_recursion_is_no_more_than_a_failure_or_a_trap,
        s28_a_flood_of_lines_is_bounded_and_each_is_one_record,
        s29_spinning_is_ended_by_the_budget_and_other_lanes_go_on,
        s30_waiting_is_ended_by_the_budget_too,
        s31_after_an_end_by_force_the_next_event_finds_a_fresh_instance,
        s32_instances_replaced_over_and_over_leave_no_mapping_and_no_memory_behind,
        s33_the_first_the_second_and_the_third_call_can_be_stopped,
        memory_without_end_is_out_of_memory_and_names_the_limit,
        a_leak_replaces_the_instance_before_it_runs_out,
        handles_without_end_are_a_trap,
        endless_texts_are_cut,
    }
}

mod stream {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn events_stream_through_one_destination_and_each_is_delivered_once() {
        crate::stream::each_event_is_delivered_once("template-go").await;
    }
}

fn hostile() -> Plan {
    Plan::of("hostile-go", json!({}))
}

#[tokio::test]
async fn a_panic_is_a_failure_with_its_message_and_its_stack_goes_to_the_log() {
    records::keep();
    let plan = hostile();
    let destination = plan.spec.destination.clone();
    let lane = plan.load().await;
    let outcome = lane.send(br#"{"misdeed":"fail"}"#).await;
    assert_eq!((outcome.kind(), outcome.is_uncertain()), ("other", true), "{outcome:?}");
    assert_eq!(detail(&outcome).code, "panic");
    assert_eq!(detail(&outcome).message, "assignment to entry in nil map");
    let written = records::of(&destination);
    let stack = written.iter().find(|(level, _)| level == "ERROR").map(|(_, text)| text.as_str());
    assert!(stack.is_some_and(|text| text.contains("plugin.deliver(")), "{written:?}");
    assert!(lane.send(br#"{"misdeed":"remember"}"#).await.is_success());
    assert_eq!(lane.stats().instances_created, 1);
}

#[tokio::test]
async fn any_error_is_a_failure_with_its_words_even_if_they_are_no_text() {
    let lane = hostile().load().await;
    let outcome = lane.send(br#"{"misdeed":"fail-with-error"}"#).await;
    assert_eq!((outcome.kind(), detail(&outcome).message.as_str()), ("other", "no such customer: Zoë"));
    let outcome = lane.send(br#"{"misdeed":"broken-text"}"#).await;
    assert_eq!((outcome.kind(), detail(&outcome).message.as_str()), ("other", "no UTF-8: \u{fffd}"));
    assert_eq!(lane.stats().instances_created, 1);
}

#[tokio::test]
async fn an_exit_is_a_trap() {
    let lane = hostile().load().await;
    assert_eq!(lane.send(br#"{"misdeed":"exit"}"#).await.kind(), "trap");
    assert!(lane.send(br#"{"misdeed":"remember"}"#).await.is_success());
}

#[tokio::test]
async fn what_it_prints_comes_out_as_records() {
    records::keep();
    let plan = hostile();
    let destination = plan.spec.destination.clone();
    let lane = plan.load().await;
    assert!(lane.send(br#"{"misdeed":"print","lines":2}"#).await.is_success());
    let written: Vec<_> = records::of(&destination).into_iter().map(|(_, text)| text).collect();
    assert_eq!(written, ["line 0", "line 1"]);
}

/// Its collector reads the clock, which nobody may while the host passes values in.
#[tokio::test]
async fn garbage_and_large_payloads_together_cost_no_instance() {
    let lane = hostile().change(|spec| spec.limits.memory_bytes = 96 << 20).load().await;
    let padding = " ".repeat(900_000);
    for _ in 0..60 {
        let order = format!("{{\"misdeed\":\"garbage\",\"lines\":40,\"bytes\":100000{padding}}}");
        let outcome = lane.send(order.as_bytes()).await;
        assert!(outcome.is_success(), "{outcome:?}");
    }
    let stats = lane.stats();
    assert_eq!((stats.instances_created, stats.traps, stats.out_of_memory), (1, 0, 0));
}

#[tokio::test]
async fn a_batch_larger_than_the_hosts_connections_goes_out_and_each_event_keeps_its_outcome() {
    let receiver = Receiver::answering(|request| {
        let wanted = std::str::from_utf8(&request.body).unwrap().trim();
        status(wanted.parse().expect("a status"))
    })
    .await;
    let plan = Plan::of("template-go", json!({ "url": receiver.origin() })).reaching(&receiver.origin());
    let lane = plan.load().await;
    let statuses = ["204", "422", "500"];
    let calls = (0..100).map(|n| {
        let mut call = call(b"");
        // Large enough that a request without a connection can't be written.
        call.payload = Bytes::from(format!("{:>10000}", statuses[n % 3]));
        call.event.payload_bytes = 10_000;
        call.dedup_id = format!("order-{n}");
        call
    });
    let outcomes = lane.plugin.deliver_batch(calls.collect()).await;
    let kinds: Vec<_> = outcomes.iter().map(|outcome| outcome.kind()).collect();
    let expected: Vec<_> = (0..100).map(|n| ["delivered", "rejected", "retry"][n % 3]).collect();
    assert_eq!(kinds, expected);
    assert_eq!(receiver.received().len(), 100);
}
