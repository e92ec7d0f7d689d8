//! The plugin as the host sees it.

use std::time::Duration;

use broker::{Broker, NotOpened, Plugin, Published};
use outhaul_plugin::net::Error;
use outhaul_plugin::{ConfigureError, Description, Event, Failure, Need, net, random};

use crate::answer;
use crate::protocol::Connect;
use crate::session::{LoginError, Session};
use crate::settings::{self, Settings};

/// Three times what an idle instance is looked at.
const KEEP_ALIVE_S: u16 = 30;

struct MqttBroker {
    settings: Settings,
}

type Mqtt = Plugin<MqttBroker>;

impl Broker for MqttBroker {
    type Settings = Settings;
    type Session = Session;

    fn describe() -> Description {
        Description::new("mqtt", env!("CARGO_PKG_VERSION"), settings::SCHEMA)
            .needs(Need::net("", "the broker of the setting endpoint"))
            .needs(Need::secret("", "the password named by the setting auth").uses("reveal").optional())
    }

    fn configure(settings: Settings) -> Result<Self, ConfigureError> {
        settings.check()?;
        broker::try_password(settings.auth.as_ref().map(|auth| auth.password.as_str()))?;
        Ok(Self { settings })
    }

    fn open(&self, time: Duration) -> Result<Session, Failure> {
        let settings = &self.settings;
        let client_id = format!("{}-{}", settings.client_id, random::hex(8));
        let user = settings.auth.as_ref().map(|auth| auth.user.as_str());
        let secret = settings.auth.as_ref().map(|auth| auth.password.as_str());
        broker::log_in(broker::passwords(secret)?, time, |password, left| {
            let mut connection = net::connect(&settings.endpoint, None)?;
            connection.allow(left);
            let hello = Connect {
                client_id: &client_id,
                user,
                password: password.as_deref(),
                keep_alive_s: KEEP_ALIVE_S,
            };
            Session::open(connection, settings, &hello).map_err(|error| match error {
                LoginError::Refused { code, reason } => {
                    NotOpened::Refused(answer::refused(settings.version, code, &reason))
                }
                LoginError::Unfit(failure) => (*failure).into(),
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

    fn leave(&self, session: &mut Session) {
        // Nothing is lost if it does not arrive.
        let _ = session.leave();
    }
}

outhaul_plugin::export!(Mqtt with batch, describe, check, tick, close);
