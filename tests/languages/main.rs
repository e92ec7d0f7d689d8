//! The plugin templates, each built as its author would build it, in the real runtime: what every
//! template promises, whatever its language; and guests in these languages that misbehave.

mod c;
mod engines;
mod fixtures;
mod go;
mod js;
mod pools;
mod promises;
mod python;
mod records;
mod rust;
mod stream;

use outhaul_tests::{harness, receiver};
