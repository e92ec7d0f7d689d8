use broker::Published;
use outhaul_plugin::net::Script;
use outhaul_plugin::{Event, parse_settings};

use super::*;
use crate::message::tests::event;

fn method(channel: u16, class: u16, method: u16, rest: &[u8]) -> Vec<u8> {
    let payload = [&class.to_be_bytes()[..], &method.to_be_bytes(), rest].concat();
    let mut bytes = Vec::new();
    wire::write_frame(&mut bytes, Kind::Method, channel, &payload);
    bytes
}

fn start() -> Vec<u8> {
    let mechanisms = b"PLAIN AMQPLAIN";
    let rest = [
        &b"\x00\x09\x00\x00\x00\x00"[..],
        &(mechanisms.len() as u32).to_be_bytes(),
        mechanisms,
        b"\x00\x00\x00\x00",
    ];
    method(0, 10, 10, &rest.concat())
}

/// Frames of 4 KiB, a heartbeat each minute.
fn tune() -> Vec<u8> {
    method(0, 10, 30, b"\x07\xff\x00\x00\x10\x00\x00\x3c")
}

fn opened() -> Vec<Vec<u8>> {
    let channel = [method(1, 20, 11, b"\x00\x00\x00\x00"), method(1, 85, 11, b"")];
    [vec![start(), tune(), method(0, 10, 41, b"\x00")], channel.to_vec()].concat()
}

#[test]
fn a_server_that_takes_no_whole_frame_is_refused_with_the_fix() {
    for frame_max in [1_u32, 8, 4095] {
        let rest = [&b"\x07\xff"[..], &frame_max.to_be_bytes(), b"\x00\x3c"].concat();
        let refused = open(&[start(), method(0, 10, 30, &rest)]).err();
        let Some(LoginError::Unfit(failure)) = refused else { panic!("{frame_max}: {refused:?}") };
        let Failure::Misconfigured(detail) = *failure else { panic!("{failure:?}") };
        assert!(detail.message.contains(&format!("{frame_max} bytes")), "{}", detail.message);
        assert!(detail.message.contains("4096"), "{}", detail.message);
    }
    assert!(open(&opened()).is_ok(), "4096 are enough");
}

fn closing(channel: u16, class: u16, number: u16, code: u16, text: &str) -> Vec<u8> {
    let mut rest = code.to_be_bytes().to_vec();
    wire::write_short(&mut rest, text);
    rest.extend([0; 4]);
    method(channel, class, number, &rest)
}

fn channel_closed(code: u16, text: &str) -> Vec<u8> {
    closing(1, 20, 40, code, text)
}

fn ack(tag: u64, multiple: bool) -> Vec<u8> {
    method(1, 60, 80, &[&tag.to_be_bytes()[..], &[u8::from(multiple)]].concat())
}

fn nack(tag: u64) -> Vec<u8> {
    method(1, 60, 120, &[&tag.to_be_bytes()[..], &[0]].concat())
}

/// A message comes back: its method, header and body.
fn returned(id: &str) -> Vec<u8> {
    let mut bytes = method(1, 60, 50, b"\x01\x38\x08NO_ROUTE\x00\x00");
    let settings: Settings = parse_settings("{}").unwrap();
    let event = event(id);
    let message = message::compose(&settings, &event).unwrap();
    wire::write_frame(&mut bytes, Kind::Header, CHANNEL, &message.header);
    wire::write_frame(&mut bytes, Kind::Body, CHANNEL, &message.body);
    bytes
}

fn blocked(reason: &str) -> Vec<u8> {
    let mut rest = Vec::new();
    wire::write_short(&mut rest, reason);
    method(0, 10, 60, &rest)
}

fn open(says: &[Vec<u8>]) -> Result<Session<Script>, LoginError> {
    let script = Script { says: says.iter().cloned().map(Ok).collect(), ..Script::default() };
    Session::open(Connection::over(script), "/", &Login::plain("guest", b"guest"), Duration::from_secs(5))
}

fn session() -> Session<Script> {
    open(&opened()).unwrap_or_else(|error| panic!("{error:?}"))
}

fn says(session: &mut Session<Script>, says: &[Vec<u8>]) {
    session.connection.pipe().says.extend(says.iter().cloned().map(Ok));
}

/// Publishes `a`, `b` and `c`, while the broker says this.
fn publish(settings: &str, answers: &[Vec<u8>]) -> (Published, Session<Script>) {
    let mut session = session();
    says(&mut session, answers);
    let settings: Settings = parse_settings(settings).unwrap();
    let published = session.publish(&settings, &["a", "b", "c"].map(event));
    (published, session)
}

/// The frames sent since the login.
fn heard(session: &mut Session<Script>) -> Vec<wire::Frame> {
    let bytes = session.connection.pipe().heard.clone();
    let mut rest = bytes.strip_prefix(wire::PROTOCOL).unwrap();
    let mut frames = Vec::new();
    while let Some((length, frame)) = wire::parse(rest).unwrap() {
        rest = &rest[length..];
        frames.push(frame);
    }
    assert!(rest.is_empty());
    frames.split_off(5)
}

