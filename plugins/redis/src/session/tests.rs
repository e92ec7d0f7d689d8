use outhaul_plugin::net::Script;
use outhaul_plugin::{Outcome, Receipt, parse_settings};

use super::*;
use crate::entry::tests::event;

const LOADED: &[u8] = b"$3\r\nsha\r\n";

fn settings(json: &str) -> Settings {
    parse_settings(json).unwrap()
}

/// Adds `a` and `b` while the server says this; what comes of them, and what it heard.
fn publish(settings: &Settings, says: &[&[u8]]) -> (Published, String) {
    let script = Script::saying(&[&[LOADED], says].concat());
    let mut session =
        Session::open(Connection::over(script), settings, None).unwrap_or_else(|error| panic!("{error:?}"));
    session.allow(Duration::from_secs(60));
    let published = session.publish(settings, &["a", "b"].map(event));
    let heard = String::from_utf8_lossy(&session.connection.pipe().heard).into_owned();
    (published, heard)
}

fn added(id: &str) -> Outcome {
    Ok(Receipt::delivered().with_reference(format!("order.created/{id}")))
}

#[test]
fn all_are_sent_before_the_first_is_answered_and_answers_keep_their_order() {
    let (published, heard) =
        publish(&settings("{}"), &[b"*2\r\n$3\r\n1-0\r\n:1\r\n*2\r\n$3\r\n1-1\r\n:1\r\n"]);
    assert_eq!(published.outcomes, [added("1-0"), added("1-1")]);
    assert_eq!(heard.matches("EVALSHA\r\n$3\r\nsha\r\n").count(), 2);
    assert!(heard.contains("86400000\r\n$1\r\n0\r\n$1\r\n0\r\n$2\r\nid\r\n"), "{heard}");
}

#[test]
fn a_script_that_was_flushed_is_loaded_again_for_those_that_missed_it() {
    let missing = b"-NOSCRIPT No matching script.\r\n*2\r\n$3\r\n1-0\r\n:1\r\n";
    let (published, heard) = publish(&settings("{}"), &[missing, LOADED, b"*2\r\n$3\r\n1-1\r\n:1\r\n"]);
    assert_eq!(published.outcomes, [added("1-1"), added("1-0")]);
    assert_eq!((heard.matches("EVALSHA").count(), heard.matches("LOAD").count()), (3, 2));
}

#[test]
fn what_was_not_answered_may_have_been_applied() {
    let (published, _) = publish(&settings("{}"), &[b"*2\r\n$3\r\n1-0\r\n:1\r\n"]);
    assert_eq!(published.outcomes[0], added("1-0"));
    assert!(matches!(&published.outcomes[1], Err(Failure::Unavailable(info)) if info.maybe_applied));
    assert!(published.is_broken);
}

#[test]
fn what_replicas_do_not_have_does_not_count_as_delivered() {
    let with_replicas = settings(r#"{"replicas":{"count":1}}"#);
    let both = b"*2\r\n$3\r\n1-0\r\n:1\r\n*2\r\n$3\r\n1-1\r\n:0\r\n";
    let (published, heard) = publish(&with_replicas, &[both, b":0\r\n"]);
    assert!(published.outcomes.iter().all(|outcome| {
        matches!(outcome, Err(Failure::Unavailable(info)) if info.code == "replicas" && info.maybe_applied)
    }));
    assert!(heard.ends_with("WAIT\r\n$1\r\n1\r\n$4\r\n1000\r\n"), "{heard}");
    let (published, _) = publish(&with_replicas, &[both, b":2\r\n"]);
    assert!(published.outcomes.iter().all(Result::is_ok));
    // Nor does what they were not asked for: the master was lost before it said.
    let (published, _) = publish(&with_replicas, &[both]);
    let is_uncertain =
        |outcome: &Outcome| matches!(outcome, Err(Failure::Unavailable(info)) if info.maybe_applied);
    assert!(published.is_broken && published.outcomes.iter().all(is_uncertain), "{published:?}");
}

#[test]
fn replicas_are_waited_for_no_longer_than_the_call_may_take() {
    let waited = |timeout: &str, left: Duration| {
        let settings = settings(&format!(r#"{{"replicas":{{"count":1,"timeout":"{timeout}"}}}}"#));
        let script = Script::saying(&[LOADED, b"*2\r\n$3\r\n1-0\r\n:1\r\n", b":1\r\n"]);
        let mut session = Session::open(Connection::over(script), &settings, None).unwrap();
        session.allow(left);
        let published = session.publish(&settings, &[event("a")]);
        assert!(published.outcomes[0].is_ok(), "{published:?}");
        let heard = String::from_utf8_lossy(&session.connection.pipe().heard).into_owned();
        heard.trim_end().rsplit("\r\n").next().unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(waited("1s", Duration::from_secs(60)), 1_000);
    let cut = waited("30s", Duration::from_secs(10));
    assert!((7_000..=8_000).contains(&cut), "{cut} ms");
    assert_eq!(waited("30s", Duration::ZERO), 1, "and never for ever");
}

#[test]
fn a_replica_that_became_read_only_is_left() {
    let readonly = b"-READONLY You can't write against a read only replica.\r\n*2\r\n$3\r\n1-0\r\n:1\r\n";
    let (published, _) = publish(&settings("{}"), &[readonly]);
    assert!(published.is_broken && published.outcomes[1].is_ok());
}

#[test]
fn a_login_is_user_password_and_database_in_turn() {
    let with_login = settings(r#"{"auth":{"user":"shop","password":"login"},"database":3}"#);
    let script = Script::saying(&[b"+OK\r\n", b"+OK\r\n", LOADED]);
    let mut session =
        Session::open(Connection::over(script), &with_login, Some(b"pw")).unwrap_or_else(|_| panic!());
    let heard = String::from_utf8(session.connection.pipe().heard.clone()).unwrap();
    assert!(
        heard.starts_with("*3\r\n$4\r\nAUTH\r\n$4\r\nshop\r\n$2\r\npw\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n"),
        "{heard}"
    );
    let script = Script::saying(&[b"-WRONGPASS invalid\r\n"]);
    let refused = Session::open(Connection::over(script), &with_login, Some(b"pw")).err();
    assert_eq!(refused, Some(LoginError::Refused("WRONGPASS invalid".into())));
}
