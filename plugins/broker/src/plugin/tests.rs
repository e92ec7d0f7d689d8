use std::cell::RefCell;
use std::rc::Rc;

use outhaul_plugin::Receipt;

use super::*;
use crate::Tally;

pub fn event(id: &str) -> Event {
    Event {
        id: id.into(),
        dedup_id: id.into(),
        destination: "bus".into(),
        topic: "order.created".into(),
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

/// What the scripted broker does next, and what it was asked.
#[derive(Default)]
struct World {
    opens: usize,
    refuses: bool,
    is_stale: bool,
    breaks: bool,
    left: usize,
}

struct Scripted(Rc<RefCell<World>>);

impl Broker for Scripted {
    type Settings = ();
    type Session = usize;

    fn describe() -> Description {
        Description::new("scripted", "1", "{}")
    }

    fn configure((): ()) -> Result<Self, ConfigureError> {
        Ok(Self(Rc::default()))
    }

    fn open(&self, _: Duration) -> Result<usize, Failure> {
        let mut world = self.0.borrow_mut();
        world.opens += 1;
        if world.refuses { Err(Failure::unavailable("unreachable", "down")) } else { Ok(world.opens) }
    }

    fn publish(&self, _: &mut usize, events: &[Event], _: Duration) -> Published {
        let mut tally = Tally::of(events.len());
        if self.0.borrow().breaks {
            return tally.cut(Error::Closed, 0);
        }
        (0..events.len()).for_each(|event| tally.settle(event, Ok(Receipt::delivered())));
        tally.done()
    }

    fn check(&self, _: &mut usize, _: Duration) -> Result<(), Failure> {
        Ok(())
    }

    fn refresh(&self, _: &mut usize, _: Duration) -> Result<(), Error> {
        if std::mem::take(&mut self.0.borrow_mut().is_stale) { Err(Error::Closed) } else { Ok(()) }
    }

    fn leave(&self, _: &mut usize) {
        self.0.borrow_mut().left += 1;
    }
}

fn plugin() -> (Plugin<Scripted>, Rc<RefCell<World>>) {
    let plugin = <Plugin<Scripted> as Destination>::configure(()).unwrap();
    let world = plugin.broker.0.clone();
    (plugin, world)
}

#[test]
fn one_session_serves_all_calls_until_the_instance_ends() {
    let (mut plugin, world) = plugin();
    for _ in 0..3 {
        assert_eq!(plugin.deliver(event("e")), Ok(Receipt::delivered()));
        assert_eq!(plugin.deliver_batch(vec![event("e"), event("f")]).len(), 2);
        assert!(plugin.tick() > Duration::ZERO);
    }
    Close::close(&mut plugin);
    Close::close(&mut plugin);
    assert_eq!((world.borrow().opens, world.borrow().left), (1, 1));
}

#[test]
fn a_session_that_ended_while_idle_is_replaced_before_anything_is_sent() {
    let (mut plugin, world) = plugin();
    assert!(plugin.deliver(event("e")).is_ok());
    world.borrow_mut().is_stale = true;
    assert!(plugin.deliver(event("e")).is_ok());
    world.borrow_mut().is_stale = true;
    plugin.tick();
    assert_eq!(world.borrow().opens, 2, "a tick drops it and opens none");
    assert!(plugin.deliver(event("e")).is_ok());
    assert_eq!(world.borrow().opens, 3);
}

#[test]
fn a_session_that_broke_is_not_used_again_and_one_that_can_not_be_opened_fails_all_events() {
    let (mut plugin, world) = plugin();
    world.borrow_mut().breaks = true;
    assert!(plugin.deliver(event("e")).is_err());
    world.borrow_mut().breaks = false;
    world.borrow_mut().refuses = true;
    let outcomes = plugin.deliver_batch(vec![event("e"), event("f")]);
    assert_eq!(outcomes, vec![Err(Failure::unavailable("unreachable", "down")); 2]);
    assert!(Check::check(&mut plugin).is_err());
    assert_eq!(world.borrow().opens, 3);
}
