//! The plugin author's tools: a new project, a look at a component, and the conformance cases. Knows
//! the plugin runtime, and nothing of databases, configs or the command line.

mod case;
mod expect;
mod general;
pub mod inspect;
mod producers;
pub mod project;
pub mod replay;
pub mod report;
mod rig;
pub mod schema;
mod server;
pub mod suite;
mod words;
