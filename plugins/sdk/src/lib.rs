//! Write an Outhaul destination plugin in Rust.
//!
//! A plugin is a type that implements [`Destination`], and one line that exports it:
//!
//! ```
//! use outhaul_plugin::{Destination, Event, Failure, Outcome, Receipt, http, log};
//! use serde::Deserialize;
//!
//! #[derive(Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Settings {
//!     url: String,
//! }
//!
//! struct Webhook {
//!     settings: Settings,
//! }
//!
//! impl Destination for Webhook {
//!     type Settings = Settings;
//!
//!     fn configure(settings: Settings) -> Result<Self, outhaul_plugin::ConfigureError> {
//!         Ok(Self { settings })
//!     }
//!
//!     fn deliver(&mut self, event: Event) -> Outcome {
//!         log::info(format!("delivering {}", event.dedup_id));
//!         http::Request::post(&self.settings.url)
//!             .header("content-type", &event.content_type)
//!             .header("idempotency-key", &event.dedup_id)
//!             .timeout(event.time_for_a_request(None))
//!             .body(event.payload)
//!             .send()?
//!             .outcome()
//!     }
//! }
//!
//! outhaul_plugin::export!(Webhook);
//! # fn main() {}
//! ```
//!
//! Build it as a `cdylib` for `wasm32-wasip2`, and the file is a component the host loads.
//!
//! What each answer makes the host do stands in Outhaul's page on the plugin contract. A panic ends
//! the instance and costs an attempt; its message shows in the delivery's history.
//!
//! # What a plugin may export besides
//!
//! [`Batch`], [`Describe`], [`Check`], [`Tick`] and [`Close`] are traits of their own. Implement one and
//! name it in the export, `outhaul_plugin::export!(Webhook with describe, check);`, and the host uses it.

#[doc(hidden)]
pub mod bindings;
mod deadline;
mod destination;
mod failure;
pub mod http;
mod kind;
pub mod log;
pub mod net;
pub mod random;
mod receipt;
pub mod secrets;
mod settings;
pub mod sql;

pub use bindings::describe::exports::outhaul::delivery::describe::{Description, Need};
pub use bindings::destination::outhaul::delivery::types::{
    ConfigureError, Detail, Disposition, Event, Failure, Info, Receipt, SettingsProblem,
};
pub use destination::{Batch, Check, Close, Describe, Destination, Tick};
pub use kind::Kind;
pub use settings::parse as parse_settings;

/// What comes of one event.
pub type Outcome = Result<Receipt, Failure>;

/// Makes a [`Destination`] the component's export, with the optional interfaces named after `with`:
/// `batch`, `describe`, `check`, `tick`, `close`.
#[macro_export]
macro_rules! export {
    ($plugin:ident $(with $($optional:ident),+ $(,)?)?) => {
        $crate::bindings::destination::export!($plugin with_types_in $crate::bindings::destination);
        $($($crate::bindings::$optional::export!($plugin with_types_in $crate::bindings::$optional);)+)?
    };
}
