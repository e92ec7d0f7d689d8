use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use outhaul_plugin::net::Script;
use outhaul_plugin::{Event, Outcome, Receipt, parse_settings};

use super::*;
use crate::peer::tests::answering;
use crate::protocol::metadata::tests::answer as cluster;
use crate::protocol::produce::tests::{answer as produced, said};
use crate::protocol::producer_id::tests::answer as numbered;
use crate::protocol::sasl::tests::handshake_answer;
use crate::protocol::versions::tests::modern;
use crate::record::tests::event;
use crate::settings::Settings;

const TIME: Duration = Duration::from_secs(10);

type Dialled = Result<Connection<Script>, Failure>;

/// Brokers by script, one for each time that one is dialled.
#[derive(Clone, Default)]
struct Scripted {
    next: Rc<RefCell<VecDeque<Dialled>>>,
    dialled: Rc<RefCell<Vec<Option<String>>>>,
    paused: Rc<RefCell<u32>>,
}

impl Dial for Scripted {
    type Pipe = Script;

    fn dial(&self, address: Option<&str>) -> Result<Connection<Script>, Failure> {
        self.dialled.borrow_mut().push(address.map(str::to_owned));
        let next = self.next.borrow_mut().pop_front();
        next.unwrap_or_else(|| Err(Failure::unavailable("unreachable", "nothing listens")))
    }

    fn logins(&self) -> Result<Vec<Option<Login>>, Failure> {
        Ok(vec![None])
    }

    fn nonce(&self) -> String {
        "n".to_owned()
    }

    fn pause(&self, _: Duration) {
        *self.paused.borrow_mut() += 1;
    }
}

/// Each answers like this, in the order in which they are dialled.
fn brokers(answers: &[&[Vec<u8>]]) -> Scripted {
    let scripted = Scripted::default();
    scripted.next.borrow_mut().extend(answers.iter().map(|answers| Ok(answering(answers))));
    scripted
}

/// A broker that ends the connection after these answers.
fn ending(answers: &[Vec<u8>]) -> Connection<Script> {
    let mut connection = answering(answers);
    let says = &mut connection.pipe().says;
    says.push_back(Ok(Vec::new()));
    says.push_back(Err(Error::Closed));
    connection
}

/// One broker, or two, that lead the partitions of `orders`.
fn orders(leaders: &[i32]) -> Vec<u8> {
    cluster(&[(1, "a", 9092), (2, "b", 9092)], &[("orders", 0, leaders)])
}

