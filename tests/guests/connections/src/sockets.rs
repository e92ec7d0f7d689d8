//! A client of the plugin's own, through `wasi:sockets`.

use std::net::SocketAddr;

use crate::bindings::exports::outhaul::delivery::deliver::Event;
use crate::bindings::wasi::sockets::network::{
    IpAddress, IpAddressFamily, IpSocketAddress, Ipv4SocketAddress, Ipv6SocketAddress, Network,
};
use crate::bindings::wasi::sockets::{
    instance_network, ip_name_lookup, tcp_create_socket, udp_create_socket,
};
use crate::{header, streams};

/// To `address`, or to the first address of `name` at `port`.
pub fn echo(event: &Event) -> Result<String, String> {
    let network = instance_network::instance_network();
    let remote = match (header(event, "address"), header(event, "name")) {
        (Some(address), _) => literal(address.parse().map_err(|error| format!("address: {error}"))?),
        (None, name) => {
            let port = header(event, "port").and_then(|port| port.parse().ok()).ok_or("port: missing")?;
            let found = addresses(&network, name.ok_or("name: missing")?)?;
            at(*found.first().ok_or("resolve: no address")?, port)
        }
    };
    let family = match remote {
        IpSocketAddress::Ipv4(_) => IpAddressFamily::Ipv4,
        IpSocketAddress::Ipv6(_) => IpAddressFamily::Ipv6,
    };
    let socket =
        tcp_create_socket::create_tcp_socket(family).map_err(|error| format!("create: {}", error.name()))?;
    socket.start_connect(&network, remote).map_err(|error| format!("start-connect: {}", error.name()))?;
    socket.subscribe().block();
    let (input, output) =
        socket.finish_connect().map_err(|error| format!("finish-connect: {}", error.name()))?;
    let echoed = streams::echo(&input, &output, &event.payload);
    // The streams go before their socket, as wasi:sockets asks.
    drop((input, output));
    echoed
}

pub fn resolve(event: &Event) -> Result<String, String> {
    let network = instance_network::instance_network();
    let found = addresses(&network, header(event, "name").ok_or("name: missing")?)?;
    Ok(format!("resolved={}", found.len()))
}

fn addresses(network: &Network, name: &str) -> Result<Vec<IpAddress>, String> {
    let answer = ip_name_lookup::resolve_addresses(network, name)
        .map_err(|error| format!("resolve: {}", error.name()))?;
    answer.subscribe().block();
    let mut found = Vec::new();
    while let Some(address) =
        answer.resolve_next_address().map_err(|error| format!("next: {}", error.name()))?
    {
        found.push(address);
    }
    Ok(found)
}

pub fn listen() -> Result<String, String> {
    let network = instance_network::instance_network();
    let socket = tcp_create_socket::create_tcp_socket(IpAddressFamily::Ipv4)
        .map_err(|error| format!("create: {}", error.name()))?;
    let any = IpSocketAddress::Ipv4(Ipv4SocketAddress { port: 0, address: (0, 0, 0, 0) });
    socket.start_bind(&network, any).map_err(|error| format!("bind: {}", error.name()))?;
    socket.finish_bind().map_err(|error| format!("finish-bind: {}", error.name()))?;
    socket.start_listen().map_err(|error| format!("listen: {}", error.name()))?;
    socket.finish_listen().map_err(|error| format!("finish-listen: {}", error.name()))?;
    Ok("listening".to_owned())
}

pub fn udp() -> Result<String, String> {
    udp_create_socket::create_udp_socket(IpAddressFamily::Ipv4)
        .map_err(|error| format!("create: {}", error.name()))?;
    Ok("created".to_owned())
}

fn literal(address: SocketAddr) -> IpSocketAddress {
    match address {
        SocketAddr::V4(v4) => {
            let [a, b, c, d] = v4.ip().octets();
            at(IpAddress::Ipv4((a, b, c, d)), v4.port())
        }
        SocketAddr::V6(v6) => {
            let [a, b, c, d, e, f, g, h] = v6.ip().segments();
            at(IpAddress::Ipv6((a, b, c, d, e, f, g, h)), v6.port())
        }
    }
}

fn at(address: IpAddress, port: u16) -> IpSocketAddress {
    match address {
        IpAddress::Ipv4(address) => IpSocketAddress::Ipv4(Ipv4SocketAddress { port, address }),
        IpAddress::Ipv6(address) => {
            IpSocketAddress::Ipv6(Ipv6SocketAddress { port, flow_info: 0, address, scope_id: 0 })
        }
    }
}
