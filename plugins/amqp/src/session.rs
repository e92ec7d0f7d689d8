//! One connection that is logged in, its channel, and what is published over it.

use std::time::{Duration, Instant};

use outhaul_plugin::Failure;
use outhaul_plugin::net::{Connection, Error, Pipe, Streams};

use crate::answer;
use crate::login::Login;
use crate::message;
use crate::method::{self, CHANNEL, Closing, Method};
use crate::settings::Settings;
use crate::wire::{self, Kind};

/// No more than we ask for, whatever the server would take.
const FRAME_BYTES_MAX: u32 = 128 << 10;
/// A server that says nothing for so many of its heartbeats is gone.
const SILENT_HEARTBEATS: u32 = 2;

pub struct Session<P = Streams> {
    connection: Connection<P>,
    until: Instant,
    frame_max: usize,
    /// None if the server wants none.
    heartbeat: Option<Duration>,
    heard_at: Instant,
    /// The server closes the channel where a message does not suit it; then the next batch opens another.
    is_channel_open: bool,
    /// Of the next message on this channel.
    tag: u64,
    /// Why the broker takes nothing now.
    blocked: Option<String>,
    /// A returned message whose header has yet to come.
    returning: Option<String>,
    /// The largest body that the broker takes, once it has told.
    body_max: Option<usize>,
}

/// Why a login failed; the next password may do better.
#[derive(Debug, PartialEq)]
pub enum LoginError {
    Refused(Closing),
    NoMechanism(String),
    /// Other credentials would not help.
    Unfit(Box<Failure>),
    Failed(Error),
}

impl From<Error> for LoginError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// What the server said that is not settled by the session itself.
#[derive(Debug)]
enum Said {
    Nothing,
    Method(Method),
    /// No queue takes the message of this ID.
    Returned {
        message_id: Option<String>,
        text: String,
    },
}

impl<P: Pipe> Session<P> {
    pub fn open(
        mut connection: Connection<P>,
        vhost: &str,
        login: &Login,
        time: Duration,
    ) -> Result<Self, LoginError> {
        connection.allow(time);
        connection.queue(wire::PROTOCOL)?;
        let mut session = Self {
            connection,
            until: Instant::now() + time,
            frame_max: FRAME_BYTES_MAX as usize,
            heartbeat: None,
            heard_at: Instant::now(),
            is_channel_open: false,
            tag: 1,
            blocked: None,
            returning: None,
            body_max: None,
        };
        session.log_in(vhost, login)?;
        session.open_channel()?;
        Ok(session)
    }

    fn log_in(&mut self, vhost: &str, login: &Login) -> Result<(), LoginError> {
        let mechanisms = match self.method()? {
            Method::Start { mechanisms } => mechanisms,
            other => return Err(unexpected(&other, "start").into()),
        };
        if !mechanisms.split(' ').any(|offered| offered == login.mechanism) {
            return Err(LoginError::NoMechanism(mechanisms));
        }
        self.connection.queue(&method::start_ok(login.mechanism, &login.response))?;
        let (frame_max, heartbeat_secs) = match self.method() {
            Ok(Method::Tune { frame_max, heartbeat_secs, .. }) => (frame_max, heartbeat_secs),
            Ok(Method::Close(closing)) => return Err(LoginError::Refused(closing)),
            Ok(other) => return Err(unexpected(&other, "tune").into()),
            Err(error) => return Err(error.into()),
        };
        let frame_max = match frame_max {
            0 => FRAME_BYTES_MAX,
            too_small if too_small < wire::FRAME_BYTES_MIN => {
                return Err(LoginError::Unfit(Box::new(answer::small_frames(too_small))));
            }
            most => most.min(FRAME_BYTES_MAX),
        };
        self.frame_max = frame_max as usize;
        self.heartbeat = (heartbeat_secs != 0).then(|| Duration::from_secs(heartbeat_secs.into()));
        self.connection.queue(&method::tune_ok(CHANNEL, frame_max, heartbeat_secs))?;
        self.connection.queue(&method::open(vhost))?;
        match self.method()? {
            Method::OpenOk => Ok(()),
            Method::Close(closing) => Err(LoginError::Refused(closing)),
            other => Err(unexpected(&other, "open-ok").into()),
        }
    }

