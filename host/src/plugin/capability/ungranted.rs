//! `outhaul:net` and `outhaul:sql` for plugins that work without them: they link, and each use is
//! denied with what to add to the config. A plugin that needs them does not load without a grant.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use wasmtime::Result;
use wasmtime::component::{HasSelf, Linker, Resource};
use wasmtime_wasi::p2::bindings::io::streams::{InputStream, OutputStream};

use crate::plugin::bindings::net::{self, ConnectError};
use crate::plugin::bindings::sql::{self, Database, Dialect, Rows, SqlError, Transaction, Value};
use crate::plugin::needs::{self, Capability};
use crate::plugin::state::GuestState;
use crate::plugin::stats::Stats;

/// Names a log line was already written for.
const TOLD_MAX: usize = 64;

/// What one destination is told when it uses what it was not granted.
pub struct Ungranted {
    destination: String,
    stats: Arc<Stats>,
    told: Mutex<HashSet<(Capability, String)>>,
}

impl Ungranted {
    pub fn new(destination: String, stats: Arc<Stats>) -> Self {
        Self { destination, stats, told: Mutex::default() }
    }

    /// Counts each use, and writes one line a name, because a plugin asks again with every event.
    fn deny(&self, capability: Capability, name: &str) -> String {
        self.stats.capabilities_denied.add_one();
        let lines = needs::lines(capability, name, &self.destination);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < TOLD_MAX && told.insert((capability, name.to_owned())) {
            let (destination, capability) = (&self.destination, capability.as_str());
            tracing::warn!(destination, capability, name, "a plugin asked for what is not granted; {lines}");
        }
        format!("{} \"{name}\" is not granted to this destination; {lines}", capability.as_str())
    }
}

pub fn add_to_linker(linker: &mut Linker<GuestState>) -> Result<()> {
    net::add_to_linker::<_, HasSelf<_>>(linker, |state: &mut GuestState| state)?;
    sql::add_to_linker::<_, HasSelf<_>>(linker, |state: &mut GuestState| state)
}

impl net::Host for GuestState {
    fn connect(
        &mut self,
        endpoint: String,
        _address: Option<String>,
    ) -> Result<Result<(Resource<InputStream>, Resource<OutputStream>), ConnectError>> {
        Ok(Err(ConnectError::Denied(self.ungranted.deny(Capability::Net, &endpoint))))
    }
}

impl sql::Host for GuestState {
    fn open(&mut self, name: String) -> Result<Result<Resource<Database>, SqlError>> {
        Ok(Err(SqlError::Denied(self.ungranted.deny(Capability::Sql, &name))))
    }
}

// No guest holds a database or a transaction, since none is ever opened.
impl sql::HostDatabase for GuestState {
    fn dialect(&mut self, _: Resource<Database>) -> Result<Dialect> {
        never_opened()
    }

    fn placeholder(&mut self, _: Resource<Database>) -> Result<String> {
        never_opened()
    }

    fn transaction(&mut self, _: Resource<Database>) -> Result<Result<Resource<Transaction>, SqlError>> {
        never_opened()
    }

    fn drop(&mut self, _: Resource<Database>) -> Result<()> {
        never_opened()
    }
}

impl sql::HostTransaction for GuestState {
    fn execute(
        &mut self,
        _: Resource<Transaction>,
        _: String,
        _: Vec<Value>,
    ) -> Result<Result<u64, SqlError>> {
        never_opened()
    }

    fn query(
        &mut self,
        _: Resource<Transaction>,
        _: String,
        _: Vec<Value>,
    ) -> Result<Result<Rows, SqlError>> {
        never_opened()
    }

    fn commit(&mut self, _: Resource<Transaction>) -> Result<Result<(), SqlError>> {
        never_opened()
    }

    fn rollback(&mut self, _: Resource<Transaction>) -> Result<Result<(), SqlError>> {
        never_opened()
    }

    fn drop(&mut self, _: Resource<Transaction>) -> Result<()> {
        never_opened()
    }
}

fn never_opened<T>() -> Result<T> {
    wasmtime::bail!("no database was ever opened")
}
