//! What a plugin says it needs against what the config grants, with the lines to add.

use super::capability::http::same_origin;
use super::describe::{Description, Need};
use super::spec::PluginSpec;

/// What `needs` may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Capability {
    Http,
    Secret,
    Net,
    Sql,
}

impl Capability {
    pub const ALL: [Self; 4] = [Self::Http, Self::Secret, Self::Net, Self::Sql];

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|capability| capability.as_str() == word)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Secret => "secret",
            Self::Net => "net",
            Self::Sql => "sql",
        }
    }
}

/// Something a plugin asks for and the config does not grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    pub need: Need,
    /// The config lines to add, in a sentence.
    pub fix: String,
}

/// What of the description's needs the config does not grant, in the description's order.
pub fn ungranted(description: &Description, spec: &PluginSpec) -> Vec<Missing> {
    let missing = description.needs.iter().filter_map(|need| {
        let fix = match Capability::parse(&need.capability) {
            Some(Capability::Secret) => secret_fix(need, spec)?,
            Some(capability) if is_granted(capability, &need.name, spec) => return None,
            Some(capability) => lines(capability, &need.name, &spec.destination),
            None => format!(
                "this host knows no capability \"{}\"; use a newer host, or a plugin built for this one",
                need.capability
            ),
        };
        Some(Missing { need: need.clone(), fix })
    });
    missing.collect()
}

/// What is to be added so that the config grants the secret, for all it is needed for; none if it does. One
/// whose name the settings say may be any that is granted.
fn secret_fix(need: &Need, spec: &PluginSpec) -> Option<String> {
    let destination = &spec.destination;
    let named = spec.secrets.iter().filter(|(name, _)| need.name.is_empty() || **name == need.name);
    let mut unfit = None;
    for (name, grant) in named {
        let missing = need.uses.iter().find(|asked| !grant.uses.contains(asked))?;
        unfit.get_or_insert_with(|| {
            format!("add \"{missing}\" to  use  in [destination.{destination}.secrets.{}]", key(name))
        });
    }
    Some(unfit.unwrap_or_else(|| secret_lines(&need.name, &need.uses, destination)))
}

fn secret_lines(name: &str, uses: &[String], destination: &str) -> String {
    let name = if name.is_empty() { "SECRET".to_owned() } else { key(name) };
    let uses = match uses {
        [] => "[\"hmac-sha256\"]  (or \"ed25519\", \"reveal\")".to_owned(),
        uses => format!("{uses:?}"),
    };
    format!(
        "add a section [destination.{destination}.secrets.{name}] with  keys = [{{ env = \"NAME\" }}]  and  use = {uses}"
    )
}

/// A need without a name is met by any grant of its kind: the settings say which it will be.
pub fn is_granted(capability: Capability, name: &str, spec: &PluginSpec) -> bool {
    match capability {
        Capability::Http if name.is_empty() => !spec.http.is_empty(),
        Capability::Http => spec.http.iter().any(|grant| same_origin(&grant.origin, name)),
        Capability::Secret if name.is_empty() => !spec.secrets.is_empty(),
        Capability::Secret => spec.secrets.contains_key(name),
        Capability::Net if name.is_empty() => !spec.net.is_empty(),
        Capability::Net => spec.net.contains_key(name),
        Capability::Sql if name.is_empty() => !spec.sql.is_empty(),
        Capability::Sql => spec.sql.contains_key(name),
    }
}

/// The lines that grant it, for a message that names the destination elsewhere or not at all.
pub fn lines(capability: Capability, name: &str, destination: &str) -> String {
    let or = |placeholder: &str| if name.is_empty() { placeholder.to_owned() } else { key(name) };
    match capability {
        Capability::Http => {
            let origin = if name.is_empty() { "https://HOST" } else { name };
            format!("add a section [[destination.{destination}.http]] with  origin = {origin:?}")
        }
        Capability::Secret => secret_lines(name, &[], destination),
        Capability::Net => format!(
            "add a section [destination.{destination}.net.{}] with  address = \"host:port\"",
            or("ENDPOINT")
        ),
        Capability::Sql => {
            let name = or("DATABASE");
            let quoted = if name.starts_with('"') { name.clone() } else { format!("\"{name}\"") };
            format!(
                "add  sql = [{quoted}]  to [destination.{destination}], and a section [sql.{name}] with  \
                 url = {{ env = \"NAME\" }}"
            )
        }
    }
}

/// A name as a key of TOML, quoted where it has to be.
fn key(name: &str) -> String {
    let is_bare = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if is_bare { name.to_owned() } else { format!("{name:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::spec::{HttpGrant, SecretGrant};

    fn need(capability: &str, name: &str) -> Need {
        Need { capability: capability.into(), name: name.into(), ..Need::default() }
    }

    fn spec() -> PluginSpec {
        let secret = SecretGrant { keys: Vec::new(), uses: vec!["ed25519".into()] };
        PluginSpec {
            http: vec![HttpGrant {
                origin: "https://a.example".into(),
                headers: Vec::new(),
                private: false,
                roots: None,
                client_cert: None,
            }],
            secrets: [("signing".to_owned(), secret)].into(),
            ..PluginSpec::bare("hook", "http.wasm")
        }
    }

    #[test]
    fn what_is_needed_and_not_granted_is_named_with_the_lines_to_add() {
        let needs = [
            need("http", ""),
            need("http", "https://a.example:443"),
            need("http", "https://b.example"),
            need("secret", "signing"),
            need("secret", "other"),
            need("net", "broker"),
            need("sql", "stock"),
            need("gpu", ""),
        ];
        let description = Description { needs: needs.to_vec(), ..Description::default() };
        let missing = ungranted(&description, &spec());
        let named: Vec<_> = missing.iter().map(|missing| missing.need.name.as_str()).collect();
        assert_eq!(named, ["https://b.example", "other", "broker", "stock", ""]);
        for (index, lines) in [
            "[[destination.hook.http]] with  origin = \"https://b.example\"",
            "[destination.hook.secrets.other]",
            "[destination.hook.net.broker]",
            "[sql.stock]",
            "newer host",
        ]
        .into_iter()
        .enumerate()
        {
            assert!(missing[index].fix.contains(lines), "{:?}", missing[index]);
        }
    }

    #[test]
    fn a_secret_must_be_granted_for_all_it_is_needed_for() {
        let asked = |name: &str, uses: &[&str]| {
            let uses = uses.iter().map(|it| (*it).to_owned()).collect();
            let needs = vec![Need { uses, ..need("secret", name) }];
            let missing = ungranted(&Description { needs, ..Description::default() }, &spec());
            missing.into_iter().map(|missing| missing.fix).next()
        };
        assert_eq!(asked("signing", &["ed25519"]), None);
        assert_eq!(asked("", &["ed25519"]), None);
        let fix = asked("signing", &["ed25519", "reveal"]).unwrap();
        assert_eq!(fix, "add \"reveal\" to  use  in [destination.hook.secrets.signing]");
        let fix = asked("login", &["reveal"]).unwrap();
        assert!(fix.contains("secrets.login]") && fix.ends_with("use = [\"reveal\"]"), "{fix}");
    }

    #[test]
    fn a_need_without_a_name_is_met_by_any_grant_of_its_kind_and_by_none_of_another() {
        let description = Description { needs: vec![need("secret", "")], ..Description::default() };
        assert_eq!(ungranted(&description, &spec()), []);
        let bare = PluginSpec { secrets: Default::default(), ..spec() };
        let missing = ungranted(&description, &bare);
        assert!(missing[0].fix.contains("secrets.SECRET"), "{missing:?}");
    }
}
