//! A plugin's own cases: TOML files, in which an unknown key is an error.
//! `host/docs/plugins/testing.md` is the reference.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value};

/// What every case begins with: `cases/settings.toml`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Common {
    #[serde(default)]
    pub settings: Map<String, Value>,
    #[serde(default)]
    pub secrets: BTreeMap<String, Secret>,
    /// Servers of the author's own to grant, as `host:port` by the endpoints' names.
    #[serde(default)]
    pub net: BTreeMap<String, String>,
    /// Databases to grant, by name: a URL, or `sqlite` for an empty one of this run's own.
    #[serde(default)]
    pub sql: BTreeMap<String, String>,
}

/// A secret to grant. Its keys stand here as they are: they are for tests only.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Secret {
    pub keys: Vec<String>,
    #[serde(rename = "use")]
    pub uses: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    #[serde(default)]
    pub name: String,
    /// Laid over the common settings, key by key.
    #[serde(default)]
    pub settings: Map<String, Value>,
    #[serde(default)]
    pub event: Event,
    #[serde(default)]
    pub server: Vec<Step>,
    pub expect: Expect,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Event {
    pub id: String,
    pub tenant: String,
    pub topic: String,
    pub key: Option<String>,
    pub content_type: String,
    pub payload: Option<String>,
    pub payload_base64: Option<String>,
    pub headers: BTreeMap<String, String>,
    pub attempt: u32,
    pub last_attempt: bool,
    pub uncertain_before: bool,
}

impl Default for Event {
    fn default() -> Self {
        Self {
            id: "order-1".to_owned(),
            tenant: String::new(),
            topic: "order.created".to_owned(),
            key: None,
            content_type: "application/json".to_owned(),
            payload: None,
            payload_base64: None,
            headers: BTreeMap::new(),
            attempt: 1,
            last_attempt: false,
            uncertain_before: false,
        }
    }
}

/// One answer of the scripted server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: String,
    pub behave: Behave,
}

impl Default for Step {
    fn default() -> Self {
        Self { status: 204, headers: BTreeMap::new(), body: String::new(), behave: Behave::Well }
    }
}

impl Step {
    pub fn status(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    pub fn behaving(behave: Behave) -> Self {
        Self { status: 200, behave, ..Self::default() }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.to_owned());
        self
    }
}

/// What a server does with a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Behave {
    #[default]
    Well,
    /// Reads the request and never answers.
    Silent,
    /// Answers a byte now and then, without an end.
    Drip,
    /// Reads the request, then resets the connection.
    Reset,
    /// Ends the connection in the middle of the answer.
    Cut,
    /// Answers with 8 MiB.
    Huge,
    /// Nobody listens.
    Refuse,
}

/// What must come of it. Only what is written is compared.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    pub outcome: Option<OneOrMore>,
    pub code: Option<String>,
    pub message: Option<String>,
    pub after: Option<String>,
    pub maybe_applied: Option<bool>,
    pub reference: Option<String>,
    /// The JSON Pointer of a setting that `configure` refuses.
    pub settings: Option<String>,
    pub requests: Option<usize>,
    pub request: Option<ExpectRequest>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    pub fn words(&self) -> &[String] {
        match self {
            Self::One(word) => std::slice::from_ref(word),
            Self::More(words) => words,
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectRequest {
    pub method: Option<String>,
    pub path: Option<String>,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    pub body: Option<String>,
    pub body_base64: Option<String>,
}

/// The cases of a folder, in the order of their file names, and what they begin with.
#[derive(Clone, Debug, Default)]
pub struct Cases {
    pub common: Common,
    pub own: Vec<Case>,
}

/// Reads a folder. One that is not there holds nothing; what can't be read whole is an error.
pub fn read(folder: &Path) -> Result<Cases, String> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Cases::default()),
        Err(error) => return Err(format!("{} can't be read: {error}", folder.display())),
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort_unstable();
    let mut cases = Cases::default();
    for path in paths {
        let text = std::fs::read_to_string(&path)
            .map_err(|error| format!("{} can't be read: {error}", path.display()))?;
        let wrong = |why: String| format!("{}: {}", path.display(), why.trim_end());
        if path.file_name().is_some_and(|name| name == "settings.toml") {
            cases.common = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
            continue;
        }
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        cases.own.push(parse(&text, &file).map_err(wrong)?);
    }
    Ok(cases)
}

fn parse(text: &str, file: &str) -> Result<Case, String> {
    let mut case: Case = toml::from_str(text).map_err(|error| error.to_string())?;
    case.name = if case.name.is_empty() { file.to_owned() } else { format!("{file}: {}", case.name) };
    check(&case)?;
    Ok(case)
}

