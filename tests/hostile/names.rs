//! Names that lead where a test says; all others are the system's.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;

use outhaul::plugin::Resolve;

static KNOWN: Mutex<BTreeMap<String, Vec<IpAddr>>> = Mutex::new(BTreeMap::new());

pub struct Names;

#[async_trait::async_trait]
impl Resolve for Names {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let known = KNOWN.lock().unwrap().get(host).cloned();
        match known {
            Some(addresses) => {
                Ok(addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect())
            }
            None => Ok(tokio::net::lookup_host((host, port)).await?.collect()),
        }
    }
}

/// A name of the test's own below `domain`, which leads to these addresses.
pub fn name(domain: &str, addresses: &[&str]) -> String {
    let name = format!("n{}.{domain}", uuid::Uuid::new_v4().simple());
    lead(&name, addresses);
    name
}

/// From now on the name leads to these addresses.
pub fn lead(name: &str, addresses: &[&str]) {
    let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
    KNOWN.lock().unwrap().insert(name.to_owned(), addresses);
}
