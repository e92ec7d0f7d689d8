//! Python, by componentize-py.

crate::promises::promises!("template-python");
crate::promises::promises! { "template-python":
    events_of_a_batch_are_under_way_at_once_and_each_keeps_its_outcome,
    a_batch_of_more_events_than_the_host_has_connections_goes_out_whole,
}

mod hostile {
    crate::engines::survived!("hostile-python");
}

mod stream {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn events_stream_through_one_destination_and_each_is_delivered_once() {
        crate::stream::each_event_is_delivered_once("template-python").await;
    }
}
