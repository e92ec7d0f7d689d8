//! What an event moves, read from its payload.

use std::collections::BTreeMap;

use outhaul_plugin::Failure;
use serde_json::Value;

use crate::settings::Payload;

/// How much of each SKU, in their order: two events that move the same ones lock them alike.
pub type Movement = BTreeMap<String, i64>;

/// Everything that is not as the settings say is wrong with the event, and no later attempt mends it.
pub fn read(payload: &[u8], settings: &Payload) -> Result<Movement, Failure> {
    let wrong = |why: String| Failure::rejected("payload", why);
    let payload: Value = serde_json::from_slice(payload)
        .map_err(|error| wrong(format!("the payload is not JSON: {error}")))?;
    let one = std::slice::from_ref(&payload);
    let items = match &settings.items {
        None => one,
        Some(pointer) => match payload.pointer(pointer) {
            Some(Value::Array(items)) => items,
            _ => return Err(wrong(format!("there is no array at {pointer:?}"))),
        },
    };
    let mut movement = Movement::new();
    for item in items {
        let (sku, quantity) = (&settings.sku, &settings.quantity);
        let Some(Value::String(named)) = item.pointer(sku) else {
            return Err(wrong(format!("there is no text at {sku:?} for the SKU")));
        };
        let moved = whole(item.pointer(quantity), quantity)?;
        let sum = movement.entry(named.clone()).or_default();
        *sum = sum.checked_add(moved).ok_or_else(|| wrong("the quantities add up to too much".to_owned()))?;
    }
    if movement.is_empty() {
        return Err(wrong("there is nothing to move".to_owned()));
    }
    Ok(movement)
}

/// A number that is not whole has a code of its own: the sender and the table count in different units.
fn whole(found: Option<&Value>, pointer: &str) -> Result<i64, Failure> {
    let given = found.map_or("nothing".to_owned(), Value::to_string);
    match found.and_then(Value::as_i64) {
        Some(moved) if moved > 0 => return Ok(moved),
        _ if found.and_then(Value::as_f64).is_some_and(|number| number.fract() != 0.0) => {
            let why =
                format!("the quantity at {pointer:?} is {given}, and stock is counted in whole numbers");
            return Err(Failure::rejected("fractional-quantity", why));
        }
        _ => {}
    }
    let why = format!("there is no whole number above 0 at {pointer:?}, but {given}");
    Err(Failure::rejected("payload", why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn many() -> Payload {
        Payload { items: Some("/lines".into()), quantity: "/n".into(), ..Payload::default() }
    }

    #[test]
    fn one_item_or_many_are_read_and_those_of_one_sku_are_one() {
        let one = read(br#"{"sku":"A","quantity":3}"#, &Payload::default()).unwrap();
        assert_eq!(one, Movement::from([("A".into(), 3)]));
        let lines = br#"{"lines":[{"sku":"B","n":1},{"sku":"A","n":2},{"sku":"B","n":4}]}"#;
        assert_eq!(read(lines, &many()).unwrap(), Movement::from([("A".into(), 2), ("B".into(), 5)]));
    }

    #[test]
    fn what_can_not_be_read_is_rejected_with_its_place() {
        for (payload, place) in [
            (&b"not json"[..], "not JSON"),
            (br#"{"quantity":3}"#, "/sku"),
            (br#"{"sku":7,"quantity":3}"#, "/sku"),
            (br#"{"sku":"A","quantity":0}"#, "/quantity"),
            (br#"{"sku":"A","quantity":-3}"#, "/quantity"),
            (br#"{"sku":"A","quantity":"3"}"#, "/quantity"),
        ] {
            let Failure::Rejected(detail) = read(payload, &Payload::default()).unwrap_err() else { panic!() };
            assert!(detail.code == "payload" && detail.message.contains(place), "{detail:?}");
        }
        for payload in [&br#"{"sku":"A","n":1}"#[..], br#"{"lines":[]}"#] {
            assert!(read(payload, &many()).is_err());
        }
        let Failure::Rejected(detail) =
            read(br#"{"sku":"A","quantity":1.5}"#, &Payload::default()).unwrap_err()
        else {
            panic!()
        };
        assert_eq!(detail.code, "fractional-quantity");
        assert!(detail.message.contains("\"/quantity\" is 1.5"), "{}", detail.message);
        let most = format!(r#"{{"lines":[{{"sku":"A","n":{0}}},{{"sku":"A","n":{0}}}]}}"#, i64::MAX);
        assert!(read(most.as_bytes(), &many()).is_err());
    }
}
