//! The types of fields and elements.

use super::Unfit;
use crate::error::{meant, nearest, shortened};
use crate::types::{Object, Rest, Type};

impl Type {
    /// The type that elements of a list need to have.
    pub(crate) fn of_elements(&self) -> Self {
        let lists = self.alternatives().iter().filter_map(|of| match of {
            Self::List(of) => Some((**of).clone()),
            _ => None,
        });
        Self::union(lists)
    }

    /// The type that a field needs to have; an error if no map may have it.
    pub(crate) fn of_field(&self, name: &str) -> Result<Self, Unfit> {
        each(self, |of| match of {
            Self::Map(of) => Ok((**of).clone()),
            Self::Object(object) => object.field(name, false),
            // That it is no map is an error of its own.
            _ => Ok(Self::Dyn),
        })
    }
}

impl Object {
    /// The type of any of its values.
    pub(super) fn any(&self) -> Type {
        let known = self.fields.values().cloned();
        match &self.rest {
            Rest::Closed => Type::union(known),
            Rest::Open => Type::Dyn,
            Rest::Of(of) => Type::union(known.chain([of.clone()])),
        }
    }

    fn field(&self, name: &str, optional: bool) -> Result<Type, Unfit> {
        let names = || self.fields.keys().map(String::as_str);
        match (self.fields.get(name), &self.rest) {
            (Some(of), _) => Ok(of.clone()),
            (None, Rest::Of(of)) => Ok(of.clone()),
            (None, Rest::Open) => match nearest(name, names()) {
                Some(near) if !optional => {
                    Err(Unfit::new(format!("no such key: `{}`", shortened(name)))
                        .hint(format!("did you mean `{near}`? Write `.?{name}` if there are both")))
                }
                _ => Ok(Type::Dyn),
            },
            (None, Rest::Closed) => {
                let few: Vec<String> =
                    names().take(8).map(|name| format!("`{}`", shortened(name))).collect();
                let more = if self.fields.len() > few.len() { ", …" } else { "" };
                let unfit = match few.len() {
                    0 => {
                        Unfit::new(format!("no such key: `{}`, the map is empty", shortened(name)))
                    }
                    _ => Unfit::new(format!(
                        "no such key: `{}`, the map has {}{more}",
                        shortened(name),
                        few.join(", ")
                    )),
                };
                Err(match meant(name, names()) {
                    Some(hint) => unfit.hint(hint),
                    None => unfit,
                })
            }
        }
    }
}

/// The type of `of.name`.
pub(super) fn field(of: &Type, name: &str, optional: bool) -> Result<Type, Unfit> {
    let found = each(of, |of| match of {
        Type::Dyn => Ok(Type::Dyn),
        Type::Map(of) => Ok((**of).clone()),
        Type::Object(object) => object.field(name, optional),
        Type::Optional(of) => field(of, name, true),
        Type::Null if optional => Ok(Type::Null),
        other => {
            let unfit =
                Unfit::new(format!("{} has no field `{}`", other.described(), shortened(name)));
            Err(match other {
                Type::List(_) => {
                    unfit.hint(format!("write list.map(x, x.{name}), or list[0].{name}"))
                }
                _ => unfit,
            })
        }
    })?;
    Ok(if optional { Type::optional(found) } else { found })
}

/// The type of `of[key]`.
pub(super) fn element(of: &Type, key: &Type, optional: bool) -> Result<Type, Unfit> {
    let found = each(of, |of| match of {
        Type::Dyn => Ok(Type::Dyn),
        Type::List(of) => {
            if key.alternatives().iter().any(|key| *key == Type::Dyn || key.is_number()) {
                Ok((**of).clone())
            } else {
                Err(Unfit::new(format!(
                    "the index of a list is a whole number, not {}",
                    key.described()
                )))
            }
        }
        Type::Map(of) => Ok((**of).clone()),
        Type::Object(object) => Ok(object.any()),
        Type::Optional(of) => element(of, key, true),
        Type::Null if optional => Ok(Type::Null),
        other => Err(Unfit::new(format!("{} has no elements", other.described()))),
    })?;
    Ok(if optional { Type::optional(found) } else { found })
}

/// Joins what is possible of the alternatives; an error if nothing is.
pub(super) fn each(of: &Type, find: impl Fn(&Type) -> Result<Type, Unfit>) -> Result<Type, Unfit> {
    let mut types = Vec::new();
    let mut unfit = None;
    for of in of.alternatives() {
        match find(of) {
            Ok(of) => types.push(of),
            // What is wrong with a value says more than what is wrong with null.
            Err(error) if unfit.is_none() || *of != Type::Null => unfit = Some(error),
            Err(_) => {}
        }
    }
    match unfit {
        Some(unfit) if types.is_empty() => Err(unfit),
        _ => Ok(Type::union(types)),
    }
}
