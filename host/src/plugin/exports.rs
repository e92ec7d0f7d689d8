//! What a component exports of the contract: `deliver`, and what it may export besides, found by
//! looking at it.

use serde::Serialize;
use wasmtime::Store;
use wasmtime::component::InstancePre;

use super::bindings::{batch, check, close, deliver, describe, tick};
use super::state::GuestState;

/// The optional exports a plugin has. One without them loses nothing but the feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Exports {
    pub batch: bool,
    pub describe: bool,
    pub check: bool,
    pub tick: bool,
    pub close: bool,
}

/// A component ready to be instantiated, and where its exports are.
#[derive(Clone)]
pub struct Contract {
    pre: InstancePre<GuestState>,
    deliver: deliver::GuestIndices,
    batch: Option<batch::GuestIndices>,
    describe: Option<describe::GuestIndices>,
    check: Option<check::GuestIndices>,
    tick: Option<tick::GuestIndices>,
    close: Option<close::GuestIndices>,
}

/// The exports of one instance.
pub struct Guest {
    pub deliver: deliver::Guest,
    pub batch: Option<batch::Guest>,
    pub describe: Option<describe::Guest>,
    pub check: Option<check::Guest>,
    pub tick: Option<tick::Guest>,
    pub close: Option<close::Guest>,
}

impl Contract {
    /// Finds every export that `exports` says is there.
    pub fn find(pre: InstancePre<GuestState>, exports: Exports) -> wasmtime::Result<Self> {
        Ok(Self {
            deliver: deliver::GuestIndices::new(&pre)?,
            batch: exports.batch.then(|| batch::GuestIndices::new(&pre)).transpose()?,
            describe: exports.describe.then(|| describe::GuestIndices::new(&pre)).transpose()?,
            check: exports.check.then(|| check::GuestIndices::new(&pre)).transpose()?,
            tick: exports.tick.then(|| tick::GuestIndices::new(&pre)).transpose()?,
            close: exports.close.then(|| close::GuestIndices::new(&pre)).transpose()?,
            pre,
        })
    }

    pub fn exports(&self) -> Exports {
        Exports {
            batch: self.batch.is_some(),
            describe: self.describe.is_some(),
            check: self.check.is_some(),
            tick: self.tick.is_some(),
            close: self.close.is_some(),
        }
    }

    pub fn engine(&self) -> &wasmtime::Engine {
        self.pre.engine()
    }

    /// Instantiates, and compares the types of all exports: a difference is an error here.
    pub async fn instantiate(&self, store: &mut Store<GuestState>) -> wasmtime::Result<Guest> {
        let instance = self.pre.instantiate_async(&mut *store).await?;
        Ok(Guest {
            deliver: self.deliver.load(&mut *store, &instance)?,
            batch: self.batch.as_ref().map(|found| found.load(&mut *store, &instance)).transpose()?,
            describe: self.describe.as_ref().map(|found| found.load(&mut *store, &instance)).transpose()?,
            check: self.check.as_ref().map(|found| found.load(&mut *store, &instance)).transpose()?,
            tick: self.tick.as_ref().map(|found| found.load(&mut *store, &instance)).transpose()?,
            close: self.close.as_ref().map(|found| found.load(&mut *store, &instance)).transpose()?,
        })
    }
}
