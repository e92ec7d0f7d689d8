//! Rust, by its own compiler and the SDK. What its guests do wrong is the subject of the suite `hostile`.

// It posts with headers of its own, which the conformance cases of the template look at.
crate::promises::promises! { "template-rust":
    s34_the_requests_of_many_events_share_a_few_connections,
    s35_bodies_around_a_buffers_size_and_past_two_mebibytes_go_out_whole,
    s36_a_pool_whose_replacements_fail_heals,
    s38_it_fits_the_default_limits,
    s39_calls_under_way_end_on_the_generation_they_began_with,
    nobody_listening_pauses_the_lane_and_costs_no_instance,
    a_secret_that_is_not_granted_shows_when_the_plugin_is_loaded,
}

mod stream {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn events_stream_through_one_destination_and_each_is_delivered_once() {
        crate::stream::each_event_is_delivered_once("template-rust").await;
    }
}