fn settings() -> Settings {
    parse_settings(r#"{"topic":"orders"}"#).unwrap()
}

fn publish(session: &mut Session<Scripted>, ids: &[&str]) -> Vec<Outcome> {
    let events: Vec<_> = ids.iter().map(|id| event(id)).collect();
    session.publish(&settings(), &events).outcomes
}

fn session(scripted: &Scripted) -> Session<Scripted> {
    Session::open(scripted.clone(), "outhaul", TIME).unwrap()
}

fn stored(partition: i32, offset: i64) -> Outcome {
    Ok(Receipt::delivered().with_reference(format!("orders/{partition}/{offset}")))
}

/// What the peer of this broker heard since, as a place to look for numbers.
fn heard(session: &mut Session<Scripted>, broker: i32) -> Vec<u8> {
    let peer = session.peers.get_mut(&broker).expect("it is talked to");
    peer.script().heard.clone()
}

/// The first number and the count of each batch in what was heard: they stand after the producer's ID and
/// epoch, before the records.
fn batches(heard: &[u8], producer: i64) -> Vec<(i32, i32)> {
    let mark = [&producer.to_be_bytes()[..], &[0, 0]].concat();
    let places = heard.windows(mark.len()).enumerate().filter(|(_, window)| *window == mark);
    let number = |at: usize| i32::from_be_bytes(heard[at..at + 4].try_into().unwrap());
    places.map(|(at, _)| (number(at + mark.len()), number(at + mark.len() + 4))).collect()
}

const PRODUCER: i64 = 0x0102_0304_0506_0708;

fn first(answers: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut all = vec![modern(), cluster(&[(1, "a", 9092)], &[])];
    all.extend(answers.iter().cloned());
    all
}

#[test]
fn a_batch_is_stored_by_the_leader_of_its_keys_partition_and_the_next_one_counts_on() {
    let seed = first(&[orders(&[1]), numbered(0, PRODUCER, 0)]);
    let leader = [modern(), produced(&[said(0, 0, 40)], 0), produced(&[said(0, 0, 42)], 0)];
    let scripted = brokers(&[&seed, &leader]);
    let mut session = session(&scripted);
    assert_eq!(publish(&mut session, &["a", "b"]), [stored(0, 40), stored(0, 41)]);
    assert_eq!(publish(&mut session, &["c"]), [stored(0, 42)]);
    assert_eq!(*scripted.dialled.borrow(), [None, Some("a:9092".to_owned())]);
    assert_eq!(batches(&heard(&mut session, 1), PRODUCER), [(0, 2), (2, 1)]);
}

#[test]
fn a_leader_that_moved_is_followed_with_the_same_numbers() {
    let seed = first(&[orders(&[1]), numbered(0, PRODUCER, 0)]);
    let old = [modern(), produced(&[said(0, 6, -1)], 0), orders(&[2])];
    let new = [modern(), produced(&[said(0, 0, 7)], 0)];
    let scripted = brokers(&[&seed, &old, &new]);
    let mut session = session(&scripted);
    assert_eq!(publish(&mut session, &["a"]), [stored(0, 7)]);
    assert_eq!((batches(&heard(&mut session, 2), PRODUCER), *scripted.paused.borrow()), (vec![(0, 1)], 1));
}

#[test]
fn a_batch_whose_answer_was_lost_is_sent_again_and_known_by_its_numbers() {
    let seed = first(&[orders(&[1]), numbered(0, PRODUCER, 0)]);
    let scripted = brokers(&[&seed]);
    let again = [modern(), cluster(&[(1, "a", 9092)], &[("orders", 0, &[1])])];
    let leader = [modern(), produced(&[said(0, 46, -1)], 0)];
    scripted.next.borrow_mut().extend([
        Ok(ending(&[modern()])),
        Ok(answering(&again)),
        Ok(answering(&leader)),
    ]);
    let mut session = session(&scripted);
    assert_eq!(publish(&mut session, &["a"]), [Ok(Receipt::delivered())]);
    assert!(session.numbers.is_some(), "its fate is known");
}

#[test]
fn a_batch_whose_fate_stays_unknown_is_uncertain_and_its_numbers_are_not_used_again() {
    let seed = first(&[orders(&[1]), numbered(0, PRODUCER, 0)]);
    let scripted = brokers(&[&seed]);
    scripted.next.borrow_mut().push_back(Ok(ending(&[modern()])));
    let mut session = session(&scripted);
    let outcomes = publish(&mut session, &["a"]);
    let unreachable = Failure::unavailable("unreachable", "nothing listens");
    assert_eq!(outcomes, [Err(unreachable.maybe_applied())]);
    assert!(session.numbers.is_none());
}

#[test]
fn a_broker_that_lost_count_gets_new_numbers_and_stores() {
    for error in [45, 47, 59] {
        let seed = first(&[orders(&[1]), numbered(0, PRODUCER, 0)]);
        let lost = produced(&[said(0, error, -1)], 0);
        let leader =
            [modern(), lost, orders(&[1]), numbered(0, PRODUCER + 1, 0), produced(&[said(0, 0, 3)], 0)];
        let mut session = session(&brokers(&[&seed, &leader]));
        assert_eq!(publish(&mut session, &["a"]), [stored(0, 3)], "{error}");
        assert_eq!(batches(&heard(&mut session, 1), PRODUCER + 1), [(0, 1)], "{error}");
    }
}

#[test]
fn a_repeat_that_we_did_not_send_is_not_taken_for_our_record() {
    let seed = first(&[orders(&[1]), numbered(0, PRODUCER, 0)]);
    let leader = [
        modern(),
        produced(&[said(0, 46, 1)], 0),
        orders(&[1]),
        numbered(0, PRODUCER + 1, 0),
        produced(&[said(0, 0, 9)], 0),
    ];
    let mut session = session(&brokers(&[&seed, &leader]));
    assert_eq!(publish(&mut session, &["a"]), [stored(0, 9)]);
}

#[test]
fn a_batch_that_is_too_large_goes_in_halves_and_one_record_is_rejected() {
    let seed = first(&[orders(&[1]), numbered(0, PRODUCER, 0)]);
    let large = || produced(&[said(0, 10, -1)], 0);
    let leader = [modern(), large(), large(), produced(&[said(0, 0, 5)], 0)];
    let mut session = session(&brokers(&[&seed, &leader]));
    let outcomes = publish(&mut session, &["a", "b"]);
    assert!(
        matches!(&outcomes[0], Err(Failure::Rejected(detail)) if detail.code == "too-large"),
        "{outcomes:?}"
    );
    assert_eq!(outcomes[1], stored(0, 5));
    assert_eq!(
        batches(&heard(&mut session, 1), PRODUCER),
        [(0, 2), (0, 1), (0, 1)],
        "a refused batch uses no number"
    );
}

#[test]
fn records_at_fault_are_rejected_and_the_others_stored() {
    let seed = first(&[orders(&[1]), numbered(0, PRODUCER, 0)]);
    let mut faulty = said(0, 87, -1);
    faulty.at_fault = vec![(1, "it has no key".to_owned())];
    let leader = [modern(), produced(&[faulty], 0), produced(&[said(0, 0, 5)], 0)];
    let mut session = session(&brokers(&[&seed, &leader]));
    let outcomes = publish(&mut session, &["a", "b", "c"]);
    assert_eq!((&outcomes[0], &outcomes[2]), (&stored(0, 5), &stored(0, 6)));
    assert!(
        matches!(&outcomes[1], Err(Failure::Rejected(detail)) if detail.message.contains("it has no key"))
    );
}

#[test]
fn records_that_the_broker_does_not_name_are_found_by_halving() {
    let seed = first(&[orders(&[1]), numbered(0, PRODUCER, 0)]);
    let faulty = |place| {
        let mut faulty = said(0, 87, -1);
        faulty.at_fault = vec![(place, "it has no key".to_owned())];
        produced(&[faulty], 0)
    };
    let leader = [modern(), faulty(7), produced(&[said(0, 0, 5)], 0), faulty(-1)];
    let mut session = session(&brokers(&[&seed, &leader]));
    let outcomes = publish(&mut session, &["a", "b"]);
    assert_eq!(outcomes[0], stored(0, 5));
    assert!(matches!(&outcomes[1], Err(Failure::Rejected(_))), "{outcomes:?}");
}

#[test]
fn replicas_that_stay_away_make_the_topic_unavailable() {
    let seed = first(&[orders(&[1]), numbered(0, PRODUCER, 0)]);
    for (error, maybe_applied) in [(19, false), (20, true)] {
        let mut leader = vec![modern()];
        (0..5).for_each(|_| leader.extend([produced(&[said(0, error, -1)], 0), orders(&[1])]));
        let mut session = session(&brokers(&[&seed, &leader]));
        let outcomes = publish(&mut session, &["a"]);
        let Err(Failure::Unavailable(info)) = &outcomes[0] else { panic!("{outcomes:?}") };
        assert_eq!((info.code.as_str(), info.maybe_applied), ("replicas", maybe_applied));
        assert_eq!(session.numbers.is_none(), maybe_applied);
    }
}

#[test]
fn a_topic_that_is_not_there_stops_its_own_events_only() {
    let missing = || cluster(&[(1, "a", 9092)], &[("order.created", 3, &[]), ("other", 0, &[1])]);
    let still = || cluster(&[(1, "a", 9092)], &[("order.created", 3, &[])]);
    let seed = first(&[missing(), still(), still(), still(), still(), numbered(0, PRODUCER, 0)]);
    let mut other = said(0, 0, 5);
    other.topic = "other".to_owned();
    let leader = [modern(), produced(&[other], 0)];
    let mut session = session(&brokers(&[&seed, &leader]));
    let events = [event("a"), Event { topic: "other".into(), ..event("b") }];
    let outcomes = session.publish(&Settings::default(), &events).outcomes;
    assert!(
        matches!(&outcomes[0], Err(Failure::Misconfigured(detail)) if detail.code == "no-topic"),
        "{outcomes:?}"
    );
    assert_eq!(outcomes[1], Ok(Receipt::delivered().with_reference("other/0/5")));
}

#[test]
fn an_event_without_a_key_goes_where_there_is_a_leader() {
    let seed = first(&[orders(&[-1, 1, -1]), numbered(0, PRODUCER, 0)]);
    let leader = [modern(), produced(&[said(1, 0, 5)], 0), produced(&[said(1, 0, 6)], 0)];
    let mut session = session(&brokers(&[&seed, &leader]));
    for offset in [5, 6] {
        let bare = Event { key: None, ..event("a") };
        assert_eq!(session.publish(&settings(), &[bare]).outcomes, [stored(1, offset)]);
    }
}

#[test]
fn events_without_a_key_go_to_one_partition_a_call_in_turn() {
    let seed = first(&[orders(&[1, 1, 1]), numbered(0, PRODUCER, 0)]);
    // The first turn is drawn by lot; the script has the same lot each time.
    let turn = usize::from(b'n') + 1;
    let partitions: Vec<i32> = (0..4).map(|call| ((turn + call) % 3) as i32).collect();
    let mut leader = vec![modern()];
    leader.extend(partitions.iter().map(|&partition| produced(&[said(partition, 0, 5)], 0)));
    let mut session = session(&brokers(&[&seed, &leader]));
    for partition in partitions {
        let bare = |id| Event { key: None, ..event(id) };
        let outcomes = session.publish(&settings(), &[bare("a"), bare("b")]).outcomes;
        assert_eq!(outcomes, [stored(partition, 5), stored(partition, 6)]);
    }
}

#[test]
fn a_broker_that_wants_a_login_is_told_from_one_that_went_away() {
    let scripted = Scripted::default();
    let asked = [handshake_answer(33, &["PLAIN", "SCRAM-SHA-256"])];
    let asked = [vec![modern()], asked.to_vec()].concat();
    scripted.next.borrow_mut().extend([Ok(ending(&[modern()])), Ok(answering(&asked))]);
    let Err(Failure::Misconfigured(detail)) = Session::open(scripted, "outhaul", TIME) else { panic!() };
    assert!(
        detail.message.contains("wants a login on this port (PLAIN, SCRAM-SHA-256)"),
        "{}",
        detail.message
    );
    let scripted = Scripted::default();
    scripted.next.borrow_mut().push_back(Ok(ending(&[modern()])));
    let gone = Session::open(scripted, "outhaul", TIME).err();
    assert!(matches!(gone, Some(Failure::Unavailable(_))), "{gone:?}");
}

#[test]
fn a_quota_that_is_used_up_lets_the_lane_wait() {
    let seed = first(&[orders(&[1]), numbered(0, PRODUCER, 0)]);
    let leader = [modern(), produced(&[said(0, 0, 5)], 60_000)];
    let mut session = session(&brokers(&[&seed, &leader]));
    assert_eq!(publish(&mut session, &["a"]), [stored(0, 5)]);
    let outcomes = publish(&mut session, &["b"]);
    let Err(Failure::RateLimited(info)) = &outcomes[0] else { panic!("{outcomes:?}") };
    assert!(!info.maybe_applied && info.after_ms > Some(50_000), "{info:?}");
}

#[test]
fn a_check_reaches_every_broker_and_finds_the_topic() {
    let with = |answers: &[Vec<u8>]| first(answers);
    let both = brokers(&[&with(&[orders(&[1, 2])]), &[modern()], &[modern()]]);
    assert_eq!(session(&both).check(Some("orders"), false), Ok(()));
    assert_eq!(both.dialled.borrow().len(), 3);
    let missing = || cluster(&[(1, "a", 9092)], &[("orders", 3, &[])]);
    let five: Vec<_> = (0..5).map(|_| missing()).collect();
    let none = brokers(&[&with(&five), &[modern()]]);
    assert!(matches!(session(&none).check(Some("orders"), false), Err(Failure::Misconfigured(_))));
    let made_later = brokers(&[&with(&five), &[modern()]]);
    assert_eq!(session(&made_later).check(Some("orders"), true), Ok(()));
    // One that is down is led by the others; one that is not granted is told.
    let half = brokers(&[&with(&[orders(&[1])]), &[modern()]]);
    assert_eq!(session(&half).check(Some("orders"), false), Ok(()));
    let denied = brokers(&[&with(&[orders(&[1])])]);
    denied.next.borrow_mut().push_back(Err(Failure::misconfigured("endpoint-denied", "add also")));
    assert!(matches!(session(&denied).check(None, false), Err(Failure::Misconfigured(_))));
}

#[test]
fn a_cluster_that_has_just_begun_is_asked_again_for_a_producer_id() {
    let seed = first(&[orders(&[1]), numbered(14, -1, -1), numbered(0, PRODUCER, 0)]);
    let leader = [modern(), produced(&[said(0, 0, 5)], 0)];
    let scripted = brokers(&[&seed, &leader]);
    assert_eq!(publish(&mut session(&scripted), &["a"]), [stored(0, 5)]);
    assert_eq!(*scripted.paused.borrow(), 1);
}

mod reach;
