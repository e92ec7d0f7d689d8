//! How a connection logs in.

/// A mechanism of SASL with its one answer.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    pub mechanism: &'static str,
    pub response: Vec<u8>,
}

impl Login {
    /// RFC 4616.
    pub fn plain(user: &str, password: &[u8]) -> Self {
        let response = [b"\0", user.as_bytes(), b"\0", password].concat();
        Self { mechanism: "PLAIN", response }
    }

    /// The server takes the user's name from the client certificate.
    pub fn external() -> Self {
        Self { mechanism: "EXTERNAL", response: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_may_be_any_bytes() {
        assert_eq!(Login::plain("shop", b"\xffp").response, b"\0shop\0\xffp");
    }
}
