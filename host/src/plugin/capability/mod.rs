//! What a plugin can reach, one module a capability: its grant check and its host side.

pub mod denials;
pub mod dial;
pub mod http;
pub mod log;
pub mod net;
pub mod nothing;
pub mod secrets;
pub mod sockets;
pub mod sql;
