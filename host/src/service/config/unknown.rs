//! Unknown keys: found by walking the file beside its JSON Schema, reported with the nearest known
//! key, and taken out, so that the rest can still be read and reported on.

use serde_json::Value;
use toml::de::{DeTable, DeValue};

/// An unknown key: where it starts, its dotted path, and what to say.
pub type Unknown = (usize, String, String);

pub fn take_unknown_keys(tree: &mut DeTable<'_>, schema: &Value) -> Vec<Unknown> {
    let mut walk = Walk { root: schema, path: Vec::new(), found: Vec::new() };
    walk.table(tree, schema);
    walk.found
}

struct Walk<'s> {
    root: &'s Value,
    path: Vec<String>,
    found: Vec<Unknown>,
}

impl<'s> Walk<'s> {
    fn table(&mut self, table: &mut DeTable<'_>, schema: &'s Value) {
        let Some(schema) = self.alternative(schema, "object") else { return };
        let known = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties");
        let mut unknown = Vec::new();
        for (key, value) in table.iter_mut() {
            let name = key.get_ref().to_string();
            let of_key =
                known.and_then(|known| known.get(&name)).or(others.filter(|others| others.is_object()));
            match of_key {
                Some(of_key) => {
                    self.path.push(name);
                    self.value(value.get_mut(), of_key);
                    self.path.pop();
                }
                None if others == Some(&Value::Bool(false)) => unknown.push((key.span().start, name)),
                None => {}
            }
        }
        let known: Vec<&str> = known.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        for (at, name) in unknown {
            table.remove(name.as_str());
            let text = describe(&name, &known);
            self.path.push(name);
            self.found.push((at, self.path.join("."), text));
            self.path.pop();
        }
    }

    fn value(&mut self, value: &mut DeValue<'_>, schema: &'s Value) {
        match value {
            DeValue::Table(table) => self.table(table, schema),
            DeValue::Array(items) => {
                let of_items = self.alternative(schema, "array").and_then(|schema| schema.get("items"));
                let Some(of_items) = of_items else { return };
                for (index, item) in items.iter_mut().enumerate() {
                    self.path.push(index.to_string());
                    self.value(item.get_mut(), of_items);
                    self.path.pop();
                }
            }
            _ => {}
        }
    }

    /// The schema itself or the one of its alternatives that describes this kind of value.
    fn alternative(&self, schema: &'s Value, kind: &str) -> Option<&'s Value> {
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let pointer = reference.trim_start_matches('#');
            return self.root.pointer(pointer).and_then(|target| self.alternative(target, kind));
        }
        for word in ["anyOf", "oneOf", "allOf"] {
            let choices = schema.get(word).and_then(Value::as_array);
            let fitting = choices.into_iter().flatten().find_map(|choice| self.alternative(choice, kind));
            if fitting.is_some() {
                return fitting;
            }
        }
        let fits = match schema.get("type") {
            Some(Value::String(only)) => only == kind,
            Some(Value::Array(some)) => some.iter().any(|one| one == kind),
            _ => false,
        };
        fits.then_some(schema)
    }
}

fn describe(name: &str, known: &[&str]) -> String {
    match nearest(name, known) {
        Some(near) => format!("unknown key; did you mean `{near}`?"),
        None => format!("unknown key; known here: {}", known.join(", ")),
    }
}

/// The known word a person most likely meant, if one is near enough.
pub fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let closeness = |candidate: &&str| strsim::jaro_winkler(&name.to_lowercase(), candidate);
    let best = known.iter().copied().max_by(|a, b| closeness(a).total_cmp(&closeness(b)))?;
    (closeness(&best) > 0.75).then_some(best)
}
