//! Sandboxed components: engine, bindings, limits, pools and what a plugin may reach. Knows the
//! domain and wasmtime, and nothing of a database.

mod asks;
mod bindings;
mod cache;
mod capability;
mod convert;
mod deliver;
mod engine;
mod instance;
mod limits;
mod load;
mod loaded;
pub mod spec;
mod state;
mod stats;
mod text;
mod unloaded;

pub use deliver::{Call, Deliver};
pub use engine::{Runtime, RuntimeSettings};
pub use load::{LoadError, LoadProblem};
pub use loaded::LoadedPlugin;
pub use stats::StatsSnapshot;
pub use unloaded::Unloaded;
