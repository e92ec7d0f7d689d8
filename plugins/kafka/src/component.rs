//! The plugin as the host sees it.

use std::cell::Cell;
use std::time::Duration;

use broker::{Broker, Plugin, Published};
use outhaul_plugin::net::{Connection, Error, Streams};
use outhaul_plugin::{ConfigureError, Description, Event, Failure, Need, net, random};

use crate::login::Login;
use crate::session::{Dial, Session};
use crate::settings::{self, Settings};

const NONCE_BYTES: u64 = 18;

struct KafkaBroker {
    settings: Settings,
    /// Which of the addresses is next: the endpoint's own first, then the servers of the settings.
    turn: Cell<usize>,
}

type Kafka = Plugin<KafkaBroker>;

/// Dials by the host.
struct Host {
    settings: Settings,
    turn: Cell<usize>,
}

impl Broker for KafkaBroker {
    type Settings = Settings;
    type Session = Session<Host>;

    fn describe() -> Description {
        Description::new("kafka", env!("CARGO_PKG_VERSION"), settings::SCHEMA)
            .needs(Need::net("", "the brokers of the setting endpoint"))
            .needs(Need::secret("", "the password that the setting auth names").uses("reveal").optional())
    }

    fn configure(settings: Settings) -> Result<Self, ConfigureError> {
        settings.check()?;
        broker::try_password(settings.password())?;
        Ok(Self { settings, turn: Cell::new(0) })
    }

    fn open(&self, time: Duration) -> Result<Session<Host>, Failure> {
        let host = Host { settings: self.settings.clone(), turn: Cell::new(self.turn.get()) };
        Session::open(host, &self.settings.client_id, time).inspect_err(|_| {
            // The next try goes to the next server.
            self.turn.set(self.turn.get() + 1);
        })
    }

    fn publish(&self, session: &mut Session<Host>, events: &[Event], time: Duration) -> Published {
        session.allow(time);
        session.publish(&self.settings, events)
    }

    fn check(&self, session: &mut Session<Host>, time: Duration) -> Result<(), Failure> {
        session.allow(time);
        session.check(self.settings.topic.constant(), self.settings.create_topics)
    }

    fn refresh(&self, session: &mut Session<Host>, time: Duration) -> Result<(), Error> {
        session.allow(time);
        session.refresh()
    }

    fn keep_alive(&self, session: &mut Session<Host>, time: Duration) -> Result<(), Error> {
        session.allow(time);
        session.keep_alive()
    }

    /// Kafka has no farewell but the connection's end.
    fn leave(&self, _: &mut Session<Host>) {}
}

impl Dial for Host {
    type Pipe = Streams;

    fn dial(&self, address: Option<&str>) -> Result<Connection, Failure> {
        let servers = &self.settings.servers;
        let turn = self.turn.get() % (servers.len() + 1);
        let next = turn.checked_sub(1).map(|index| servers[index].as_str());
        let dialled = net::connect(&self.settings.endpoint, address.or(next));
        if address.is_none() && dialled.is_err() {
            self.turn.set(turn + 1);
        }
        dialled.map_err(Failure::from)
    }

    fn logins(&self) -> Result<Vec<Option<Login>>, Failure> {
        let passwords = broker::passwords(self.settings.password())?.into_iter();
        let login = |password| {
            let auth = self.settings.auth.as_ref()?;
            Some(Login { mechanism: auth.mechanism, user: auth.user.clone(), password })
        };
        Ok(passwords.map(|password| password.and_then(login)).collect())
    }

    fn nonce(&self) -> String {
        random::hex(NONCE_BYTES)
    }

    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

outhaul_plugin::export!(Kafka with batch, describe, check, tick, close);
