//! The plugin templates, each built as its author would build it, in the real runtime: what every
//! template promises, whatever its language; and guests in these languages that misbehave.

mod c;
mod engines;
mod go;
mod js;
mod promises;
mod python;
mod records;
mod stream;

use outhaul_tests::{harness, receiver};
