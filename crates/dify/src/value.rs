//! Values as Dify's engine has them: those of Python.
//!
//! They differ from JSON where it shows: integers and floats are two types (`5` and
//! `5.0` render differently), files are no objects, and texts of lists are written
//! the way Python writes them ([`text`]). Containers are shared, because every
//! iteration of a graph copies its variables.

pub mod file;
pub mod number;
pub mod segment;
pub mod text;

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Number, Value as Json};

pub use file::File;
pub use segment::{Kind, Segment};

/// The entries of an object, in the order of their making.
pub type Object = IndexMap<String, Value>;

/// A value of a variable.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// Nothing.
    #[default]
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// A number with a fraction.
    Float(f64),
    /// A text.
    Text(Arc<str>),
    /// A list.
    List(Arc<Vec<Value>>),
    /// An object.
    Object(Arc<Object>),
    /// A reference to a file.
    File(Arc<File>),
}

impl Value {
    /// A value from JSON. Objects with the mark of a file become files.
    pub fn from_json(json: Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(flag) => Self::Bool(flag),
            Json::Number(number) => Self::from_number(&number),
            Json::String(text) => Self::Text(text.into()),
            Json::Array(items) => items.into_iter().map(Self::from_json).collect(),
            Json::Object(entries) => {
                if let Some(file) = File::from_marked(&entries) {
                    return Self::File(Arc::new(file));
                }
                entries.into_iter().map(|(key, value)| (key, Self::from_json(value))).collect()
            }
        }
    }

    fn from_number(number: &Number) -> Self {
        match (number.as_i64(), number.as_u64()) {
            (Some(int), _) => Self::Int(int.into()),
            (None, Some(int)) => Self::Int(int.into()),
            (None, None) => Self::Float(number.as_f64().unwrap_or(f64::NAN)),
        }
    }

    /// The value as JSON; files become objects with their mark. What JSON has no
    /// number for becomes null.
    pub fn to_json(&self) -> Json {
        match self {
            Self::Null => Json::Null,
            Self::Bool(flag) => Json::Bool(*flag),
            Self::Int(int) => Number::from_i128(*int).map_or(Json::Null, Json::Number),
            Self::Float(float) => Number::from_f64(*float).map_or(Json::Null, Json::Number),
            Self::Text(text) => Json::String(text.to_string()),
            Self::List(items) => items.iter().map(Self::to_json).collect(),
            Self::Object(entries) => Json::Object(
                entries.iter().map(|(key, value)| (key.clone(), value.to_json())).collect(),
            ),
            Self::File(file) => Json::Object(file.to_marked()),
        }
    }

    /// Whether Python takes it for true.
    pub fn is_truthy(&self) -> bool {
        match self {
            Self::Null => false,
            Self::Bool(flag) => *flag,
            Self::Int(int) => *int != 0,
            Self::Float(float) => *float != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::List(items) => !items.is_empty(),
            Self::Object(entries) => !entries.is_empty(),
            Self::File(_) => true,
        }
    }

    /// The number that it is in arithmetic; `True` is 1.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Self::Bool(flag) => Some(f64::from(u8::from(*flag))),
            #[expect(clippy::cast_precision_loss, reason = "Python's float() loses it, too")]
            Self::Int(int) => Some(*int as f64),
            Self::Float(float) => Some(*float),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The items, if it is a list.
    pub fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// The entries, if it is an object.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Self::Object(entries) => Some(entries),
            _ => None,
        }
    }

    /// The name of its type in Python, for messages.
    pub fn python_type(&self) -> &'static str {
        match self {
            Self::Null => "NoneType",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) => "float",
            Self::Text(_) => "str",
            Self::List(_) => "list",
            Self::Object(_) => "dict",
            Self::File(_) => "File",
        }
    }

    /// Roughly how many bytes it takes, shared parts counted each time. Stops
    /// counting at a bound, so that it costs no more than that.
    pub fn weight(&self, bound: usize) -> usize {
        fn add(value: &Value, sum: &mut usize, bound: usize) {
            *sum += 16;
            if *sum > bound {
                return;
            }
            match value {
                Value::Text(text) => *sum += text.len(),
                Value::List(items) => items.iter().for_each(|item| {
                    if *sum <= bound {
                        add(item, sum, bound);
                    }
                }),
                Value::Object(entries) => entries.iter().for_each(|(key, item)| {
                    *sum += key.len();
                    if *sum <= bound {
                        add(item, sum, bound);
                    }
                }),
                _ => {}
            }
        }
        let mut sum = 0;
        add(self, &mut sum, bound);
        sum
    }
}

/// Equality as in Python: `1 == 1.0 == True`, and objects do not mind the order.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::List(a), Self::List(b)) => a == b,
            (Self::Object(a), Self::Object(b)) => a == b,
            (Self::File(a), Self::File(b)) => a == b,
            _ => number::compare(self, other) == Some(std::cmp::Ordering::Equal),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Bool(flag)
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Self {
        Self::Int(i128::try_from(count).unwrap_or(i128::MAX))
    }
}

impl From<Object> for Value {
    fn from(entries: Object) -> Self {
        Self::Object(Arc::new(entries))
    }
}

impl FromIterator<Value> for Value {
    fn from_iter<I: IntoIterator<Item = Self>>(items: I) -> Self {
        Self::List(Arc::new(items.into_iter().collect()))
    }
}

impl FromIterator<(String, Value)> for Value {
    fn from_iter<I: IntoIterator<Item = (String, Self)>>(entries: I) -> Self {
        Self::Object(Arc::new(entries.into_iter().collect()))
    }
}
