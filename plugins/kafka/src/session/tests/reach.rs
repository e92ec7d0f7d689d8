//! Leaders that are not reached, or hang.

use super::*;

fn unreachable() -> Dialled {
    Err(Failure::unavailable("connect-timeout", "no connection was made in time"))
}

/// Two brokers that lead a partition each.
fn halves() -> Vec<u8> {
    orders(&[1, 2])
}

/// An event of this partition of two.
fn of_half(partition: i32) -> Event {
    let keys = (0..).map(|key: u32| key.to_string());
    let mut fitting = keys.filter(|key| crate::partition::of_key(key.as_bytes(), 2) == partition as usize);
    Event { key: fitting.next(), ..event(&partition.to_string()) }
}

#[test]
fn a_leader_that_is_not_reached_is_dialled_once_in_a_call_and_costs_the_others_nothing() {
    let mut seed = first(&[halves(), numbered(0, PRODUCER, 0)]);
    let mut healthy = vec![modern(), produced(&[said(1, 0, 5)], 0)];
    healthy.extend((0..4).map(|_| halves()));
    // In the next call the leaders are asked for first.
    healthy.extend([orders(&[2, 2]), produced(&[said(0, 0, 9), said(1, 0, 6)], 0)]);
    seed.truncate(4);
    let scripted = brokers(&[&seed]);
    scripted.next.borrow_mut().extend([unreachable(), Ok(answering(&healthy))]);
    let mut session = session(&scripted);
    let outcomes = session.publish(&settings(), &[of_half(0), of_half(1)]).outcomes;
    assert_eq!(outcomes, [unreachable().map(|_| Receipt::delivered()), stored(1, 5)]);
    let dialled = [None, Some("a:9092".to_owned()), Some("b:9092".to_owned())];
    assert_eq!(*scripted.dialled.borrow(), dialled);
    session.allow(TIME);
    let outcomes = session.publish(&settings(), &[of_half(0), of_half(1)]).outcomes;
    assert_eq!(outcomes, [stored(0, 9), stored(1, 6)]);
    assert_eq!(*scripted.dialled.borrow(), dialled, "nobody else had to be dialled");
}

#[test]
fn a_leader_that_was_not_reached_is_dialled_after_the_others_in_the_next_call() {
    let scripted = brokers(&[&first(&[halves(), numbered(0, PRODUCER, 0), halves()])]);
    let mut session = session(&scripted);
    session.suspects.insert("a:9092".to_owned());
    session.publish(&settings(), &[of_half(0), of_half(1)]);
    assert_eq!(scripted.dialled.borrow()[1..3], [Some("b:9092".to_owned()), Some("a:9092".to_owned())]);
}

#[test]
fn nobody_is_dialled_once_too_little_time_is_left() {
    let answers = first(&[orders(&[1]), numbered(0, PRODUCER, 0)]);
    let scripted = brokers(&[&answers, &[modern(), produced(&[said(0, 0, 7)], 0)]]);
    let mut session = session(&scripted);
    session.until = Instant::now() + TIME / 5;
    let outcomes = publish(&mut session, &["a"]);
    let Err(Failure::Unavailable(info)) = &outcomes[0] else { panic!("{outcomes:?}") };
    assert!(!info.maybe_applied && scripted.dialled.borrow().len() == 1, "{info:?}");
}

#[test]
fn after_a_leader_that_hangs_the_others_are_asked_who_leads() {
    let seed = first(&[halves(), numbered(0, PRODUCER, 0)]);
    let healthy = [
        modern(),
        produced(&[said(1, 0, 5)], 0),
        orders(&[2, 2]),
        numbered(0, PRODUCER + 1, 0),
        produced(&[said(0, 0, 9)], 0),
    ];
    let scripted = brokers(&[&seed, &[modern()], &healthy]);
    let mut session = session(&scripted);
    let outcomes = session.publish(&settings(), &[of_half(0), of_half(1)]).outcomes;
    assert_eq!(outcomes[1], stored(1, 5));
    assert_eq!(outcomes[0], Err(Failure::from(Error::TimedOut).maybe_applied()));
    session.allow(TIME);
    assert_eq!(session.publish(&settings(), &[of_half(0)]).outcomes, [stored(0, 9)]);
    assert_eq!(scripted.dialled.borrow().len(), 3, "the one that hung was not dialled again");
}

#[test]
fn a_broker_that_hangs_when_it_is_asked_leaves_the_others_their_share() {
    let seed = first(&[halves(), numbered(0, PRODUCER, 0)]);
    let both = [
        vec![modern(), produced(&[said(0, 0, 4)], 0)],
        vec![modern(), produced(&[said(1, 0, 5)], 0), orders(&[2, 2]), produced(&[said(0, 0, 9)], 0)],
    ];
    let scripted = brokers(&[&seed, &both[0], &both[1]]);
    let mut session = session(&scripted);
    let outcomes = session.publish(&settings(), &[of_half(0), of_half(1)]).outcomes;
    assert_eq!(outcomes, [stored(0, 4), stored(1, 5)]);
    // Broker 1 says nothing any more.
    session.topics.clear();
    session.allow(TIME);
    assert_eq!(session.publish(&settings(), &[of_half(0)]).outcomes, [stored(0, 9)]);
}

#[test]
fn where_nobody_is_left_that_we_talked_to_every_known_broker_is_asked() {
    let seed = first(&[halves(), numbered(0, PRODUCER, 0)]);
    let scripted = brokers(&[&seed]);
    let other = [modern(), orders(&[2, 2])];
    let leader = [modern(), produced(&[said(0, 46, -1)], 0)];
    scripted.next.borrow_mut().extend([
        Ok(ending(&[modern()])),
        unreachable(),
        unreachable(),
        Ok(answering(&other)),
        Ok(answering(&leader)),
    ]);
    let mut session = session(&scripted);
    assert_eq!(session.publish(&settings(), &[of_half(0)]).outcomes, [Ok(Receipt::delivered())]);
}
