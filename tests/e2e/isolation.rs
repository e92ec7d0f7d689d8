//! One destination's trouble is its own, seen from outside.

use outhaul::store::DeliveryStatus;
use outhaul_tests::guests::guest;

use crate::databases::{Scene, deliveries, until, until_delivered};
use crate::first_event::noop;
use crate::host::Host;
use crate::receiver::Receiver;

on_both!(
    s6_guests_that_spin_on_every_thread_stop_no_renewal_of_another_lane,
    s9_one_of_a_hundred_destinations_hangs_and_the_others_deliver,
    what_a_plugin_asks_for_in_vain_is_counted_and_logged_by_name,
);

async fn s6_guests_that_spin_on_every_thread_stop_no_renewal_of_another_lane(scene: Scene) {
    const SPINNING: usize = 8;
    const HELD: usize = 4;
    scene.migrate().await;
    let receiver = Receiver::holding().await;
    let slow = receiver.destination("lease = \"4s\"\nmargin = \"500ms\"\nlimits = { call = \"60s\" }\n");
    // Each attempt spins for its whole budget of 20 s, which is longer than any lease here.
    let spinner = format!(
        "[destination.spinner]\ncomponent = \"{}\"\ntopics = [\"spin\"]\nconcurrency = {SPINNING}\n\
         lease = \"4s\"\nmargin = \"500ms\"\nsettings = {{ misdeed = \"spin\" }}\n\
         limits = {{ call = \"20s\" }}\nretry = {{ max_attempts = 1 }}\n",
        guest("hostile").display()
    );
    let config = scene.write_config(&format!("{slow}\n{spinner}"));
    let mut producer = scene.producer().await;
    producer.insert("order.created", "held", HELD).await;
    producer.insert("spin", "spin", SPINNING).await;
    let host = Host::start(&config);
    receiver.wait_for(HELD).await;

    // When the spinners' budget has ended them, the held calls have outlived several leases.
    let stores = scene.stores().await;
    until("the spinning deliveries are dead letters", async || {
        let rows = deliveries(&stores).await;
        (rows.iter().filter(|row| row.status == DeliveryStatus::Dead).count() == SPINNING).then_some(())
    })
    .await;
    receiver.allow(usize::MAX);
    until_delivered(&stores, HELD).await;
    host.stop();
    for row in deliveries(&stores).await {
        assert_eq!((row.attempts, row.lost, row.fence), (1, 0, 1), "its lease never lapsed: {row:?}");
    }
    assert_eq!(receiver.received().len(), HELD, "each went out once");
}

async fn s9_one_of_a_hundred_destinations_hangs_and_the_others_deliver(scene: Scene) {
    const HEALTHY: usize = 99;
    const EVENTS: usize = 10;
    scene.migrate().await;
    let receiver = Receiver::holding().await;
    let mut destinations = receiver.destination("limits = { call = \"60s\" }\n");
    for number in 0..HEALTHY {
        destinations.push('\n');
        destinations.push_str(&noop(&format!("healthy-{number}"), "order.*", ""));
    }
    let config = scene.write_config(&destinations);
    let host = Host::start(&config);
    scene.producer().await.insert("order.created", "o", EVENTS).await;
    receiver.wait_for(EVENTS).await;
    let stores = scene.stores().await;
    until_delivered(&stores, HEALTHY * EVENTS).await;
    let hanging =
        deliveries(&stores).await.iter().filter(|row| row.status == DeliveryStatus::Pending).count();
    assert_eq!(hanging, EVENTS, "the hanging destination still hangs");
    receiver.allow(usize::MAX);
    until_delivered(&stores, (HEALTHY + 1) * EVENTS).await;
    host.stop();
    assert!(deliveries(&stores).await.iter().all(|row| row.attempts == 1 && row.lost == 0));
}

async fn what_a_plugin_asks_for_in_vain_is_counted_and_logged_by_name(scene: Scene) {
    const EVENTS: usize = 3;
    scene.migrate().await;
    let prying = format!(
        "[destination.prying]\ncomponent = \"{}\"\ntopics = [\"*\"]\nsettings = {{ misdeed = \"connect-tcp\" }}\n",
        guest("hostile").display()
    );
    let config = scene.write_config(&prying);
    let mut host = Host::start(&config);
    scene.producer().await.insert("order.created", "o", EVENTS).await;
    let told = host.wait_for_record("a plugin asked for what is not granted");
    assert_eq!(told["fields"]["destination"], "prying");
    assert_eq!(told["fields"]["capability"], "sockets");
    assert_eq!(told["fields"]["fix"], "add  allow = { tcp = [\"host:port\"] }  to [destination.prying]");
    until_delivered(&scene.stores().await, EVENTS).await;
    let (status, text) = host.get("/metrics").await;
    assert_eq!(status, 200);
    let line = format!("outhaul_denied_total{{destination=\"prying\",capability=\"sockets\"}} {EVENTS}");
    assert!(text.contains(&line), "{text}");
    assert!(text.contains("outhaul_denied_total{destination=\"prying\",capability=\"net\"} 0"), "{text}");
    host.stop();
}
