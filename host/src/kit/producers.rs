//! What built a component, as its `producers` sections say.

use std::collections::{BTreeMap, BTreeSet};

use wasmparser::{KnownCustom, Parser, Payload};

/// Tools and languages by field (`language`, `processed-by`, `sdk`), of the component and the modules
/// in it. A section that can't be read says nothing.
pub fn read(component: &[u8]) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for payload in Parser::new(0).parse_all(component).map_while(Result::ok) {
        let Payload::CustomSection(section) = payload else { continue };
        let KnownCustom::Producers(fields) = section.as_known() else { continue };
        for field in fields.into_iter().map_while(Result::ok) {
            let values = found.entry(field.name.to_owned()).or_default();
            for value in field.values.into_iter().map_while(Result::ok) {
                values.insert(format!("{} {}", value.name, value.version).trim().to_owned());
            }
        }
    }
    found
}

/// Tools whose name gives the language away where no section names it, the surest first.
const TOOLS: [(&str, &str); 10] = [
    ("componentize-py", "Python"),
    ("componentizejs", "JavaScript"),
    ("componentize-js", "JavaScript"),
    ("starlingmonkey", "JavaScript"),
    ("wit-bindgen-go", "Go"),
    ("go cmd", "Go"),
    ("tinygo", "Go"),
    ("wit-bindgen-rust", "Rust"),
    ("rustc", "Rust"),
    ("wit-bindgen-c", "C"),
];

/// The language of the author, if the sections tell. A language runtime is written in another one, so
/// that the tools come first.
pub fn language(producers: &BTreeMap<String, BTreeSet<String>>) -> Option<String> {
    let tools: Vec<String> = producers.values().flatten().map(|tool| tool.to_lowercase()).collect();
    let by_tool = TOOLS.iter().find(|(tool, _)| tools.iter().any(|name| name.starts_with(tool)));
    let named = || producers.get("language").and_then(|languages| languages.first().cloned());
    by_tool.map(|(_, language)| (*language).to_owned()).or_else(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn producers(fields: &[(&str, &str)]) -> BTreeMap<String, BTreeSet<String>> {
        let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (field, value) in fields {
            found.entry(field.to_string()).or_default().insert(value.to_string());
        }
        found
    }

    #[test]
    fn the_language_is_the_authors_and_not_the_runtimes() {
        let python = producers(&[("language", "C11"), ("processed-by", "componentize-py 0.25.1")]);
        assert_eq!(language(&python).as_deref(), Some("Python"));
        let rust =
            producers(&[("processed-by", "wit-component 0.2"), ("processed-by", "wit-bindgen-rust 0.61")]);
        assert_eq!(language(&rust).as_deref(), Some("Rust"));
        assert_eq!(language(&producers(&[("language", "Zig")])).as_deref(), Some("Zig"));
        assert_eq!(language(&producers(&[])), None);
    }

    #[test]
    fn what_is_no_component_has_no_producers() {
        assert!(read(b"").is_empty() && read(b"\0asm\x0d\0\x01\0garbage").is_empty());
    }
}
