//! Values that take the room of what is in them.
//!
//! A map that grew while it was read has room for the next entries, three times
//! what a small one needs. A server holds the schemas of tens of thousands of
//! tools, and none of them ever grows.

use serde_json::{Map, Value};

/// The same value, without room to grow.
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

/// The same map, without room to grow.
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
