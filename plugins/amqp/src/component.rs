//! The plugin as the host sees it.

use std::cell::Cell;
use std::time::{Duration, Instant};

use broker::{Broker, Plugin, Published};
use outhaul_plugin::net::Error;
use outhaul_plugin::{ConfigureError, Description, Event, Failure, Need, net, secrets};

use crate::answer;
use crate::login::Login;
use crate::session::{LoginError, Session};
use crate::settings::{self, Auth, Settings};

struct AmqpBroker {
    settings: Settings,
    /// Which of the addresses is next: the endpoint's own first, then the servers of the settings.
    turn: Cell<usize>,
}

type Amqp = Plugin<AmqpBroker>;

impl Broker for AmqpBroker {
    type Settings = Settings;
    type Session = Session;

    fn describe() -> Description {
        Description::new("amqp", env!("CARGO_PKG_VERSION"), settings::SCHEMA)
            .needs(Need::net("", "the broker of the setting endpoint"))
            .needs(Need::secret("", "the password that the setting auth names").optional())
    }

    fn configure(settings: Settings) -> Result<Self, ConfigureError> {
        settings.check()?;
        // A missing grant shows when the plugin is loaded, not when the first event comes.
        if let Auth::Plain(auth) = &settings.auth {
            secrets::reveal(&auth.password).map_err(|error| error.in_settings("/auth/password"))?;
        }
        Ok(Self { settings, turn: Cell::new(0) })
    }

    fn open(&self, time: Duration) -> Result<Session, Failure> {
        let began = Instant::now();
        let mut refused = None;
        // A password that was rotated may be the older one still.
        for login in self.logins()? {
            let connection = net::connect(&self.settings.endpoint, self.address())
                .map_err(|error| self.elsewhere(error.into()))?;
            let left = time.saturating_sub(began.elapsed());
            match Session::open(connection, &self.settings.vhost, &login, left) {
                Ok(session) => return Ok(session),
                Err(LoginError::Refused(closing)) => {
                    refused = Some(answer::login_refused(&closing, &self.settings.vhost));
                }
                Err(LoginError::NoMechanism(offered)) => {
                    return Err(answer::no_mechanism(login.mechanism, &offered));
                }
                Err(LoginError::Failed(error)) => return Err(self.elsewhere(error.into())),
            }
        }
        Err(refused
            .unwrap_or_else(|| Failure::misconfigured("login", "the secret of the setting auth has no key")))
    }

    fn publish(&self, session: &mut Session, events: &[Event], time: Duration) -> Published {
        session.allow(time);
        session.publish(&self.settings, events)
    }

    fn check(&self, session: &mut Session, time: Duration) -> Result<(), Failure> {
        session.allow(time);
        session.find_exchange(&self.settings)?
    }

    fn refresh(&self, session: &mut Session, time: Duration) -> Result<(), Error> {
        session.allow(time);
        session.refresh()
    }

    fn keep_alive(&self, session: &mut Session, time: Duration) -> Result<(), Error> {
        session.allow(time);
        session.keep_alive()
    }

    fn leave(&self, session: &mut Session) {
        session.leave();
    }
}

impl AmqpBroker {
    fn address(&self) -> Option<&str> {
        let turn = self.turn.get() % (self.settings.servers.len() + 1);
        turn.checked_sub(1).map(|index| self.settings.servers[index].as_str())
    }

    /// The next try goes to the next server.
    fn elsewhere(&self, failure: Failure) -> Failure {
        self.turn.set(self.turn.get() + 1);
        failure
    }

    fn logins(&self) -> Result<Vec<Login>, Failure> {
        Ok(match &self.settings.auth {
            Auth::Guest => vec![Login::plain("guest", b"guest")],
            Auth::External => vec![Login::external()],
            Auth::Plain(auth) => {
                let passwords = secrets::reveal(&auth.password)?.into_iter();
                passwords.map(|password| Login::plain(&auth.user, &password)).collect()
            }
        })
    }
}

outhaul_plugin::export!(Amqp with batch, describe, check, tick, close);
