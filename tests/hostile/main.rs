//! Components that misbehave, one misdeed a test: the host lives, the outcome says what happened,
//! and the next event finds a fresh instance.

mod aside;
mod batch;
mod budget;
mod denied;
mod describe;
mod http;
mod lane;
mod limits;
mod load;
mod log;
mod names;
mod net;
mod net_tls;
mod pulled;
mod replace;
mod secrets;
mod signed;
mod sockets;
mod tls;
