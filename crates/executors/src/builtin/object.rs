//! `object`: operations on JSON objects. A `path` is written `a.b[0].c` or, as a JSON
//! pointer, `/a/b/0/c` (see [`super::path`]).

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use windlass::{Error, Output};

use super::arguments::{Arguments, Operation, dispatch, invalid};
use super::path::Path;
use super::{bounds, value};

pub(super) fn run(arguments: &Arguments<'_>) -> Result<Output, Error> {
    dispatch(OPERATIONS, arguments)
}

pub(super) const OPERATIONS: &[(&str, Operation)] = &[
    ("keys", |arguments| Ok(Output::json(object(arguments)?.keys().cloned().collect::<Vec<_>>()))),
    ("values", |arguments| {
        Ok(Output::json(object(arguments)?.values().cloned().collect::<Vec<_>>()))
    }),
    ("entries", entries),
    ("from_entries", from_entries),
    ("size", |arguments| Ok(Output::json(object(arguments)?.len()))),
    ("get", get),
    ("has", |arguments| Ok(Output::json(at_path(arguments)?.is_some()))),
    ("set", set),
    ("remove", remove),
    ("pick", |arguments| keep(arguments, true)),
    ("omit", |arguments| keep(arguments, false)),
    ("rename", rename),
    ("merge", merge),
    ("invert", invert),
    ("equals", equals),
    ("diff", diff),
    ("flatten", flatten),
    ("unflatten", unflatten),
];

fn object<'a>(arguments: &Arguments<'a>) -> Result<&'a Map<String, Value>, Error> {
    arguments.object("object")
}

/// The object as a value, to change it.
fn copy(arguments: &Arguments<'_>) -> Result<Value, Error> {
    Ok(Value::Object(object(arguments)?.clone()))
}

fn path(arguments: &Arguments<'_>) -> Result<Path, Error> {
    Path::parse(arguments.text("path")?)
}

fn at_path<'a>(arguments: &Arguments<'a>) -> Result<Option<&'a Value>, Error> {
    object(arguments)?;
    Ok(path(arguments)?.get(arguments.any("object")?))
}

fn entries(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let entries = object(arguments)?.iter().map(|(key, value)| json!([key, value]));
    Ok(Output::json(entries.collect::<Vec<_>>()))
}

/// Takes `[key, value]` pairs and `{key, value}` objects.
fn from_entries(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let mut made = Map::new();
    for (index, entry) in bounds::items(arguments.list("entries")?)?.iter().enumerate() {
        let parts = match entry {
            Value::Array(pair) if pair.len() == 2 => Some((&pair[0], &pair[1])),
            Value::Object(map) => map.get("key").zip(map.get("value")),
            _ => None,
        };
        let (key, value) = parts.ok_or_else(|| {
            invalid(format!("entry {index} is neither [key, value] nor {{key, value}}"))
        })?;
        made.insert(value::plain(key).into_owned(), value.clone());
    }
    Ok(Output::json(made))
}

fn get(arguments: &Arguments<'_>) -> Result<Output, Error> {
    match at_path(arguments)?.or(arguments.any("default").ok()) {
        Some(value) => Ok(Output::json(value.clone())),
        None => {
            let known: Vec<&str> = object(arguments)?.keys().take(30).map(String::as_str).collect();
            let path = path(arguments)?;
            Err(invalid(format!(
                "there is nothing at `{path}`; keys at the top: {}",
                known.join(", ")
            )))
        }
    }
}

fn set(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let mut changed = copy(arguments)?;
    path(arguments)?.set(&mut changed, arguments.any("value")?.clone())?;
    Ok(Output::json(changed))
}

fn remove(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let mut changed = copy(arguments)?;
    path(arguments)?.remove(&mut changed);
    Ok(Output::json(changed))
}

/// Keeps the named keys, or all others.
fn keep(arguments: &Arguments<'_>, named: bool) -> Result<Output, Error> {
    let keys: HashSet<&str> = arguments.list("keys")?.iter().filter_map(Value::as_str).collect();
    let kept = object(arguments)?.iter().filter(|(key, _)| keys.contains(key.as_str()) == named);
    let kept: Map<String, Value> = kept.map(|(key, value)| (key.clone(), value.clone())).collect();
    Ok(Output::json(kept))
}

