//! From a due delivery to its acknowledgement: claim, call, decide, acknowledge. Knows the store
//! and the plugins by their traits only; no SQL and no wasm here.

pub mod settings;
