//! Which addresses are not the public Internet: those a plugin must not reach through a name or a
//! redirect unless the operator said `private = true`. By IANA's special-purpose registries
//! (RFC 6890 and its updates).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(v4: Ipv4Addr) -> bool {
    let [a, b, c, _] = v4.octets();
    let is_special = match (a, b, c) {
        (0 | 10 | 127, ..) => true,
        // Carrier-grade NAT: 100.64.0.0/10.
        (100, 64..=127, _) => true,
        // Link-local, where clouds keep their metadata.
        (169, 254, _) => true,
        (172, 16..=31, _) => true,
        (192, 168, _) => true,
        // Protocol assignments, documentation, 6to4 relays, benchmarks.
        (192, 0, 0 | 2) | (192, 88, 99) | (198, 18..=19, _) | (198, 51, 100) | (203, 0, 113) => true,
        // Multicast, reserved, broadcast.
        (224.., ..) => true,
        _ => false,
    };
    !is_special
}

fn is_public_v6(v6: Ipv6Addr) -> bool {
    let s = v6.segments();
    match s {
        // Mapped and NAT64 addresses lead to the IPv4 address inside.
        [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => is_public_v4(embedded_v4(s[6], s[7])),
        // 6to4 leads to the IPv4 address in its second and third parts.
        [0x2002, high, low, ..] => is_public_v4(embedded_v4(high, low)),
        // Teredo, benchmarks, ORCHID, documentation.
        [0x2001, 0, ..] | [0x2001, 2, 0, ..] | [0x2001, 0x10..=0x2f, ..] | [0x2001, 0xdb8, ..] => false,
        // Only 2000::/3 is global unicast: what is outside (loopback, unspecified, unique local,
        // link-local, site-local, multicast, discard, local NAT64) is not.
        [first, ..] => (0x2000..0x4000).contains(&first) && first != 0x3fff,
    }
}

fn embedded_v4(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(high) << 16 | u32::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s26_only_public_addresses_are_public_however_they_are_written() {
        for public in [
            "1.1.1.1",
            "172.32.0.1",
            "100.128.0.1",
            "2606:4700::1111",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for special in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "203.0.113.7",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "2001::1",
            "2001:db8::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "100::1",
        ] {
            assert!(!is_public(special.parse().unwrap()), "{special}");
        }
    }
}
