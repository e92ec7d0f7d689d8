//! The plugin as the host sees it.

use std::time::{Duration, Instant};

use broker::{Broker, Plugin, Published};
use outhaul_plugin::net::Error;
use outhaul_plugin::{ConfigureError, Description, Event, Failure, Need, net, secrets};

use crate::answer;
use crate::session::{LoginError, Session};
use crate::settings::{self, Settings};

struct RedisBroker {
    settings: Settings,
}

type Redis = Plugin<RedisBroker>;

impl Broker for RedisBroker {
    type Settings = Settings;
    type Session = Session;

    fn describe() -> Description {
        Description::new("redis", env!("CARGO_PKG_VERSION"), settings::SCHEMA)
            .needs(Need::net("", "the server of the setting endpoint"))
            .needs(Need::secret("", "the password named by the setting auth").optional())
    }

    fn configure(settings: Settings) -> Result<Self, ConfigureError> {
        settings.check()?;
        if let Some(auth) = &settings.auth {
            // A missing grant shows when the plugin is loaded, not when the first event comes.
            secrets::reveal(&auth.password).map_err(|error| error.in_settings("/auth/password"))?;
        }
        Ok(Self { settings })
    }

    fn open(&self, time: Duration) -> Result<Session, Failure> {
        let began = Instant::now();
        let passwords = match &self.settings.auth {
            None => vec![None],
            Some(auth) => secrets::reveal(&auth.password)?.into_iter().map(Some).collect(),
        };
        let mut refused = Failure::misconfigured("login", "the secret of the setting auth has no key");
        for password in passwords {
            let mut connection = net::connect(&self.settings.endpoint, None)?;
            connection.allow(time.saturating_sub(began.elapsed()));
            match Session::open(connection, &self.settings, password.as_deref()) {
                Ok(session) => return Ok(session),
                // A password that was rotated may be the older one still.
                Err(LoginError::Refused(text)) => refused = answer::failure("", &text),
                Err(LoginError::Failed(error)) => return Err(error.into()),
            }
        }
        Err(refused)
    }

    fn publish(&self, session: &mut Session, events: &[Event], time: Duration) -> Published {
        session.allow(time);
        session.publish(&self.settings, events)
    }

    fn check(&self, session: &mut Session, time: Duration) -> Result<(), Failure> {
        session.allow(time);
        Ok(session.ping()?)
    }

    fn refresh(&self, session: &mut Session, time: Duration) -> Result<(), Error> {
        session.allow(time);
        session.refresh()
    }

    fn keep_alive(&self, session: &mut Session, time: Duration) -> Result<(), Error> {
        session.allow(time);
        session.ping()
    }

    /// Redis has no farewell that is worth a wait.
    fn leave(&self, _: &mut Session) {}
}

outhaul_plugin::export!(Redis with batch, describe, check, tick, close);
