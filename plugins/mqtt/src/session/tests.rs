use outhaul_plugin::net::Script;
use outhaul_plugin::{Receipt, parse_settings};

use super::*;
use crate::message::tests::event;

const CONNACK: &[u8] = b"\x20\x03\x00\x00\x00";

fn open(settings: &Settings, says: &[&[u8]]) -> Result<Session<Script>, LoginError> {
    let hello = Connect { client_id: "c", keep_alive_s: 30, ..Connect::default() };
    Session::open(Connection::over(Script::saying(says)), settings, &hello)
}

/// Publishes three events while the broker says this; what comes of them, and what it heard after the hello.
fn publish(json: &str, says: &[&[u8]]) -> (Published, Vec<u8>) {
    let settings: Settings = parse_settings(json).unwrap();
    let mut session = open(&settings, says).unwrap_or_else(|error| panic!("{error:?}"));
    let hello = session.connection.pipe().heard.len();
    let published = session.publish(&settings, &["a", "b", "c"].map(event));
    (published, session.connection.pipe().heard[hello..].to_vec())
}

fn delivered() -> outhaul_plugin::Outcome {
    Ok(Receipt::delivered())
}

#[test]
fn acknowledgements_are_matched_in_any_order() {
    let acks = b"\x40\x02\x00\x03\x40\x02\x00\x01\x40\x03\x00\x02\x87";
    let (published, heard) = publish("{}", &[CONNACK, acks]);
    assert_eq!((&published.outcomes[0], &published.outcomes[2]), (&delivered(), &delivered()));
    assert!(
        matches!(&published.outcomes[1], Err(Failure::Misconfigured(detail)) if detail.code == "mqtt-0x87")
    );
    assert!(!published.is_broken);
    assert_eq!(heard.iter().filter(|byte| **byte == 0x32).count(), 3);
}

#[test]
fn no_more_are_under_way_than_the_broker_takes() {
    let one_at_a_time = b"\x20\x06\x00\x00\x03\x21\x00\x01";
    // The second is not sent before the first is answered, so without answers only one has left.
    let (published, heard) = publish("{}", &[one_at_a_time]);
    assert_eq!(heard.iter().filter(|byte| **byte == 0x32).count(), 1);
    let uncertain = |index: usize| match &published.outcomes[index] {
        Err(Failure::Unavailable(info)) => info.maybe_applied,
        other => panic!("{other:?}"),
    };
    assert_eq!([uncertain(0), uncertain(1), uncertain(2)], [true, false, false]);
    let acks: &[&[u8]] = &[one_at_a_time, b"\x40\x02\x00\x01", b"\x40\x02\x00\x02", b"\x40\x02\x00\x03"];
    assert_eq!(publish("{}", acks).0.outcomes, vec![delivered(); 3]);
}

#[test]
fn qos_2_is_delivered_after_its_second_step_and_refused_in_its_first() {
    let received = b"\x50\x02\x00\x01\x50\x02\x00\x02\x50\x03\x00\x03\x97";
    let (published, heard) = publish(r#"{"qos":2}"#, &[CONNACK, received, b"\x70\x02\x00\x01"]);
    assert_eq!(published.outcomes[0], delivered());
    assert!(matches!(&published.outcomes[1], Err(Failure::Unavailable(info)) if info.maybe_applied));
    assert!(matches!(&published.outcomes[2], Err(Failure::RateLimited(_))));
    assert!(heard.ends_with(b"\x62\x02\x00\x01\x62\x02\x00\x02"));
}

#[test]
fn a_packet_larger_than_the_broker_takes_is_not_sent() {
    let small = b"\x20\x08\x00\x00\x05\x27\x00\x00\x01\x00";
    let settings: Settings = parse_settings("{}").unwrap();
    let mut session =
        open(&settings, &[small, b"\x40\x02\x00\x01"]).unwrap_or_else(|error| panic!("{error:?}"));
    let large = Event { payload: vec![7; 300], ..event("a") };
    let published = session.publish(&settings, &[large, event("b")]);
    assert!(
        matches!(&published.outcomes[0], Err(Failure::Rejected(detail)) if detail.message.contains("takes 256"))
    );
    assert_eq!(published.outcomes[1], delivered());
}

#[test]
fn a_broker_that_ends_the_session_says_why() {
    let (published, _) = publish("{}", &[CONNACK, b"\x40\x02\x00\x01\xe0\x02\x8b\x00"]);
    assert_eq!(published.outcomes[0], delivered());
    let Err(Failure::Unavailable(info)) = &published.outcomes[1] else { panic!() };
    assert!(info.maybe_applied && info.message.contains("server shutting down"), "{}", info.message);
    assert!(published.is_broken);
}

#[test]
fn who_is_not_taken_in_or_wants_too_much_is_told() {
    let settings = |json: &str| parse_settings::<Settings>(json).unwrap();
    let refused = open(&settings("{}"), &[b"\x20\x03\x00\x86\x00"]).err();
    assert_eq!(refused, Some(LoginError::Refused { code: 0x86, reason: String::new() }));
    let only_one = b"\x20\x07\x00\x00\x04\x24\x01\x25\x00";
    assert_eq!(
        open(&settings(r#"{"qos":2}"#), &[only_one]).err(),
        Some(LoginError::Unfit(Box::new(answer::no_qos(1))))
    );
    let retain = open(&settings(r#"{"retain":true}"#), &[only_one]).err();
    assert_eq!(retain, Some(LoginError::Unfit(Box::new(answer::no_retain()))));
    assert!(open(&settings("{}"), &[only_one]).is_ok());
}

#[test]
fn an_idle_session_is_pinged_and_one_that_was_ended_is_seen() {
    let settings: Settings = parse_settings("{}").unwrap();
    let mut session =
        open(&settings, &[CONNACK, b"", b"", b"\xd0\x00"]).unwrap_or_else(|error| panic!("{error:?}"));
    assert_eq!(session.refresh(), Ok(()));
    assert_eq!(session.ping(), Ok(()));
    session.connection.pipe().says.push_back(Ok(b"\xe0\x02\x8d\x00".to_vec()));
    assert!(matches!(session.refresh(), Err(Error::Lost(why)) if why.contains("keep alive timeout")));
}