/// Renames keys without changing their order.
fn rename(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let names = arguments.object("mapping")?;
    let mut renamed = Map::new();
    for (key, value) in object(arguments)? {
        let new = match names.get(key) {
            None => key,
            Some(Value::String(new)) => new,
            Some(_) => return Err(invalid(format!("the new name of `{key}` must be a string"))),
        };
        if renamed.insert(new.clone(), value.clone()).is_some() {
            return Err(invalid(format!("two keys would be named `{new}`")));
        }
    }
    Ok(Output::json(renamed))
}

fn merge(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let mut merged = object(arguments)?.clone();
    let (over, deep) = (arguments.object("other")?, arguments.flag("deep")?);
    merge_into(&mut merged, over, deep);
    Ok(Output::json(merged))
}

fn merge_into(under: &mut Map<String, Value>, over: &Map<String, Value>, deep: bool) {
    for (key, value) in over {
        match (under.get_mut(key), value) {
            (Some(Value::Object(under)), Value::Object(over)) if deep => {
                merge_into(under, over, deep);
            }
            _ => {
                under.insert(key.clone(), value.clone());
            }
        }
    }
}

fn invert(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let mut inverted = Map::new();
    for (key, value) in object(arguments)? {
        if value.is_array() || value.is_object() {
            let found = value::type_name(value);
            return Err(invalid(format!("`{key}` is {found}, which cannot be a key")));
        }
        inverted.insert(value::plain(value).into_owned(), json!(key));
    }
    Ok(Output::json(inverted))
}

fn equals(arguments: &Arguments<'_>) -> Result<Output, Error> {
    object(arguments)?;
    arguments.object("other")?;
    Ok(Output::json(value::equal(arguments.any("object")?, arguments.any("other")?)))
}

/// Additions, removals and changes in `other`, by path.
fn diff(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let mut diff = Diff::default();
    diff.compare(object(arguments)?, arguments.object("other")?)?;
    Ok(Output::json(json!({
        "equal": diff.added.is_empty() && diff.removed.is_empty() && diff.changed.is_empty(),
        "added": diff.added,
        "removed": diff.removed,
        "changed": diff.changed,
    })))
}

/// The current path of a traversal, and the total size of all paths written: a long key
/// would be repeated for each of the many values below it.
#[derive(Default)]
struct Walk {
    path: Path,
    written: usize,
}

impl Walk {
    fn name(&mut self) -> Result<String, Error> {
        let name = self.path.to_string();
        self.written += name.len();
        if self.written > 4 * bounds::MAX_TEXT {
            return Err(invalid("the keys are too long: the result would be too large"));
        }
        Ok(name)
    }
}

#[derive(Default)]
struct Diff {
    walk: Walk,
    added: Map<String, Value>,
    removed: Map<String, Value>,
    changed: Map<String, Value>,
}

impl Diff {
    fn compare(&mut self, from: &Map<String, Value>, to: &Map<String, Value>) -> Result<(), Error> {
        for (key, old) in from {
            self.walk.path.push_key(key);
            match (old, to.get(key)) {
                (_, None) => {
                    self.removed.insert(self.walk.name()?, old.clone());
                }
                (Value::Object(old), Some(Value::Object(new))) => self.compare(old, new)?,
                (old, Some(new)) if !value::equal(old, new) => {
                    self.changed.insert(self.walk.name()?, json!({"from": old, "to": new}));
                }
                _ => {}
            }
            self.walk.path.pop();
        }
        for (key, new) in to.iter().filter(|(key, _)| !from.contains_key(*key)) {
            self.walk.path.push_key(key);
            self.added.insert(self.walk.name()?, new.clone());
            self.walk.path.pop();
        }
        Ok(())
    }
}

/// Flattens to a map from paths to values. Empty objects and arrays stay as they are.
fn flatten(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let mut flat = Map::new();
    let mut walk = Walk::default();
    for (key, value) in object(arguments)? {
        walk.path.push_key(key);
        flatten_into(&mut walk, value, &mut flat)?;
        walk.path.pop();
    }
    Ok(Output::json(flat))
}

fn flatten_into(
    walk: &mut Walk,
    value: &Value,
    flat: &mut Map<String, Value>,
) -> Result<(), Error> {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                walk.path.push_key(key);
                flatten_into(walk, value, flat)?;
                walk.path.pop();
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                walk.path.push_index(index);
                flatten_into(walk, item, flat)?;
                walk.path.pop();
            }
        }
        other => {
            flat.insert(walk.name()?, other.clone());
        }
    }
    Ok(())
}

