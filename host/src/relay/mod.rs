//! From a due delivery to its acknowledgement: claim, call, decide, acknowledge. Knows the store
//! and the plugins by their traits only; no SQL and no wasm here.
//!
//! ```text
//! asker ──which lanes have something due──▶ claimer (one a lane) ──▶ cargo ──▶ worker (one a delivery, or a batch)
//!                                                                              │ call, decide
//! renewer ──every claim in flight, each third of a lease                       ▼
//! housekeeper ──heartbeat, sweep                                          acknowledger
//! ```
//!
//! Absent here on purpose: any decision about what an outcome means (that is [`crate::domain`]),
//! and any retry of work. Only questions, claims and reports are sent again.

mod acknowledger;
mod asker;
mod attention;
mod backoff;
mod batch;
mod call;
mod cargo;
mod claimer;
mod context;
mod effects;
mod flights;
mod handle;
mod health;
mod housekeeper;
mod lanes;
pub mod metrics;
mod rate;
mod renewer;
pub mod settings;
mod worker;

pub use handle::{Drained, LaneStatus, Relay, RelayHandle, RelayStatus};
pub use metrics::Metrics;
pub use settings::{CONNECTIONS_MIN, Lane, LaneSettings, RelaySettings, check_lease_arithmetic};
