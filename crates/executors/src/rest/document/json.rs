//! JSON parser that skips what no tool needs.
//!
//! A large part of big documents is examples, and the size of the tree is what makes
//! importing slow: examples are skipped while parsing, and maps are shrunk to fit.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Parses JSON text.
pub(super) fn parse(text: &str) -> serde_json::Result<Value> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let tree = TreePosition::Root.deserialize(&mut reader)?;
    reader.end()?;
    Ok(tree)
}

/// The role of a value, which determines what may be skipped in it.
#[derive(Clone, Copy)]
enum TreePosition {
    Root,
    Components,
    /// Media types by name, or anything else called `content`.
    Content,
    Media,
    /// Data such as `enum` and `default`, in which nothing is skipped.
    Data,
    Other,
}

impl TreePosition {
    /// The role of a key's value; `None` if it is skipped.
    fn of(self, key: &str) -> Option<Self> {
        match (self, key) {
            (Self::Components, "examples") | (Self::Media, "example" | "examples") => None,
            (Self::Data, _) | (_, "const" | "default" | "enum") => Some(Self::Data),
            (Self::Root, "components") => Some(Self::Components),
            // No schema keyword contains a slash.
            (Self::Content, key) if key.contains('/') => Some(Self::Media),
            (_, "content") => Some(Self::Content),
            _ => Some(Self::Other),
        }
    }
}

impl<'de> DeserializeSeed<'de> for TreePosition {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TreePosition {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        let place = if matches!(self, Self::Data) { Self::Data } else { Self::Other };
        while let Some(item) = items.next_element_seed(place)? {
            list.push(item);
        }
        list.shrink_to_fit();
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut read = Vec::new();
        while let Some(key) = entries.next_key::<String>()? {
            match self.of(&key) {
                Some(place) => read.push((key, entries.next_value_seed(place)?)),
                None => drop(entries.next_value::<IgnoredAny>()?),
            }
        }
        let mut map = Map::with_capacity(read.len());
        map.extend(read);
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn examples_are_left_out_and_what_is_called_like_them_is_not() {
        let document = json!({
            "components": {
                "examples": {"a": {"value": {"b": 1}}},
                "schemas": {
                    "examples": {"type": "string"},
                    "content": {"properties": {"example": {"type": "string"}}},
                    "data": {
                        "const": {"content": {"a/b": {"example": 1}}},
                        "enum": [{"content": {"a/b": {"examples": 1}}}],
                    },
                },
            },
            "examples": {"at": "the root"},
            "paths": {"/content": {"get": {"requestBody": {"content": {
                "application/json": {
                    "example": {"c": 1},
                    "examples": {"d": {"$ref": "#/components/examples/a"}},
                    "schema": {"properties": {"example": {}, "content": {"examples": []}}},
                },
            }}}}},
        });
        let mut kept = document.clone();
        let media = kept.pointer_mut("/paths/~1content/get/requestBody/content/application~1json");
        let media = media.and_then(Value::as_object_mut).unwrap();
        media.retain(|key, _| key == "schema");
        kept["components"].as_object_mut().unwrap().shift_remove("examples");
        assert_eq!(parse(&document.to_string()).unwrap(), kept);
    }

    #[test]
    fn everything_else_is_read_as_it_is() {
        let text = r#"{"a": [null, true, -1, 18446744073709551615, 18446744073709551616, -0, 1.5, 1e400, "\u4e2d", [], {}],
            "b": 1, "b": {"c": 2}}"#;
        let usual: serde_json::Result<Value> = serde_json::from_str(text);
        assert_eq!(parse(text).ok(), usual.ok());
        let text = text.replace("1e400", "1e300");
        let usual: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(parse(&text).unwrap(), usual);
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for wrong in ["", "{", "{}}", "{\"a\" 1}", &deep] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
