//! What the guest can reach: environment, files, sockets, names, secrets.

use crate::bindings::outhaul::secrets::secrets;
use crate::bindings::wasi::cli::environment;
use crate::bindings::wasi::filesystem::preopens;
use crate::bindings::wasi::filesystem::types::{DescriptorFlags, OpenFlags, PathFlags};
use crate::bindings::wasi::sockets::network::{
    IpAddressFamily, IpSocketAddress, Ipv4SocketAddress, Ipv6SocketAddress,
};
use crate::bindings::wasi::sockets::{instance_network, ip_name_lookup, tcp_create_socket};
use crate::{CallContext, Delivery, delivered};

pub fn environment() -> Delivery {
    let names: Vec<String> = environment::get_environment().into_iter().map(|(name, _)| name).collect();
    let arguments = environment::get_arguments();
    delivered(Some(format!(
        "variables={} arguments={} names={}",
        names.len(),
        arguments.len(),
        names.join(",")
    )))
}

pub fn file(path: &str) -> Delivery {
    let directories = preopens::get_directories();
    let mut found = format!("directories={}", directories.len());
    for (directory, name) in &directories {
        let opened =
            directory.open_at(PathFlags::SYMLINK_FOLLOW, path, OpenFlags::empty(), DescriptorFlags::READ);
        found += &match opened {
            Ok(_) => format!(" {name}=opened"),
            Err(error) => format!(" {name}={error:?}"),
        };
    }
    delivered(Some(found))
}

/// `connected`, or the step that was refused and why.
pub fn tcp(address: &str) -> Delivery {
    delivered(Some(match try_tcp(address) {
        Ok(()) => "connected".into(),
        Err(refused) => refused,
    }))
}

fn try_tcp(address: &str) -> Result<(), String> {
    let address: std::net::SocketAddr = address.parse().map_err(|error| format!("address: {error}"))?;
    let (family, remote) = match address {
        std::net::SocketAddr::V4(v4) => {
            let [a, b, c, d] = v4.ip().octets();
            let remote = Ipv4SocketAddress { port: v4.port(), address: (a, b, c, d) };
            (IpAddressFamily::Ipv4, IpSocketAddress::Ipv4(remote))
        }
        std::net::SocketAddr::V6(v6) => {
            let [a, b, c, d, e, f, g, h] = v6.ip().segments();
            let address = (a, b, c, d, e, f, g, h);
            let remote = Ipv6SocketAddress { port: v6.port(), flow_info: 0, address, scope_id: 0 };
            (IpAddressFamily::Ipv6, IpSocketAddress::Ipv6(remote))
        }
    };
    let network = instance_network::instance_network();
    let socket =
        tcp_create_socket::create_tcp_socket(family).map_err(|error| format!("create: {error:?}"))?;
    socket.start_connect(&network, remote).map_err(|error| format!("start-connect: {error:?}"))?;
    socket.subscribe().block();
    socket.finish_connect().map(drop).map_err(|error| format!("finish-connect: {error:?}"))
}

pub fn name(name: &str) -> Delivery {
    let network = instance_network::instance_network();
    let found = match ip_name_lookup::resolve_addresses(&network, name) {
        Err(error) => format!("resolve: {error:?}"),
        Ok(addresses) => {
            addresses.subscribe().block();
            match addresses.resolve_next_address() {
                Ok(address) => format!("resolved: {address:?}"),
                Err(error) => format!("next: {error:?}"),
            }
        }
    };
    delivered(Some(found))
}

/// Signs the payload: parameters `secret` and `algorithm`. The reference is `index:hex` for each key.
pub fn sign(call: &CallContext) -> Delivery {
    let secret = call.text("secret").unwrap_or_else(|| "signing".into());
    let algorithm = call.text("algorithm").unwrap_or_else(|| "hmac-sha256".into());
    delivered(Some(match secrets::sign(&secret, &algorithm, &call.event.payload) {
        Ok(signatures) => {
            let texts: Vec<String> =
                signatures.iter().map(|one| format!("{}:{}", one.key_index, hex(&one.bytes))).collect();
            texts.join(" ")
        }
        Err(error) => format!("{error:?}"),
    }))
}

pub fn reveal(call: &CallContext) -> Delivery {
    let secret = call.text("secret").unwrap_or_else(|| "signing".into());
    delivered(Some(match secrets::reveal(&secret) {
        Ok(keys) => keys.iter().map(|key| hex(key)).collect::<Vec<_>>().join(" "),
        Err(error) => format!("{error:?}"),
    }))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
