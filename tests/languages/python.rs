//! Python, by componentize-py.

crate::promises::promises!("template-python");

mod hostile {
    crate::engines::survived!("hostile-python");
}

mod stream {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn events_stream_through_one_destination_and_each_is_delivered_once() {
        crate::stream::each_event_is_delivered_once("template-python").await;
    }
}
