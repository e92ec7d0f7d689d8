//! Sandboxed components: engine, bindings, limits, pools and what a plugin may reach. Knows the
//! domain and wasmtime, and nothing of a database.

mod deliver;
pub mod spec;

pub use deliver::{Call, Deliver};
