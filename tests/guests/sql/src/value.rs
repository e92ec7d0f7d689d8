//! Values as JSON: `null`, or an object of the type's name and the value, `{"integer": 7}`.

use serde_json::{Value as Json, json};

use crate::bindings::outhaul::sql::sql::Value;

pub fn from_json(json: &Json) -> Value {
    let Json::Object(object) = json else { return Value::Null };
    let (kind, value) = object.iter().next().expect("an object of one");
    let text = || value.as_str().expect("a text").to_owned();
    let number = || value.as_i64().expect("an integer");
    match kind.as_str() {
        "boolean" => Value::Boolean(value.as_bool().expect("a truth")),
        "integer" => Value::Integer(number()),
        "float" => Value::Float(value.as_f64().expect("a number")),
        "decimal" => Value::Decimal(text()),
        "text" => Value::Text(text()),
        "bytes" => Value::Bytes(unhex(&text())),
        "timestamp" => Value::Timestamp(number()),
        "json" => Value::Json(text()),
        "uuid" => Value::Uuid(text()),
        other => panic!("no such type: {other}"),
    }
}

pub fn to_json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Boolean(value) => json!({ "boolean": value }),
        Value::Integer(value) => json!({ "integer": value }),
        Value::Float(value) => json!({ "float": value }),
        Value::Decimal(text) => json!({ "decimal": text }),
        Value::Text(text) => json!({ "text": text }),
        Value::Bytes(bytes) => {
            json!({ "bytes": bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>() })
        }
        Value::Timestamp(value) => json!({ "timestamp": value }),
        Value::Json(text) => json!({ "json": text }),
        Value::Uuid(text) => json!({ "uuid": text }),
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hex");
    text.as_bytes().chunks(2).map(byte).collect()
}
