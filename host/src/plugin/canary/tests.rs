use std::collections::BTreeMap;
use std::sync::Mutex as Cell;

use bytes::Bytes;

use super::*;
use crate::clock::Clock;
use crate::domain::{ClaimToken, Event, EventSeq, Fence, Receipt, Timestamp};
use crate::plugin::WentTo;

/// A clock that calls move by hand.
#[derive(Default)]
struct Hand(Cell<Duration>);

impl Clock for Hand {
    fn since_boot(&self) -> Duration {
        *self.0.lock().unwrap()
    }

    fn wall(&self) -> Timestamp {
        Timestamp(0)
    }

    fn jitter(&self) -> f64 {
        0.5
    }

    fn token(&self) -> ClaimToken {
        ClaimToken([0; 16])
    }
}

type Answer = Box<dyn FnMut(&Call) -> Outcome + Send>;

/// Answers as it is told, and remembers what it was asked.
struct Scripted {
    digest: &'static str,
    clock: Arc<Hand>,
    takes: Duration,
    batch: Option<BatchLimits>,
    answer: Cell<Answer>,
    /// The calls, each with its events.
    asked: Cell<Vec<Vec<Call>>>,
    unready: Cell<Option<String>>,
}

impl Scripted {
    fn said(&self, calls: Vec<Call>) -> Vec<Outcome> {
        *self.clock.0.lock().unwrap() += self.takes;
        let outcomes = calls.iter().map(|call| (self.answer.lock().unwrap())(call)).collect();
        self.asked.lock().unwrap().push(calls);
        outcomes
    }

    fn answers(&self, answer: impl FnMut(&Call) -> Outcome + Send + 'static) {
        *self.answer.lock().unwrap() = Box::new(answer);
    }

    fn asked(&self) -> Vec<Call> {
        self.asked.lock().unwrap().concat()
    }

    fn sizes(&self) -> Vec<usize> {
        self.asked.lock().unwrap().iter().map(Vec::len).collect()
    }
}

#[async_trait]
impl Deliver for Scripted {
    async fn deliver(&self, call: Call) -> Outcome {
        self.said(vec![call]).remove(0)
    }

    fn batch_limits(&self) -> Option<BatchLimits> {
        self.batch
    }

    async fn deliver_batch(&self, calls: Vec<Call>) -> Vec<Outcome> {
        self.said(calls)
    }

    fn component_digest(&self) -> &str {
        self.digest
    }

    fn unready(&self) -> Option<String> {
        self.unready.lock().unwrap().clone()
    }
}

struct Scene {
    stable: Arc<Scripted>,
    canary: Arc<Scripted>,
    both: Canary,
}

/// The canary takes a second a call, the stable component half of one; both deliver.
fn scene(share: &str, batches: [Option<BatchLimits>; 2]) -> Scene {
    let clock = Arc::new(Hand::default());
    let scripted = |digest, millis, batch| {
        Arc::new(Scripted {
            digest,
            clock: clock.clone(),
            takes: Duration::from_millis(millis),
            batch,
            answer: Cell::new(Box::new(|_: &Call| delivered())),
            asked: Cell::default(),
            unready: Cell::default(),
        })
    };
    let (stable, canary) = (scripted("stable", 500, batches[0]), scripted("canary", 1_000, batches[1]));
    let share = Share::parse(share).unwrap();
    let both = Canary::with_clock(clock, "hook", stable.clone(), canary.clone(), share);
    Scene { stable, canary, both }
}

fn singly(share: &str) -> Scene {
    scene(share, [None, None])
}

fn event(id: &str, key: Option<&str>) -> Event {
    Event {
        seq: EventSeq(1),
        tenant: String::new(),
        id: id.to_owned(),
        topic: "order.created".to_owned(),
        key: key.map(str::to_owned),
        headers: Vec::new(),
        content_type: "application/json".to_owned(),
        created_at: Timestamp(0),
        expires_at: None,
        payload_bytes: 2,
    }
}

fn call(id: &str) -> Call {
    Call {
        event: event(id, None),
        dedup_id: id.to_owned(),
        payload: Bytes::from_static(b"{}"),
        attempt: 1,
        is_last_attempt: false,
        uncertain_before: false,
        fence: Fence(1),
        budget: Duration::from_secs(20),
        is_probe: false,
        went_to: WentTo::default(),
    }
}

