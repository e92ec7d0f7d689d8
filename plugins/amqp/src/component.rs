//! The plugin as the host sees it.

use std::cell::Cell;
use std::time::Duration;

use broker::{Broker, NotOpened, Plugin, Published};
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
            .needs(Need::secret("", "the password that the setting auth names").uses("reveal").optional())
    }

    fn configure(settings: Settings) -> Result<Self, ConfigureError> {
        settings.check()?;
        if let Auth::Plain(auth) = &settings.auth {
            broker::try_password(Some(&auth.password))?;
        }
        Ok(Self { settings, turn: Cell::new(0) })
    }

    fn open(&self, time: Duration) -> Result<Session, Failure> {
        broker::log_in(self.logins()?, time, |login, left| {
            let connection = net::connect(&self.settings.endpoint, self.address())
                .map_err(|error| self.elsewhere(error.into()))?;
            let vhost = &self.settings.vhost;
            Session::open(connection, vhost, &login, left).map_err(|error| match error {
                LoginError::Refused(closing) => NotOpened::Refused(answer::login_refused(&closing, vhost)),
                LoginError::NoMechanism(offered) => answer::no_mechanism(login.mechanism, &offered).into(),
                LoginError::Unfit(failure) => (*failure).into(),
                LoginError::Failed(error) => self.elsewhere(error.into()).into(),
            })
        })
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
