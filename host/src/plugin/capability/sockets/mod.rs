//! `wasi:sockets` for guests with a client of their own: TCP to the granted addresses and to no
//! other, looked at when a socket connects. No datagrams, no listening.

mod deny;
mod names;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use wasmtime_wasi::WasiCtxBuilder;
use wasmtime_wasi::sockets::SocketAddrUse;

pub use self::deny::add_to_linker;
use super::denials::{Denials, Denied};
use super::dial::{Outside, is_public, not_public};
use crate::plugin::endpoint::HostPort;
use crate::plugin::spec::{PluginSpec, SocketsGrant};

/// Of resolving a granted name.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// What one destination may reach by sockets of its own.
pub struct Sockets {
    granted: Vec<HostPort>,
    may_resolve: bool,
    is_private: bool,
    outside: Outside,
    denials: Arc<Denials>,
    /// What a guest was last told of a name: a name with many addresses may be resolved to others
    /// by the time the guest connects.
    told: Mutex<HashMap<String, Vec<IpAddr>>>,
}

impl Sockets {
    pub fn new(spec: &PluginSpec, denials: Arc<Denials>, outside: Outside) -> Result<Self, String> {
        let SocketsGrant { tcp, resolve, private } = spec.sockets.clone().unwrap_or_default();
        let granted = tcp
            .iter()
            .map(|address| HostPort::parse(address).map_err(|problem| format!("allow.tcp: {problem}")))
            .collect::<Result<_, _>>()?;
        let (may_resolve, is_private) = (resolve, private);
        Ok(Self { granted, may_resolve, is_private, outside, denials, told: Mutex::default() })
    }

    /// Whether any socket may be made at all.
    fn is_granted(&self) -> bool {
        !self.granted.is_empty()
    }

    /// Sets what wasmtime's own sockets may do.
    pub fn configure(self: &Arc<Self>, wasi: &mut WasiCtxBuilder) {
        wasi.allow_tcp(self.is_granted()).allow_udp(false).allow_ip_name_lookup(false);
        let sockets = self.clone();
        wasi.socket_addr_check(move |address, usage| {
            let sockets = sockets.clone();
            Box::pin(async move {
                match usage {
                    // A task, because a resolver's answer can't be shared between threads as wasmtime
                    // wants it.
                    SocketAddrUse::TcpConnect => {
                        tokio::spawn(async move { sockets.may_connect(address).await }).await.unwrap_or(false)
                    }
                    // Every socket that connects is bound to a port the system chooses.
                    SocketAddrUse::TcpBind if address.ip().is_unspecified() && address.port() == 0 => true,
                    _ => {
                        sockets.deny(
                            &format!("{usage:?}"),
                            "no plugin may choose its own port, listen or send datagrams",
                        );
                        false
                    }
                }
            })
        });
    }

    async fn may_connect(&self, address: SocketAddr) -> bool {
        let asked = SocketAddr::new(address.ip().to_canonical(), address.port());
        if let Some(offline) = &self.outside.offline {
            offline.answers.unreached(Denied::Sockets.as_str(), &asked.to_string());
            return false;
        }
        let mut is_granted = false;
        for granted in self.granted.iter().filter(|granted| granted.port == asked.port()) {
            is_granted = is_granted || self.leads_to(granted, asked.ip()).await;
        }
        if !is_granted {
            self.deny(&asked.to_string(), &self.add(&asked.to_string()));
            return false;
        }
        if !self.is_private && !is_public(asked.ip()) {
            let section = format!("allow  in [destination.{}]", self.denials.destination());
            self.deny(&asked.to_string(), &not_public(&section));
            return false;
        }
        true
    }

    async fn leads_to(&self, granted: &HostPort, asked: IpAddr) -> bool {
        if let Some(literal) = granted.ip() {
            return literal.to_canonical() == asked;
        }
        let told = |told: &HashMap<String, Vec<IpAddr>>| {
            told.get(&granted.host).is_some_and(|addresses| addresses.contains(&asked))
        };
        if told(&self.told.lock().unwrap_or_else(PoisonError::into_inner)) {
            return true;
        }
        self.resolve(&granted.host).await.is_some_and(|addresses| addresses.contains(&asked))
    }

    /// The addresses of a name, as an answer to the guest may hold them.
    async fn resolve(&self, host: &str) -> Option<Vec<IpAddr>> {
        if let Some(offline) = &self.outside.offline {
            offline.answers.unreached(Denied::Sockets.as_str(), host);
            return None;
        }
        let answer = tokio::time::timeout(RESOLVE_TIMEOUT, self.outside.resolver.resolve(host, 0)).await;
        let found = answer.ok()?.ok()?;
        Some(found.into_iter().map(|address| address.ip().to_canonical()).collect())
    }

    fn remember(&self, host: &str, addresses: &[IpAddr]) {
        // Only granted names come here, so there are no more of them than the config has.
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.insert(host.to_owned(), addresses.to_owned());
    }

    fn deny(&self, asked: &str, fix: &str) {
        self.denials.deny(Denied::Sockets, asked, fix);
    }

    fn add(&self, address: &str) -> String {
        format!("add  allow = {{ tcp = [\"{address}\"] }}  to [destination.{}]", self.denials.destination())
    }
}
