//! The conformance cases themselves: shipped plugins and templates pass them, and each kind of bad
//! plugin is told what is wrong with it.

mod bad;
mod good;
mod harness;
mod look;
mod replay;
