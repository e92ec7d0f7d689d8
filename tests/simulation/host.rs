//! A host: the real relay, and its way to the database.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use outhaul::domain::{DestinationId, EventSeq, Timestamp, Write};
use outhaul::relay::{Drained, Lane, Relay, RelayHandle, RelaySettings};
use outhaul::store::{
    Acknowledgement, ClaimRef, ClaimRequest, Claims, ConfigStanding, HostNotes, HostRegistration, LaneChange,
    LaneView, ProbeToken, Registered, Settled, Store, StoreError, StoreResult, Swept,
};
use tokio::sync::{Notify, Semaphore};

use crate::chance::SimClock;
use crate::plugin::{Script, ScriptedPlugin};
use crate::weather::Weather;
use crate::world::World;

pub struct Host {
    pub name: String,
    pub line: Arc<Line>,
    pub relay: RelayHandle,
}

impl Host {
    pub async fn start(world: &Arc<World>, name: &str) -> Self {
        Self::start_with(world, name, |_| {}).await
    }

    pub async fn start_with(world: &Arc<World>, name: &str, change: impl FnOnce(&mut RelaySettings)) -> Self {
        world.model.register(&world.registration(name)).await.expect("register");
        let mut settings = world.relay_settings(name);
        change(&mut settings);
        Self::start_on(world, Line::new(world, name), settings)
    }

    /// Starts without announcing the host first, on a line the test prepared.
    pub fn start_on(world: &Arc<World>, line: Arc<Line>, settings: RelaySettings) -> Self {
        let name = settings.host_id.clone();
        world.watch.note(format!("{} {name} starts", world.now().0));
        let booted_before = world.chance.millis(1, 1_000_000_000);
        let clock = Arc::new(SimClock::of_host(world.start, world.chance.clone(), booted_before));
        let lanes = (0..world.lanes.len()).map(|index| lane(world, &name, index)).collect();
        let relay = Relay::start(line.clone(), clock, settings, lanes);
        Self { name, line, relay }
    }

    /// Ends the host between two of its steps, without a word to anyone.
    pub async fn crash(self) {
        self.line.world.watch.note(format!("{} {} crashes", self.line.world.now().0, self.name));
        self.relay.end().await;
    }

    pub async fn drain(self) -> Drained {
        let Self { name, line, relay } = self;
        line.world.watch.note(format!("{} {name} drains", line.world.now().0));
        relay.drain().await
    }
}

/// A lane as a host's relay is given it.
pub fn lane(world: &Arc<World>, host: &str, index: usize) -> Lane {
    lane_with(world, host, index, world.lanes[index].script.clone())
}

pub fn lane_with(world: &Arc<World>, host: &str, index: usize, script: Script) -> Lane {
    let sim = &world.lanes[index];
    let plugin = ScriptedPlugin {
        world: world.clone(),
        host: host.to_owned(),
        lane: index,
        script,
        batches: sim.batches.clone(),
        unready: sim.unready.clone(),
        refused: Mutex::default(),
    };
    Lane { id: world.lane_id(index), settings: sim.settings.clone(), plugin: Arc::new(plugin) }
}

/// How long a read of these payloads takes, and how it fails.
pub type ReadRule = Box<dyn FnMut(&[EventSeq]) -> (Duration, Option<StoreError>) + Send>;

/// One host's way to the database, with its weather. Every statement passes here and is checked.
pub struct Line {
    pub world: Arc<World>,
    pub weather: Weather,
    pub host: String,
    /// The pool: a statement waits for one of these.
    pub connections: Semaphore,
    pub open: AtomicU32,
    pub most_open: AtomicU32,
    pub statements: AtomicU64,
    /// Statement number and side of its effect at which the host stands still, to be crashed.
    pub stop_at: Option<(u64, Side)>,
    pub stopped: Notify,
    pub read_rule: Mutex<Option<ReadRule>>,
    /// Events whose payload this database has lost.
    pub without_payload: Mutex<Vec<EventSeq>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Before,
    After,
}

impl Line {
    pub fn new(world: &Arc<World>, host: &str) -> Arc<Self> {
        Arc::new(Self::plain(world, host))
    }

    pub fn plain(world: &Arc<World>, host: &str) -> Self {
        Self {
            world: world.clone(),
            weather: Weather::calm(world.chance.clone()),
            host: host.to_owned(),
            connections: Semaphore::new(10),
            open: AtomicU32::new(0),
            most_open: AtomicU32::new(0),
            statements: AtomicU64::new(0),
            stop_at: None,
            stopped: Notify::new(),
            read_rule: Mutex::default(),
            without_payload: Mutex::default(),
        }
    }

    pub fn set_read_rule(
        &self,
        rule: impl FnMut(&[EventSeq]) -> (Duration, Option<StoreError>) + Send + 'static,
    ) {
        *self.read_rule.lock().unwrap() = Some(Box::new(rule));
    }

    async fn send<T>(
        &self,
        statement: &'static str,
        effect: impl Future<Output = StoreResult<T>>,
    ) -> StoreResult<T> {
        let _connection = self.connections.acquire().await.expect("never closed");
        let number = self.statements.fetch_add(1, Relaxed);
        let _open = Open::new(self);
        let fate = self.weather.draw(statement);
        tokio::time::sleep(fate.before).await;
        self.stand_still(number, Side::Before).await;
        if fate.fails_before {
            self.check(statement, "never arrived");
            return Err(lost(statement));
        }
        // The model answers without waiting, so nothing comes between the effect and its checks.
        let result = effect.await;
        self.check(statement, if result.is_ok() { "done" } else { "refused" });
        self.stand_still(number, Side::After).await;
        tokio::time::sleep(fate.after).await;
        if fate.fails_after {
            return Err(lost(statement));
        }
        result
    }

