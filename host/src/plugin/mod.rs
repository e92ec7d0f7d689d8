//! Sandboxed components: engine, bindings, limits, pools and what a plugin may reach. Knows the
//! domain and wasmtime, and nothing of a database.

mod asks;
mod bindings;
mod cache;
mod canary;
mod capability;
mod convert;
mod database;
mod dedup;
mod deliver;
mod describe;
mod endpoint;
mod engine;
mod exports;
mod inspect;
mod instance;
mod limits;
mod load;
mod loaded;
mod needs;
pub mod offline;
mod pool;
mod registry;
mod signature;
pub mod spec;
mod state;
mod stats;
mod text;
mod tick;
mod unloaded;

pub use canary::{Canary, Compared, Numbers, Share};
pub use capability::dial::{Resolve, SharedResolver};
pub use dedup::dedup_id;
pub use deliver::{BatchLimits, Call, Deliver, WentTo};
pub use describe::{Description, Need, description_files};
pub use endpoint::{AddressPattern, HostPort};
pub use engine::{Runtime, RuntimeSettings};
pub use exports::Exports;
pub use inspect::Inspection;
pub use load::{LoadError, LoadProblem};
pub use loaded::LoadedPlugin;
pub use needs::{Capability, Missing, lines as grant_lines};
pub use registry::{PullError, Pulled, Reference, is_host};
pub use stats::StatsSnapshot;
pub use unloaded::Unloaded;
