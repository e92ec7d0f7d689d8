use outhaul_plugin::net::Script;
use outhaul_plugin::{Outcome, parse_settings};

use super::*;

const INFO: &[u8] = b"INFO {\"headers\":true,\"max_payload\":1000,\"nonce\":\"abc\"}\r\n";

fn event(id: &str) -> Event {
    Event {
        id: id.into(),
        dedup_id: id.into(),
        destination: "bus".into(),
        topic: format!("order.{id}"),
        key: None,
        tenant: String::new(),
        headers: Vec::new(),
        content_type: "application/json".into(),
        payload: b"{}".to_vec(),
        created_at: 0,
        sequence: 1,
        attempt: 1,
        last_attempt: false,
        uncertain_before: false,
        fence: 1,
        budget_ms: 10_000,
        attributes: Vec::new(),
    }
}

type NoTls = fn() -> Result<(), ConnectError>;

fn open(says: &[&[u8]]) -> Result<Session<Script>, LoginError> {
    let script = Script::saying(&[&[INFO], says].concat());
    Session::open(Connection::over(script), None::<NoTls>, "_INBOX.x".into(), |info| {
        assert_eq!(info.nonce, "abc");
        Ok(Credentials::new())
    })
}

/// Publishes `a`, `b` and `c`, while the server says this.
fn publish(settings: &str, says: &[&[u8]]) -> (Published, String) {
    let mut session = open(&[&[&b"PONG\r\n"[..]], says].concat()).unwrap_or_else(|error| panic!("{error:?}"));
    let settings: Settings = parse_settings(settings).unwrap();
    let published = session.publish(&settings, &["a", "b", "c"].map(event));
    let heard = String::from_utf8(session.connection.pipe().heard.clone()).unwrap();
    (published, heard)
}

fn ack(number: u64, seq: u64) -> Vec<u8> {
    let json = format!("{{\"stream\":\"S\",\"seq\":{seq}}}");
    format!("MSG _INBOX.x.{number} 1 {}\r\n{json}\r\n", json.len()).into_bytes()
}

fn nobody(number: u64) -> Vec<u8> {
    format!("HMSG _INBOX.x.{number} 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n").into_bytes()
}

fn stored(seq: u64) -> Outcome {
    Ok(Receipt::delivered().with_reference(format!("S/{seq}")))
}

#[test]
fn confirmations_are_matched_in_any_order_and_a_ping_among_them_is_answered() {
    let (published, heard) = publish("{}", &[&ack(2, 9), b"PING\r\n", &ack(0, 7), &ack(77, 1), &ack(1, 8)]);
    assert_eq!(published.outcomes, [stored(7), stored(8), stored(9)]);
    assert!(!published.is_broken);
    assert!(heard.ends_with("PONG\r\n"), "{heard}");
    assert_eq!(heard.matches("HPUB order.").count(), 3);
    let first = heard.find("HPUB order.a _INBOX.x.0").unwrap();
    assert!(first > heard.find("SUB _INBOX.x.* 1").unwrap());
}

#[test]
fn what_is_not_confirmed_may_have_been_applied() {
    let (published, _) = publish("{}", &[&ack(1, 8)]);
    assert!(published.is_broken);
    assert_eq!(published.outcomes[1], stored(8));
    for index in [0, 2] {
        let Err(Failure::Unavailable(info)) = &published.outcomes[index] else { panic!() };
        assert!(info.maybe_applied && info.code == "no-answer", "{info:?}");
    }
}

#[test]
fn a_subject_that_no_stream_takes_is_told_from_one_whose_stream_is_silent() {
    let none = b"MSG _INBOX.x.3 1 16\r\n{\"streams\":null}\r\n";
    let one = b"MSG _INBOX.x.4 1 17\r\n{\"streams\":[\"S\"]}\r\n";
    let (published, heard) = publish("{}", &[&nobody(0), &ack(1, 8), &nobody(2), none, one]);
    let code = |index: usize| match &published.outcomes[index] {
        Err(Failure::Misconfigured(detail)) => detail.code.clone(),
        Err(Failure::Unavailable(info)) => info.code.clone(),
        other => format!("{other:?}"),
    };
    assert_eq!((code(0), code(2)), ("no-stream".into(), "no-leader".into()));
    assert!(heard.contains("{\"subject\":\"order.a\"}") && !published.is_broken);
}

