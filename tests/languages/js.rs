//! JavaScript and TypeScript, by jco.

crate::promises::promises!("template-js");

mod hostile {
    crate::engines::survived!("hostile-js");
}

mod stream {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn events_stream_through_one_destination_and_each_is_delivered_once() {
        crate::stream::each_event_is_delivered_once("template-js").await;
    }
}
