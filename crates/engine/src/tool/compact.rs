//! JSON values without spare capacity: read so, or shrunk to fit.
//!
//! Maps that grew while they were parsed have spare capacity, up to three times
//! what a small one needs. A server holds the schemas of tens of thousands of
//! tools, which never grow again.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
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

/// Reads a value without spare capacity.
pub(super) fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
    Ok(Compact::deserialize(from)?.0)
}

/// The same, where null is none.
pub(super) fn read_some<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Ok(Some(read(from)?).filter(|value| !value.is_null()))
}

/// Reads a map without spare capacity.
pub(super) fn read_map<'de, D>(from: D) -> Result<Map<String, Value>, D::Error>
where
    D: Deserializer<'de>,
{
    match from.deserialize_map(CompactVisitor)? {
        Value::Object(entries) => Ok(entries),
        _ => Ok(Map::new()),
    }
}

/// A value without spare capacity.
struct Compact(Value);

impl<'de> Deserialize<'de> for Compact {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(CompactVisitor).map(Self)
    }
}

struct CompactVisitor;

impl<'de> Visitor<'de> for CompactVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        read(from)
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
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, mut value: String) -> Result<Value, E> {
        value.shrink_to_fit();
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Compact(item)) = from.next_element()? {
            items.push(item);
        }
        items.shrink_to_fit();
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut entries: Vec<(String, Value)> = Vec::new();
        while let Some((mut key, Compact(value))) = from.next_entry::<String, Compact>()? {
            key.shrink_to_fit();
            entries.push((key, value));
        }
        let mut fitting = Map::with_capacity(entries.len());
        fitting.extend(entries);
        Ok(Value::Object(fitting))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::call::Call;
    use crate::call::content::Output;
    use crate::error::Error;
    use crate::tool::executor::{BoxFuture, Executor};
    use crate::tool::{Tool, ToolBuilder, ToolSpec};
    use serde_json::json;

    struct Nothing;

    impl Executor for Nothing {
        fn execute<'a>(&'a self, _: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
            Box::pin(std::future::ready(Ok(Output::default())))
        }
    }

    #[test]
    fn what_was_checked_before_is_not_copied_to_be_installed() {
        let text = r#"{"name": "a", "entry": {"plan": {"b": 1}}, "output": {"type": ["object"]},
            "input": {"type": "object", "properties": {"x": {"type": "string"}}}}"#;
        let places = |spec: &ToolSpec| {
            let output = spec.output.as_ref().unwrap();
            [&spec.input["properties"]["x"], &output["type"][0], &spec.entry.config["plan"]["b"]]
                .map(std::ptr::from_ref)
        };
        for checked in [true, false] {
            let spec: ToolSpec = serde_json::from_str(text).unwrap();
            let before = places(&spec);
            let builder = ToolBuilder::new(spec, Arc::new(Nothing)).checked(checked);
            let tool = Tool::compile(builder, "t".into(), None).unwrap();
            assert_eq!(places(tool.spec()) == before, checked);
        }
    }

    #[test]
    fn what_is_read_is_what_serde_reads() {
        for text in [
            "null",
            "true",
            "-7",
            "18446744073709551615",
            "0.1e-3",
            r#""té\u0000xt""#,
            "[1, [], {}, [null]]",
            r#"{"b": {"z": [1.5], "a": {}}, "a": "text", "b": 2}"#,
        ] {
            let plain: Value = serde_json::from_str(text).unwrap();
            let whole = read(&mut serde_json::Deserializer::from_str(text)).unwrap();
            assert_eq!(whole.to_string(), plain.to_string());
            assert_eq!(read(plain.clone()).unwrap(), plain);
            assert_eq!(
                read_some(&plain).unwrap(),
                Some(plain.clone()).filter(|own| !own.is_null())
            );
            let map = read_map(&plain).ok().map(Value::Object);
            assert_eq!(map, Some(plain).filter(Value::is_object));
        }
        assert!(read(&mut serde_json::Deserializer::from_str("{\"a\" 1}")).is_err());
    }

    #[test]
    fn nothing_changes_but_the_room() {
        let mut whole = json!({"b": [1, {"z": null, "a": {}}], "a": "text", "c": {"d": [true]}});
        let before = whole.to_string();
        value(&mut whole);
        assert_eq!(whole.to_string(), before);
    }
}
