//! Origins, normalised so that two spellings of one are equal.

use std::fmt;

use http::Uri;

use crate::plugin::endpoint::{HostPort, normal_host};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    pub is_https: bool,
    /// Lower case, without a final dot; an IPv6 address in its shortest form, without brackets.
    pub host: String,
    pub port: u16,
}

impl Origin {
    /// Reads an operator's `origin`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            |what: &str| format!("origin \"{text}\" {what}; write it as  https://host  or  http://host:port");
        let uri: Uri = text.parse().map_err(|_| wrong("is not a URL"))?;
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(wrong("has a path, and an origin has none"));
        }
        Self::of(&uri).ok_or_else(|| wrong("is not an http or https origin"))
    }

    /// The origin a request goes to; none if it is not http or https, or holds a user name, which
    /// makes one host look like another.
    pub fn of(uri: &Uri) -> Option<Self> {
        let is_https = match uri.scheme_str()? {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let authority = uri.authority()?;
        if authority.as_str().contains('@') {
            return None;
        }
        let host = normal_host(authority.host())?;
        let port = match authority.as_str().strip_prefix(authority.host())?.strip_prefix(':') {
            None if is_https => 443,
            None => 80,
            // The library takes a port that is no number for none at all.
            Some(port) => port.parse().ok()?,
        };
        Some(Self { is_https, host, port })
    }

    pub fn address(&self) -> HostPort {
        HostPort { host: self.host.clone(), port: self.port }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match (self.is_https, self.port) {
            (true, 443) | (false, 80) => write!(f, "{scheme}://{host}"),
            (_, port) => write!(f, "{scheme}://{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Origin> {
        Origin::of(&text.parse().ok()?)
    }

    #[test]
    fn spellings_of_one_origin_are_equal() {
        let granted = Origin::parse("https://Hooks.Example.com").unwrap();
        for same in ["https://hooks.example.com:443/orders", "HTTPS://hooks.example.com./x?y=1"] {
            assert_eq!(of(same), Some(granted.clone()), "{same}");
        }
        for other in [
            "http://hooks.example.com/",
            "https://hooks.example.com:8443/",
            "https://hooks.example.com.evil.net/",
            "https://evil.net/hooks.example.com",
        ] {
            assert_ne!(of(other), Some(granted.clone()), "{other}");
        }
        assert_eq!(of("http://[0:0::1]:80/"), of("http://[::1]/"));
        assert_eq!(of("http://[::1]/").unwrap().to_string(), "http://[::1]");
    }

    #[test]
    fn a_user_name_another_scheme_or_a_strange_port_is_no_origin() {
        for text in ["https://hooks.example.com@evil.net/", "ftp://hooks.example.com/", "https://h:99999/"] {
            assert_eq!(of(text), None, "{text}");
        }
        assert!(Origin::parse("https://host/path").unwrap_err().contains("has a path"));
        assert!(Origin::parse("host:80").unwrap_err().contains("https://host"));
    }
}