fn codes(published: &Published) -> Vec<String> {
    let code = |outcome: &outhaul_plugin::Outcome| match outcome {
        Ok(_) => "delivered".to_owned(),
        Err(Failure::Unavailable(info) | Failure::Retry(info)) if info.maybe_applied => {
            format!("{}?", info.code)
        }
        Err(Failure::Unavailable(info) | Failure::Retry(info)) => info.code.clone(),
        Err(Failure::Misconfigured(detail) | Failure::Rejected(detail)) if detail.maybe_applied => {
            format!("{}?", detail.code)
        }
        Err(Failure::Misconfigured(detail) | Failure::Rejected(detail)) => detail.code.clone(),
        other => format!("{other:?}"),
    };
    published.outcomes.iter().map(code).collect()
}

#[test]
fn confirmations_are_matched_in_any_order_one_by_one_and_many_at_once() {
    for answers in
        [&[ack(3, true)][..], &[ack(2, false), ack(3, false), ack(1, false)], &[ack(1, false), ack(3, true)]]
    {
        let (published, mut session) = publish("{}", answers);
        assert_eq!((codes(&published), published.is_broken), (vec!["delivered".to_owned(); 3], false));
        let kinds: Vec<Kind> = heard(&mut session).iter().map(|frame| frame.kind).collect();
        assert_eq!(kinds, [Kind::Method, Kind::Header, Kind::Body].repeat(3));
    }
}

#[test]
fn the_tags_of_a_batch_go_on_from_the_last_and_late_confirmations_are_nobodys() {
    let (_, mut session) = publish("{}", &[ack(3, true)]);
    says(&mut session, &[ack(3, true), ack(9, false), ack(4, false)]);
    let published = session.publish(&parse_settings("{}").unwrap(), &[event("d")]);
    assert_eq!(codes(&published), ["delivered"]);
}

#[test]
fn what_is_not_confirmed_may_have_been_applied() {
    let (published, _) = publish("{}", &[ack(2, false)]);
    assert_eq!(
        (codes(&published), published.is_broken),
        (vec!["no-answer?".into(), "delivered".into(), "no-answer?".into()], true)
    );
}

