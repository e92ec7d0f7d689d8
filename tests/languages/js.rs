//! JavaScript and TypeScript, by jco.

crate::promises::promises!("template-js");
crate::promises::promises! { "template-js":
    events_of_a_batch_are_under_way_at_once_and_each_keeps_its_outcome,
    a_batch_of_more_events_than_the_host_has_connections_goes_out_whole,
}

mod hostile {
    crate::engines::survived!("hostile-js");
}

mod stream {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn events_stream_through_one_destination_and_each_is_delivered_once() {
        crate::stream::each_event_is_delivered_once("template-js").await;
    }
}