#[tokio::test]
async fn a_probe_and_what_may_expire_meanwhile_are_decided_by_the_stable_component() {
    let Scene { canary, both, .. } = singly("100%");
    canary.answers(|_| Outcome::Retry { detail: why(), after: None });
    let probe = Call { is_probe: true, ..call("probe") };
    assert_eq!((both.deliver(probe).await, canary.asked().len()), (delivered(), 0));
    let mut expires = call("expires");
    expires.event.expires_at = Some(Timestamp::from_secs(9_999_999_999));
    assert_eq!((both.deliver(expires).await, canary.asked().len()), (delivered(), 1));
    assert_eq!(both.deliver(call("neither")).await.kind(), "retry");
}

fn delivered() -> Outcome {
    Outcome::Delivered(Receipt::default())
}

fn why() -> Detail {
    Detail::new("code", "on purpose")
}

fn host_failure(failure: HostFailure) -> Outcome {
    Outcome::Host(failure, why())
}

#[test]
fn a_share_is_a_part_in_percent_and_is_written_as_it_is_read() {
    for text in ["5%", "0.0001%", "12.5%", "100%", "1.05%"] {
        assert_eq!(Share::parse(text).unwrap().to_string(), text);
    }
    assert_eq!(Share::parse("5.0 %"), Share::parse("5%"));
    for text in
        ["5", "%", "0%", "0.00001%", "100.1%", "-5%", ".5%", "5.%", "5e1%", "0.05", "99999999999%", "1.2.3%"]
    {
        assert_eq!(Share::parse(text), None, "{text}");
    }
}

#[test]
fn a_share_is_of_keys_and_a_larger_one_holds_what_a_smaller_one_does() {
    let share = |text: &str| Share::parse(text).unwrap();
    let keyed = |number: u32, id: &str| event(id, Some(&format!("key-{number}")));
    let held = (0..10_000).filter(|number| share("5%").holds(&keyed(*number, "a"))).count();
    assert!((400..600).contains(&held), "{held} of 10,000 keys");
    for number in 0..1_000 {
        let (one, other) = (keyed(number, "a"), keyed(number, "b"));
        assert_eq!(share("50%").holds(&one), share("50%").holds(&other));
        assert!(!share("5%").holds(&one) || share("10%").holds(&one));
        assert!(share("100%").holds(&one));
    }
    let unkeyed = (0..10_000).filter(|id| share("5%").holds(&event(&id.to_string(), None))).count();
    assert!((400..600).contains(&unkeyed), "{unkeyed} of 10,000 events");
    // Deliveries in flight must stay on their side when the host is replaced by a later version.
    let first = (0..1_000).find(|id| share("1%").holds(&event(&id.to_string(), None)));
    assert_eq!(first, Some(FIRST_OF_ONE_PERCENT));
}

/// Found by another program: SHA-256 over eight zero bytes, `id ` and the number, its first eight
/// bytes modulo a million below 10,000.
const FIRST_OF_ONE_PERCENT: i32 = 232;

#[tokio::test]
async fn retries_stay_on_their_side_until_the_last_attempt_which_is_the_stable_components() {
    let Scene { stable, canary, both } = singly("50%");
    canary.answers(|_| host_failure(HostFailure::Trap));
    stable.answers(|_| Outcome::Retry { detail: why(), after: None });
    for id in 0..100 {
        let id = id.to_string();
        let is_canarys = both.share().holds(&event(&id, None));
        for attempt in 1..=3 {
            let call = Call { attempt, is_last_attempt: attempt == 3, ..call(&id) };
            let went_to = call.went_to.clone();
            let expected = if is_canarys && attempt < 3 { "canary" } else { "stable" };
            let kind = if expected == "canary" { "trap" } else { "retry" };
            assert_eq!(both.deliver(call).await.kind(), kind);
            assert_eq!(went_to.component_digest().as_deref(), Some(expected), "{id}, attempt {attempt}");
            assert_eq!(went_to.is_canary(), expected == "canary");
        }
    }
    let compared = both.compared();
    let canarys = compared.handed_over;
    assert!((30..70).contains(&canarys), "{canarys}");
    assert_eq!(compared.canary.outcomes, BTreeMap::from([("trap", 2 * canarys)]));
    assert_eq!(compared.stable.outcomes, BTreeMap::from([("retry", 300 - 2 * canarys)]));
    assert_eq!((canary.asked().len() as u64, both.off()), (2 * canarys, None));
}

