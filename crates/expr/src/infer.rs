//! Infers the type of an expression, and finds operands and arguments that cannot fit.

mod access;
mod operate;

use std::ops::Range;
use std::sync::Arc;

use access::{element, field};
use operate::{binary, negated};

use crate::error::{Error, ErrorKind};
use crate::functions::{Function, Gives, Row};
use crate::syntax::{Entry, Fold, FoldKind, Id, Item, Kind, Literal, Node, Operator};
use crate::types::{Type, Types};

/// The type of the node `root`.
pub(crate) fn infer(nodes: &[Node], root: Id, types: &dyn Types) -> Result<Type, Error> {
    Inference { nodes, types, locals: Vec::new() }.of(root)
}

struct Inference<'e> {
    nodes: &'e [Node],
    types: &'e dyn Types,
    /// The types of the variables of macros, outermost first.
    locals: Vec<Type>,
}

type Inferred = Result<Type, Error>;

/// Why types do not fit, before it is known where.
pub(crate) struct Unfit {
    message: String,
    hint: Option<String>,
}

impl Unfit {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn at(self, at: &Range<u32>) -> Error {
        let at = at.start as usize..at.end as usize;
        Error { hint: self.hint, ..Error::new(ErrorKind::Type, self.message, at) }
    }
}

impl Inference<'_> {
    fn of(&mut self, id: Id) -> Inferred {
        let Some(node) = self.nodes.get(id as usize) else { return Ok(Type::Dyn) };
        let at = &node.at;
        match &node.kind {
            Kind::Literal(literal) => Ok(of_literal(literal)),
            Kind::Name { name, optional } => {
                let of = self.types.of(name);
                Ok(if *optional { Type::optional(of) } else { of })
            }
            Kind::Local(local) => {
                Ok(self.locals.get(*local as usize).cloned().unwrap_or(Type::Dyn))
            }
            Kind::TypeName(_) => Ok(Type::Type),
            Kind::Select { of, key, optional } => {
                let of = self.of(*of)?;
                field(&of, key, *optional).map_err(|unfit| unfit.at(at))
            }
            Kind::Index { of, key, optional } => {
                let of = self.of(*of)?;
                self.index(&of, *key, *optional, at)
            }
            Kind::Has(of) => self.of(*of).map(|_| Type::Bool),
            Kind::Call { function, arguments, .. } => {
                let arguments: Vec<Type> =
                    arguments.iter().map(|id| self.of(*id)).collect::<Result<_, _>>()?;
                call(*function, &arguments).map_err(|unfit| unfit.at(at))
            }
            Kind::Not(of) => self.boolean(*of, "`!` needs a bool"),
            Kind::Negate(of) => {
                let of = self.of(*of)?;
                negated(&of).map_err(|unfit| unfit.at(at))
            }
            Kind::Chain(first, rest) => self.chain(*first, rest),
            Kind::All(operands) => self.booleans(operands, "`&&` needs bools"),
            Kind::Any(operands) => self.booleans(operands, "`||` needs bools"),
            Kind::Conditional(condition, yes, no) => {
                self.boolean(*condition, "the condition of `?` needs to be a bool")?;
                let yes = self.of(*yes)?;
                Ok(yes.join(&self.of(*no)?).bounded())
            }
            Kind::List(items) => self.list(items).map(Type::bounded),
            Kind::Map(entries) => self.map(entries).map(Type::bounded),
            Kind::Fold(fold) => self.fold(fold).map(Type::bounded),
            Kind::Bind { value, body, local } => {
                let value = self.of(*value)?;
                self.with(*local, [value], *body)
            }
            Kind::OptMap { of, body, local, flat } => self.opt_map(*of, *body, *local, *flat),
            Kind::First { of, otherwise } => self.first(of, *otherwise).map(Type::bounded),
        }
    }

    fn at(&self, id: Id) -> Range<u32> {
        self.nodes.get(id as usize).map_or(0..0, |node| node.at.clone())
    }

    fn with<const N: usize>(&mut self, local: u32, types: [Type; N], body: Id) -> Inferred {
        self.locals.truncate(local as usize);
        self.locals.extend(types);
        let of = self.of(body);
        self.locals.truncate(local as usize);
        of
    }

    fn boolean(&mut self, id: Id, wanted: &str) -> Inferred {
        let of = self.of(id)?;
        if of.alternatives().iter().any(|of| matches!(of, Type::Dyn | Type::Bool)) {
            return Ok(Type::Bool);
        }
        let unfit = Unfit::new(format!("{wanted}, not {}", of.described()));
        let unfit = match &of {
            Type::Optional(_) => unfit.hint("write value.orValue(false) or default(value, false)"),
            _ => unfit.hint("compare the value: x != null, x != \"\", size(x) > 0"),
        };
        Err(unfit.at(&self.at(id)))
    }

    fn booleans(&mut self, operands: &[Id], wanted: &str) -> Inferred {
        for id in operands {
            self.boolean(*id, wanted)?;
        }
        Ok(Type::Bool)
    }

    fn index(&mut self, of: &Type, key: Id, optional: bool, at: &Range<u32>) -> Inferred {
        let key_type = self.of(key)?;
        if let Some(Kind::Literal(Literal::Text(name))) =
            self.nodes.get(key as usize).map(|node| &node.kind)
        {
            let lists_only = of.alternatives().iter().all(|of| matches!(of, Type::List(_)));
            if !lists_only {
                return field(of, name, optional).map_err(|unfit| unfit.at(at));
            }
        }
        element(of, &key_type, optional).map_err(|unfit| unfit.at(at))
    }

    fn chain(&mut self, first: Id, rest: &[(Operator, Id)]) -> Inferred {
        let mut left = self.of(first)?;
        for (operator, right) in rest {
            let of = self.of(*right)?;
            left = binary(*operator, &left, &of)
                .map_err(|unfit| unfit.at(&(self.at(first).start..self.at(*right).end)))?;
        }
        Ok(left)
    }

    /// The type of an element that may be absent.
    fn spread(&mut self, id: Id) -> Inferred {
        match self.of(id)? {
            Type::Optional(of) => Ok((*of).clone()),
            Type::Dyn | Type::Union(_) => Ok(Type::Dyn),
            other => {
                Err(Unfit::new(format!("`?` here needs an optional, not {}", other.described()))
                    .hint("write value.?field or optional.of(value)")
                    .at(&self.at(id)))
            }
        }
    }

    fn list(&mut self, items: &[Item]) -> Inferred {
        let mut elements = Vec::with_capacity(items.len());
        for item in items {
            elements.push(if item.optional {
                self.spread(item.value)?
            } else {
                self.of(item.value)?
            });
        }
        Ok(Type::list(Type::union(elements)))
    }

    fn map(&mut self, entries: &[Entry]) -> Inferred {
        let mut fields = Vec::new();
        let mut values = Vec::new();
        for entry in entries {
            let key_type = self.of(entry.key)?;
            let value =
                if entry.optional { self.spread(entry.value)? } else { self.of(entry.value)? };
            let possible = |of: &Type| {
                matches!(of, Type::Dyn | Type::Bool | Type::Int | Type::Uint | Type::Text)
            };
            if !key_type.alternatives().iter().any(possible) {
                return Err(Unfit::new(format!(
                    "a key of a map cannot be {}",
                    key_type.described()
                ))
                .hint("use a string, a whole number or a bool")
                .at(&self.at(entry.key)));
            }
            if let Some(Kind::Literal(Literal::Text(name))) =
                self.nodes.get(entry.key as usize).map(|node| &node.kind)
            {
                fields.push((name.to_string(), value.clone()));
            }
            values.push(value);
        }
        if fields.len() == entries.len() {
            return Ok(Type::object(fields));
        }
        Ok(Type::Map(Arc::new(Type::union(values))))
    }

    fn fold(&mut self, fold: &Fold) -> Inferred {
        let over = self.of(fold.over)?;
        let mut parts: Option<(Type, Type)> = None;
        let mut maps = false;
        for of in over.alternatives() {
            let found = match of {
                Type::Dyn => (Type::Dyn, Type::Dyn),
                Type::List(of) => (Type::Int, (**of).clone()),
                Type::Map(of) => (Type::Dyn, (**of).clone()),
                Type::Object(object) => (Type::Text, object.any()),
                _ => continue,
            };
            maps |= !matches!(of, Type::List(_));
            parts = Some(match parts {
                None => found,
                Some((key, value)) => (key.join(&found.0), value.join(&found.1)),
            });
        }
        let Some((key, value)) = parts else {
            let unfit = Unfit::new(format!(
                "a macro goes through a list or a map, not {}",
                over.described()
            ));
            let unfit = match &over {
                Type::Null | Type::Optional(_) => {
                    unfit.hint("write default(value, []) if it may be absent")
                }
                _ => unfit,
            };
            return Err(unfit.at(&self.at(fold.over)));
        };
        let lists = over.alternatives().iter().any(|of| matches!(of, Type::List(_)));
        // One variable is an element of a list, or a key of a map.
        let element = match (lists, maps) {
            (true, false) => value.clone(),
            (false, true) if over != Type::Dyn => key.clone(),
            _ => Type::Dyn,
        };
        self.locals.truncate(fold.local as usize);
        if fold.two {
            self.locals.extend([key, value]);
        } else {
            self.locals.push(element.clone());
        }
        let result = self.folded(fold, element);
        self.locals.truncate(fold.local as usize);
        result
    }

    fn folded(&mut self, fold: &Fold, element: Type) -> Inferred {
        if let Some(filter) = fold.filter {
            self.boolean(filter, "the filter of a macro needs to be a bool")?;
        }
        Ok(match fold.kind {
            FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne => {
                self.boolean(fold.body, "the condition of a macro needs to be a bool")?
            }
            FoldKind::Filter => {
                self.boolean(fold.body, "the condition of `filter` needs to be a bool")?;
                Type::list(element)
            }
            FoldKind::Map => Type::list(self.of(fold.body)?),
            FoldKind::SortBy => {
                self.of(fold.body)?;
                Type::list(element)
            }
            FoldKind::TransformMap => Type::Map(Arc::new(self.of(fold.body)?)),
            FoldKind::TransformMapEntry => {
                self.of(fold.body)?;
                Type::Map(Arc::new(Type::Dyn))
            }
        })
    }

    fn opt_map(&mut self, of: Id, body: Id, local: u32, flat: bool) -> Inferred {
        let held = match self.of(of)? {
            Type::Optional(held) => (*held).clone(),
            Type::Dyn | Type::Union(_) => Type::Dyn,
            other => {
                return Err(Unfit::new(format!(
                    "`optMap` needs an optional, not {}",
                    other.described()
                ))
                .hint("write value.?field or optional.of(value)")
                .at(&self.at(of)));
            }
        };
        let made = self.with(local, [held], body)?;
        match made {
            made if !flat => Ok(Type::Optional(Arc::new(made))),
            Type::Optional(_) => Ok(made),
            Type::Dyn | Type::Union(_) => Ok(Type::Optional(Arc::new(Type::Dyn))),
            other => Err(Unfit::new(format!(
                "`optFlatMap` needs an optional from its body, not {}",
                other.described()
            ))
            .hint("write optMap")
            .at(&self.at(body))),
        }
    }

    fn first(&mut self, of: &[Id], otherwise: bool) -> Inferred {
        let mut types = Vec::with_capacity(of.len());
        let tried = of.len() - usize::from(otherwise);
        for (index, id) in of.iter().enumerate() {
            let of = match self.of(*id)? {
                Type::Optional(of) if index < tried => (*of).clone(),
                of => of,
            };
            match of {
                Type::Union(all) if index < tried => {
                    types.push(Type::union(all.iter().filter(|of| **of != Type::Null).cloned()));
                }
                // It is passed over.
                Type::Null if index < tried => {}
                of => types.push(of),
            }
        }
        if !otherwise {
            types.push(Type::Null);
        }
        Ok(Type::union(types))
    }
}

