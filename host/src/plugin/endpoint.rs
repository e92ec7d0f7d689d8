//! Addresses as config and plugins write them, normalised so that two spellings of one are equal.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// `host:port`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// Lower case, without a final dot; an IPv6 address in its shortest form, without brackets.
    pub host: String,
    pub port: u16,
}

impl HostPort {
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not an address; write host:port, as in broker.example.com:5672");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
        Ok(Self { host: normal_host(host).ok_or_else(wrong)?, port })
    }

    /// The address itself, where no name has to be resolved.
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// One spelling of a host; none if it is not one.
pub fn normal_host(host: &str) -> Option<String> {
    let host = match host.strip_prefix('[') {
        Some(inside) => inside.strip_suffix(']')?.parse::<Ipv6Addr>().ok()?.to_string(),
        None => host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase(),
    };
    let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    (!host.is_empty() && host.chars().all(is_host)).then_some(host)
}

/// `host:port`, or `*.domain:port` for every name below a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressPattern {
    is_domain: bool,
    address: HostPort,
}

impl AddressPattern {
    pub fn parse(text: &str) -> Result<Self, String> {
        let (is_domain, rest) = match text.strip_prefix("*.") {
            Some(domain) => (true, domain),
            None => (false, text),
        };
        let parsed = HostPort::parse(rest).ok().filter(|address| !is_domain || address.ip().is_none());
        let address = parsed.ok_or_else(|| {
            format!(
                "{text:?} is not an address; write host:port, or *.domain:port for all names below a domain"
            )
        })?;
        Ok(Self { is_domain, address })
    }

    pub fn matches(&self, asked: &HostPort) -> bool {
        if self.address.port != asked.port {
            return false;
        }
        match self.is_domain {
            false => self.address.host == asked.host,
            true => {
                let below = asked.host.strip_suffix(&self.address.host);
                below.is_some_and(|below| below.len() > 1 && below.ends_with('.')) && asked.ip().is_none()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_address_are_equal_and_what_is_none_is_told_how_to_write_it() {
        let broker = HostPort::parse("broker.internal:5672").unwrap();
        assert_eq!(HostPort::parse("Broker.Internal.:5672").unwrap(), broker);
        assert_eq!(HostPort::parse("[0:0::1]:80").unwrap(), HostPort::parse("[::1]:80").unwrap());
        assert_eq!(HostPort::parse("[::1]:80").unwrap().to_string(), "[::1]:80");
        for wrong in
            ["broker", "broker:", ":80", "broker:0", "broker:99999", "tcp://broker:80", "a b:80", "a@b:1"]
        {
            assert!(HostPort::parse(wrong).unwrap_err().contains("write host:port"), "{wrong}");
        }
    }

    #[test]
    fn a_pattern_matches_one_address_or_every_name_below_a_domain() {
        let address = |text| HostPort::parse(text).unwrap();
        let one = AddressPattern::parse("B1.internal:9092").unwrap();
        assert!(one.matches(&address("b1.internal:9092")));
        assert!(!one.matches(&address("b1.internal:9093")) && !one.matches(&address("b2.internal:9092")));
        let domain = AddressPattern::parse("*.internal:9092").unwrap();
        assert!(
            domain.matches(&address("b1.internal:9092")) && domain.matches(&address("a.b.internal:9092"))
        );
        for other in
            ["internal:9092", ".internal:9092", "b1.internal:1", "notinternal:9092", "b1.internal.evil:9092"]
        {
            assert!(!domain.matches(&address(other)), "{other}");
        }
        for wrong in ["*:9092", "*.:9092", "*.1.2.3.4:9092", "b*.internal:9092", "*.*.internal:9092"] {
            assert!(AddressPattern::parse(wrong).is_err(), "{wrong}");
        }
    }
}
