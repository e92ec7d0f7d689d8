//! Logging in by SASL: PLAIN (RFC 4616) and SCRAM (RFC 5802, RFC 7677).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use pbkdf2::pbkdf2_hmac;
use sha2::{Digest as _, Sha256, Sha512};

use crate::settings::Mechanism;

/// With fewer, whoever poses as the broker could find the password from the proof (RFC 7677 asks for as many; Kafka
/// lets none have fewer).
const ITERATIONS_MIN: u32 = 4_096;
/// A broker that asks for more would keep the plugin busy for seconds.
const ITERATIONS_MAX: u32 = 100_000;
/// "n,,", no channel binding, in base64.
const NO_BINDING: &str = "c=biws";

#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    pub mechanism: Mechanism,
    pub user: String,
    pub password: Vec<u8>,
}

/// What is said next.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    Say(Vec<u8>),
    Done,
}

/// One login under way: each of the broker's messages is answered by [`next`](Self::next).
pub struct Exchange<'a> {
    login: &'a Login,
    state: State,
}

enum State {
    /// `n=USER,r=NONCE`
    First {
        bare: String,
        nonce: String,
    },
    /// The signature that proves that the broker knows the password, too.
    Final {
        signature: Vec<u8>,
    },
    Over,
}

impl<'a> Exchange<'a> {
    /// And the first message. The nonce is of visible characters without a comma.
    pub fn start(login: &'a Login, nonce: String) -> (Self, Vec<u8>) {
        if login.mechanism == Mechanism::Plain {
            let message = [b"\0", login.user.as_bytes(), b"\0", &login.password].concat();
            return (Self { login, state: State::Over }, message);
        }
        let user = login.user.replace('=', "=3D").replace(',', "=2C");
        let bare = format!("n={user},r={nonce}");
        let message = format!("n,,{bare}").into_bytes();
        (Self { login, state: State::First { bare, nonce } }, message)
    }

    /// Hears the broker; an error says what it said wrong.
    pub fn next(&mut self, message: &[u8]) -> Result<Step, String> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Over => Ok(Step::Done),
            State::First { bare, nonce } => self.prove(&bare, &nonce, message),
            State::Final { signature } => {
                let text = String::from_utf8_lossy(message);
                let said = field(&text, "v").and_then(|value| STANDARD.decode(value).ok());
                match said {
                    Some(said) if said == signature => Ok(Step::Done),
                    _ => Err(format!("it does not prove that it knows the password ({text})")),
                }
            }
        }
    }

    /// A broker that makes the proof easy to search for the password in gets none.
    fn prove(&mut self, bare: &str, nonce: &str, message: &[u8]) -> Result<Step, String> {
        let first = std::str::from_utf8(message).map_err(|_| "its first message is no text")?;
        let wrong = |what: &str| format!("its first message has no {what} ({first})");
        let is_longer = |shared: &&str| shared.strip_prefix(nonce).is_some_and(|own| !own.is_empty());
        let shared =
            field(first, "r").filter(is_longer).ok_or_else(|| wrong("nonce of its own after ours"))?;
        let salt = field(first, "s").and_then(|salt| STANDARD.decode(salt).ok());
        let salt = salt.filter(|salt| !salt.is_empty()).ok_or_else(|| wrong("salt"))?;
        let iterations = field(first, "i").and_then(|text| text.parse::<u32>().ok());
        let iterations = iterations.filter(|asked| (ITERATIONS_MIN..=ITERATIONS_MAX).contains(asked));
        let iterations = iterations.ok_or_else(|| {
            wrong(&format!("number of iterations from {ITERATIONS_MIN} to {ITERATIONS_MAX}"))
        })?;

        let closing = format!("{NO_BINDING},r={shared}");
        let conversation = format!("{bare},{first},{closing}");
        let salted = self.salted(&salt, iterations);
        let client_key = self.hmac(&salted, b"Client Key");
        let client_signature = self.hmac(&self.hash(&client_key), conversation.as_bytes());
        let proof: Vec<u8> =
            client_key.iter().zip(client_signature).map(|(key, signed)| key ^ signed).collect();
        let signature = self.hmac(&self.hmac(&salted, b"Server Key"), conversation.as_bytes());
        self.state = State::Final { signature };
        Ok(Step::Say(format!("{closing},p={}", STANDARD.encode(proof)).into_bytes()))
    }

    fn is_short(&self) -> bool {
        self.login.mechanism == Mechanism::ScramSha256
    }

    fn salted(&self, salt: &[u8], iterations: u32) -> Vec<u8> {
        let password = &self.login.password;
        if self.is_short() {
            let mut salted = vec![0; 32];
            pbkdf2_hmac::<Sha256>(password, salt, iterations, &mut salted);
            salted
        } else {
            let mut salted = vec![0; 64];
            pbkdf2_hmac::<Sha512>(password, salt, iterations, &mut salted);
            salted
        }
    }

    fn hmac(&self, key: &[u8], text: &[u8]) -> Vec<u8> {
        const ANY: &str = "a key may have any length";
        if self.is_short() {
            let mut hmac = Hmac::<Sha256>::new_from_slice(key).expect(ANY);
            hmac.update(text);
            hmac.finalize().into_bytes().to_vec()
        } else {
            let mut hmac = Hmac::<Sha512>::new_from_slice(key).expect(ANY);
            hmac.update(text);
            hmac.finalize().into_bytes().to_vec()
        }
    }

    fn hash(&self, bytes: &[u8]) -> Vec<u8> {
        if self.is_short() { Sha256::digest(bytes).to_vec() } else { Sha512::digest(bytes).to_vec() }
    }
}

