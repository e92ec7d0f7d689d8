//! The traits an author implements, and how the contract's functions reach them.

use std::any::Any;
use std::cell::RefCell;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::bindings::{batch, check, close, describe, destination, tick};
use crate::{ConfigureError, Description, Event, Failure, Outcome, settings};

/// A destination: made once for each instance, then given one event at a time.
pub trait Destination: Sized + 'static {
    /// The destination's `settings` table. Derive `serde::Deserialize` with `deny_unknown_fields`, and a
    /// misspelled setting is an error that names it. What does not parse is reported to the operator
    /// with its JSON Pointer before `configure` is called.
    type Settings: DeserializeOwned;

    /// Called once for each instance, before any event. Must not have effects at the destination:
    /// instances come and go.
    fn configure(settings: Self::Settings) -> Result<Self, ConfigureError>;

    /// Delivers one event. Keep nothing from one event to the next but connections and caches. The
    /// same event may come again after it was delivered; `event.dedup_id` tells.
    fn deliver(&mut self, event: Event) -> Outcome;
}

/// Optional: several events in one call. Export it with `with batch`.
pub trait Batch: Destination {
    /// One outcome for each event, in the same order. A batch holds at most one event of a key.
    fn deliver_batch(&mut self, events: Vec<Event>) -> Vec<Outcome>;
}

/// Optional: what the plugin says of itself, callable before it is configured. Export it with
/// `with describe`.
pub trait Describe: Destination {
    fn describe() -> Description;
}

/// Optional: whether the destination can be reached; without lasting effects. Export it with
/// `with check`.
pub trait Check: Destination {
    fn check(&mut self) -> Result<(), Failure>;
}

/// Optional: keeps an idle instance's connections alive. Export it with `with tick`.
pub trait Tick: Destination {
    /// Returns how long from now it wants to be called again.
    fn tick(&mut self) -> Duration;
}

/// Optional: a last word before an instance is dropped in good order. Export it with `with close`.
pub trait Close: Destination {
    fn close(&mut self);
}

thread_local! {
    /// A component has one plugin, and the host calls it from one thread.
    static PLUGIN: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
}

fn with<D: 'static, T>(call: impl FnOnce(&mut D) -> T) -> T {
    PLUGIN.with_borrow_mut(|plugin| {
        let plugin = plugin.as_mut().and_then(|plugin| plugin.downcast_mut());
        call(plugin.expect("the host configures an instance before any other call"))
    })
}

impl<D: Destination> destination::exports::outhaul::delivery::deliver::Guest for D {
    fn configure(settings_json: String) -> Result<(), ConfigureError> {
        let plugin = D::configure(settings::parse(&settings_json)?)?;
        PLUGIN.set(Some(Box::new(plugin)));
        Ok(())
    }

    fn deliver(event: Event) -> Outcome {
        with(|plugin: &mut D| plugin.deliver(event))
    }
}

impl<D: Batch> batch::exports::outhaul::delivery::batch::Guest for D {
    fn deliver_batch(events: Vec<Event>) -> Vec<Outcome> {
        with(|plugin: &mut D| Batch::deliver_batch(plugin, events))
    }
}

impl<D: Describe> describe::exports::outhaul::delivery::describe::Guest for D {
    fn describe() -> Description {
        <D as Describe>::describe()
    }
}

impl<D: Check> check::exports::outhaul::delivery::check::Guest for D {
    fn check() -> Result<(), Failure> {
        with(|plugin: &mut D| Check::check(plugin))
    }
}

impl<D: Tick> tick::exports::outhaul::delivery::tick::Guest for D {
    fn tick() -> u64 {
        let wait = with(|plugin: &mut D| Tick::tick(plugin));
        u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)
    }
}

impl<D: Close> close::exports::outhaul::delivery::close::Guest for D {
    fn close() {
        with(|plugin: &mut D| Close::close(plugin));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bindings::destination::exports::outhaul::delivery::deliver::Guest;
    use crate::{Failure, Receipt};

    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Settings {
        most: u64,
    }

    struct Counter {
        most: u64,
        seen: u64,
    }

    impl Destination for Counter {
        type Settings = Settings;

        fn configure(settings: Settings) -> Result<Self, ConfigureError> {
            Ok(Self { most: settings.most, seen: 0 })
        }

        fn deliver(&mut self, _: Event) -> Outcome {
            self.seen += 1;
            if self.seen > self.most {
                Err(Failure::rejected("full", "no more"))
            } else {
                Ok(Receipt::delivered())
            }
        }
    }

    fn event() -> Event {
        Event {
            id: "e".into(),
            dedup_id: "e".into(),
            destination: "d".into(),
            topic: "t".into(),
            key: None,
            tenant: String::new(),
            headers: Vec::new(),
            content_type: "text/plain".into(),
            payload: Vec::new(),
            created_at: 0,
            sequence: 1,
            attempt: 1,
            last_attempt: false,
            uncertain_before: false,
            fence: 1,
            budget_ms: 1_000,
            attributes: Vec::new(),
        }
    }

    #[test]
    fn one_value_serves_an_instance_from_its_settings_to_its_last_event() {
        <Counter as Guest>::configure(r#"{"most":1}"#.into()).unwrap();
        assert_eq!(<Counter as Guest>::deliver(event()), Ok(Receipt::delivered()));
        assert_eq!(<Counter as Guest>::deliver(event()), Err(Failure::rejected("full", "no more")));
    }

    #[test]
    fn settings_that_do_not_parse_never_reach_the_plugin() {
        let refused = <Counter as Guest>::configure(r#"{"most":"many"}"#.into()).unwrap_err();
        let ConfigureError::Settings(problems) = refused else { panic!("{refused:?}") };
        assert_eq!(problems[0].pointer, "/most");
    }
}
