//! One connection to one broker: logged in, one question after the other.

use std::time::{Duration, Instant};

use broker::NotOpened;
use outhaul_plugin::net::{Connection, Error, Pipe, Streams};

use crate::answer::{self, ILLEGAL_SASL_STATE, SASL_AUTHENTICATION_FAILED, UNSUPPORTED_SASL_MECHANISM};
use crate::login::{Exchange, Login, Step};
use crate::protocol::{self, API_VERSIONS, Api, Frame, SASL_AUTHENTICATE, SASL_HANDSHAKE, sasl, versions};

/// Brokers end connections that were idle for ten minutes (`connections.max.idle.ms`), managed ones sooner.
const IDLE_MAX: Duration = Duration::from_secs(2 * 60);

/// No quota is used up for longer: brokers count over some ten seconds (`quota.window.size.seconds`), and a number that
/// makes no sense must not stop deliveries for days.
const MUTE_MAX: Duration = Duration::from_secs(60);

pub struct Peer<P = Streams> {
    connection: Connection<P>,
    client_id: String,
    /// Of the last request.
    correlation: i32,
    asked_at: Instant,
    /// The broker ends the connection then, for the login is over.
    good_until: Option<Instant>,
    /// The broker reads nothing from us before, for a quota is used up.
    muted_until: Option<Instant>,
}

/// A request that was sent: its number, and where in the stream it begins.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    correlation: i32,
    position: u64,
}

impl<P: Pipe> Peer<P> {
    /// `nonce` is for SCRAM: visible characters that nobody can guess.
    pub fn open(
        connection: Connection<P>,
        client_id: &str,
        login: Option<(&Login, String)>,
        time: Duration,
    ) -> Result<Self, NotOpened> {
        let mut peer = Self {
            connection,
            client_id: client_id.to_owned(),
            correlation: 0,
            asked_at: Instant::now(),
            good_until: None,
            muted_until: None,
        };
        peer.allow(time);
        let understood = peer.ask(API_VERSIONS, &[]).map_err(answer::no_kafka)?;
        versions::check(&understood).map_err(answer::not_spoken)?;
        if let Some((login, nonce)) = login {
            peer.log_in(login, nonce)?;
        }
        Ok(peer)
    }

    fn log_in(&mut self, login: &Login, nonce: String) -> Result<(), NotOpened> {
        let mechanism = login.mechanism.as_str();
        let (error, offered) = self.offered(mechanism)?;
        match error {
            0 => {}
            UNSUPPORTED_SASL_MECHANISM => {
                return Err(answer::no_mechanism(mechanism, &offered).into());
            }
            ILLEGAL_SASL_STATE => return Err(answer::login_not_taken().into()),
            other => return Err(Error::Protocol(format!("error {other} to {mechanism}")).into()),
        }
        let (mut exchange, mut message) = Exchange::start(login, nonce);
        loop {
            let said = self.ask(SASL_AUTHENTICATE, &sasl::authenticate(&message))?;
            let said = sasl::parse_authenticate(&said).map_err(Error::Protocol)?;
            if said.error == SASL_AUTHENTICATION_FAILED {
                return Err(NotOpened::Refused(answer::login_refused(mechanism, &said.text)));
            }
            if said.error != 0 {
                return Err(
                    Error::Protocol(format!("error {} to the login: {}", said.error, said.text)).into()
                );
            }
            let broken_off = |why: String| answer::login_broken_off(mechanism, &why);
            match exchange.next(&said.message).map_err(broken_off)? {
                Step::Say(next) => message = next,
                Step::Done => {
                    self.good_until =
                        lifetime(said.lifetime_ms).and_then(|time| Instant::now().checked_add(time));
                    return Ok(());
                }
            }
        }
    }

    /// Kafka's error code for the mechanism, and those that the broker offers.
    fn offered(&mut self, mechanism: &str) -> Result<(i16, Vec<String>), Error> {
        let said = self.ask(SASL_HANDSHAKE, &sasl::handshake(mechanism))?;
        sasl::parse_handshake(&said).map_err(Error::Protocol)
    }

    /// The logins of which the broker wants one, if it does: it ends the connection of whoever asks for
    /// something else, and says nothing.
    pub fn wants_login(&mut self) -> Option<Vec<String>> {
        match self.offered("PLAIN") {
            Ok((0 | UNSUPPORTED_SASL_MECHANISM, offered)) => Some(offered),
            _ => None,
        }
    }

