//! What is known of values before evaluation.

mod schema;

use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;

use crate::functions::Takes;

/// The type of a value, as far as it is known.
///
/// Numbers that JSON Schema calls `number` are a union of int and double.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Type {
    /// Unknown: nothing is checked.
    Dyn,
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A whole number.
    Int,
    /// A whole number without a sign, which only expressions make.
    Uint,
    /// A number with a fraction.
    Double,
    /// A string.
    Text,
    /// Bytes, which become base64 in JSON.
    Bytes,
    /// A list of elements of a type.
    List(Arc<Type>),
    /// A map whose keys are not known.
    Map(Arc<Type>),
    /// A map some of whose keys are known.
    Object(Arc<Object>),
    /// A timestamp, which becomes a string in JSON.
    Timestamp,
    /// A duration, which becomes a string in JSON.
    Duration,
    /// A type.
    Type,
    /// A value that may be absent.
    Optional(Arc<Type>),
    /// One of several.
    Union(Arc<[Type]>),
}

/// The known fields of a map.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    pub(crate) fields: IndexMap<String, Type>,
    pub(crate) rest: Rest,
}

/// What fields there are besides the known ones.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Rest {
    /// None.
    Closed,
    /// Nobody says. Another field is allowed unless it looks like a misspelt one.
    Open,
    /// Any, of this type.
    Of(Type),
}

/// The types of the names of a scope.
pub trait Types {
    /// The type of a name; [`Type::Dyn`] if it is not known.
    fn of(&self, name: &str) -> Type;
}

impl<S: std::hash::BuildHasher> Types for std::collections::HashMap<String, Type, S> {
    fn of(&self, name: &str) -> Type {
        self.get(name).cloned().unwrap_or(Type::Dyn)
    }
}

/// The most alternatives of a union; more are [`Type::Dyn`].
const ALTERNATIVES: usize = 8;

/// The most parts of a type.
const PARTS: usize = 2_000;

/// How deep types are looked into. What lies below is unknown.
const DEPTH: usize = 8;

impl Type {
    /// A list of elements of a type.
    pub fn list(of: Self) -> Self {
        Self::List(Arc::new(of))
    }

    /// A map that has these fields and no others.
    pub fn object(fields: impl IntoIterator<Item = (String, Self)>) -> Self {
        Self::Object(Arc::new(Object { fields: fields.into_iter().collect(), rest: Rest::Closed }))
    }

    /// Any of the types.
    pub fn union(types: impl IntoIterator<Item = Self>) -> Self {
        types.into_iter().reduce(|a, b| a.join(&b)).unwrap_or(Self::Dyn)
    }

    pub(crate) fn number() -> Self {
        Self::union([Self::Int, Self::Double])
    }

    pub(crate) fn optional(of: Self) -> Self {
        match of {
            Self::Optional(_) => of,
            of => Self::Optional(Arc::new(of)),
        }
    }

    /// What a value of this type is in JSON.
    pub(crate) fn in_json(&self) -> Self {
        match self {
            Self::Optional(of) => of.in_json().join(&Self::Null),
            Self::Uint => Self::Int,
            Self::Bytes | Self::Timestamp | Self::Duration | Self::Type => Self::Text,
            Self::List(of) => Self::list(of.in_json()),
            Self::Map(of) => Self::Map(Arc::new(of.in_json())),
            Self::Object(object) if matches!(object.rest, Rest::Closed) => {
                Self::object(object.fields.iter().map(|(key, of)| (key.clone(), of.in_json())))
            }
            Self::Union(types) => Self::union(types.iter().map(Self::in_json)),
            other => other.clone(),
        }
    }

    /// The type, unless it has more parts than are worth knowing. Types share parts, so
    /// small ones can stand for very large ones.
    pub(crate) fn bounded(self) -> Self {
        let mut left = PARTS;
        self.count(&mut left);
        if left == 0 { Self::Dyn } else { self }
    }

