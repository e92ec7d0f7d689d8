//! `cargo xtask`: sets up a machine, runs the demo and the tests.
fn main() {}
