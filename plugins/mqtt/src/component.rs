//! The plugin as the host sees it.

use std::time::{Duration, Instant};

use broker::{Broker, Plugin, Published};
use outhaul_plugin::net::Error;
use outhaul_plugin::{ConfigureError, Description, Event, Failure, Need, net, random, secrets};

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
        let settings = &self.settings;
        let passwords = match &settings.auth {
            None => vec![None],
            Some(auth) => secrets::reveal(&auth.password)?.into_iter().map(Some).collect(),
        };
        let client_id = format!("{}-{}", settings.client_id, random::hex(8));
        let user = settings.auth.as_ref().map(|auth| auth.user.as_str());
        let mut refused = Failure::misconfigured("login", "the secret of the setting auth has no key");
        for password in passwords {
            let mut connection = net::connect(&settings.endpoint, None)?;
            connection.allow(time.saturating_sub(began.elapsed()));
            let hello = Connect {
                client_id: &client_id,
                user,
                password: password.as_deref(),
                keep_alive_s: KEEP_ALIVE_S,
            };
            match Session::open(connection, settings, &hello) {
                Ok(session) => return Ok(session),
                // A password that was rotated may be the older one still.
                Err(LoginError::Refused { code, reason }) => {
                    refused = answer::refused(settings.version, code, &reason);
                }
                Err(LoginError::Unfit(failure)) => return Err(*failure),
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

    fn leave(&self, session: &mut Session) {
        // Nothing is lost if it does not arrive.
        let _ = session.leave();
    }
}

outhaul_plugin::export!(Mqtt with batch, describe, check, tick, close);
