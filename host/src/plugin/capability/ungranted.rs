//! `outhaul:sql` for plugins that work without it: it links, and each use is denied with what to add
//! to the config. A plugin that needs it does not load without a grant.

use wasmtime::Result;
use wasmtime::component::{HasSelf, Linker, Resource};

use super::denials::Denied;
use crate::plugin::bindings::sql::{self, Database, Dialect, Rows, SqlError, Transaction, Value};
use crate::plugin::needs::{self, Capability};
use crate::plugin::state::GuestState;

pub fn add_to_linker(linker: &mut Linker<GuestState>) -> Result<()> {
    sql::add_to_linker::<_, HasSelf<_>>(linker, |state: &mut GuestState| state)
}

impl sql::Host for GuestState {
    fn open(&mut self, name: String) -> Result<Result<Resource<Database>, SqlError>> {
        let fix = needs::lines(Capability::Sql, &name, self.denials.destination());
        self.denials.deny(Denied::Sql, &name, &fix);
        Ok(Err(SqlError::Denied(format!("database \"{name}\" is not granted to this destination; {fix}"))))
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
