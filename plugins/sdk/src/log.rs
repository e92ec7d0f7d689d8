//! Lines in the host's log. The text is only ever one field of a record; what is too long or too
//! much is cut or dropped, and counted.

use std::fmt::Display;

use crate::bindings::destination::outhaul::log::log::{Level, log};

pub fn trace(message: impl Display) {
    log(Level::Trace, &message.to_string());
}

pub fn debug(message: impl Display) {
    log(Level::Debug, &message.to_string());
}

pub fn info(message: impl Display) {
    log(Level::Info, &message.to_string());
}

pub fn warn(message: impl Display) {
    log(Level::Warn, &message.to_string());
}

pub fn error(message: impl Display) {
    log(Level::Error, &message.to_string());
}