fn unflatten(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let mut made = Value::Object(Map::new());
    for (key, value) in object(arguments)? {
        Path::parse(key)?.set(&mut made, value.clone())?;
    }
    Ok(Output::json(made))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(operation: &str, mut arguments: Value, expected: impl Into<Value>) {
        arguments["operation"] = json!(operation);
        let shown = match run(&Arguments::new(&arguments)) {
            Ok(output) => output.value().cloned().unwrap_or_default(),
            Err(error) => format!("error: {}", error.message()).into(),
        };
        assert_eq!(shown, expected.into(), "{arguments}");
    }

    #[test]
    fn objects_are_read() {
        let object = json!({"a": 1, "b": {"c": [1, null]}});
        check("keys", json!({"object": object}), json!(["a", "b"]));
        check("values", json!({"object": object}), json!([1, {"c": [1, null]}]));
        check("entries", json!({"object": {"a": 1}}), json!([["a", 1]]));
        check("size", json!({"object": object}), 2);
        check("get", json!({"object": object, "path": "b.c[0]"}), 1);
        check("get", json!({"object": object, "path": "/b/c/0"}), 1);
        check("get", json!({"object": object, "path": "x", "default": null}), json!(null));
        check(
            "get",
            json!({"object": object, "path": "x"}),
            "error: there is nothing at `x`; keys at the top: a, b",
        );
        check(
            "get",
            json!({"object": object}),
            "error: operation `get` needs the parameter `path`",
        );
        check("has", json!({"object": object, "path": "b.c[1]"}), true);
        check("has", json!({"object": object, "path": "b.d"}), false);
        check(
            "equals",
            json!({"object": object, "other": {"b": {"c": [1.0, null]}, "a": 1}}),
            true,
        );
    }

    #[test]
    fn objects_are_changed() {
        let object = json!({"a": 1, "b": {"c": 2}});
        check(
            "set",
            json!({"object": object, "path": "b.d", "value": 3}),
            json!({"a": 1, "b": {"c": 2, "d": 3}}),
        );
        check(
            "set",
            json!({"object": object, "path": "a", "value": null}),
            json!({"a": null, "b": {"c": 2}}),
        );
        check("remove", json!({"object": object, "path": "b.c"}), json!({"a": 1, "b": {}}));
        check("remove", json!({"object": object, "path": "x.y"}), object.clone());
        check("pick", json!({"object": object, "keys": ["a", "x"]}), json!({"a": 1}));
        check("omit", json!({"object": object, "keys": ["a"]}), json!({"b": {"c": 2}}));
        check(
            "rename",
            json!({"object": object, "mapping": {"a": "z"}}),
            json!({"z": 1, "b": {"c": 2}}),
        );
        check(
            "rename",
            json!({"object": object, "mapping": {"a": "b"}}),
            "error: two keys would be named `b`",
        );
        check(
            "merge",
            json!({"object": object, "other": {"b": {"d": 3}}}),
            json!({"a": 1, "b": {"d": 3}}),
        );
        check(
            "merge",
            json!({"object": object, "other": {"b": {"d": 3}}, "deep": true}),
            json!({"a": 1, "b": {"c": 2, "d": 3}}),
        );
        check("invert", json!({"object": {"a": 1, "b": "x"}}), json!({"1": "a", "x": "b"}));
        check(
            "invert",
            json!({"object": object}),
            "error: `b` is an object, which cannot be a key",
        );
        check(
            "from_entries",
            json!({"entries": [["a", 1], {"key": "b", "value": 2}]}),
            json!({"a": 1, "b": 2}),
        );
        check(
            "from_entries",
            json!({"entries": [["a"]]}),
            "error: entry 0 is neither [key, value] nor {key, value}",
        );
    }

    #[test]
    fn differences_have_paths() {
        check(
            "diff",
            json!({"object": {"a": 1, "b": {"c": [1], "d": 2}}, "other": {"b": {"c": [2], "d": 2.0}, "e": 5}}),
            json!({
                "equal": false,
                "added": {"e": 5},
                "removed": {"a": 1},
                "changed": {"b.c": {"from": [1], "to": [2]}},
            }),
        );
    }

    #[test]
    fn flattening_can_be_undone() {
        let nested = json!({"a": {"b": [1, {"c": 2}], "x.y": 3}, "d": {}, "e": []});
        let flat = json!({"a.b[0]": 1, "a.b[1].c": 2, r#"a["x.y"]"#: 3, "d": {}, "e": []});
        check("flatten", json!({"object": nested}), flat.clone());
        let long = json!({"k".repeat(100_000): vec![0; 100]});
        check(
            "flatten",
            json!({"object": long}),
            "error: the keys are too long: the result would be too large",
        );
        check("unflatten", json!({"object": flat}), nested);
    }
}