    /// A channel that confirms. Its tags begin anew.
    fn open_channel(&mut self) -> Result<(), Error> {
        self.connection.queue(&method::channel_open())?;
        self.connection.queue(&method::confirm_select())?;
        self.is_channel_open = true;
        self.tag = 1;
        loop {
            match self.next()? {
                Said::Method(Method::ConfirmSelectOk) => return Ok(()),
                Said::Method(Method::ChannelClose(closing)) => return Err(lost(&closing)),
                _ => {}
            }
        }
    }

    pub fn allow(&mut self, time: Duration) {
        self.until = Instant::now() + time;
        self.connection.allow(time);
    }

    /// The next method, before there is a channel.
    fn method(&mut self) -> Result<Method, Error> {
        loop {
            let frame = self.connection.frame(wire::parse)?;
            self.heard_at = Instant::now();
            if frame.kind == Kind::Method {
                return method::parse(&frame.payload).map_err(Error::Protocol);
            }
        }
    }

    /// Waits for what the server says.
    fn next(&mut self) -> Result<Said, Error> {
        let frame = self.connection.frame(wire::parse)?;
        self.heed(&frame)
    }

    /// What is here already, if anything.
    fn here(&mut self) -> Result<Option<Said>, Error> {
        self.connection.parse(wire::parse)?.map(|frame| self.heed(&frame)).transpose()
    }

    fn heed(&mut self, frame: &wire::Frame) -> Result<Said, Error> {
        self.heard_at = Instant::now();
        match frame.kind {
            Kind::Heartbeat | Kind::Body => Ok(Said::Nothing),
            Kind::Header => {
                let Some(text) = self.returning.take() else { return Ok(Said::Nothing) };
                let message_id = message::message_id(&frame.payload).map_err(Error::Protocol)?;
                Ok(Said::Returned { message_id, text })
            }
            Kind::Method => self.heed_method(method::parse(&frame.payload).map_err(Error::Protocol)?),
        }
    }

    fn heed_method(&mut self, method: Method) -> Result<Said, Error> {
        match &method {
            Method::Blocked { reason } => self.blocked = Some(reason.clone()),
            Method::Unblocked => self.blocked = None,
            Method::Return { text, .. } => self.returning = Some(text.clone()),
            Method::Close(closing) => {
                // Politeness: it waits for the answer, or for the connection's end.
                self.connection.send(&method::close_ok()).ok();
                return Err(lost(closing));
            }
            Method::ChannelClose(_) => {
                self.is_channel_open = false;
                self.connection.queue(&method::channel_close_ok())?;
            }
            _ => {}
        }
        Ok(Said::Method(method))
    }

    /// Heeds what came meanwhile.
    pub fn refresh(&mut self) -> Result<(), Error> {
        self.connection.fill()?;
        while self.here()?.is_some() {}
        self.connection.flush()
    }

    /// Says that we are here, and sees whether the server is.
    pub fn keep_alive(&mut self) -> Result<(), Error> {
        self.refresh()?;
        let Some(heartbeat) = self.heartbeat else { return Ok(()) };
        if self.heard_at.elapsed() > heartbeat * SILENT_HEARTBEATS {
            return Err(Error::TimedOut);
        }
        self.connection.send(&method::heartbeat())
    }

    /// Says farewell, without waiting for an answer.
    pub fn leave(&mut self) {
        self.connection.send(&method::close()).ok();
    }

    /// Whether the exchange is there. The default one always is, and can't be asked for.
    pub fn find_exchange(&mut self, settings: &Settings) -> Result<Result<(), Failure>, Error> {
        if settings.exchange.is_empty() {
            return Ok(Ok(()));
        }
        if !self.is_channel_open {
            self.open_channel()?;
        }
        self.connection.queue(&method::exchange_declare_passive(&settings.exchange))?;
        loop {
            match self.next()? {
                Said::Method(Method::ExchangeDeclareOk) => return Ok(Ok(())),
                Said::Method(Method::ChannelClose(closing)) => {
                    return Ok(Err(answer::channel_closed(settings, &closing)));
                }
                _ => {}
            }
        }
    }
}

fn lost(closing: &Closing) -> Error {
    Error::Lost(format!("it was closed with {} {}", closing.code, closing.text))
}

fn unexpected(method: &Method, wanted: &str) -> Error {
    Error::Protocol(format!("{method:?} in place of {wanted}"))
}

mod publish;
#[cfg(test)]
mod tests;
