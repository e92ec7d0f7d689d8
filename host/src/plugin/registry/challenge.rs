//! What a registry asks for with `401`: a name and a password (RFC 7617), or a token from somewhere
//! else (the token protocol of the distribution project).

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    Basic,
    Bearer { realm: String, service: Option<String>, scope: Option<String> },
}

impl Challenge {
    /// The strongest that is asked for and known.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let asked = headers.get_all(WWW_AUTHENTICATE).into_iter().filter_map(|value| value.to_str().ok());
        let mut known: Vec<Self> = asked.filter_map(Self::parse).collect();
        known.sort_by_key(|challenge| matches!(challenge, Self::Basic));
        known.into_iter().next()
    }

    fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let (mut realm, mut service, mut scope) = (None, None, None);
        for (name, value) in parameters(rest) {
            match &*name.to_ascii_lowercase() {
                "realm" => realm = Some(value),
                "service" => service = Some(value),
                "scope" => scope = Some(value),
                _ => {}
            }
        }
        Some(Self::Bearer { realm: realm?, service, scope })
    }
}

/// `name="value"` or `name=value`, with commas between; a quoted value may hold commas.
fn parameters(mut rest: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    while let Some((name, after)) = rest.trim_start_matches([' ', ',']).split_once('=') {
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_once(',').unwrap_or((after, "")),
        };
        found.push((name.trim().to_owned(), value.trim().to_owned()));
        rest = after;
    }
    found
}

/// As a query wants it.
pub fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => (byte as char).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str]) -> Option<Challenge> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(WWW_AUTHENTICATE, value.parse().unwrap());
        }
        Challenge::of(&headers)
    }

    #[test]
    fn a_token_is_asked_for_where_the_registry_says_and_with_its_words() {
        let bearer = "Bearer realm=\"https://auth.example/token\",service=\"r.example\",scope=\"repository:a/b:pull,push\"";
        let expected = Challenge::Bearer {
            realm: "https://auth.example/token".to_owned(),
            service: Some("r.example".to_owned()),
            scope: Some("repository:a/b:pull,push".to_owned()),
        };
        assert_eq!(of(&[bearer]), Some(expected.clone()));
        assert_eq!(of(&["Basic realm=\"x\"", bearer]), Some(expected));
        let plain = of(&["bearer realm=https://a/t, error=x"]);
        assert!(matches!(plain, Some(Challenge::Bearer { realm, .. }) if realm == "https://a/t"));
        assert_eq!(of(&["basic realm=\"x\""]), Some(Challenge::Basic));
        assert_eq!(of(&["Negotiate", "Bearer service=\"no realm\""]), None);
        assert_eq!(encoded("repository:a/b:pull"), "repository%3Aa%2Fb%3Apull");
    }
}
