//! C, by clang.

use crate::harness::{Plan, detail};
use crate::receiver::Receiver;
use axum::body::Body;
use axum::http::Response;
use outhaul::domain::Outcome;
use serde_json::json;

// It needs less memory than would be refused.
crate::promises::promises! { "template-c":
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
    // C has no exceptions.
    crate::engines::survived! { "hostile-c":
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
        crate::stream::each_event_is_delivered_once("template-c").await;
    }
}

#[tokio::test]
async fn two_mebibytes_are_enough_memory() {
    let receiver = Receiver::accepting().await;
    let plan = Plan::of("template-c", json!({ "url": receiver.origin() })).reaching(&receiver.origin());
    let lane = plan.change(|spec| spec.limits.memory_bytes = 2 << 20).load().await;
    for _ in 0..100 {
        let outcome = lane.send(&[b'x'; 100_000]).await;
        assert!(outcome.is_success(), "{outcome:?}");
    }
    assert_eq!(lane.stats().out_of_memory, 0);
}

#[tokio::test]
async fn a_trap_and_a_wild_pointer_end_one_instance_each() {
    let lane = Plan::of("hostile-c", json!({})).load().await;
    for (misdeed, words) in [("trap", "unreachable"), ("wild-pointer", "out of bounds")] {
        let outcome = lane.send(format!("{{\"misdeed\":\"{misdeed}\"}}").as_bytes()).await;
        assert_eq!((outcome.kind(), outcome.is_uncertain()), ("trap", true), "{outcome:?}");
        assert!(detail(&outcome).message.contains(words), "{outcome:?}");
        let Outcome::Delivered(receipt) = lane.send(br#"{"misdeed":"remember"}"#).await else { panic!() };
        assert_eq!(receipt.reference.as_deref(), Some("calls=1"));
    }
}

#[tokio::test]
async fn a_text_that_is_no_utf_8_costs_the_instance_that_said_it() {
    let lane = Plan::of("hostile-c", json!({})).load().await;
    let outcome = lane.send(br#"{"misdeed":"broken-text"}"#).await;
    assert!(matches!(outcome, Outcome::Host(..)), "{outcome:?}");
    assert!(lane.send(br#"{"misdeed":"remember"}"#).await.is_success());
}

#[tokio::test]
async fn an_answer_that_is_no_text_is_reported_all_the_same() {
    let receiver = Receiver::answering(|request| {
        let status = if request.body == "good" { 201 } else { 500 };
        let answer = Response::builder().status(status).header("location", b"/\xff".as_slice());
        answer.body(Body::from(b"\xff\x00 not text \xe4".as_slice())).unwrap()
    })
    .await;
    for component in ["template-c", "template-go"] {
        let plan = Plan::of(component, json!({ "url": receiver.origin() })).reaching(&receiver.origin());
        let lane = plan.load().await;
        let outcome = lane.send(b"{}").await;
        assert_eq!(outcome.kind(), "retry", "{component}: {outcome:?}");
        assert!(detail(&outcome).message.starts_with("the receiver answered 500: "), "{outcome:?}");
        let Outcome::Delivered(receipt) = lane.send(b"good").await else { panic!("{component}") };
        assert_eq!(receipt.reference.map(|text| text.chars().count()), Some(2), "{component}");
        assert_eq!(lane.stats().instances_created, 1);
    }
}
