//! Shrinks JSON values to fit.
//!
//! Maps that grew while they were parsed have spare capacity, up to three times
//! what a small one needs. A server holds the schemas of tens of thousands of
//! tools, which never grow again.

use serde_json::{Map, Value};

/// Removes spare capacity from a value.
pub(super) fn value(value: &mut Value) {
    match value {
        Value::String(text) => text.shrink_to_fit(),
        Value::Array(items) => {
            items.iter_mut().for_each(self::value);
            items.shrink_to_fit();
        }
        Value::Object(entries) => map(entries),
        _ => {}
    }
}

/// Removes spare capacity from a map.
pub(super) fn map(entries: &mut Map<String, Value>) {
    let mut fitting = Map::with_capacity(entries.len());
    for (mut key, mut inside) in std::mem::take(entries) {
        key.shrink_to_fit();
        value(&mut inside);
        fitting.insert(key, inside);
    }
    *entries = fitting;
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_changes_but_the_room() {
        let mut whole = json!({"b": [1, {"z": null, "a": {}}], "a": "text", "c": {"d": [true]}});
        let before = whole.to_string();
        value(&mut whole);
        assert_eq!(whole.to_string(), before);
    }
}
