//! What a plugin can reach, one module a capability: its grant check and its host side.

pub mod http;
pub mod log;
pub mod secrets;
pub mod ungranted;