    /// Takes the number of parts from `left`.
    fn count(&self, left: &mut usize) {
        *left = left.saturating_sub(1);
        if *left == 0 {
            return;
        }
        match self {
            Self::List(of) | Self::Map(of) | Self::Optional(of) => of.count(left),
            Self::Union(types) => types.iter().for_each(|of| of.count(left)),
            Self::Object(object) => {
                object.fields.values().for_each(|of| of.count(left));
                if let Rest::Of(of) = &object.rest {
                    of.count(left);
                }
            }
            _ => {}
        }
    }

    /// The alternatives of a union, or the type itself.
    pub(crate) fn alternatives(&self) -> &[Self] {
        match self {
            Self::Union(types) => types,
            other => std::slice::from_ref(other),
        }
    }

    pub(crate) fn is_number(&self) -> bool {
        matches!(self, Self::Int | Self::Uint | Self::Double)
    }

    /// The type of a value that is of one or the other.
    pub(crate) fn join(&self, other: &Self) -> Self {
        self.join_at(other, 0)
    }

    fn join_at(&self, other: &Self, depth: usize) -> Self {
        match (self, other) {
            (Self::Dyn, _) | (_, Self::Dyn) => Self::Dyn,
            _ if depth > DEPTH => Self::Dyn,
            (Self::List(a), Self::List(b)) => Self::List(joined(a, b, depth)),
            (Self::Map(a), Self::Map(b)) => Self::Map(joined(a, b, depth)),
            (Self::Optional(a), Self::Optional(b)) => Self::Optional(joined(a, b, depth)),
            (Self::Object(a), Self::Object(b)) if Arc::ptr_eq(a, b) => self.clone(),
            (Self::Object(a), Self::Object(b)) => Self::Object(Arc::new(a.join(b, depth))),
            _ => {
                let mut types = self.alternatives().to_vec();
                for other in other.alternatives() {
                    // Types of one kind become one.
                    match types.iter_mut().find(|known| known.is_like(other)) {
                        Some(known) if known.is_plain() => {}
                        Some(known) => *known = known.join_at(other, depth + 1),
                        None => types.push(other.clone()),
                    }
                }
                match types.len() {
                    1 => types.pop().unwrap_or(Self::Dyn),
                    2..=ALTERNATIVES => Self::Union(types.into()),
                    _ => Self::Dyn,
                }
            }
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// Whether it has no parts.
    fn is_plain(&self) -> bool {
        !matches!(
            self,
            Self::List(_) | Self::Map(_) | Self::Object(_) | Self::Optional(_) | Self::Union(_)
        )
    }

    /// Whether a value of this type may be an argument.
    pub(crate) fn may_be(&self, takes: Takes) -> bool {
        self.alternatives().iter().any(|of| match (of, takes) {
            (Self::Dyn, _) | (_, Takes::Any | Takes::Rest) => true,
            (of, Takes::Whole | Takes::Number) => of.is_number(),
            // What JSON calls an integer may be larger than an int.
            (Self::Int | Self::Uint, Takes::Uint)
            | (Self::Text, Takes::Text)
            | (Self::Bytes, Takes::Bytes)
            | (Self::List(_), Takes::List)
            | (Self::Map(_) | Self::Object(_), Takes::Map)
            | (Self::Timestamp, Takes::Timestamp)
            | (Self::Duration, Takes::Duration)
            | (Self::Optional(_), Takes::Optional) => true,
            _ => false,
        })
    }

    /// Whether a value of this type can be one of the wanted type. Unknown types can be
    /// anything; of a union one alternative suffices.
    pub fn can_be(&self, wanted: &Self) -> bool {
        self.can_be_at(wanted, 0)
    }

    fn can_be_at(&self, wanted: &Self, depth: usize) -> bool {
        if depth > DEPTH {
            return true;
        }
        match (self, wanted) {
            (Self::Dyn, _) | (_, Self::Dyn) => true,
            (Self::Union(types), wanted) => types.iter().any(|of| of.can_be_at(wanted, depth + 1)),
            (of, Self::Union(types)) => types.iter().any(|wanted| of.can_be_at(wanted, depth + 1)),
            (Self::Optional(of), wanted) => {
                matches!(wanted, Self::Null) || of.can_be_at(wanted, depth + 1)
            }
            // An empty list is one of anything, so elements decide only if they are known.
            (Self::List(of), Self::List(wanted)) => of.can_be_at(wanted, depth + 1),
            (Self::Map(of), Self::Map(wanted)) => of.can_be_at(wanted, depth + 1),
            (Self::Map(_), Self::Object(_)) => true,
            (Self::Object(object), Self::Map(wanted)) => {
                object.fields.values().all(|of| of.can_be_at(wanted, depth + 1))
            }
            (Self::Object(object), Self::Object(wanted)) => {
                wanted.fields.iter().all(|(name, wanted)| match object.fields.get(name) {
                    Some(of) => of.can_be_at(wanted, depth + 1),
                    None => true,
                })
            }
            (of, wanted) if of.is_number() => wanted.is_number(),
            (of, wanted) => of.is_like(wanted),
        }
    }

    /// With an article, as messages say it.
    pub(crate) fn described(&self) -> String {
        match self {
            Self::Dyn => "a value".to_owned(),
            Self::Null => "null".to_owned(),
            Self::Bytes => "bytes".to_owned(),
            Self::Int => "an int".to_owned(),
            Self::Optional(_) => format!("an {self}"),
            Self::Object(_) => "a map".to_owned(),
            Self::Union(types) if *self == Self::number() && types.len() == 2 => {
                "a number".to_owned()
            }
            Self::Union(types) => {
                let all: Vec<String> = types.iter().map(Self::described).collect();
                all.join(" or ")
            }
            other => format!("a {other}"),
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        let name = match self {
            Self::Dyn => "dyn",
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::Text => "string",
            Self::Bytes => "bytes",
            Self::Timestamp => "timestamp",
            Self::Duration => "duration",
            Self::Type => "type",
            Self::Object(_) => "map",
            Self::List(_) | Self::Map(_) | Self::Optional(_) if depth > DEPTH => "…",
            Self::List(of) => return inner(f, "list", of, depth),
            Self::Map(of) => return inner(f, "map", of, depth),
            Self::Optional(of) => return inner(f, "optional", of, depth),
            Self::Union(types) => {
                for (index, of) in types.iter().enumerate() {
                    if index > 0 {
                        f.write_str(" | ")?;
                    }
                    of.write(f, depth + 1)?;
                }
                return Ok(());
            }
        };
        f.write_str(name)
    }
}

/// `list(string)`, or `list` if nothing is known of the elements.
fn inner(f: &mut fmt::Formatter<'_>, name: &str, of: &Type, depth: usize) -> fmt::Result {
    f.write_str(name)?;
    if *of == Type::Dyn {
        return Ok(());
    }
    f.write_str("(")?;
    of.write(f, depth + 1)?;
    f.write_str(")")
}

fn joined(a: &Arc<Type>, b: &Arc<Type>, depth: usize) -> Arc<Type> {
    if Arc::ptr_eq(a, b) { a.clone() } else { Arc::new(a.join_at(b, depth + 1)) }
}

impl Object {
    fn join(&self, other: &Self, depth: usize) -> Self {
        let mut fields = IndexMap::new();
        for (name, of) in &self.fields {
            let both = match other.fields.get(name) {
                Some(other) => of.join_at(other, depth + 1),
                None => Type::Dyn,
            };
            fields.insert(name.clone(), both);
        }
        for name in other.fields.keys() {
            fields.entry(name.clone()).or_insert(Type::Dyn);
        }
        let rest = match (&self.rest, &other.rest) {
            (Rest::Closed, Rest::Closed) => Rest::Closed,
            (Rest::Of(a), Rest::Of(b)) => Rest::Of(a.join_at(b, depth + 1)),
            (Rest::Of(_), _) | (_, Rest::Of(_)) => Rest::Of(Type::Dyn),
            _ => Rest::Open,
        };
        Self { fields, rest }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}
