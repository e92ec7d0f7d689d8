//! What every plugin can ask for and none has: environment variables and files. Asking is answered
//! with nothing, as `wasi:cli` and `wasi:filesystem` foresee, and told to the operator once.

use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::p2::bindings::filesystem::types::Descriptor;

use super::denials::Denied;
use crate::plugin::state::GuestState;

/// Comes after wasmtime-wasi's own, which it shadows.
pub fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.instance("wasi:cli/environment@0.2.12")?.func_wrap("get-environment", environment)?;
    linker.instance("wasi:filesystem/preopens@0.2.12")?.func_wrap("get-directories", directories)
}

fn environment(store: StoreContextMut<GuestState>, (): ()) -> wasmtime::Result<(Vec<(String, String)>,)> {
    let denials = &store.data().denials;
    let destination = denials.destination();
    let fix = format!(
        "hand values to it by  settings  in [destination.{destination}], and secrets by \
         [destination.{destination}.secrets.NAME]"
    );
    denials.deny(Denied::Environment, "environment variables", &fix);
    Ok((Vec::new(),))
}

type Directories = Vec<(Resource<Descriptor>, String)>;

fn directories(store: StoreContextMut<GuestState>, (): ()) -> wasmtime::Result<(Directories,)> {
    let denials = &store.data().denials;
    let destination = denials.destination();
    let fix = format!(
        "hand what the file holds to it by  settings  in [destination.{destination}], or by \
         [destination.{destination}.secrets.NAME] with  use = [\"reveal\"]"
    );
    denials.deny(Denied::Files, "files", &fix);
    Ok((Vec::new(),))
}
