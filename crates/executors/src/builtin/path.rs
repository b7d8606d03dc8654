//! [`Path`]: a location in a JSON value, written `a.b[0].c`, `a["key.with.dots"]` or, as
//! a JSON pointer, `/a/b/0/c`.

use std::fmt;

use serde_json::{Map, Value};
use windlass::Error;

use super::arguments::invalid;

/// Maximum depth.
const MAX_DEPTH: usize = 100;

/// Maximum length of a path in bytes.
const MAX_LENGTH: usize = 10_000;

/// A location in a JSON value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Path(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

impl Path {
    /// Parses either form. The empty text is the root.
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        if text.len() > MAX_LENGTH {
            return Err(invalid(format!("a path has at most {MAX_LENGTH} bytes")));
        }
        let steps = if text.starts_with('/') { parse_pointer(text) } else { parse_dotted(text)? };
        if steps.len() > MAX_DEPTH {
            return Err(invalid(format!("the path has more than {MAX_DEPTH} steps")));
        }
        Ok(Self(steps))
    }

    /// The value at this location.
    pub(super) fn get<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(value, |value, step| step.get(value))
    }

    /// Sets a value. Missing objects on the way are created; an array grows by at most
    /// one.
    pub(super) fn set(&self, target: &mut Value, new: Value) -> Result<(), Error> {
        let mut place = target;
        for (depth, step) in self.0.iter().enumerate() {
            if place.is_null() {
                *place = match step {
                    Step::Key(_) => Value::Object(Map::new()),
                    Step::Index(_) => Value::Array(Vec::new()),
                };
            }
            place = step.get_or_make(place).map_err(|why| {
                invalid(format!("cannot set `{self}`: {} {why}", Self(self.0[..depth].to_vec())))
            })?;
        }
        *place = new;
        Ok(())
    }

    /// Removes and returns a value, if it exists.
    pub(super) fn remove(&self, target: &mut Value) -> Option<Value> {
        let (last, way) = self.0.split_last()?;
        let parent = way.iter().try_fold(target, |value, step| step.get_mut(value))?;
        match (parent, last) {
            (Value::Object(map), step) => map.shift_remove(&step.key()),
            (Value::Array(items), step) => {
                step.index().filter(|&index| index < items.len()).map(|index| items.remove(index))
            }
            _ => None,
        }
    }

    /// Appends a key.
    pub(super) fn push_key(&mut self, key: &str) {
        self.0.push(Step::Key(key.to_owned()));
    }

    /// Appends an index.
    pub(super) fn push_index(&mut self, index: usize) {
        self.0.push(Step::Index(index));
    }

    /// Removes the last segment.
    pub(super) fn pop(&mut self) {
        self.0.pop();
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("the whole value");
        }
        for (depth, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key)
                    if key.is_empty() || key == "$" || key.contains(['.', '[', ']', '/', '"']) =>
                {
                    write!(f, "[{}]", Value::from(key.as_str()))?;
                }
                Step::Key(key) if depth == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
            }
        }
        Ok(())
    }
}

impl Step {
    /// `a.0` is the same as `a[0]`, and a number may be an object's key: the type of the
    /// value decides.
    fn index(&self) -> Option<usize> {
        match self {
            Self::Index(index) => Some(*index),
            Self::Key(key) => key.parse().ok(),
        }
    }

    fn key(&self) -> String {
        match self {
            Self::Key(key) => key.clone(),
            Self::Index(index) => index.to_string(),
        }
    }

    fn get<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        match (value, self) {
            (Value::Object(map), Self::Key(key)) => map.get(key),
            (Value::Object(map), step) => map.get(&step.key()),
            (Value::Array(items), step) => items.get(step.index()?),
            _ => None,
        }
    }

    fn get_mut<'a>(&self, value: &'a mut Value) -> Option<&'a mut Value> {
        match value {
            Value::Object(map) => map.get_mut(&self.key()),
            Value::Array(items) => items.get_mut(self.index()?),
            _ => None,
        }
    }

    fn get_or_make<'a>(&self, value: &'a mut Value) -> Result<&'a mut Value, String> {
        match value {
            Value::Object(map) => Ok(map.entry(self.key()).or_insert(Value::Null)),
            Value::Array(items) => {
                let Some(index) = self.index() else {
                    return Err("is an array, which has no keys".into());
                };
                if index == items.len() {
                    items.push(Value::Null);
                }
                let count = items.len();
                items.get_mut(index).ok_or_else(|| format!("has only {count} items"))
            }
            other => Err(format!("is {}", super::value::type_name(other))),
        }
    }
}

