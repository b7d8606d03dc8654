//! Maps, in the order in which their entries were written.

use std::hash::{Hash, Hasher};
use std::rc::Rc;

use indexmap::IndexMap;
use serde_json::Value as Json;

use super::{Text, Value};

/// Entries that an expression made.
pub(crate) type Table<'a> = IndexMap<Key<'a>, Value<'a>>;

#[derive(Debug, Clone)]
pub(crate) enum Map<'a> {
    Json(&'a serde_json::Map<String, Json>),
    Shared(Rc<Table<'a>>),
}

/// A key. Numbers of different types that are equal are the same key.
#[derive(Debug, Clone)]
pub(crate) enum Key<'a> {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Text(Text<'a>),
}

impl Key<'_> {
    fn number(&self) -> Option<i128> {
        match self {
            Self::Int(number) => Some(i128::from(*number)),
            Self::Uint(number) => Some(i128::from(*number)),
            _ => None,
        }
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Text(a), Self::Text(b)) => a.as_str() == b.as_str(),
            _ => self.number().is_some() && self.number() == other.number(),
        }
    }
}

impl Eq for Key<'_> {}

impl Hash for Key<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Bool(value) => value.hash(state),
            Self::Text(text) => text.as_str().hash(state),
            _ => self.number().hash(state),
        }
    }
}

impl<'a> Key<'a> {
    /// The key that a value is, if it can be one.
    pub(crate) fn of(value: &Value<'a>) -> Option<Self> {
        match value {
            Value::Bool(value) => Some(Self::Bool(*value)),
            Value::Int(number) => Some(Self::Int(*number)),
            Value::Uint(number) => Some(Self::Uint(*number)),
            Value::Text(text) => Some(Self::Text(text.clone())),
            Value::Double(_) => {
                let whole = value.as_whole()?;
                i64::try_from(whole)
                    .map(Self::Int)
                    .or_else(|_| u64::try_from(whole).map(Self::Uint))
                    .ok()
            }
            _ => None,
        }
    }

    pub(crate) fn value(&self) -> Value<'a> {
        match self {
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(number) => Value::Int(*number),
            Self::Uint(number) => Value::Uint(*number),
            Self::Text(text) => Value::Text(text.clone()),
        }
    }

    /// As JSON writes it.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Bool(value) => value.to_string(),
            Self::Int(number) => number.to_string(),
            Self::Uint(number) => number.to_string(),
            Self::Text(text) => text.as_str().to_owned(),
        }
    }
}

impl<'a> Map<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json(map) => map.len(),
            Self::Shared(table) => table.len(),
        }
    }

    pub(crate) fn get(&self, key: &Key<'_>) -> Option<Value<'a>> {
        match (self, key) {
            (Self::Json(map), Key::Text(text)) => map.get(text.as_str()).map(Value::from_json),
            (Self::Json(_), _) => None,
            (Self::Shared(table), key) => table.get(key).cloned(),
        }
    }

    pub(crate) fn field(&self, name: &str) -> Option<Value<'a>> {
        match self {
            Self::Json(map) => map.get(name).map(Value::from_json),
            Self::Shared(table) => table.get(&Key::Text(Text::Borrowed(name))).cloned(),
        }
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (Key<'a>, Value<'a>)> + '_ {
        let (json, table) = match self {
            Self::Json(map) => (Some(*map), None),
            Self::Shared(table) => (None, Some(table)),
        };
        let json = json.into_iter().flatten();
        let json =
            json.map(|(key, value)| (Key::Text(Text::Borrowed(key)), Value::from_json(value)));
        let table = table.into_iter().flat_map(|table| table.iter());
        json.chain(table.map(|(key, value)| (key.clone(), value.clone())))
    }
}