/// The value of `NAME=VALUE` in a message of SCRAM.
fn field<'a>(message: &'a str, name: &str) -> Option<&'a str> {
    message.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(mechanism: Mechanism) -> Login {
        Login { mechanism, user: "user".into(), password: b"pencil".to_vec() }
    }

    fn said(step: Result<Step, String>) -> String {
        let Ok(Step::Say(message)) = step else { panic!("{step:?}") };
        String::from_utf8(message).unwrap()
    }

    const FIRST: &[u8] =
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    /// The example of RFC 7677.
    #[test]
    fn scram_proves_the_password_and_wants_it_proven() {
        let login = login(Mechanism::ScramSha256);
        let (mut exchange, first) = Exchange::start(&login, "rOprNGfwEbeRWgbNEkqO".into());
        assert_eq!(first, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let proof = said(exchange.next(FIRST));
        let expected = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(proof, expected);
        assert_eq!(exchange.next(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="), Ok(Step::Done));
        for forged in [&b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5="[..], b"e=other-error", b""] {
            let (mut exchange, _) = Exchange::start(&login, "rOprNGfwEbeRWgbNEkqO".into());
            exchange.next(FIRST).unwrap();
            assert!(exchange.next(forged).is_err());
        }
    }

    #[test]
    fn a_first_message_that_makes_no_sense_is_refused() {
        let login = login(Mechanism::ScramSha512);
        for (message, word) in [
            (&b"r=other,s=AAAA,i=4096"[..], "nonce"),
            (b"r=mine,s=AAAA,i=4096", "nonce"),
            (b"s=AAAA,i=4096", "nonce"),
            (b"r=mine+its,s=?,i=4096", "salt"),
            (b"r=mine+its,s=,i=4096", "salt"),
            (b"r=mine+its,s=AAAA,i=4000000000", "iterations"),
            (b"r=mine+its,s=AAAA,i=100001", "iterations"),
            (b"r=mine+its,s=AAAA,i=4095", "iterations from 4096"),
            (b"r=mine+its,s=AAAA,i=0", "iterations"),
            (b"\xff", "text"),
        ] {
            let (mut exchange, _) = Exchange::start(&login, "mine".into());
            let error = exchange.next(message).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_user_may_have_any_name_and_a_password_any_bytes() {
        let login = Login { user: "a=b,c".into(), ..login(Mechanism::ScramSha512) };
        assert_eq!(Exchange::start(&login, "x".into()).1, b"n,,n=a=3Db=2Cc,r=x");
        let plain = Login { mechanism: Mechanism::Plain, password: b"\xffp".to_vec(), ..login };
        let (mut exchange, message) = Exchange::start(&plain, "x".into());
        assert_eq!((&message[..], exchange.next(b"")), (&b"\0a=b,c\0\xffp"[..], Ok(Step::Done)));
    }
}
