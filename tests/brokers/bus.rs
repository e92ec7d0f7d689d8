//! One destination, `bus`, from the outbox to a broker.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use outhaul::service::stores::Stores;
use outhaul::store::{DeliveryFilter, DeliveryRow, DeliveryStatus, LaneReport, LaneState, NewEvent};
use outhaul_tests::guests::guest;
use outhaul_tests::servers::Server;

use crate::databases::{Scene, deliveries, until};
use crate::events::emit;
use crate::host::Host;

/// What a config says of the destination.
pub struct Bus {
    pub component: &'static str,
    pub address: String,
    pub settings: String,
    /// Further keys of the endpoint, as `tls = true`.
    pub endpoint: String,
    /// A secret named `login`.
    pub password: Option<String>,
    /// Further keys of the destination.
    pub keys: String,
    /// Leases are short, so that a killed host's are soon over.
    pub is_brief: bool,
}

impl Bus {
    pub fn new(component: &'static str, address: String, settings: &str) -> Self {
        let settings = settings.to_owned();
        let (endpoint, keys) = (String::new(), String::new());
        Self { component, address, settings, endpoint, password: None, keys, is_brief: false }
    }

    pub fn write(&self, scene: &Scene) -> PathBuf {
        let mut text = format!(
            "[destination.bus]\ncomponent = \"{}\"\ntopics = [\"order.*\"]\nconcurrency = 100\norder = \"key\"\n\
             lease = \"{}\"\nmargin = \"500ms\"\nlimits.call = \"5s\"\nretry = {{ base = \"100ms\" }}\n{}\n\
             settings = {{ {} }}\n\
             [destination.bus.net.broker]\naddress = \"{}\"\nprivate = true\n{}\n",
            guest(self.component).display(),
            if self.is_brief { "5s" } else { "25s" },
            self.keys,
            self.settings,
            self.address,
            self.endpoint,
        );
        if let Some(password) = &self.password {
            let file = scene.path().join("password");
            std::fs::write(&file, password).expect("the folder can be written");
            text += &format!(
                "[destination.bus.secrets.login]\nkeys = [{{ file = \"{}\" }}]\nuse = [\"reveal\", \"ed25519\"]\n",
                file.display()
            );
        }
        if self.is_brief { scene.write_config(&text) } else { scene.write_patient_config(&text) }
    }

    pub async fn start(&self) -> Running {
        let scene = Scene::sqlite();
        scene.migrate().await;
        let config = self.write(&scene);
        let stores = scene.stores().await;
        Running { host: Some(Host::start(&config)), scene, config, stores }
    }
}

pub struct Running {
    pub scene: Scene,
    pub config: PathBuf,
    pub stores: Stores,
    host: Option<Host>,
}

impl Running {
    pub async fn emit(&self, events: &[NewEvent]) {
        emit(&self.stores, events).await;
    }

    /// Emits all, and ends the server when some are delivered and others under way, however quick it is: it
    /// stands still when the second half comes.
    pub async fn end_in_the_middle(
        &self,
        server: &mut Server,
        events: &[NewEvent],
        end: impl FnOnce(&mut Server),
    ) {
        let (first, second) = events.split_at(events.len() / 2);
        self.emit(first).await;
        self.until_delivered(events.len() / 4).await;
        server.pause();
        self.emit(second).await;
        until("some are under way", async || {
            let lane = self.stores.operate.lane_reports().await.expect("the database answers").remove(0);
            (lane.leased > 0).then_some(())
        })
        .await;
        end(server);
    }

    /// So many are delivered. Looks seldom and at little, so as not to slow down what it waits for.
    pub async fn until_delivered(&self, count: usize) {
        let filter = DeliveryFilter {
            status: Some(DeliveryStatus::Delivered),
            limit: u32::try_from(count).expect("few enough"),
            ..DeliveryFilter::default()
        };
        let mut patience = Patience::of(count);
        while self.stores.operate.deliveries(&filter).await.expect("the database answers").len() < count {
            patience.wait(&format!("{count} deliveries delivered")).await;
        }
    }

    /// All that was emitted is delivered.
    pub async fn until_all_delivered(&self, count: usize) {
        let one = |status| DeliveryFilter { status: Some(status), limit: 1, ..DeliveryFilter::default() };
        let is_left = async |status| {
            let rows = self.stores.operate.deliveries(&one(status)).await.expect("the database answers");
            !rows.is_empty()
        };
        let mut patience = Patience::of(count);
        while is_left(DeliveryStatus::Pending).await {
            patience.wait("no delivery is pending").await;
        }
        assert!(!is_left(DeliveryStatus::Dead).await, "a delivery is dead");
        self.until_delivered(count).await;
    }

    pub async fn rows(&self) -> Vec<DeliveryRow> {
        deliveries(&self.stores).await
    }

    /// The delivery of this event.
    pub async fn row(&self, id: &str) -> DeliveryRow {
        self.rows().await.into_iter().find(|row| row.event_id == id).expect("it was emitted")
    }

    /// The lane once it is in this state.
    pub async fn until_lane_is(&self, state: LaneState) -> LaneReport {
        until(&format!("the lane is {state:?}"), async || {
            let lane = self.stores.operate.lane_reports().await.expect("the database answers").remove(0);
            (lane.state == state).then_some(lane)
        })
        .await
    }

    /// The lane's reason once the operator has to act.
    pub async fn until_stopped(&self) -> String {
        let lane = self.until_lane_is(LaneState::Stopped).await;
        assert_eq!((lane.pending, lane.dead), (1, 0), "the event is kept");
        lane.reason.expect("it says why")
    }

    /// The only delivery once it has ended so.
    pub async fn until_ended(&self, status: DeliveryStatus) -> DeliveryRow {
        until(&format!("the delivery is {status:?}"), async || {
            self.rows().await.into_iter().find(|row| row.status == status)
        })
        .await
    }

    /// The event's last attempt: its outcome, code, and whether it is uncertain.
    pub async fn attempted(&self, id: &str) -> (String, String, bool) {
        until("an attempt is in the history", async || {
            let report = self.stores.operate.show("", id).await.expect("the database answers")?;
            let attempt = report.attempts.into_iter().next_back()?;
            Some((attempt.outcome, attempt.code.unwrap_or_default(), attempt.uncertain))
        })
        .await
    }

    pub fn kill_host(&mut self) {
        self.host.take().expect("it runs").kill();
    }

    pub fn start_host(&mut self) {
        self.host = Some(Host::start(&self.config));
    }

    pub fn stop(mut self) {
        self.host.take().expect("it runs").stop();
    }
}

/// Bounds a test that fails; a large budget takes its time.
struct Patience(Instant);

impl Patience {
    fn of(events: usize) -> Self {
        Self(
            Instant::now()
                + Duration::from_secs(120)
                + Duration::from_millis(100) * u32::try_from(events).unwrap_or(u32::MAX),
        )
    }

    async fn wait(&mut self, what: &str) {
        assert!(Instant::now() < self.0, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