fn parse_pointer(text: &str) -> Vec<Step> {
    let step = |part: &str| Step::Key(part.replace("~1", "/").replace("~0", "~"));
    text.split('/').skip(1).map(step).collect()
}

fn parse_dotted(text: &str) -> Result<Vec<Step>, Error> {
    let wrong = |why: &str| invalid(format!("the path `{text}` is not valid: {why}"));
    let mut steps = Vec::new();
    // A leading `$`, as in JSONPath, is the root; `$ref` is a key.
    let mut rest = match text.strip_prefix('$') {
        Some(rest) if rest.is_empty() || rest.starts_with('[') => rest,
        Some(rest) => rest.strip_prefix('.').unwrap_or(text),
        None => text,
    };
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let (step, after) = if inside.starts_with('"') {
                let mut reader = serde_json::Deserializer::from_str(inside).into_iter::<String>();
                let key = reader.next().and_then(Result::ok);
                let key = key.ok_or_else(|| wrong("a quoted key does not end"))?;
                (Step::Key(key), &inside[reader.byte_offset()..])
            } else {
                let end = inside.find(']').ok_or_else(|| wrong("a `[` is not closed"))?;
                let index = inside[..end].trim().parse();
                let index = index.map_err(|_| wrong("between `[` and `]` goes a number"))?;
                (Step::Index(index), &inside[end..])
            };
            steps.push(step);
            rest = after.strip_prefix(']').ok_or_else(|| wrong("a `[` is not closed"))?;
            rest = rest.strip_prefix('.').unwrap_or(rest);
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            if end == 0 {
                return Err(wrong("a key is empty"));
            }
            steps.push(Step::Key(rest[..end].to_owned()));
            rest = &rest[end..];
            rest = rest.strip_prefix('.').unwrap_or(rest);
        }
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_form_finds_its_place() {
        let value = json!({"a": {"b": [{"c": 1}, 2]}, "x.y": 3, "7": 4, "$ref": 5});
        let table = [
            ("a.b[0].c", json!(1)),
            ("a.b.0.c", json!(1)),
            ("$.a.b[1]", json!(2)),
            ("/a/b/1", json!(2)),
            (r#"["x.y"]"#, json!(3)),
            ("7", json!(4)),
            ("$ref", json!(5)),
            ("$[\"$ref\"]", json!(5)),
            ("$", value.clone()),
            ("", value.clone()),
        ];
        for (path, expected) in table {
            assert_eq!(Path::parse(path).unwrap().get(&value), Some(&expected), "{path}");
        }
        for missing in ["a.c", "a.b[2]", "a.b.c", "x.y"] {
            assert_eq!(Path::parse(missing).unwrap().get(&value), None, "{missing}");
        }
        for wrong in ["a..b", ".a", "a[", "a[x]", r#"a["b]"#] {
            assert!(Path::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn setting_makes_the_way() {
        let mut value = json!({"a": [1]});
        let mut set = |path: &str| Path::parse(path).unwrap().set(&mut value, json!("new"));
        set("b.c").unwrap();
        set("a[1]").unwrap();
        set("d[0].e").unwrap();
        let error = set("a[7]").unwrap_err();
        assert_eq!(error.message(), "cannot set `a[7]`: a has only 2 items");
        let error = set("b.c.d").unwrap_err();
        assert_eq!(error.message(), "cannot set `b.c.d`: b.c is a string");
        assert_eq!(value, json!({"a": [1, "new"], "b": {"c": "new"}, "d": [{"e": "new"}]}));
    }

    proptest::proptest! {
        #[test]
        fn any_key_can_be_written_and_read(key in "\\PC{0,12}", index in 0_usize..9) {
            let mut path = Path::default();
            path.push_key(&key);
            path.push_index(index);
            path.push_key("b");
            proptest::prop_assert_eq!(Path::parse(&path.to_string()).unwrap(), path);
        }

        #[test]
        fn any_text_gets_an_answer(text in r#"[a-b.$\[\]0-9"/~\\]{0,16}"#) {
            let _ = Path::parse(&text);
        }
    }

    #[test]
    fn a_path_is_written_as_it_is_read() {
        for path in ["a.b[0].c", r#"a["x.y"].b"#, r#"[""]"#] {
            let parsed = Path::parse(path).unwrap();
            assert_eq!(parsed.to_string(), path);
        }
    }
}