    pub fn allow(&mut self, time: Duration) {
        self.connection.allow(time);
    }

    /// Sends what is asked, and does not wait for the answer.
    pub fn send(&mut self, api: Api, body: &[u8]) -> Result<Asked, (Asked, Error)> {
        (self.correlation, self.asked_at) = (self.correlation.wrapping_add(1), Instant::now());
        let asked = Asked { correlation: self.correlation, position: self.connection.position() };
        let request = protocol::request(api, self.correlation, &self.client_id, body);
        self.connection.send(&request).map(|()| asked).map_err(|error| (asked, error))
    }

    /// Whether any of it may have left.
    pub fn may_have_left(&self, asked: Asked) -> bool {
        asked.position < self.connection.sent()
    }

    pub fn answer(&mut self, asked: Asked) -> Result<Vec<u8>, Error> {
        let Frame { correlation, body } = self.connection.frame(protocol::parse)?;
        if correlation != asked.correlation {
            let number = asked.correlation;
            return Err(Error::Protocol(format!("an answer to request {correlation}, not to {number}")));
        }
        Ok(body)
    }

    pub fn ask(&mut self, api: Api, body: &[u8]) -> Result<Vec<u8>, Error> {
        let asked = self.send(api, body).map_err(|(_, error)| error)?;
        self.answer(asked)
    }

    /// What a broker that has ended says, or one whose login will not last.
    pub fn refresh(&mut self) -> Result<(), Error> {
        if self.good_until.is_some_and(|until| Instant::now() >= until) {
            return Err(Error::Closed);
        }
        self.connection.fill()
    }

    /// Asks something now and then, so that the broker does not end the connection as idle.
    pub fn keep_alive(&mut self) -> Result<(), Error> {
        if self.asked_at.elapsed() < IDLE_MAX { Ok(()) } else { self.ask(API_VERSIONS, &[]).map(drop) }
    }

    pub fn mute(&mut self, throttle_ms: i32) {
        let wait = u64::try_from(throttle_ms).ok().filter(|ms| *ms > 0).map(Duration::from_millis);
        self.muted_until = wait.map(|wait| Instant::now() + wait.min(MUTE_MAX));
    }

    /// How long the broker will not listen.
    pub fn muted_for(&self) -> Duration {
        self.muted_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }
}

/// A little less than the broker grants: it ends a connection in the middle of a request, too.
fn lifetime(lifetime_ms: i64) -> Option<Duration> {
    let granted = u64::try_from(lifetime_ms).ok().filter(|ms| *ms > 0)?;
    Some(Duration::from_millis(granted - granted / 8))
}

#[cfg(test)]
impl Peer<outhaul_plugin::net::Script> {
    pub fn script(&mut self) -> &mut outhaul_plugin::net::Script {
        self.connection.pipe()
    }
}

#[cfg(test)]
pub mod tests {
    use outhaul_plugin::Failure;
    use outhaul_plugin::net::Script;

    use super::*;
    use crate::protocol::sasl::tests::{authenticate_answer, handshake_answer};
    use crate::protocol::versions::tests::modern;
    use crate::settings::Mechanism;

    /// An answer to the request of this number, as it is on the wire.
    pub fn framed(correlation: i32, body: &[u8]) -> Vec<u8> {
        let length = i32::try_from(body.len() + 4).unwrap();
        [&length.to_be_bytes(), &correlation.to_be_bytes(), body].concat()
    }

    /// A broker that gives these answers, one to each request.
    pub fn answering(answers: &[Vec<u8>]) -> Connection<Script> {
        let numbered = answers.iter().zip(1..).map(|(body, number)| framed(number, body));
        // Each is there only once it was waited for.
        let says = numbered.flat_map(|answer| [Ok(answer), Ok(Vec::new())]);
        Connection::over(Script { says: says.collect(), ..Script::default() })
    }

    fn login() -> Login {
        Login { mechanism: Mechanism::Plain, user: "shop".into(), password: b"p".to_vec() }
    }

    fn opened(answers: &[Vec<u8>]) -> Result<Peer<Script>, NotOpened> {
        Peer::open(answering(answers), "outhaul", Some((&login(), "nonce".into())), Duration::from_secs(1))
    }

