//! Whether every key of a JSON text is given once.
//!
//! `serde_json` takes the last of several, which a person who typed both would
//! never learn.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::output::beginning;

/// The longest key that is repeated in a message.
const MAX_SHOWN: usize = 60;

/// Refuses a text in which an object, however deep, has a key twice.
pub(super) fn check(text: &str) -> serde_json::Result<()> {
    serde_json::from_str::<Unique>(text).map(|Unique| ())
}

/// A value whose keys are all different; nothing else of it is kept.
pub(crate) struct Unique;

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Keys)
    }
}

struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = Unique;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_str<E>(self, _: &str) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Unique, A::Error> {
        while let Some(Unique) = items.next_element()? {}
        Ok(Unique)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Unique, A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            if seen.contains(&key) {
                let key = beginning(&key, MAX_SHOWN);
                return Err(A::Error::custom(format_args!("the key `{key}` is given twice")));
            }
            seen.insert(key);
            let Unique = entries.next_value()?;
        }
        Ok(Unique)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_given_once_in_each_object() {
        for text in [
            "null",
            r#"[1, -1, 1.5, 1e300, true, "a", "a"]"#,
            r#"{"a": {"a": 1}, "b": [{"a": 1}, {"a": 1}], "A": 1, "": ""}"#,
        ] {
            assert!(check(text).is_ok(), "{text}");
        }
        for (text, key) in [
            (r#"{"a": 1, "a": 1}"#, "`a`"),
            (r#"{"a": 1, "\u0061": 1}"#, "`a`"),
            (r#"[0, {"b": {"": null, "c": [], "": null}}]"#, "``"),
        ] {
            let error = check(text).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("the key {key} is given twice at line 1")),
                "{error}"
            );
        }
    }
}