#[tokio::test]
async fn what_would_end_a_delivery_or_stop_its_lane_is_decided_by_the_stable_component() {
    let (detail, after) = (why(), Some(Duration::from_secs(60)));
    for outcome in [
        Outcome::Rejected(why()),
        Outcome::Conflict(why()),
        Outcome::Unavailable { detail: detail.clone(), after },
        Outcome::RateLimited { detail, after },
        host_failure(HostFailure::PayloadTooLarge),
    ] {
        let Scene { stable, canary, both } = singly("100%");
        let kind = outcome.kind();
        canary.answers(move |_| outcome.clone());
        let (first, second) = (call("1"), call("2"));
        let went_to = first.went_to.clone();
        assert_eq!(both.deliver(first).await, delivered(), "{kind}");
        assert_eq!((went_to.component_digest().as_deref(), went_to.is_canary()), (Some("stable"), false));
        stable.answers(|_| Outcome::Rejected(why()));
        assert_eq!(both.deliver(second).await, Outcome::Rejected(why()), "{kind}");
        let compared = both.compared();
        assert_eq!(compared.canary.outcomes, BTreeMap::from([(kind, 2)]));
        assert_eq!((compared.stable.events(), compared.handed_over, both.off()), (0, 2, None));
        // Half of the budget is the canary's; what it leaves is the stable component's.
        let budgets = [&canary, &stable].map(|one| one.asked()[0].budget.as_secs());
        assert_eq!(budgets, [10, 19]);
    }
}

#[tokio::test]
async fn what_only_costs_an_attempt_stays_the_canarys() {
    for outcome in [
        Outcome::Duplicate(Receipt::default()),
        Outcome::Retry { detail: why(), after: None },
        Outcome::Other(why()),
        host_failure(HostFailure::Deadline),
        host_failure(HostFailure::BadOutput),
    ] {
        let Scene { stable, canary, both } = singly("100%");
        let said = outcome.clone();
        canary.answers(move |_| said.clone());
        assert_eq!(both.deliver(call("1")).await, outcome);
        assert_eq!((stable.asked().len(), both.off()), (0, None));
    }
}

#[tokio::test]
async fn a_canary_that_is_gone_or_misconfigured_is_off_until_the_lane_is_tried_anew() {
    for outcome in [
        Outcome::Gone(why()),
        Outcome::Misconfigured(why()),
        host_failure(HostFailure::Configure),
        host_failure(HostFailure::Load),
    ] {
        let Scene { stable, canary, both } = singly("100%");
        let kind = outcome.kind();
        canary.answers(move |_| outcome.clone());
        assert_eq!(both.deliver(call("1")).await, delivered(), "{kind}");
        assert_eq!(both.off(), Some(format!("it says {kind}: on purpose")));
        assert_eq!((both.deliver(call("2")).await, both.unready()), (delivered(), None));
        assert_eq!((canary.asked().len(), stable.asked().len()), (1, 2));
        canary.answers(|_| delivered());
        both.try_anew();
        both.deliver(call("3")).await;
        assert_eq!((canary.asked().len(), both.off()), (2, None));
        *canary.unready.lock().unwrap() = Some("its settings are refused".to_owned());
        both.try_anew();
        assert_eq!(both.off().as_deref(), Some("its settings are refused"));
    }
}

#[tokio::test]
async fn the_doubt_a_canary_leaves_is_told_to_the_stable_component_and_kept_with_its_failure() {
    let Scene { stable, canary, both } = singly("100%");
    canary.answers(|_| Outcome::Rejected(Detail { maybe_applied: true, ..why() }));
    stable.answers(|_| Outcome::Retry { detail: why(), after: None });
    let outcome = both.deliver(call("1")).await;
    assert_eq!((outcome.kind(), outcome.is_uncertain()), ("retry", true));
    assert!(stable.asked()[0].uncertain_before);
    canary.answers(|_| Outcome::Rejected(why()));
    assert!(!both.deliver(call("2")).await.is_uncertain());
    assert!(!stable.asked()[1].uncertain_before);
}

