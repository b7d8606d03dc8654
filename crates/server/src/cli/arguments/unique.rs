//! Rejects JSON objects with duplicate keys.
//!
//! `serde_json` silently keeps the last of them, and a person who typed both would
//! never learn.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::cli::output::beginning;

/// The longest key that is repeated in a message.
const MAX_SHOWN: usize = 60;

/// Refuses a text in which an object, however deep, has a key twice.
pub(super) fn check(text: &str) -> serde_json::Result<()> {
    serde_json::from_str::<UniqueKeys>(text).map(|UniqueKeys| ())
}

/// A value whose keys are all different; nothing else of it is kept.
pub(crate) struct UniqueKeys;

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ObjectKeys)
    }
}

struct ObjectKeys;

impl<'de> Visitor<'de> for ObjectKeys {
    type Value = UniqueKeys;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_bool<E>(self, _: bool) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_i64<E>(self, _: i64) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_u64<E>(self, _: u64) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_f64<E>(self, _: f64) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_str<E>(self, _: &str) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<UniqueKeys, A::Error> {
        while let Some(UniqueKeys) = items.next_element()? {}
        Ok(UniqueKeys)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<UniqueKeys, A::Error> {
        let mut seen = SeenKeys::default();
        while let Some(UniqueKey(key)) = entries.next_key()? {
            if let Some(key) = seen.again(key) {
                let key = beginning(&key, MAX_SHOWN);
                return Err(A::Error::custom(format_args!("the key `{key}` is given twice")));
            }
            let UniqueKeys = entries.next_value()?;
        }
        Ok(UniqueKeys)
    }
}

/// The keys of an object so far. Most have few, which are sooner compared than
/// hashed.
#[derive(Default)]
struct SeenKeys<'de> {
    few: [Option<Cow<'de, str>>; 8],
    more: HashSet<Cow<'de, str>>,
}

impl<'de> SeenKeys<'de> {
    /// Takes a key; gives it back where it was there already.
    fn again(&mut self, key: Cow<'de, str>) -> Option<Cow<'de, str>> {
        for place in &mut self.few {
            match place {
                Some(known) if *known == key => return Some(key),
                Some(_) => {}
                None => {
                    *place = Some(key);
                    return None;
                }
            }
        }
        self.more.replace(key)
    }
}

/// A key, borrowed from the text where nothing in it is escaped.
struct UniqueKey<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for UniqueKey<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyText)
    }
}

struct KeyText;

impl<'de> Visitor<'de> for KeyText {
    type Value = UniqueKey<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<UniqueKey<'de>, E> {
        Ok(UniqueKey(Cow::Borrowed(key)))
    }

    fn visit_str<E>(self, key: &str) -> Result<UniqueKey<'de>, E> {
        Ok(UniqueKey(Cow::Owned(key.to_owned())))
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
            (r#"{"0":0,"1":0,"2":0,"3":0,"4":0,"5":0,"6":0,"7":0,"8":0,"9":0,"\u0038":0}"#, "`8`"),
            (r#"{"0":0,"1":0,"2":0,"3":0,"4":0,"5":0,"6":0,"7":0,"8":0,"9":0,"7":0}"#, "`7`"),
        ] {
            let error = check(text).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("the key {key} is given twice at line 1")),
                "{error}"
            );
        }
    }
}