/// As at a leaf node without JetStream, which lost its hub.
#[test]
fn where_streams_took_messages_before_and_nothing_answers_now_the_hub_may_be_down() {
    let mut session =
        open(&[b"PONG\r\n", &ack(0, 1), &ack(1, 2)]).unwrap_or_else(|error| panic!("{error:?}"));
    let settings: Settings = parse_settings("{}").unwrap();
    let published = session.publish(&settings, &["a", "b"].map(event));
    assert!(published.outcomes.iter().all(Result::is_ok), "{published:?}");
    let says = [nobody(2), nobody(3)].map(Ok);
    session.connection.pipe().says.extend(says);
    let published = session.publish(&settings, &[event("c")]);
    let Err(Failure::Unavailable(info)) = &published.outcomes[0] else { panic!("{published:?}") };
    assert!(info.code == "out-of-reach" && !info.maybe_applied, "{info:?}");
    // A connection that nothing was ever taken over tells of the config.
    let (published, _) =
        publish("{}", &(0..6).map(nobody).collect::<Vec<_>>().iter().map(Vec::as_slice).collect::<Vec<_>>());
    assert!(published.outcomes.iter().all(|outcome| {
        matches!(outcome, Err(Failure::Misconfigured(detail)) if detail.message.contains("leaf node without JetStream"))
    }), "{published:?}");
}

#[test]
fn only_the_subject_that_is_denied_fails() {
    let denied = b"-ERR 'Permissions Violation for Publish to \"order.b\"'\r\n";
    let (published, _) = publish("{}", &[denied, &ack(0, 1), &ack(2, 2)]);
    assert!(
        matches!(&published.outcomes[1], Err(Failure::Misconfigured(detail)) if detail.code == "permission")
    );
    assert_eq!((&published.outcomes[0], &published.outcomes[2]), (&stored(1), &stored(2)));
}