#[tokio::test]
async fn a_batch_is_shared_out_and_every_event_keeps_its_own_outcome() {
    let limits = Some(BatchLimits { events: 100, bytes: 1 << 20 });
    for (of_canary, is_singly) in
        [(limits, false), (None, true), (Some(BatchLimits { events: 2, bytes: 1 << 20 }), true)]
    {
        let Scene { stable, canary, both } = scene("50%", [limits, of_canary]);
        let named = |word: &str, call: &Call| {
            Outcome::Delivered(Receipt { reference: Some(format!("{word} {}", call.event.id)) })
        };
        stable.answers(move |call| named("stable", call));
        canary.answers(move |call| match call.event.id.ends_with('7') {
            true => Outcome::Rejected(why()),
            false => named("canary", call),
        });
        let ids: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        assert_eq!(both.batch_limits(), limits);
        let outcomes = both.deliver_batch(ids.iter().map(|id| call(id)).collect()).await;
        for (id, outcome) in ids.iter().zip(&outcomes) {
            let is_canarys = both.share().holds(&event(id, None));
            let word = if is_canarys && !id.ends_with('7') { "canary" } else { "stable" };
            assert_eq!(*outcome, named(word, &call(id)));
        }
        let canarys = ids.iter().filter(|id| both.share().holds(&event(id, None))).count();
        let again = both.compared().handed_over as usize;
        assert!(again > 1 && canarys > again, "{canarys}, {again}");
        let expected = if is_singly { vec![1; canarys] } else { vec![canarys] };
        assert_eq!(canary.sizes(), expected);
        let mut sizes = stable.sizes();
        sizes.sort_unstable();
        assert_eq!(sizes, [again, 100 - canarys]);
    }
}

#[tokio::test]
async fn a_batch_that_the_canary_loses_is_a_failure_of_its_own_part_only() {
    let limits = Some(BatchLimits { events: 100, bytes: 1 << 20 });
    let Scene { canary, both, .. } = scene("50%", [limits, limits]);
    canary.answers(|_| host_failure(HostFailure::Trap));
    let calls: Vec<Call> = (0..20).map(|id| call(&id.to_string())).collect();
    let outcomes = both.deliver_batch(calls.clone()).await;
    for (call, outcome) in calls.iter().zip(outcomes) {
        let expected = if both.share().holds(&call.event) { "trap" } else { "delivered" };
        assert_eq!(outcome.kind(), expected);
    }
}

#[tokio::test]
async fn times_are_compared_by_their_quantiles_and_counted_on_for_the_same_two_components() {
    let Scene { stable, canary, both } = singly("50%");
    for id in 0..100 {
        both.deliver(call(&id.to_string())).await;
    }
    let Compared { stable: of_stable, canary: of_canary, .. } = both.compared();
    for (numbers, secs) in [(&of_stable, 0.5), (&of_canary, 1.0)] {
        for part in [0.5, 0.99] {
            let told = numbers.quantile(part).unwrap().as_secs_f64();
            assert!((secs..secs * 1.2).contains(&told), "{told} for {secs}");
        }
        assert_eq!(numbers.octaves().iter().map(|(_, count)| count).sum::<u64>(), numbers.calls);
        assert!((numbers.seconds - secs * numbers.calls as f64).abs() < 1e-6);
    }
    assert_eq!(of_stable.calls + of_canary.calls, 100);
    assert_eq!(Numbers::default().quantile(0.5), None);
    let clock = stable.clock.clone();
    let new = |canary: &Arc<Scripted>| {
        let share = Share::parse("1%").unwrap();
        Canary::with_clock(clock.clone(), "hook", stable.clone(), canary.clone(), share).continuing(&both)
    };
    assert_eq!(new(&canary).compared().canary.calls, of_canary.calls);
    let Scene { canary: other, .. } = singly("1%");
    let other = Arc::new(Scripted { digest: "other", ..Arc::into_inner(other).unwrap() });
    assert_eq!(new(&other).compared().canary.calls, 0);
}
