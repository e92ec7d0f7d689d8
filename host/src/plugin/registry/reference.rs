//! `oci://HOST[:PORT]/REPOSITORY[:TAG][@sha256:DIGEST]`, taken apart.

use std::fmt;

use crate::plugin::endpoint::normal_host;

const SCHEME: &str = "oci://";
const HOW: &str =
    "write oci://HOST/REPOSITORY@sha256:DIGEST, as in oci://registry.example.com/plugins/http@sha256:…";

/// A component in a registry. A tag may lead to another one tomorrow; a digest can't.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// With its port, if one is written.
    pub host: String,
    pub repository: String,
    pub tag: Option<String>,
    /// 64 hex digits, in lower case: of the manifest, which names the component by its own digest.
    pub digest: Option<String>,
}

impl Reference {
    pub fn is_one(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("{text:?} names no component in a registry: {why}; {HOW}");
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| wrong("it does not begin with oci://"))?;
        let (rest, digest) = match rest.split_once('@') {
            None => (rest, None),
            Some((rest, digest)) => {
                let hex = digest.strip_prefix("sha256:").filter(|hex| is_sha256(hex));
                let hex = hex.ok_or_else(|| wrong("what follows @ is not sha256: and 64 hex digits"))?;
                (rest, Some(hex.to_ascii_lowercase()))
            }
        };
        let (host, path) = rest.split_once('/').ok_or_else(|| wrong("it has no repository"))?;
        // A colon before the first slash is a port's.
        let (repository, tag) = match path.split_once(':') {
            None => (path, None),
            Some((path, tag)) => (path, Some(tag.to_owned())),
        };
        if !is_host(host) {
            return Err(wrong("its host is none"));
        }
        if !is_repository(repository) {
            return Err(wrong("a repository is of lower-case letters, digits, `.`, `_`, `-` and `/`"));
        }
        if tag.as_ref().is_some_and(|tag| !is_tag(tag)) {
            return Err(wrong("a tag is of 1 to 128 letters, digits, `.`, `_` and `-`"));
        }
        Ok(Self { host: host.to_owned(), repository: repository.to_owned(), tag, digest })
    }

    /// The same by its digest alone.
    pub fn pinned(&self, digest: &str) -> Self {
        Self { tag: None, digest: Some(digest.to_owned()), ..self.clone() }
    }

    /// What a registry is asked for.
    pub fn wanted(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => format!("sha256:{digest}"),
            (None, Some(tag)) => tag.clone(),
            (None, None) => "latest".to_owned(),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.host, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@sha256:{digest}"),
            None => Ok(()),
        }
    }
}

pub fn is_sha256(hex: &str) -> bool {
    hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit())
}

/// `host` or `host:port`.
pub fn is_host(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let is_bracketed = host.starts_with('[');
    normal_host(host).is_some_and(|normal| is_bracketed || !normal.contains(':'))
        && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
}

fn is_repository(text: &str) -> bool {
    let is_part = |part: &str| {
        part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b))
            && part.starts_with(|c: char| c.is_ascii_alphanumeric())
    };
    text.len() <= 255 && text.split('/').all(is_part)
}

fn is_tag(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        && !text.starts_with(['.', '-'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_read_and_written_alike() {
        let digest = "ab".repeat(32);
        for (text, host, repository, wanted) in [
            (format!("oci://h.example/a@sha256:{digest}"), "h.example", "a", format!("sha256:{digest}")),
            (format!("oci://h:5000/a/b-c:v1@sha256:{digest}"), "h:5000", "a/b-c", format!("sha256:{digest}")),
            ("oci://[::1]:5000/a:v1.2".to_owned(), "[::1]:5000", "a", "v1.2".to_owned()),
            ("oci://h/a".to_owned(), "h", "a", "latest".to_owned()),
        ] {
            let read = Reference::parse(&text).unwrap();
            assert_eq!((&*read.host, &*read.repository, read.wanted()), (host, repository, wanted));
            assert_eq!(read.to_string(), text);
        }
        let upper = Reference::parse(&format!("oci://h/a@sha256:{}", digest.to_uppercase())).unwrap();
        assert_eq!(upper.digest, Some(digest));
    }

    #[test]
    fn what_is_no_reference_is_refused_with_how_to_write_one() {
        for text in [
            "http://h/a",
            "oci://h",
            "oci:///a",
            "oci://h/",
            "oci://h/A",
            "oci://h/a//b",
            "oci://h/../a",
            "oci://h/a:",
            "oci://h/a:b/c",
            "oci://h/a?b=c",
            "oci://h:0/a",
            "oci://h:1:2/a",
            "oci://u:p@h/a",
            "oci://h/a@sha256:12",
            "oci://h/a@md5:00",
        ] {
            let why = Reference::parse(text).expect_err(text);
            assert!(why.contains("@sha256:DIGEST"), "{why}");
        }
    }
}
