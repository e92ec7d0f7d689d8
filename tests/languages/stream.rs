//! The real relay on a database of its own, from a full outbox to the last recorded delivery.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::receiver::{Receiver, status};
use outhaul::clock::{SharedClock, SystemClock};
use outhaul::relay::{Lane, Relay, RelayHandle};
use outhaul::service::config::Config;
use outhaul::service::stores::{Stores, open_stores};
use outhaul::service::{mapping, plugins};
use outhaul::store::{NewEvent, Takeover};
use outhaul_tests::budget::from_env;
use outhaul_tests::guests;
use tokio::sync::Semaphore;

const EVENTS: u64 = 200;

pub async fn each_event_is_delivered_once(component: &str) {
    let events = from_env("OUTHAUL_STREAM_EVENTS").unwrap_or(EVENTS);
    let arrived = Arc::new(Semaphore::new(0));
    let times = Arc::<Mutex<HashMap<String, u32>>>::default();
    let receiver = {
        let (arrived, times) = (arrived.clone(), times.clone());
        Receiver::answering(move |request| {
            let id = request.header("webhook-id").or_else(|| request.header("idempotency-key"));
            let id = id.expect("each has its ID").to_owned();
            *times.lock().expect("the test's own lock").entry(id).or_default() += 1;
            arrived.add_permits(1);
            status(204)
        })
        .await
    };
    let folder = tempfile::tempdir().expect("a folder");
    let (config, stores, clock) = open(folder.path(), component, &receiver.origin()).await;
    emit(&stores, events).await;
    let relay = start(&config, &stores, clock).await;
    for _ in 0..events {
        arrived.acquire().await.expect("it is never closed").forget();
    }
    relay.drain().await;
    let lane = stores.operate.lane_reports().await.expect("the database answers").remove(0);
    assert_eq!((lane.pending, lane.leased, lane.dead), (0, 0, 0));
    let times = times.lock().expect("the test's own lock");
    assert_eq!(times.len() as u64, events);
    assert!(times.values().all(|&times| times == 1), "some came more than once");
}

async fn open(folder: &Path, component: &str, origin: &str) -> (Config, Stores, SharedClock) {
    let file = folder.join("outhaul.toml");
    let text = format!(
        "version = 1\n[outbox]\nurl = \"sqlite:outhaul.db\"\n[runtime]\ncache = \"{}\"\n\
         [destination.stream]\ntopics = [\"*\"]\nconcurrency = 2\ncomponent = \"{}\"\n\
         settings = {{ url = \"{origin}\" }}\n[[destination.stream.http]]\norigin = \"{origin}\"\nprivate = true\n",
        guests::compiled().display(),
        guests::guest(component).display(),
    );
    std::fs::write(&file, text).expect("the folder can be written");
    let config = Config::load(&file).unwrap_or_else(|problems| panic!("{problems}"));
    let stores = open_stores(&config).await.expect("a database");
    stores.schema.migrate().await.expect("a schema");
    let registration = mapping::registration(&config, "test", Takeover::IfNeverSeen);
    stores.store.register(&registration).await.expect("routes are written");
    (config, stores, Arc::new(SystemClock))
}

async fn emit(stores: &Stores, events: u64) {
    let event = |number| NewEvent {
        id: format!("event-{number}"),
        topic: "order.created".to_owned(),
        payload: format!("{{\"order\":{number}}}").into_bytes(),
        ..NewEvent::default()
    };
    for first in (0..events).step_by(1_000) {
        let some: Vec<_> = (first..events.min(first + 1_000)).map(event).collect();
        stores.operate.emit(&some).await.expect("they are taken");
    }
}

async fn start(config: &Config, stores: &Stores, clock: SharedClock) -> RelayHandle {
    let runtime = plugins::runtime(&config.file, clock.clone()).expect("the runtime starts");
    let target = plugins::load_all(&runtime, &config.file).await.remove(0);
    assert_eq!(target.plugin.unready(), None);
    let registration = mapping::registration(config, "test", Takeover::IfNeverSeen);
    let mut registered = stores.store.register(&registration).await.expect("it is current");
    let (name, id) = registered.destinations.pop().expect("one destination");
    let settings = mapping::lane_settings(&config.file, &name, &config.file.destination[&name]);
    let lane = Lane { id: id.expect("its config is current"), settings, plugin: target.plugin };
    Relay::start(stores.store.clone(), clock, mapping::relay_settings(&config.file, "test"), vec![lane])
}