    async fn stand_still(&self, number: u64, side: Side) {
        if self.stop_at == Some((number, side)) {
            self.stopped.notify_one();
            std::future::pending::<()>().await;
        }
    }

    fn check(&self, statement: &str, how: &str) {
        let (world, rows) = (&self.world, self.world.model.rows());
        world.watch.statement(&self.host, statement, how, world.now(), &rows);
    }
}

fn lost(statement: &str) -> StoreError {
    StoreError::Unavailable(format!("{statement}: the connection was lost"))
}

struct Open<'a>(&'a Line);

impl<'a> Open<'a> {
    fn new(line: &'a Line) -> Self {
        let now_open = line.open.fetch_add(1, Relaxed) + 1;
        line.most_open.fetch_max(now_open, Relaxed);
        Self(line)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

#[async_trait]
impl Store for Line {
    async fn server_version(&self) -> StoreResult<String> {
        self.world.model.server_version().await
    }

    async fn now(&self) -> StoreResult<Timestamp> {
        self.send("now", self.world.model.now()).await
    }

    async fn register(&self, host: &HostRegistration) -> StoreResult<Registered> {
        self.send("register", self.world.model.register(host)).await
    }

    async fn heartbeat(&self, host_id: &str, notes: &HostNotes) -> StoreResult<ConfigStanding> {
        self.send("heartbeat", self.world.model.heartbeat(host_id, notes)).await
    }

    async fn lanes(&self, destinations: &[DestinationId]) -> StoreResult<Vec<LaneView>> {
        self.send("lanes", self.world.model.lanes(destinations)).await
    }

    async fn claim(&self, request: &ClaimRequest) -> StoreResult<Claims> {
        let effect = async {
            let claims = self.world.model.claim(request).await?;
            self.world.watch.claimed(&self.host, request.destination, &claims, self.world.now());
            Ok(claims)
        };
        self.send("claim", effect).await
    }

    async fn payloads(&self, events: &[EventSeq]) -> StoreResult<Vec<(EventSeq, Bytes)>> {
        let ruled = self.read_rule.lock().unwrap().as_mut().map(|rule| rule(events));
        let effect = async {
            if let Some((takes, error)) = ruled {
                tokio::time::sleep(takes).await;
                error.map_or(Ok(()), Err)?;
            }
            self.world.model.payloads(events).await
        };
        let mut payloads = self.send("payloads", effect).await?;
        payloads.retain(|(event, _)| !self.without_payload.lock().unwrap().contains(event));
        Ok(payloads)
    }

    async fn renew(&self, claims: &[ClaimRef], lease: Duration) -> StoreResult<Vec<Settled>> {
        self.send("renew", self.world.model.renew(claims, lease)).await
    }

    async fn acknowledge(&self, results: &[Acknowledgement]) -> StoreResult<Vec<Settled>> {
        let effect = async {
            let settled = self.world.model.acknowledge(results).await?;
            let deferred = results
                .iter()
                .zip(&settled)
                .filter(|(result, settled)| **settled == Settled::Recorded && result.write == Write::Defer);
            let deferred: Vec<_> =
                deferred.map(|(result, _)| (result.claim.destination, result.claim.event)).collect();
            self.world.watch.gave_back(&deferred);
            Ok(settled)
        };
        self.send("acknowledge", effect).await
    }

    async fn release(&self, claims: &[ClaimRef]) -> StoreResult<Vec<Settled>> {
        let effect = async {
            let settled = self.world.model.release(claims).await?;
            let released = claims.iter().zip(&settled).filter(|(_, settled)| **settled == Settled::Recorded);
            let released: Vec<_> = released.map(|(claim, _)| (claim.destination, claim.event)).collect();
            self.world.watch.gave_back(&released);
            Ok(settled)
        };
        self.send("release", effect).await
    }

    async fn take_probe(
        &self,
        destination: DestinationId,
        lease: Duration,
    ) -> StoreResult<Option<ProbeToken>> {
        self.send("take_probe", self.world.model.take_probe(destination, lease)).await
    }

    async fn change_lane(
        &self,
        destination: DestinationId,
        epoch: i64,
        change: LaneChange,
    ) -> StoreResult<bool> {
        let effect = async {
            let line = format!("{} {} lane {} {change:?}", self.world.now().0, self.host, destination.0);
            let changed = self.world.model.change_lane(destination, epoch, change).await?;
            self.world.watch.note(format!("{line} changed {changed}"));
            Ok(changed)
        };
        self.send("change_lane", effect).await
    }

    async fn count_rejection(&self, destination: DestinationId, event: Option<EventSeq>) -> StoreResult<u32> {
        self.send("count_rejection", self.world.model.count_rejection(destination, event)).await
    }

    async fn sweep(&self, destinations: &[DestinationId], limit: u32) -> StoreResult<Swept> {
        self.send("sweep", self.world.model.sweep(destinations, limit)).await
    }

    async fn attend(&self, destinations: &[DestinationId], wait: Duration) -> StoreResult<bool> {
        let effect = async {
            self.world.attend(destinations, wait);
            Ok(true)
        };
        self.send("attend", effect).await
    }

    fn wait_for_wake<'life0, 'async_trait>(
        &'life0 self,
    ) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        // Armed here: it hears of every commit from now on, polled or not.
        Box::pin(self.world.commits.notified())
    }
}
