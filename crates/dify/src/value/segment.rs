//! Values with the type that a variable has: an empty list still is a list of texts.

use std::fmt;

use super::{Value, text};

/// The type of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Nothing.
    None,
    /// A whole number.
    Integer,
    /// A number with a fraction.
    Float,
    /// A number of either sort, as files declare it.
    Number,
    /// A text.
    String,
    /// A text of the environment that is hidden.
    Secret,
    /// True or false.
    Boolean,
    /// An object.
    Object,
    /// A file.
    File,
    /// A list of anything.
    AnyList,
    /// A list of texts.
    StringList,
    /// A list of numbers.
    NumberList,
    /// A list of objects.
    ObjectList,
    /// A list of booleans.
    BooleanList,
    /// A list of files.
    FileList,
}

impl Kind {
    /// All kinds by the names that files have for them, older names included.
    const NAMES: [(&'static str, Kind); 22] = [
        ("none", Kind::None),
        ("integer", Kind::Integer),
        ("float", Kind::Float),
        ("number", Kind::Number),
        ("string", Kind::String),
        ("secret", Kind::Secret),
        ("boolean", Kind::Boolean),
        ("object", Kind::Object),
        ("file", Kind::File),
        ("array[any]", Kind::AnyList),
        ("array[string]", Kind::StringList),
        ("array[number]", Kind::NumberList),
        ("array[object]", Kind::ObjectList),
        ("array[boolean]", Kind::BooleanList),
        ("array[file]", Kind::FileList),
        ("bool", Kind::Boolean),
        ("select", Kind::String),
        ("array", Kind::AnyList),
        ("array-string", Kind::StringList),
        ("array-number", Kind::NumberList),
        ("array-object", Kind::ObjectList),
        ("any", Kind::AnyList),
    ];

    /// The kind of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    /// The names of all kinds, for messages.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::NAMES[..15].iter().map(|(name, _)| *name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, kind)| *kind == self).map_or("none", |(name, _)| name)
    }

    /// Whether it is a list.
    pub fn is_list(self) -> bool {
        matches!(
            self,
            Self::AnyList
                | Self::StringList
                | Self::NumberList
                | Self::ObjectList
                | Self::BooleanList
                | Self::FileList
        )
    }

    /// Whether it is a number.
    pub fn is_number(self) -> bool {
        matches!(self, Self::Integer | Self::Float | Self::Number)
    }

    /// The kind of the items of a list, if they have one.
    pub fn of_items(self) -> Option<Self> {
        Some(match self {
            Self::StringList => Self::String,
            Self::NumberList => Self::Number,
            Self::ObjectList => Self::Object,
            Self::BooleanList => Self::Boolean,
            Self::FileList => Self::File,
            _ => return None,
        })
    }

    /// The kind that a value has by itself.
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::None,
            Value::Bool(_) => Self::Boolean,
            Value::Int(_) => Self::Integer,
            Value::Float(_) => Self::Float,
            Value::Text(_) => Self::String,
            Value::Object(_) => Self::Object,
            Value::File(_) => Self::File,
            Value::List(items) => Self::of_list(items),
        }
    }

    fn of_list(items: &[Value]) -> Self {
        let one = |value: &Value| match value {
            Value::Int(_) | Value::Float(_) => Self::Number,
            Value::List(_) => Self::AnyList,
            _ => Self::of(value),
        };
        let Some(first) = items.first().map(one) else { return Self::AnyList };
        if !items.iter().all(|item| one(item) == first) {
            return Self::AnyList;
        }
        match first {
            Self::String => Self::StringList,
            Self::Number => Self::NumberList,
            Self::Boolean => Self::BooleanList,
            Self::Object => Self::ObjectList,
            Self::File => Self::FileList,
            _ => Self::AnyList,
        }
    }

    /// Whether a value fits.
    pub fn fits(self, value: &Value) -> bool {
        match self {
            Self::None => matches!(value, Value::Null),
            Self::Boolean => matches!(value, Value::Bool(_)),
            // Python's booleans are numbers.
            Self::Integer | Self::Float | Self::Number => value.as_number().is_some(),
            Self::String | Self::Secret => matches!(value, Value::Text(_)),
            Self::Object => matches!(value, Value::Object(_)),
            Self::File => matches!(value, Value::File(_)),
            list => match value {
                Value::List(items) => {
                    list.of_items().is_none_or(|kind| items.iter().all(|item| kind.fits(item)))
                }
                _ => false,
            },
        }
    }

    /// The value that a variable has when it is cleared.
    pub fn zero(self) -> Option<Value> {
        Some(match self {
            Self::String => Value::from(""),
            Self::Integer | Self::Number => Value::Int(0),
            Self::Float => Value::Float(0.0),
            Self::Boolean => Value::Bool(false),
            Self::Object => Value::from(super::Object::new()),
            Self::FileList => return None,
            list if list.is_list() => Value::List(std::sync::Arc::default()),
            _ => return None,
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A value with the type of its variable.
#[derive(Clone, Debug)]
pub struct Segment {
    /// The type.
    pub kind: Kind,
    /// The value.
    pub value: Value,
}

impl Segment {
    /// A value with the type that it has by itself.
    pub fn of(value: Value) -> Self {
        Self { kind: Kind::of(&value), value }
    }

    /// A value with a declared type; an error says what it is instead.
    pub fn typed(kind: Kind, value: Value) -> Result<Self, String> {
        let own = Kind::of(&value);
        let fits = match kind {
            _ if matches!(&value, Value::List(items) if items.is_empty()) => kind.is_list(),
            Kind::Number => own.is_number(),
            Kind::Secret => own == Kind::String,
            _ => own == kind,
        };
        if !fits {
            let value = text::python(&value);
            return Err(match own {
                Kind::None => format!("Type mismatch: expected {kind}, but got None"),
                own => format!("Type mismatch: expected {kind}, but got {own}, value={value}"),
            });
        }
        let kind = if matches!(kind, Kind::Number) { own } else { kind };
        Ok(Self { kind, value })
    }

    /// The text in prompts, URLs and bodies.
    pub fn text(&self) -> String {
        let is_empty = matches!(&self.value, Value::List(items) if items.is_empty());
        match self.kind {
            Kind::None | Kind::File | Kind::FileList => String::new(),
            list if list.is_list() && is_empty => String::new(),
            Kind::Object | Kind::StringList => text::json(&self.value),
            _ => text::python(&self.value),
        }
    }

    /// The text in answers.
    pub fn markdown(&self) -> String {
        match (self.kind, &self.value) {
            (Kind::None, _) => String::new(),
            (Kind::Object, value) => text::json_indented(value),
            (Kind::File, Value::File(file)) => file.markdown(),
            (Kind::FileList, Value::List(items)) => {
                let one = |item: &Value| match item {
                    Value::File(file) => file.markdown(),
                    other => text::python(other),
                };
                items.iter().map(one).collect::<Vec<_>>().join("\n")
            }
            (_, Value::List(items)) => {
                let lines: Vec<_> =
                    items.iter().map(|i| format!("- {}", text::python(i))).collect();
                lines.join("\n")
            }
            (_, value) => text::python(value),
        }
    }

    /// The files that it is or holds.
    pub fn files(&self) -> Vec<Value> {
        match (self.kind, &self.value) {
            (Kind::File, file) => vec![file.clone()],
            (Kind::FileList, Value::List(items)) => items.to_vec(),
            _ => Vec::new(),
        }
    }
}

impl From<Value> for Segment {
    fn from(value: Value) -> Self {
        Self::of(value)
    }
}
