//! The plugin author's tools: a new project, a look at a component, and the conformance cases. Knows
//! the plugin runtime, and nothing of databases, configs or the command line.

pub mod project;
mod words;
