//! The commands on the in-memory store: what they change, print and answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::clock::{SharedClock, SystemClock};
use crate::domain::{Timestamp, Write as Verdict};
use crate::service::stores::Stores;
use crate::store::memory::MemoryStore;
use crate::store::*;

pub(super) struct Desk {
    store: Arc<MemoryStore>,
    context: Context,
}

/// What a command printed and answered.
pub(super) struct Answer {
    pub exit: Exit,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

impl Desk {
    /// A store with one destination, `hook`, for `order.*`.
    pub async fn new() -> Self {
        let clock: SharedClock = Arc::new(SystemClock);
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let destination = DestinationConfig {
            name: "hook".into(),
            renamed_from: None,
            topics: vec!["order.*".into()],
            order: Order::None,
            digest: "d".into(),
        };
        let host = HostRegistration {
            host_id: "host-1".into(),
            version: "0".into(),
            config_digest: "c".into(),
            destinations: vec![destination],
            takeover: Takeover::IfNeverSeen,
        };
        store.register(&host).await.unwrap();
        let context = Context { stores: Stores::of(store.clone()), who: "ada@desk".into(), clock };
        Self { store, context }
    }

    async fn try_run(&self, arguments: &[&str]) -> anyhow::Result<Answer> {
        let cli = Cli::try_parse_from([&["outhaul"], arguments].concat())
            .map_err(|error| anyhow::anyhow!("{error}"))?;
        let mut out = Vec::new();
        let exit = match cli.command {
            Command::Emit(args) => emit::run(&self.context, &args, &mut out).await?,
            Command::Status(args) => status::show_all(&self.context, None, &args, &mut out).await?,
            Command::Lanes(args) => lanes::run(&self.context, &args, &mut out).await?,
            Command::Events(args) => events::run(&self.context, &args, &mut out).await?,
            Command::Dead(args) => dead::run(&self.context, &args, &mut out).await?,
            Command::Migrate(args) => migrate::migrate(&self.context, &args, &mut out).await?,
            Command::Plugin(args) => plugin::run(&cli.common, &args, &mut out).await?,
            Command::Run(_) | Command::Check(_) | Command::Config(_) => panic!("this needs a config"),
        };
        Ok(Answer { exit, text: String::from_utf8(out).unwrap() })
    }

    pub async fn run(&self, arguments: &[&str]) -> Answer {
        self.try_run(arguments).await.unwrap_or_else(|error| panic!("{arguments:?}: {error:#}"))
    }

    async fn error(&self, arguments: &[&str]) -> String {
        match self.try_run(arguments).await {
            Ok(answer) => panic!("{arguments:?} succeeded: {}", answer.text),
            Err(error) => format!("{error:#}"),
        }
    }

    /// Claims everything due and ends it so.
    async fn end_all(&self, write: Verdict, outcome: &str) -> usize {
        let hook = self.store.register_id("hook").await;
        let request = ClaimRequest {
            host_id: "host-1".into(),
            destination: hook,
            limit: 100,
            lease: std::time::Duration::from_secs(30),
            order: Order::None,
            max_attempts: 5,
            which: Which::Ordinary,
            probe: None,
        };
        let claims = self.store.claim(&request).await.unwrap().claimed;
        let results: Vec<_> = claims
            .iter()
            .map(|claimed| Acknowledgement {
                claim: claimed.claim,
                write: write.clone(),
                lane_works: write == Verdict::Delivered,
                record: AttemptRecord {
                    host_id: "host-1".into(),
                    attempt: claimed.attempt,
                    started_at: claimed.claimed_at,
                    ended_at: claimed.claimed_at,
                    outcome: outcome.into(),
                    code: "http-400".into(),
                    message: "no\nsuch order".into(),
                    uncertain: false,
                    reference: None,
                    component_digest: "dd".into(),
                },
            })
            .collect();
        let settled = self.store.acknowledge(&results).await.unwrap();
        assert!(settled.iter().all(|one| *one == Settled::Recorded));
        settled.len()
    }