#[test]
fn core_nats_has_delivered_what_came_before_an_answered_ping() {
    let (published, heard) = publish(r#"{"mode":"core"}"#, &[b"PONG\r\n"]);
    assert_eq!(published.outcomes, vec![Ok(Receipt::delivered()); 3]);
    assert!(heard.ends_with("PING\r\n"));
    let (published, _) = publish(r#"{"mode":"core"}"#, &[]);
    assert!(published.outcomes.iter().all(|outcome| outcome.is_err()) && published.is_broken);
}

#[test]
fn a_message_larger_than_the_server_takes_is_not_sent() {
    let mut session = open(&[b"PONG\r\n", &ack(1, 4)]).unwrap_or_else(|error| panic!("{error:?}"));
    let large = Event { payload: vec![7; 1_001], ..event("a") };
    let published = session.publish(&parse_settings("{}").unwrap(), &[large, event("b")]);
    let Err(Failure::Rejected(detail)) = &published.outcomes[0] else { panic!() };
    assert!(detail.message.contains("the server takes 1000"), "{}", detail.message);
    assert_eq!(published.outcomes[1], stored(4));
}

#[test]
fn a_refused_login_and_a_server_that_is_none_are_told_apart() {
    let refused = open(&[b"-ERR 'Authorization Violation'\r\n"]).err();
    assert_eq!(refused, Some(LoginError::Refused("Authorization Violation".into())));
    let silent = open(&[]).err();
    assert_eq!(silent, Some(LoginError::Failed(Error::TimedOut)));
    let other =
        Session::open(Connection::over(Script::saying(&[b"+OK\r\n"])), None::<NoTls>, "i".into(), |_| {
            Ok(Credentials::new())
        });
    assert!(matches!(other.err(), Some(LoginError::Failed(Error::Protocol(_)))));
}

#[test]
fn tls_is_started_before_anything_is_said_and_never_given_up() {
    let secured = |info: &[u8]| {
        // Nothing more is there when TLS is started.
        let script = Script::saying(&[info, b"", b"", b"", b"PONG\r\n"]);
        let mut was_started = false;
        let start = || {
            was_started = true;
            Ok(())
        };
        let opened =
            Session::open(Connection::over(script), Some(start), "i".into(), |_| Ok(Credentials::new()));
        (was_started, opened.err())
    };
    assert_eq!(secured(b"INFO {\"headers\":true,\"tls_required\":true}\r\n"), (true, None));
    assert_eq!(secured(b"INFO {\"headers\":true,\"tls_available\":true}\r\n"), (true, None));
    let (was_started, error) = secured(INFO);
    let Some(LoginError::Unfit(failure)) = error else { panic!("{error:?}") };
    assert!(!was_started && matches!(*failure, Failure::Misconfigured(detail) if detail.code == "no-tls"));
    // Somebody between could have added it.
    let (was_started, error) = secured(b"INFO {\"headers\":true,\"tls_required\":true}\r\n+OK\r\n");
    assert!(!was_started && matches!(error, Some(LoginError::Unfit(_))));
}

const WITH_TLS: &[u8] = b"INFO {\"headers\":true,\"tls_required\":true}\r\n";
const FULL: &[u8] = b"-ERR 'maximum connections exceeded'\r\n";

/// What comes of TLS that can't be started, while the server says this.
fn not_secured(says: Vec<Result<Vec<u8>, Error>>) -> (bool, LoginError) {
    let script = Script { says: says.into(), ..Script::default() };
    let mut was_started = false;
    let start = || {
        was_started = true;
        Err(ConnectError::Tls("bytes that came in the clear".into()))
    };
    let opened = Session::open(Connection::over(script), Some(start), "i".into(), |_| Ok(Credentials::new()));
    (was_started, opened.err().expect("TLS was not started"))
}

#[test]
fn a_server_that_is_full_is_heard_before_tls_is_started_and_after() {
    let [info, full] = [WITH_TLS, FULL].map(<[u8]>::to_vec);
    let refused = LoginError::Refused("maximum connections exceeded".to_owned());
    let (was_started, error) = not_secured(vec![Ok([info.clone(), full.clone()].concat())]);
    assert_eq!((was_started, &error), (false, &refused));
    assert!(!error.is_of_credentials() && matches!(error.failure(), Failure::Unavailable(_)));
    let ended = vec![Ok(info.clone()), Ok(vec![]), Ok(full.clone()), Err(Error::Closed)];
    assert_eq!(not_secured(ended), (false, refused));
    // Its word comes while TLS is about to be started.
    let late = vec![Ok(info.clone()), Ok(vec![]), Ok(vec![]), Ok(vec![]), Ok(full)];
    assert_eq!(not_secured(late), (true, LoginError::Refused("maximum connections exceeded".to_owned())));
    let (was_started, error) = not_secured(vec![Ok(info.clone()), Ok(vec![]), Err(Error::Closed)]);
    assert_eq!((was_started, error), (false, LoginError::Failed(Error::Closed)));
    // Whatever else came, the host's word counts.
    for end in [Err(Error::Closed), Ok(b"\x15\x03\x03".to_vec()), Ok(b"+OK\r\n".to_vec())] {
        let (was_started, error) =
            not_secured(vec![Ok(info.clone()), Ok(vec![]), Ok(vec![]), Ok(vec![]), end]);
        assert!(was_started, "{error:?}");
        let Failure::Misconfigured(detail) = error.failure() else { panic!() };
        assert_eq!(detail.code, "tls");
    }
}

#[test]
fn another_server_is_tried_unless_every_one_would_refuse_the_login() {
    let refused = |text: &str| LoginError::Refused(text.to_owned());
    let unfit = || Box::new(Failure::misconfigured("tls", "its certificate is not trusted"));
    for error in [
        refused("maximum connections exceeded"),
        refused("Secure Connection - TLS Required"),
        LoginError::Failed(Error::TimedOut),
        LoginError::Unfit(unfit()),
    ] {
        assert!(!error.is_of_credentials(), "{error:?}");
    }
    for error in [refused("Authorization Violation"), LoginError::Without(unfit())] {
        assert!(error.is_of_credentials(), "{error:?}");
    }
}

#[test]
fn a_server_that_is_about_to_stop_is_left_before_anything_is_sent() {
    let mut session = open(&[b"PONG\r\n", b"PING\r\n"]).unwrap_or_else(|error| panic!("{error:?}"));
    assert_eq!(session.refresh(), Ok(()));
    let heard = session.connection.pipe().heard.clone();
    assert!(heard.ends_with(b"PONG\r\n"));
    let leaving = b"INFO {\"headers\":true,\"ldm\":true}\r\n";
    session.connection.pipe().says.push_back(Ok(leaving.to_vec()));
    assert_eq!(session.refresh(), Err(Error::Closed));
}