    #[test]
    fn a_login_has_a_lifetime_if_the_broker_says_so() {
        let lasting = [modern(), handshake_answer(0, &["PLAIN"]), authenticate_answer(0, "", b"", 0)];
        assert!(opened(&lasting).unwrap().refresh().is_ok());
        let brief = [modern(), handshake_answer(0, &["PLAIN"]), authenticate_answer(0, "", b"", 1)];
        let mut brief = opened(&brief).unwrap();
        brief.good_until = brief.good_until.map(|until| until - Duration::from_millis(1));
        assert_eq!(brief.refresh(), Err(Error::Closed));
        assert_eq!(lifetime(8_000), Some(Duration::from_secs(7)));
        let endless = [modern(), handshake_answer(0, &["PLAIN"]), authenticate_answer(0, "", b"", i64::MAX)];
        assert!(opened(&endless).unwrap().refresh().is_ok());
    }

    #[test]
    fn an_idle_connection_asks_something_before_the_broker_ends_it() {
        let mut peer =
            Peer::open(answering(&[modern(), modern()]), "outhaul", None, Duration::from_secs(1)).unwrap();
        let heard = peer.script().heard.len();
        peer.keep_alive().unwrap();
        assert_eq!(peer.script().heard.len(), heard, "it was in use a moment ago");
        peer.asked_at -= IDLE_MAX;
        peer.keep_alive().unwrap();
        assert!(peer.script().heard.len() > heard);
        peer.asked_at -= IDLE_MAX;
        assert_eq!(peer.keep_alive(), Err(Error::TimedOut), "nobody answers");
    }

    #[test]
    fn a_refused_login_says_what_to_change() {
        let told = |answers: &[Vec<u8>]| match opened(answers).err() {
            Some(NotOpened::Refused(failure) | NotOpened::Failed(failure)) => match failure {
                Failure::Misconfigured(detail) => (detail.code, detail.message),
                other => panic!("{other:?}"),
            },
            None => panic!("it was opened"),
        };
        let wrong = [modern(), handshake_answer(0, &["PLAIN"]), authenticate_answer(58, "invalid", b"", 0)];
        let (code, message) = told(&wrong);
        assert!(code == "login" && message.contains("invalid (PLAIN); see the setting auth"), "{message}");
        let (code, message) = told(&[modern(), handshake_answer(33, &["SCRAM-SHA-512"])]);
        assert!(code == "mechanism" && message.contains("SCRAM-SHA-512, and not PLAIN"), "{message}");
        let (code, message) = told(&[modern(), handshake_answer(34, &[])]);
        assert!(code == "login-not-taken" && message.contains("remove the setting auth"), "{message}");
        let (code, message) = told(&[crate::protocol::versions::tests::answer(&[(0, 0, 5)])]);
        assert!(code == "version" && message.contains("Kafka 2.4"), "{message}");
    }

    #[test]
    fn a_broker_that_makes_the_proof_easy_to_break_is_told_to_the_operator() {
        let login = Login { mechanism: Mechanism::ScramSha256, ..login() };
        let weak = authenticate_answer(0, "", b"r=nonce+its,s=AAAA,i=1", 0);
        let broker = answering(&[modern(), handshake_answer(0, &["SCRAM-SHA-256"]), weak]);
        let opened =
            Peer::open(broker, "outhaul", Some((&login, "nonce".into())), Duration::from_secs(1)).err();
        let Some(NotOpened::Failed(Failure::Misconfigured(detail))) = opened else { panic!("{opened:?}") };
        assert!(detail.code == "login" && detail.message.contains("from 4096 to"), "{}", detail.message);
    }

    #[test]
    fn a_broker_is_not_left_alone_for_longer_than_a_quota_can_last() {
        let mut peer = Peer::open(answering(&[modern()]), "outhaul", None, Duration::from_secs(1)).unwrap();
        peer.mute(2_000_000_000);
        let muted = peer.muted_for();
        assert!(muted > MUTE_MAX / 2 && muted <= MUTE_MAX, "{muted:?}");
        peer.mute(0);
        assert_eq!(peer.muted_for(), Duration::ZERO);
    }

    #[test]
    fn an_answer_to_another_question_is_none() {
        let says = Script::saying(&[&framed(9, &modern())]);
        let error = Peer::open(Connection::over(says), "outhaul", None, Duration::from_secs(1)).err();
        let Some(NotOpened::Failed(Failure::Unavailable(info))) = error else { panic!("{error:?}") };
        assert_eq!(info.code, "protocol");
    }
}
