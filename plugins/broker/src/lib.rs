//! What the broker plugins share. A plugin implements [`Broker`], which speaks its protocol over one
//! session; [`Plugin`] makes a destination of it that keeps the session from call to call.

mod login;
mod plugin;
mod tally;
pub mod template;

pub use login::{NotOpened, log_in, passwords, try_password};
pub use plugin::{Broker, CHECK_TIME, Plugin};
pub use tally::{Published, Tally};

use outhaul_plugin::Event;

/// Names for what a protocol has no field of its own for.
pub const EVENT_ID: &str = "Outhaul-Event-Id";
pub const TOPIC: &str = "Outhaul-Topic";
pub const KEY: &str = "Outhaul-Key";
pub const TENANT: &str = "Outhaul-Tenant";

/// What the event says of itself besides its `dedup-id`, content type and the producer's headers.
pub fn own_headers(event: &Event) -> Vec<(&'static str, &str)> {
    let mut headers = vec![(EVENT_ID, event.id.as_str()), (TOPIC, event.topic.as_str())];
    headers.extend(event.key.as_deref().map(|key| (KEY, key)));
    if !event.tenant.is_empty() {
        headers.push((TENANT, event.tenant.as_str()));
    }
    headers
}