fn of_literal(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::Text(_) => Type::Text,
        Literal::Bytes(_) => Type::Bytes,
    }
}

fn call(function: Function, arguments: &[Type]) -> Result<Type, Unfit> {
    let fits = |row: &&Row| {
        row.takes_count(arguments.len())
            && arguments.iter().enumerate().all(|(index, of)| of.may_be(row.parameter(index)))
    };
    let types: Vec<Type> =
        function.rows.iter().filter(fits).map(|row| given(row.gives, arguments)).collect();
    if !types.is_empty() {
        return Ok(Type::union(types));
    }
    let described: Vec<String> = arguments.iter().map(Type::described).collect();
    let unfit = Unfit::new(function.refuses(&described));
    Err(match arguments.first() {
        Some(Type::Optional(_)) => {
            unfit.hint("write value.orValue(otherwise) or default(value, otherwise)")
        }
        _ => unfit.hint(format!("write {}", function.usage())),
    })
}

fn given(gives: Gives, arguments: &[Type]) -> Type {
    let first = || arguments.first().cloned().unwrap_or(Type::Dyn);
    let element = || match arguments.first() {
        Some(Type::List(of) | Type::Optional(of)) => (**of).clone(),
        _ => Type::Dyn,
    };
    match gives {
        Gives::Dyn => Type::Dyn,
        Gives::Bool => Type::Bool,
        Gives::Int => Type::Int,
        Gives::Uint => Type::Uint,
        Gives::Double => Type::Double,
        Gives::Text => Type::Text,
        Gives::Bytes => Type::Bytes,
        Gives::Timestamp => Type::Timestamp,
        Gives::Duration => Type::Duration,
        Gives::Type => Type::Type,
        Gives::Texts => Type::list(Type::Text),
        Gives::Ints => Type::list(Type::Int),
        Gives::Dyns | Gives::Held => Type::list(Type::Dyn),
        Gives::Same => first(),
        Gives::Element => element(),
        // `a.orValue(b)` is one or the other.
        Gives::ElementOr => element().join(arguments.get(1).unwrap_or(&Type::Dyn)),
        Gives::OptionalElement => Type::Optional(Arc::new(element())),
        Gives::Optional => Type::Optional(Arc::new(first())),
        Gives::OptionalDyn => Type::Optional(Arc::new(Type::Dyn)),
    }
}