#[test]
fn a_message_that_comes_back_before_its_confirmation_is_unroutable() {
    let answers = [returned("b"), ack(3, true)];
    assert_eq!(codes(&publish("{}", &answers).0), ["delivered", "unroutable", "delivered"]);
    assert_eq!(codes(&publish(r#"{"unroutable":"reject"}"#, &answers).0)[1], "unroutable");
    let (published, mut session) = publish(r#"{"unroutable":"accept"}"#, &[ack(3, true)]);
    assert_eq!(codes(&published)[1], "delivered");
    assert_eq!(heard(&mut session)[0].payload.last(), Some(&0), "the broker is not asked to return it");
}

#[test]
fn a_queue_that_is_full_fails_its_message_alone() {
    let (published, _) = publish("{}", &[nack(2), ack(1, false), ack(3, false)]);
    assert_eq!(codes(&published), ["delivered", "nacked?", "delivered"]);
}

#[test]
fn a_message_that_is_too_large_costs_the_channel_but_not_the_others() {
    let large = Event { payload: vec![7; 9_000], ..event("large") };
    let mut session = session();
    let text = "PRECONDITION_FAILED - message size 9000 is larger than configured max size 8000";
    let again = [method(1, 20, 11, b"\x00\x00\x00\x00"), method(1, 85, 11, b"")];
    says(&mut session, &[&[channel_closed(406, text)][..], &again, &[ack(2, true)]].concat());
    let published = session.publish(&parse_settings("{}").unwrap(), &[event("a"), large.clone(), event("b")]);
    assert_eq!(
        (codes(&published), published.is_broken),
        (vec!["delivered".into(), "too-large".into(), "delivered".into()], false)
    );
    let Err(Failure::Rejected(detail)) = &published.outcomes[1] else { panic!() };
    assert!(detail.message.contains("has 9000 bytes, and the broker takes 8000"), "{}", detail.message);
    // Another one is not even sent.
    let sent = session.connection.sent();
    assert_eq!(codes(&session.publish(&parse_settings("{}").unwrap(), &[large])), ["too-large"]);
    assert_eq!(session.connection.sent(), sent);
}

#[test]
fn an_exchange_that_is_not_there_is_misconfigured_and_the_next_batch_opens_a_channel() {
    let (published, mut session) =
        publish("{}", &[channel_closed(404, "NOT_FOUND - no exchange 'amq.topic'")]);
    assert_eq!((codes(&published), published.is_broken), (vec!["no-exchange?".to_owned(); 3], false));
    let again = [method(1, 20, 11, b"\x00\x00\x00\x00"), method(1, 85, 11, b"")];
    says(&mut session, &[&again[..], &[ack(1, false)]].concat());
    let published = session.publish(&parse_settings("{}").unwrap(), &[event("d")]);
    assert_eq!(codes(&published), ["delivered"]);
    says(&mut session, &[channel_closed(403, "ACCESS_REFUSED")]);
    let published = session.publish(&parse_settings("{}").unwrap(), &[event("e")]);
    assert_eq!(codes(&published), ["permission"], "alone, it was certainly not applied");
}

#[test]
fn a_blocked_broker_confirms_what_it_had_read_and_is_sent_nothing_until_it_takes_more() {
    let (published, mut session) = publish("{}", &[blocked("low on memory"), ack(1, false)]);
    assert_eq!(
        (codes(&published), published.is_broken),
        (vec!["delivered".into(), "blocked?".into(), "blocked?".into()], false)
    );
    let sent = session.connection.sent();
    let published = session.publish(&parse_settings("{}").unwrap(), &[event("d")]);
    let Err(Failure::Unavailable(info)) = &published.outcomes[0] else { panic!() };
    assert!(info.message.contains("low on memory") && !info.maybe_applied, "{info:?}");
    assert_eq!(session.connection.sent(), sent);
    says(&mut session, &[method(0, 10, 61, b""), ack(3, true)]);
    session.refresh().unwrap();
    says(&mut session, &[ack(4, false)]);
    assert_eq!(codes(&session.publish(&parse_settings("{}").unwrap(), &[event("d")])), ["delivered"]);
}

#[test]
fn a_broker_that_closes_is_told_with_its_own_words() {
    let (published, _) =
        publish("{}", &[ack(1, false), closing(0, 10, 50, 320, "CONNECTION_FORCED - shutdown")]);
    assert_eq!(
        (codes(&published), published.is_broken),
        (vec!["delivered".into(), "connection-lost?".into(), "connection-lost?".into()], true)
    );
    let Err(Failure::Unavailable(info)) = &published.outcomes[1] else { panic!() };
    assert!(info.message.contains("320 CONNECTION_FORCED"), "{}", info.message);
}

#[test]
fn a_large_body_is_split_into_frames_and_an_empty_one_has_none() {
    let mut session = session();
    says(&mut session, &[ack(2, true)]);
    let large = Event { payload: vec![7; 10_000], ..event("a") };
    let empty = Event { payload: Vec::new(), ..event("b") };
    assert_eq!(codes(&session.publish(&parse_settings("{}").unwrap(), &[large, empty])), ["delivered"; 2]);
    let sizes: Vec<usize> = heard(&mut session)
        .iter()
        .filter(|frame| frame.kind == Kind::Body)
        .map(|frame| frame.payload.len())
        .collect();
    assert_eq!(sizes, [4_088, 4_088, 1_824]);
}

#[test]
fn headers_that_fit_no_frame_are_rejected_before_they_are_sent() {
    let mut session = session();
    let wide = Event { headers: vec![("wide".into(), "x".repeat(5_000))], ..event("a") };
    assert_eq!(codes(&session.publish(&parse_settings("{}").unwrap(), &[wide])), ["headers-too-large"]);
}

#[test]
fn a_refused_login_a_missing_vhost_and_a_server_that_is_none_are_told_apart() {
    let refused = closing(0, 10, 50, 403, "ACCESS_REFUSED - Login was refused");
    let Err(LoginError::Refused(told)) = open(&[start(), refused]) else { panic!() };
    assert_eq!(told.code, 403);
    let missing = closing(0, 10, 50, 530, "NOT_ALLOWED - vhost / not found");
    let Err(LoginError::Refused(told)) = open(&[start(), tune(), missing]) else { panic!() };
    assert_eq!(told.code, 530);
    let other = method(0, 10, 10, b"\x00\x09\x00\x00\x00\x00\x00\x00\x00\x08EXTERNAL\x00\x00\x00\x00");
    assert_eq!(open(&[other]).err(), Some(LoginError::NoMechanism("EXTERNAL".into())));
    assert_eq!(open(&[]).err(), Some(LoginError::Failed(Error::TimedOut)));
    let Err(LoginError::Failed(Error::Protocol(why))) = open(&[b"HTTP/1.1 400 Bad Request\r\n".to_vec()])
    else {
        panic!()
    };
    assert!(why.contains("is this an AMQP port?"));
}

#[test]
fn an_idle_session_says_that_it_lives_and_sees_a_silent_server() {
    let mut session = session();
    says(&mut session, &[method::heartbeat()]);
    session.keep_alive().unwrap();
    assert_eq!(heard(&mut session).last().unwrap().kind, Kind::Heartbeat);
    session.heard_at -= Duration::from_secs(121);
    assert_eq!(session.keep_alive(), Err(Error::TimedOut));
}

#[test]
fn check_finds_the_exchange_or_says_that_it_is_missing() {
    let mut session = session();
    says(&mut session, &[method(1, 40, 11, b""), channel_closed(404, "NOT_FOUND - no exchange")]);
    let settings: Settings = parse_settings("{}").unwrap();
    assert_eq!(session.find_exchange(&settings), Ok(Ok(())));
    let Ok(Err(Failure::Misconfigured(detail))) = session.find_exchange(&settings) else { panic!() };
    assert_eq!(detail.code, "no-exchange");
    let default: Settings = parse_settings(r#"{"exchange":""}"#).unwrap();
    assert_eq!(session.find_exchange(&default), Ok(Ok(())));
}
