//! The plugin as the host sees it.

use std::time::Duration;

use broker::{Broker, NotOpened, Plugin, Published};
use outhaul_plugin::net::Error;
use outhaul_plugin::{ConfigureError, Description, Event, Failure, Need, net};

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
            .needs(Need::secret("", "the password named by the setting auth").uses("reveal").optional())
    }

    fn configure(settings: Settings) -> Result<Self, ConfigureError> {
        settings.check()?;
        broker::try_password(settings.auth.as_ref().map(|auth| auth.password.as_str()))?;
        Ok(Self { settings })
    }

    fn open(&self, time: Duration) -> Result<Session, Failure> {
        let settings = &self.settings;
        let secret = settings.auth.as_ref().map(|auth| auth.password.as_str());
        broker::log_in(broker::passwords(secret)?, time, |password, left| {
            let mut connection = net::connect(&settings.endpoint, None)?;
            connection.allow(left);
            Session::open(connection, settings, password.as_deref()).map_err(|error| match error {
                LoginError::Refused(text) => NotOpened::Refused(answer::failure("", &text)),
                LoginError::Failed(error) => error.into(),
            })
        })
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