    pub async fn statuses(&self) -> BTreeMap<String, DeliveryStatus> {
        let filter = DeliveryFilter { limit: 10_000, ..Default::default() };
        let rows = self.store.deliveries(&filter).await.unwrap();
        rows.into_iter().map(|row| (row.event_id, row.status)).collect()
    }
}

impl MemoryStore {
    async fn register_id(&self, name: &str) -> crate::domain::DestinationId {
        let lanes = self.lane_reports().await.unwrap();
        lanes.into_iter().find(|lane| lane.destination == name).and_then(|lane| lane.id).unwrap()
    }
}

const DEAD: Verdict = Verdict::Dead(crate::domain::DeadReason::Rejected);

pub(super) fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

pub(super) fn path(file: &tempfile::NamedTempFile) -> &str {
    file.path().to_str().unwrap()
}

#[test]
fn the_command_line_is_well_formed() {
    use clap::CommandFactory;
    Cli::command().debug_assert();
}

#[tokio::test]
async fn emit_inserts_one_event_byte_for_byte_and_a_second_time_leaves_it() {
    let desk = Desk::new().await;
    let payload = file("{\"n\": 1}\n");
    let emit = ["emit", "order.created", path(&payload), "--id", "o-1", "--key", "k", "--header", "a=b=c"];
    assert_eq!(desk.run(&emit).await.text, "emitted o-1\n");
    assert_eq!(desk.run(&emit).await.text, "o-1 existed already and is left as it was\n");
    assert_eq!(desk.run(&["events", "show", "o-1", "--payload"]).await.text, "{\"n\": 1}\n");
    let shown = desk.run(&["events", "show", "o-1", "--json"]).await.json();
    assert_eq!((&shown["key"], &shown["headers"]), (&"k".into(), &serde_json::json!([["a", "b=c"]])));
    assert_eq!(shown["deliveries"][0]["status"], "pending");
}

#[tokio::test]
async fn emit_makes_an_id_where_none_is_given() {
    let desk = Desk::new().await;
    let payload = file("x");
    let emitted = desk.run(&["emit", "order.created", path(&payload), "--json"]).await.json();
    let id = emitted["id"].as_str().unwrap();
    assert!(uuid::Uuid::parse_str(id).is_ok(), "{id}");
    assert_eq!(emitted["existed"], false);
}

#[tokio::test]
async fn emit_refuses_a_topic_and_a_time_that_are_none() {
    let desk = Desk::new().await;
    assert!(desk.error(&["emit", "order created"]).await.contains("white space"));
    assert!(desk.error(&["emit", "a.b", "--expires-at", "soon"]).await.contains("+15m"));
    assert_eq!(desk.statuses().await.len(), 0);
}

#[tokio::test]
async fn arguments_that_no_table_takes_are_misuse() {
    let desk = Desk::new().await;
    let payload = file("x");
    let long = "x".repeat(256);
    for (option, value, why) in [
        ("--id", "", "--id has 0 bytes; it takes 1 to 255"),
        ("--id", &long, "--id has 256 bytes"),
        ("--key", "", "--key has 0 bytes"),
        ("--key", &long, "--key has 256 bytes"),
        ("--content-type", "", "--content-type has 0 bytes"),
        ("--tenant", &long, "--tenant has 256 bytes; it takes 0 to 255"),
    ] {
        let error = desk.try_run(&["emit", "order.x", path(&payload), option, value]).await.err().unwrap();
        assert!(error.is::<Misuse>() && error.to_string().contains(why), "{option} {value:?}: {error}");
    }
    assert_eq!(desk.statuses().await.len(), 0);
    for command in [["events", "list"], ["dead", "list"]] {
        let unknown = [&command[..], &["--destination", "hoook"]].concat();
        let error = desk.try_run(&unknown).await.err().unwrap();
        assert!(error.is::<Misuse>() && error.to_string().contains("did you mean hook?"), "{error}");
    }
}

#[tokio::test]
async fn lanes_are_paused_and_resumed_by_a_named_person() {
    let desk = Desk::new().await;
    assert_eq!(
        desk.run(&["lanes", "pause", "hook", "--reason", "moving"]).await.text,
        "hook is now paused\n"
    );
    let listed = desk.run(&["lanes", "list"]).await.text;
    assert!(
        listed
            .lines()
            .any(|line| line.starts_with("hook") && line.contains("paused") && line.ends_with("moving"))
    );
    assert_eq!(desk.run(&["lanes", "resume", "hook"]).await.text, "hook is now active\n");
    // One host may have stopped it for itself: an active lane is started again too.
    let again = desk.run(&["lanes", "resume", "hook"]).await;
    assert_eq!((again.exit, again.text.as_str()), (Exit::Fine, "hook is now active\n"));
    let error = desk.error(&["lanes", "pause", "hok"]).await;
    assert!(
        error.contains("there is no destination \"hok\"; did you mean hook?; there are: hook"),
        "{error}"
    );
    let actions = desk.store.actions(10).await.unwrap();
    assert_eq!(actions.len(), 3);
    assert!(actions.iter().all(|action| action.who == "ada@desk"));
}

#[tokio::test]
async fn events_are_cancelled_and_redelivered_and_an_act_that_changes_nothing_says_why() {
    let desk = Desk::new().await;
    let payload = file("x");
    for id in ["a", "b"] {
        desk.run(&["emit", "order.x", path(&payload), "--id", id]).await;
    }
    assert_eq!(desk.run(&["events", "cancel", "a"]).await.text, "1 delivery cancelled\n");
    let error = desk.error(&["events", "cancel", "a"]).await;
    assert!(error.contains("a is cancelled for hook; only pending ones can be"), "{error}");
    assert!(desk.error(&["events", "cancel", "z"]).await.contains("there is no event z"));
    assert_eq!(desk.end_all(Verdict::Delivered, "delivered").await, 1);
    assert_eq!(desk.statuses().await["b"], DeliveryStatus::Delivered);
    assert_eq!(desk.run(&["events", "redeliver", "b"]).await.text, "1 delivery put back for delivery\n");
    assert_eq!(desk.statuses().await["b"], DeliveryStatus::Pending);
}

#[tokio::test]
async fn s24_a_bulk_redrive_is_capped_and_staggered() {
    let desk = Desk::new().await;
    let lines = file(&"{}\n".repeat(90));
    desk.run(&["emit", "order.x", path(&lines), "--lines"]).await;
    assert_eq!(desk.end_all(DEAD, "rejected").await, 90);
    let dead = desk.run(&["dead", "list", "--json", "--limit", "500"]).await.json();
    assert_eq!(dead.as_array().unwrap().len(), 90);

    let before = desk.store.now().await.unwrap();
    let redrive = ["dead", "redrive", "--destination", "hook", "--limit", "60", "--rate", "2/s", "--json"];
    let redriven = desk.run(&redrive).await.json();
    assert_eq!(redriven, serde_json::json!({ "redriven": 60, "last_due_after_seconds": 29.5 }));
    let pending = desk.run(&["events", "list", "--status", "pending", "--limit", "500"]).await.text;
    assert_eq!(pending.lines().filter(|line| line.contains("pending")).count(), 60);

    let filter = DeliveryFilter { status: Some(DeliveryStatus::Pending), limit: 500, ..Default::default() };
    let rows = desk.store.deliveries(&filter).await.unwrap();
    let mut due: Vec<Timestamp> = rows.iter().filter_map(|row| row.due_at).collect();
    due.sort();
    assert!(due[59].since(before) >= std::time::Duration::from_millis(29_500));
    assert!(due.windows(2).all(|pair| pair[1].since(pair[0]).as_millis() == 500), "{due:?}");
    assert!(rows.iter().all(|row| row.attempts == 0));
}

#[tokio::test]
async fn dead_letters_are_acted_on_only_when_it_is_said_which() {
    let desk = Desk::new().await;
    let payload = file("x");
    desk.run(&["emit", "order.x", path(&payload), "--id", "a"]).await;
    desk.end_all(DEAD, "rejected").await;
    for command in ["redrive", "discard"] {
        let error = desk.try_run(&["dead", command]).await.err().unwrap();
        assert!(error.is::<Misuse>(), "{error}");
    }
    assert!(desk.error(&["dead", "redrive", "a", "--all"]).await.contains("cannot be used with"));
    assert_eq!(desk.run(&["dead", "discard", "a"]).await.text, "1 dead letter discarded\n");
    assert_eq!(desk.statuses().await["a"], DeliveryStatus::Cancelled);
    let error = desk.error(&["dead", "redrive", "a"]).await;
    assert!(error.contains("a is cancelled for hook; only dead ones can be"), "{error}");
}

#[tokio::test]
async fn an_events_history_is_shown_on_single_lines() {
    let desk = Desk::new().await;
    let payload = file("x");
    desk.run(&["emit", "order.x", path(&payload), "--id", "a"]).await;
    desk.end_all(DEAD, "rejected").await;
    let shown = desk.run(&["dead", "show", "a"]).await.text;
    assert!(
        shown.lines().any(|line| line.contains("rejected") && line.ends_with("http-400: no·such order")),
        "{shown}"
    );
}

#[tokio::test]
async fn status_shows_lanes_backlog_and_hosts() {
    let desk = Desk::new().await;
    let payload = file("x");
    desk.run(&["emit", "order.x", path(&payload)]).await;
    desk.store
        .heartbeat(
            "host-1",
            &HostNotes {
                problems: vec![LaneProblem { destination: "hook".into(), problem: "no file".into() }],
                ..Default::default()
            },
        )
        .await
        .unwrap();
    let status = desk.run(&["status"]).await.text;
    assert!(status.contains("fails on 1 host"), "{status}");
    let row = status.lines().find(|line| line.starts_with("hook ")).unwrap();
    assert!(row.contains(" – "), "no host has told a rate yet: {status}");
    assert!(status.contains("problem: hook on host-1: no file"), "{status}");
    let loaded = LoadedNote {
        destination: "hook".into(),
        generation: 4,
        component_digest: "0123456789".into(),
        reload_error: Some("it traps".into()),
        canary: Some(CanaryNote {
            component_digest: "9876543210".into(),
            share: "5%".into(),
            off: Some("it says gone: moved".into()),
            handed_over: 3,
            stable: VariantNote {
                outcomes: BTreeMap::from([("delivered".to_owned(), 97), ("retry".to_owned(), 2)]),
                p50_micros: Some(1_234),
                p99_micros: Some(2_000_000),
            },
            canary: VariantNote::default(),
        }),
    };
    let reload_error = Some("outhaul.toml:3: unknown key".to_owned());
    let rate = |delivered_per_minute| LaneRate { destination: "hook".into(), delivered_per_minute };
    let notes = HostNotes { loaded: vec![loaded], rates: vec![rate(40)], reload_error, ..Default::default() };
    desk.store.heartbeat("host-1", &notes).await.unwrap();
    let status = desk.run(&["status"]).await.text;
    for part in [
        "01234567 #4",
        "reload: hook on host-1 stays at #4: it traps",
        "reload: host-1: outhaul.toml:3: unknown key",
        "CANARY OF  HOST    VARIANT    COMPONENT  EVENTS  P50    P99   OUTCOMES",
        "hook       host-1  stable     01234567   99      1.2ms  2.0s  delivered 97, retry 2",
        "hook       host-1  canary 5%  98765432   0",
        "canary: hook on host-1 is off: it says gone: moved",
        "canary: hook on host-1: the stable component decided 3 of its events",
    ] {
        assert!(status.contains(part), "no {part} in {status}");
    }
    let lanes = desk.run(&["lanes", "list", "--json"]).await.json();
    assert_eq!((&lanes[0]["destination"], &lanes[0]["delivered_per_minute"]), (&"hook".into(), &40.into()));
    let status = desk.run(&["status", "--json"]).await.json();
    assert_eq!((&status["lanes"][0]["pending"], &status["hosts"][0]["host"]), (&1.into(), &"host-1".into()));
}

#[tokio::test]
async fn a_list_or_an_act_of_nothing_is_refused_with_the_range() {
    let desk = Desk::new().await;
    for command in [
        &["events", "list"][..],
        &["dead", "list"],
        &["dead", "redrive", "--all"],
        &["dead", "discard", "--all"],
        &["plugin", "replay", "x.wasm", "--destination", "hook"],
    ] {
        let error = desk.error(&[command, &["--limit", "0"]].concat()).await;
        assert!(error.contains("0 is not in 1.."), "{command:?}: {error}");
    }
}

#[tokio::test]
async fn an_act_means_the_events_of_one_tenant() {
    let desk = Desk::new().await;
    let payload = file("x");
    desk.run(&["emit", "order.x", path(&payload), "--id", "a", "--tenant", "t1"]).await;
    desk.run(&["emit", "order.x", path(&payload), "--id", "a", "--tenant", "t2"]).await;
    assert!(desk.error(&["events", "cancel", "a"]).await.contains("is it of another --tenant?"));
    assert_eq!(desk.run(&["events", "cancel", "a", "--tenant", "t1"]).await.text, "1 delivery cancelled\n");
    let listed = desk.run(&["events", "list", "--tenant", "t2", "--json"]).await.json();
    assert_eq!(listed[0]["status"], "pending");
}
