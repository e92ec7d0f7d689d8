//! The plugin as the host sees it.

use std::cell::Cell;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use broker::{Broker, Plugin, Published};
use outhaul_plugin::net::Error;
use outhaul_plugin::{ConfigureError, Description, Event, Failure, Need, net, random, secrets};
use serde_json::Value;

use crate::protocol::Info;
use crate::session::{Credentials, LoginError, Session};
use crate::settings::{self, Auth, Mode, Settings};

struct NatsBroker {
    settings: Settings,
    /// Which of the addresses is next: the endpoint's own first, then the servers of the settings.
    turn: Cell<usize>,
}

type Nats = Plugin<NatsBroker>;

impl Broker for NatsBroker {
    type Settings = Settings;
    type Session = Session;

    fn describe() -> Description {
        Description::new("nats", env!("CARGO_PKG_VERSION"), settings::SCHEMA)
            .needs(Need::net("", "the server of the setting endpoint"))
            .needs(
                Need::secret("", "the password, token or JWT that the setting auth names")
                    .uses("reveal")
                    .optional(),
            )
            .needs(
                Need::secret("", "the seed that the setting auth names, which signs")
                    .uses("ed25519")
                    .optional(),
            )
    }

    fn configure(settings: Settings) -> Result<Self, ConfigureError> {
        settings.check()?;
        if let Some(auth) = &settings.auth {
            try_secrets(auth)?;
        }
        Ok(Self { settings, turn: Cell::new(0) })
    }

    fn open(&self, time: Duration) -> Result<Session, Failure> {
        let began = Instant::now();
        let mut key = 0;
        loop {
            let (mut connection, tls) = net::connect_in_clear(&self.settings.endpoint, self.address())
                .map_err(|error| self.elsewhere(error.into()))?;
            connection.allow(time.saturating_sub(began.elapsed()));
            let inbox = format!("{}.{}", self.settings.inbox, random::hex(12));
            let mut keys = 1;
            let opened = Session::open(connection, tls.map(|tls| || tls.start()), inbox, |info| {
                let mut all = credentials(self.settings.auth.as_ref(), info)?;
                keys = all.len();
                Ok(all.swap_remove(key))
            });
            match opened {
                Ok(session) => return Ok(session),
                Err(error) if !error.is_of_credentials() => return Err(self.elsewhere(error.failure())),
                // A key that was rotated may be the older one still.
                Err(LoginError::Refused(_)) if key + 1 < keys => key += 1,
                Err(error) => return Err(error.failure()),
            }
        }
    }

    fn publish(&self, session: &mut Session, events: &[Event], time: Duration) -> Published {
        session.allow(time);
        session.publish(&self.settings, events)
    }

    fn check(&self, session: &mut Session, time: Duration) -> Result<(), Failure> {
        session.allow(time);
        match (self.settings.mode, &self.settings.stream, self.settings.subject.constant()) {
            (Mode::Core, _, _) => Ok(()),
            (Mode::JetStream, Some(stream), _) => session.find(Some(stream))?,
            (Mode::JetStream, None, Some(subject)) => session.find_stream(subject)?,
            (Mode::JetStream, None, None) => session.find(None)?,
        }
    }

    fn refresh(&self, session: &mut Session, time: Duration) -> Result<(), Error> {
        session.allow(time);
        session.refresh()
    }

    /// NATS has no farewell but the connection's end.
    fn leave(&self, _: &mut Session) {}
}

impl NatsBroker {
    fn address(&self) -> Option<&str> {
        let turn = self.turn.get() % (self.settings.servers.len() + 1);
        turn.checked_sub(1).map(|index| self.settings.servers[index].as_str())
    }

    /// The next try goes to the next server.
    fn elsewhere(&self, failure: Failure) -> Failure {
        self.turn.set(self.turn.get() + 1);
        failure
    }
}

/// A missing grant shows when the plugin is loaded, not when the first event comes.
fn try_secrets(auth: &Auth) -> Result<(), ConfigureError> {
    let reveal = |name: &str, pointer: &str| {
        secrets::reveal(name).map(drop).map_err(|error| error.in_settings(pointer))
    };
    let sign = |name: &str| {
        secrets::sign(name, "ed25519", b"").map(drop).map_err(|error| error.in_settings("/auth/seed"))
    };
    match auth {
        Auth::Password(auth) => reveal(&auth.password, "/auth/password"),
        Auth::Token(auth) => reveal(&auth.token, "/auth/token"),
        Auth::Nkey(auth) => sign(&auth.seed),
        Auth::Jwt(auth) => reveal(&auth.jwt, "/auth/jwt").and_then(|()| sign(&auth.seed)),
    }
}

/// One set of credentials for each key, newest first.
fn credentials(auth: Option<&Auth>, info: &Info) -> Result<Vec<Credentials>, Failure> {
    let fields = |fields: &[(&str, String)]| {
        fields.iter().map(|(name, value)| ((*name).to_owned(), Value::from(value.as_str()))).collect()
    };
    let all: Vec<Credentials> = match auth {
        None => vec![Credentials::new()],
        Some(Auth::Password(auth)) => {
            let passwords = texts(&auth.password)?.into_iter();
            passwords.map(|password| fields(&[("user", auth.user.clone()), ("pass", password)])).collect()
        }
        Some(Auth::Token(auth)) => {
            texts(&auth.token)?.into_iter().map(|token| fields(&[("auth_token", token)])).collect()
        }
        Some(Auth::Nkey(auth)) => {
            let signatures = signatures(&auth.seed, info)?.into_iter();
            signatures.map(|sig| fields(&[("nkey", auth.nkey.clone()), ("sig", sig)])).collect()
        }
        Some(Auth::Jwt(auth)) => {
            let pairs = texts(&auth.jwt)?.into_iter().zip(signatures(&auth.seed, info)?);
            pairs.map(|(jwt, sig)| fields(&[("jwt", jwt), ("sig", sig)])).collect()
        }
    };
    match all.is_empty() {
        true => Err(Failure::misconfigured("login", "a secret of the setting auth has no key")),
        false => Ok(all),
    }
}

fn texts(secret: &str) -> Result<Vec<String>, Failure> {
    let text = |bytes: Vec<u8>| {
        String::from_utf8(bytes)
            .map_err(|_| Failure::misconfigured("login", format!("the secret {secret:?} is not text")))
    };
    secrets::reveal(secret)?.into_iter().map(text).collect()
}

fn signatures(seed: &str, info: &Info) -> Result<Vec<String>, Failure> {
    let signatures = secrets::sign(seed, "ed25519", info.nonce.as_bytes())?.into_iter();
    Ok(signatures.map(|signature| URL_SAFE_NO_PAD.encode(signature.bytes)).collect())
}

outhaul_plugin::export!(Nats with batch, describe, check, tick, close);
