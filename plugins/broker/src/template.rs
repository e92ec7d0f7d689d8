//! Names made of an event: the setting `subject`, `stream` or `topic`, in which `{topic}`, `{tenant}` and
//! `{key}` stand for the event's own.

use outhaul_plugin::Event;
use serde::Deserialize;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Topic,
    Tenant,
    Key,
}

impl Default for Template {
    fn default() -> Self {
        Self(vec![Part::Topic])
    }
}

impl TryFrom<String> for Template {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text.as_str();
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            let end = from.find('}').filter(|_| from.starts_with('{'));
            let end = end.ok_or_else(|| format!("a brace without its other half in {text:?}"))?;
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            parts.push(match &from[1..end] {
                "topic" => Part::Topic,
                "tenant" => Part::Tenant,
                "key" => Part::Key,
                other => return Err(format!("{{{other}}} is not {{topic}}, {{tenant}} or {{key}}")),
            });
            rest = &from[end + 1..];
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        match parts.is_empty() {
            true => Err("it is empty; write a name, such as \"{topic}\"".to_owned()),
            false => Ok(Self(parts)),
        }
    }
}

impl Template {
    /// The name for this event; `fit` makes a part of a name of what may be any text. What the event
    /// does not have is `-`.
    pub fn fill(&self, event: &Event, fit: impl Fn(&str) -> String) -> String {
        self.fill_with(&event.topic, event, fit)
    }

    /// The same with the event's topic spelled otherwise.
    pub fn fill_with(&self, topic: &str, event: &Event, fit: impl Fn(&str) -> String) -> String {
        let mut name = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => name += text,
                Part::Topic => name += topic,
                Part::Tenant if event.tenant.is_empty() => name.push('-'),
                Part::Tenant => name += &fit(&event.tenant),
                Part::Key => name += &event.key.as_deref().map_or_else(|| "-".to_owned(), &fit),
            }
        }
        name
    }

    /// The name, if it is the same for every event.
    pub fn constant(&self) -> Option<&str> {
        match self.0.as_slice() {
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }
}

/// `%XX` for each byte that `is_special`, and for `%` itself, so that different texts stay different.
pub fn escaped(text: &str, is_special: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        if char == '%' || is_special(char) {
            let mut bytes = [0; 4];
            char.encode_utf8(&mut bytes).bytes().for_each(|byte| escaped += &format!("%{byte:02X}"));
        } else {
            escaped.push(char);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::tests::event;

    fn filled(template: &str, event: &Event) -> String {
        let template = Template::try_from(template.to_owned()).unwrap();
        template.fill(event, |text| escaped(text, |char| char == '.' || char == ' '))
    }

    #[test]
    fn a_name_is_made_of_text_and_the_events_own() {
        let event = Event { tenant: "north".into(), key: Some("a.b c%".into()), ..event("e") };
        assert_eq!(filled("shop.{tenant}.{topic}.{key}", &event), "shop.north.order.created.a%2Eb%20c%25");
        let bare = Event { tenant: String::new(), key: None, ..event };
        assert_eq!(filled("{tenant}/{key}/{topic}", &bare), "-/-/order.created");
        assert_eq!(Template::try_from("fixed".to_owned()).unwrap().constant(), Some("fixed"));
        assert_eq!(Template::default().constant(), None);
    }

    #[test]
    fn what_is_no_template_is_told() {
        for (text, word) in
            [("", "empty"), ("{topic", "brace"), ("topic}", "brace"), ("a{id}", "{id} is not {topic}")]
        {
            let error = Template::try_from(text.to_owned()).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
