//! `wasi:sockets/ip-name-lookup` by the host's resolver: granted names only.

use std::net::IpAddr;
use std::vec;

use tokio_util::task::AbortOnDropHandle;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource, ResourceType};
use wasmtime_wasi::WasiView;
use wasmtime_wasi::p2::bindings::sockets::network::{ErrorCode, IpAddress, Network};
use wasmtime_wasi::p2::{DynPollable, Pollable, subscribe};

use crate::plugin::endpoint::normal_host;
use crate::plugin::state::GuestState;

pub fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    let mut lookup = linker.instance("wasi:sockets/ip-name-lookup@0.2.12")?;
    let stream = ResourceType::host::<Answer>();
    lookup.resource("resolve-address-stream", stream, |mut store, rep| {
        store.data_mut().ctx().table.delete(Resource::<Answer>::new_own(rep))?;
        Ok(())
    })?;
    lookup.func_wrap("resolve-addresses", resolve_addresses)?;
    lookup.func_wrap("[method]resolve-address-stream.resolve-next-address", next_address)?;
    lookup.func_wrap("[method]resolve-address-stream.subscribe", subscribe_to)
}

/// The addresses of a name, once they are known.
pub struct Answer(State);

enum State {
    Asked(AbortOnDropHandle<Option<Vec<IpAddr>>>),
    Known(Result<vec::IntoIter<IpAddr>, ErrorCode>),
}

#[async_trait::async_trait]
impl Pollable for Answer {
    async fn ready(&mut self) {
        if let State::Asked(task) = &mut self.0 {
            let found = task.await.ok().flatten();
            self.0 = State::Known(found.map(Vec::into_iter).ok_or(ErrorCode::NameUnresolvable));
        }
    }
}

fn resolve_addresses(
    mut store: StoreContextMut<GuestState>,
    (_, name): (Resource<Network>, String),
) -> wasmtime::Result<(Result<Resource<Answer>, ErrorCode>,)> {
    let sockets = store.data().sockets_grant.clone();
    let Some(host) = normal_host(&name) else { return Ok((Err(ErrorCode::InvalidArgument),)) };
    let state = if let Ok(literal) = host.parse::<IpAddr>() {
        // Nothing to find out; whether it may be reached is asked when the socket connects.
        State::Known(Ok(vec![literal].into_iter()))
    } else if sockets.may_resolve && sockets.granted.iter().any(|granted| granted.host == host) {
        let lookup = async move {
            let found = sockets.resolve(&host).await?;
            sockets.remember(&host, &found);
            Some(found)
        };
        State::Asked(AbortOnDropHandle::new(tokio::spawn(lookup)))
    } else {
        let destination = sockets.denials.destination();
        let fix = format!(
            "add  allow = {{ tcp = [\"{host}:PORT\"], resolve = true }}  to [destination.{destination}]"
        );
        sockets.deny(&format!("the addresses of {host}"), &fix);
        return Ok((Err(ErrorCode::AccessDenied),));
    };
    let answer = store.data_mut().ctx().table.push(Answer(state))?;
    Ok((Ok(answer),))
}

fn next_address(
    mut store: StoreContextMut<GuestState>,
    (answer,): (Resource<Answer>,),
) -> wasmtime::Result<(Result<Option<IpAddress>, ErrorCode>,)> {
    let answer = store.data_mut().ctx().table.get_mut(&answer)?;
    Ok((match &mut answer.0 {
        State::Asked(_) => Err(ErrorCode::WouldBlock),
        State::Known(Ok(addresses)) => Ok(addresses.next().map(IpAddress::from)),
        State::Known(Err(error)) => Err(*error),
    },))
}

fn subscribe_to(
    mut store: StoreContextMut<GuestState>,
    (answer,): (Resource<Answer>,),
) -> wasmtime::Result<(Resource<DynPollable>,)> {
    Ok((subscribe(store.data_mut().ctx().table, answer)?,))
}
