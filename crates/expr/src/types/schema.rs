//! Types from JSON Schema.

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value as Json;

use super::{Object, PARTS, Rest, Type};

impl Type {
    /// The type of the values that a JSON Schema allows. What it says in other ways than by
    /// `type`, `properties`, `items`, `enum`, `const`, `anyOf`, `oneOf`, `allOf` and local
    /// `$ref`s is not known.
    pub fn from_schema(schema: &Json) -> Self {
        Reader { root: schema, references: Vec::new(), left: PARTS }.of(schema, 0)
    }
}

/// Keywords by which a schema says more of an object than it shows.
const COMBINED: [&str; 8] = [
    "$ref",
    "$dynamicRef",
    "allOf",
    "anyOf",
    "oneOf",
    "if",
    "dependentSchemas",
    "unevaluatedProperties",
];

/// The deepest nesting.
const DEPTH: usize = 16;

struct Reader<'s> {
    root: &'s Json,
    /// Those that are being resolved: what is recursive is not known.
    references: Vec<&'s str>,
    left: usize,
}

impl<'s> Reader<'s> {
    fn of(&mut self, schema: &'s Json, depth: usize) -> Type {
        if depth > DEPTH || self.left == 0 {
            return Type::Dyn;
        }
        self.left -= 1;
        let Some(object) = schema.as_object() else { return Type::Dyn };
        let of = if let Some(constant) = object.get("const") {
            Type::of_value(constant)
        } else if let Some(Json::Array(values)) = object.get("enum") {
            Type::union(values.iter().take(64).map(Type::of_value))
        } else if object.contains_key("properties") {
            match object.get("type") {
                Some(of) => self.named_any(of, schema, depth),
                None if COMBINED.iter().any(|keyword| object.contains_key(*keyword)) => Type::Dyn,
                None => self.object(schema, depth),
            }
        } else if let Some(Json::String(reference)) = object.get("$ref") {
            self.referenced(reference, depth)
        } else if let Some(Json::Array(any)) = object.get("anyOf").or_else(|| object.get("oneOf")) {
            let types: Vec<Type> = any.iter().map(|schema| self.of(schema, depth + 1)).collect();
            Type::union(types)
        } else if let Some(Json::Array(all)) = object.get("allOf") {
            self.all(all, depth)
        } else {
            match object.get("type") {
                Some(of) => self.named_any(of, schema, depth),
                None => Type::Dyn,
            }
        };
        if object.get("nullable") == Some(&Json::Bool(true)) { of.join(&Type::Null) } else { of }
    }

    /// One name of a type, or a list of names.
    fn named_any(&mut self, names: &Json, schema: &'s Json, depth: usize) -> Type {
        match names {
            Json::String(name) => self.named(name, schema, depth),
            Json::Array(names) => {
                let names = names.iter().filter_map(Json::as_str);
                let types: Vec<Type> = names.map(|name| self.named(name, schema, depth)).collect();
                Type::union(types)
            }
            _ => Type::Dyn,
        }
    }

    fn named(&mut self, name: &str, schema: &'s Json, depth: usize) -> Type {
        match name {
            "null" => Type::Null,
            "boolean" => Type::Bool,
            "integer" => Type::Int,
            "number" => Type::number(),
            "string" => Type::Text,
            "array" => match schema.get("items") {
                // Elements of different types by their places.
                Some(items) if schema.get("prefixItems").is_none() => {
                    Type::list(self.of(items, depth + 1))
                }
                _ => Type::list(Type::Dyn),
            },
            "object" => self.object(schema, depth),
            _ => Type::Dyn,
        }
    }

    fn object(&mut self, schema: &'s Json, depth: usize) -> Type {
        let properties = schema.get("properties").and_then(Json::as_object);
        let mut fields = IndexMap::new();
        for (name, schema) in properties.into_iter().flatten() {
            fields.insert(name.clone(), self.of(schema, depth + 1));
        }
        let rest = match schema.get("additionalProperties") {
            _ if schema.get("patternProperties").is_some() => Rest::Of(Type::Dyn),
            Some(Json::Bool(false)) => Rest::Closed,
            _ if COMBINED.iter().any(|keyword| schema.get(keyword).is_some()) => {
                Rest::Of(Type::Dyn)
            }
            Some(Json::Object(_)) => Rest::Of(
                schema
                    .get("additionalProperties")
                    .map_or(Type::Dyn, |rest| self.of(rest, depth + 1)),
            ),
            Some(_) => Rest::Of(Type::Dyn),
            None => Rest::Open,
        };
        match rest {
            Rest::Of(of) if fields.is_empty() => Type::Map(Arc::new(of)),
            Rest::Open if fields.is_empty() => Type::Map(Arc::new(Type::Dyn)),
            rest => Type::Object(Arc::new(Object { fields, rest })),
        }
    }

    /// All of several: if only one says something, that.
    fn all(&mut self, all: &'s [Json], depth: usize) -> Type {
        let types: Vec<Type> = all.iter().map(|schema| self.of(schema, depth + 1)).collect();
        let mut known = types.into_iter().filter(|of| *of != Type::Dyn);
        match (known.next(), known.next()) {
            (Some(only), None) => only,
            _ => Type::Dyn,
        }
    }

    fn referenced(&mut self, reference: &'s str, depth: usize) -> Type {
        if self.references.contains(&reference) {
            return Type::Dyn;
        }
        let Some(schema) =
            reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer))
        else {
            return Type::Dyn;
        };
        self.references.push(reference);
        let of = self.of(schema, depth + 1);
        self.references.pop();
        of
    }
}

impl Type {
    /// The type of a value, without its parts.
    pub(crate) fn of_value(value: &Json) -> Self {
        match value {
            Json::Null => Self::Null,
            Json::Bool(_) => Self::Bool,
            Json::Number(number) if number.is_f64() => Self::number(),
            Json::Number(_) => Self::Int,
            Json::String(_) => Self::Text,
            Json::Array(_) => Self::list(Self::Dyn),
            Json::Object(_) => Self::Map(Arc::new(Self::Dyn)),
        }
    }
}
