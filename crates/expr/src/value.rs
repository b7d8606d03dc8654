//! The values that expressions compute with.
//!
//! A [`Value`] borrows from the scope and from the expression where it can, and shares what
//! it made itself: copying one is cheap, whatever its size.

mod compare;
mod convert;
mod map;

use std::rc::Rc;

use jiff::SignedDuration;
use jiff::civil::DateTime;
use serde_json::Value as Json;

pub(crate) use compare::{compare, equal};
pub(crate) use convert::{rfc3339, seconds, to_json, to_text};
pub(crate) use map::{Key, Map, Table};

#[derive(Debug, Clone)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Text<'a>),
    Bytes(Rc<[u8]>),
    List(List<'a>),
    Map(Map<'a>),
    /// In UTC. A civil time, because the last hours of the year 9999 are none of
    /// `jiff::Timestamp`.
    Timestamp(DateTime),
    Duration(SignedDuration),
    Type(TypeName),
    Optional(Option<Rc<Value<'a>>>),
}

/// A string.
#[derive(Debug, Clone)]
pub(crate) enum Text<'a> {
    Borrowed(&'a str),
    Shared(Rc<str>),
}

/// A list.
#[derive(Debug, Clone)]
pub(crate) enum List<'a> {
    Json(&'a [Json]),
    Shared(Rc<[Value<'a>]>),
}

/// The names of types in CEL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum TypeName {
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    List,
    Map,
    Timestamp,
    Duration,
    Type,
    Optional,
}

impl TypeName {
    const ALL: [(Self, &'static str); 13] = [
        (Self::Null, "null_type"),
        (Self::Bool, "bool"),
        (Self::Int, "int"),
        (Self::Uint, "uint"),
        (Self::Double, "double"),
        (Self::Text, "string"),
        (Self::Bytes, "bytes"),
        (Self::List, "list"),
        (Self::Map, "map"),
        (Self::Timestamp, "google.protobuf.Timestamp"),
        (Self::Duration, "google.protobuf.Duration"),
        (Self::Type, "type"),
        (Self::Optional, "optional_type"),
    ];

    /// The type that has a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(found, _)| *found)
    }

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(found, _)| *found == self).map_or("dyn", |(_, name)| name)
    }

    /// As messages say it.
    pub(crate) fn described(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "a bool",
            Self::Int => "an int",
            Self::Uint => "a uint",
            Self::Double => "a double",
            Self::Text => "a string",
            Self::Bytes => "bytes",
            Self::List => "a list",
            Self::Map => "a map",
            Self::Timestamp => "a timestamp",
            Self::Duration => "a duration",
            Self::Type => "a type",
            Self::Optional => "an optional",
        }
    }
}

impl<'a> Value<'a> {
    /// A value of the scope; nothing is copied.
    pub(crate) fn from_json(json: &'a Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => {
                if let Some(number) = number.as_i64() {
                    Self::Int(number)
                } else if let Some(number) = number.as_u64() {
                    Self::Uint(number)
                } else {
                    Self::Double(number.as_f64().unwrap_or(f64::NAN))
                }
            }
            Json::String(text) => Self::Text(Text::Borrowed(text)),
            Json::Array(items) => Self::List(List::Json(items)),
            Json::Object(map) => Self::Map(Map::Json(map)),
        }
    }

    pub(crate) fn type_name(&self) -> TypeName {
        match self {
            Self::Null => TypeName::Null,
            Self::Bool(_) => TypeName::Bool,
            Self::Int(_) => TypeName::Int,
            Self::Uint(_) => TypeName::Uint,
            Self::Double(_) => TypeName::Double,
            Self::Text(_) => TypeName::Text,
            Self::Bytes(_) => TypeName::Bytes,
            Self::List(_) => TypeName::List,
            Self::Map(_) => TypeName::Map,
            Self::Timestamp(_) => TypeName::Timestamp,
            Self::Duration(_) => TypeName::Duration,
            Self::Type(_) => TypeName::Type,
            Self::Optional(_) => TypeName::Optional,
        }
    }

    /// The type, as messages say it.
    pub(crate) fn described(&self) -> &'static str {
        self.type_name().described()
    }

    pub(crate) fn text(text: impl Into<Rc<str>>) -> Self {
        Self::Text(Text::Shared(text.into()))
    }

    pub(crate) fn list(items: Vec<Self>) -> Self {
        Self::List(List::Shared(items.into()))
    }

    pub(crate) fn some(value: Self) -> Self {
        Self::Optional(Some(Rc::new(value)))
    }

    pub(crate) const fn none() -> Self {
        Self::Optional(None)
    }

    /// A whole number, also if it is written with a point: JSON does not tell them apart.
    pub(crate) fn as_whole(&self) -> Option<i128> {
        match self {
            Self::Int(number) => Some(i128::from(*number)),
            Self::Uint(number) => Some(i128::from(*number)),
            Self::Double(number) if number.fract() == 0.0 && number.abs() < 1e19 => {
                Some(*number as i128)
            }
            _ => None,
        }
    }

    pub(crate) fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(number) => Some(*number as f64),
            Self::Uint(number) => Some(*number as f64),
            Self::Double(number) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text.as_str()),
            _ => None,
        }
    }
}

impl Text<'_> {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl<'a> List<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json(items) => items.len(),
            Self::Shared(items) => items.len(),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Value<'a>> {
        match self {
            Self::Json(items) => items.get(index).map(Value::from_json),
            Self::Shared(items) => items.get(index).cloned(),
        }
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Value<'a>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}
