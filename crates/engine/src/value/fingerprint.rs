//! Fingerprints (SHA-256) of calls.
//!
//! Stable across machines and releases, because stores keep them.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// A hasher of parts; the order of parts matters, the order of keys does not.
#[derive(Default)]
pub(crate) struct Fingerprint(Sha256);

impl Fingerprint {
    /// Adds a text with its length, so that different lists of texts never
    /// collide.
    pub(crate) fn text(&mut self, text: &str) {
        self.0.update((text.len() as u64).to_be_bytes());
        self.0.update(text);
    }

    /// Adds an optional text.
    pub(crate) fn optional(&mut self, text: Option<&str>) {
        self.0.update([u8::from(text.is_some())]);
        text.into_iter().for_each(|text| self.text(text));
    }

    /// Adds a value; objects are sorted by key.
    pub(crate) fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.0.update(b"n"),
            Value::Bool(bit) => self.0.update(if *bit { b"t" } else { b"f" }),
            Value::Number(number) => {
                self.0.update(b"#");
                self.text(&number.to_string());
            }
            Value::String(text) => {
                self.0.update(b"s");
                self.text(text);
            }
            Value::Array(items) => {
                self.0.update(b"[");
                items.iter().for_each(|item| self.value(item));
                self.0.update(b"]");
            }
            Value::Object(map) => self.object(map),
        }
    }

    /// Adds an object, sorted by key.
    pub(crate) fn object(&mut self, map: &Map<String, Value>) {
        let mut entries: Vec<(&String, &Value)> = map.iter().collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        self.0.update(b"{");
        for (key, item) in entries {
            self.text(key);
            self.value(item);
        }
        self.0.update(b"}");
    }

    pub(crate) fn number(&mut self, number: u64) {
        self.0.update(number.to_be_bytes());
    }

    pub(crate) fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(value: &Value) -> [u8; 32] {
        let mut fingerprint = Fingerprint::default();
        fingerprint.value(value);
        fingerprint.finish()
    }

    #[test]
    fn the_order_of_keys_does_not_count_and_everything_else_does() {
        assert_eq!(of(&json!({"a": 1, "b": [1, 2]})), of(&json!({"b": [1, 2], "a": 1})));
        let different = [
            json!({}),
            json!([]),
            json!(null),
            json!({"a": 1}),
            json!({"a": "1"}),
            json!({"a": 1.0}),
            json!({"a": [1]}),
            json!([["a"], ["b"]]),
            json!([["a", "b"]]),
            json!([["a"], "b"]),
            json!(["ab"]),
            json!(["a", "b"]),
        ];
        for (at, value) in different.iter().enumerate() {
            for other in &different[at + 1..] {
                assert_ne!(of(value), of(other), "{value} {other}");
            }
        }
    }
}