/// What the shape alone does not say.
fn check(case: &Case) -> Result<(), String> {
    let expect = &case.expect;
    let request = expect.request.as_ref();
    let both = |what: &str| format!("{what} and {what}_base64 are both there; write one of them");
    if case.event.payload.is_some() && case.event.payload_base64.is_some() {
        return Err(both("payload"));
    }
    if request.is_some_and(|request| request.body.is_some() && request.body_base64.is_some()) {
        return Err(both("body"));
    }
    payload(&case.event)?;
    request.map_or(Ok(None), body)?;
    after(expect)?;
    for word in expect.outcome.iter().flat_map(OneOrMore::words) {
        if !OUTCOMES.contains(&word.as_str()) {
            return Err(format!("the outcome {word:?} does not exist; there are {}", OUTCOMES.join(", ")));
        }
    }
    for step in &case.server {
        if !(100..=999).contains(&step.status) {
            return Err(format!("the status {} does not exist", step.status));
        }
    }
    let says_nothing = expect.outcome.is_none() && expect.settings.is_none() && expect.requests.is_none();
    if says_nothing && request.is_none() {
        return Err("[expect] says nothing that could fail; give it an  outcome".to_owned());
    }
    Ok(())
}

const OUTCOMES: [&str; 14] = [
    "delivered",
    "duplicate",
    "retry",
    "rate-limited",
    "unavailable",
    "rejected",
    "conflict",
    "gone",
    "misconfigured",
    "other",
    "trap",
    "out-of-memory",
    "deadline",
    "bad-output",
];

pub fn payload(event: &Event) -> Result<Vec<u8>, String> {
    match (&event.payload, &event.payload_base64) {
        (_, Some(base64)) => decoded("payload_base64", base64),
        (Some(text), None) => Ok(text.clone().into_bytes()),
        (None, None) => Ok(br#"{"order":1}"#.to_vec()),
    }
}

pub fn body(request: &ExpectRequest) -> Result<Option<Vec<u8>>, String> {
    match (&request.body, &request.body_base64) {
        (_, Some(base64)) => decoded("body_base64", base64).map(Some),
        (body, None) => Ok(body.clone().map(String::into_bytes)),
    }
}

pub fn after(expect: &Expect) -> Result<Option<std::time::Duration>, String> {
    let parse = |text: &String| {
        humantime::parse_duration(text)
            .map_err(|error| format!("after = {text:?} is no time: {error}; write \"7s\""))
    };
    expect.after.as_ref().map(parse).transpose()
}

fn decoded(key: &str, text: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(text).map_err(|error| format!("{key} is not base64: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(text, "case.toml").map(|_| ()).unwrap_err()
    }

    #[test]
    fn a_case_says_only_what_differs_from_the_ordinary() {
        let case = parse("[expect]\noutcome = \"delivered\"", "plain.toml").unwrap();
        assert_eq!((case.name.as_str(), case.event.topic.as_str()), ("plain.toml", "order.created"));
        assert_eq!(payload(&case.event).unwrap(), br#"{"order":1}"#);
        let case =
            parse("name = \"x\"\n[event]\npayload_base64 = \"/w==\"\n[expect]\nrequests = 0", "f.toml")
                .unwrap();
        assert_eq!((case.name.as_str(), payload(&case.event).unwrap()), ("f.toml: x", vec![0xff]));
    }

    #[test]
    fn what_would_have_no_effect_is_an_error() {
        for (text, word) in [
            ("[expect]\noutcom = \"delivered\"", "outcom"),
            ("[expect]\noutcome = \"done\"", "done"),
            ("[expect]", "outcome"),
            ("[event]\npayload = \"a\"\npayload_base64 = \"YQ==\"\n[expect]\nrequests = 1", "one of them"),
            ("[event]\npayload_base64 = \"?\"\n[expect]\nrequests = 1", "base64"),
            ("[expect]\noutcome = \"retry\"\nafter = \"soon\"", "soon"),
            ("[[server]]\nbehave = \"badly\"\n[expect]\nrequests = 1", "badly"),
            ("[[server]]\nstatus = 7\n[expect]\nrequests = 1", "7"),
        ] {
            assert!(error(text).contains(word), "{text}: {}", error(text));
        }
    }

    #[test]
    fn a_folder_that_is_not_there_holds_no_cases() {
        let cases = read(Path::new("/nowhere/cases")).unwrap();
        assert!(cases.own.is_empty() && cases.common.settings.is_empty());
    }
}
