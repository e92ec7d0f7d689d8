//! The plugins that come with Outhaul, in the real runtime and against real servers on this machine.

mod answers;
mod contract;
mod failures;
mod log;
mod requests;
mod settings;
mod signatures;

use outhaul_tests::{harness, receiver};
