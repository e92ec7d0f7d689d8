//! The places where a guest asks for a socket or a name, in the linker over wasmtime's own, so that
//! what is denied is counted and told.

use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::p2::bindings::sockets::network::{ErrorCode, IpAddressFamily};
use wasmtime_wasi::p2::bindings::sockets::tcp_create_socket::Host as _;
use wasmtime_wasi::p2::{TcpSocket, UdpSocket};
use wasmtime_wasi::sockets::WasiSocketsView;

use super::names;
use crate::plugin::state::GuestState;

/// Comes after wasmtime-wasi's own, which it shadows.
pub fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.instance("wasi:sockets/tcp-create-socket@0.2.12")?.func_wrap("create-tcp-socket", tcp_socket)?;
    linker.instance("wasi:sockets/udp-create-socket@0.2.12")?.func_wrap("create-udp-socket", udp_socket)?;
    names::add_to_linker(linker)
}

type Created<Socket> = (Result<Resource<Socket>, ErrorCode>,);

fn tcp_socket(
    mut store: StoreContextMut<GuestState>,
    (family,): (IpAddressFamily,),
) -> wasmtime::Result<Created<TcpSocket>> {
    let sockets = store.data().sockets_grant.clone();
    if !sockets.is_granted() {
        sockets.deny("a TCP socket", &sockets.add("host:port"));
        return Ok((Err(ErrorCode::AccessDenied),));
    }
    match store.data_mut().sockets().create_tcp_socket(family) {
        Ok(socket) => Ok((Ok(socket),)),
        Err(error) => Ok((Err(error.downcast()?),)),
    }
}

fn udp_socket(
    store: StoreContextMut<GuestState>,
    (_,): (IpAddressFamily,),
) -> wasmtime::Result<Created<UdpSocket>> {
    store.data().sockets_grant.deny("a UDP socket", "no plugin may send datagrams; use TCP");
    Ok((Err(ErrorCode::AccessDenied),))
}
