//! `wasi:http/outgoing-handler` and its types in the linker.

use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi_http::p2::bindings::LinkOptions;
use wasmtime_wasi_http::p2::bindings::http::outgoing_handler::Host as _;
use wasmtime_wasi_http::p2::bindings::http::types::{self, ErrorCode};
use wasmtime_wasi_http::p2::types::{HostFutureIncomingResponse, HostOutgoingRequest};
use wasmtime_wasi_http::{RequestOptions, WasiHttp, WasiHttpView};

use crate::plugin::state::GuestState;

type Arguments = (Resource<HostOutgoingRequest>, Option<Resource<RequestOptions>>);
type Returned = Result<Resource<HostFutureIncomingResponse>, ErrorCode>;

pub fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    let options = LinkOptions::default();
    types::add_to_linker::<_, WasiHttp>(linker, &(&options).into(), GuestState::http)?;
    linker.instance("wasi:http/outgoing-handler@0.2.12")?.func_wrap("handle", handle)
}

/// wasmtime-wasi-http's own handler, but for one thing: that one (48.0.8) reads a request's options
/// and never drops them, so that each request with timeouts costs the instance a handle, and it traps
/// when it has none left.
fn handle(
    mut store: StoreContextMut<GuestState>,
    (request, options): Arguments,
) -> wasmtime::Result<(Returned,)> {
    let mut http = store.data_mut().http();
    let lent = options.as_ref().map(|options| Resource::new_borrow(options.rep()));
    let sent = http.handle(request, lent);
    if let Some(options) = options {
        http.table.delete(options)?;
    }
    match sent {
        Ok(response) => Ok((Ok(response),)),
        Err(error) => Ok((Err(error.downcast()?),)),
    }
}
