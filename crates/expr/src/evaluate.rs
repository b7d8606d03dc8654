//! Evaluates a syntax tree.

mod fold;
mod operate;

use std::ops::Range;
use std::rc::Rc;

use serde_json::Value as Json;

use crate::error::{Fault, Faulty, meant, shortened};
use crate::meter::Meter;
use crate::syntax::{Entry, Id, Item, Kind, Literal, Node, Operator};
use crate::value::{Key, List, Map, Table, Text, Value};

pub(crate) use operate::{binary, lasting, timestamp};

/// The values that an expression may name.
pub trait Scope {
    /// The value of a name, or nothing if it is absent.
    fn get(&self, name: &str) -> Option<&Json>;

    /// The names that there are, from which messages suggest one.
    fn names(&self) -> Vec<&str> {
        Vec::new()
    }
}

impl Scope for serde_json::Map<String, Json> {
    fn get(&self, name: &str) -> Option<&Json> {
        self.get(name)
    }

    fn names(&self) -> Vec<&str> {
        self.keys().map(String::as_str).collect()
    }
}

/// What a list or map takes for each element, besides what the element holds.
pub(crate) const ELEMENT: usize = 32;

/// Evaluates the node `root`.
pub(crate) fn evaluate<'a>(
    nodes: &'a [Node],
    root: Id,
    scope: &'a dyn Scope,
    meter: &mut Meter,
) -> Faulty<Value<'a>> {
    Evaluation { nodes, scope, meter, locals: Vec::new() }.value(root)
}

pub(crate) struct Evaluation<'a, 'm> {
    nodes: &'a [Node],
    scope: &'a dyn Scope,
    meter: &'m mut Meter,
    /// The variables of macros, outermost first.
    locals: Vec<Value<'a>>,
}

impl<'a> Evaluation<'a, '_> {
    /// The value of a node. The stack grows with each call, so what needs room is elsewhere.
    fn value(&mut self, id: Id) -> Faulty<Value<'a>> {
        let Some(node) = self.nodes.get(id as usize) else {
            return Err(Fault::new("the expression is damaged"));
        };
        match self.meter.step(1).and_then(|()| self.kind(&node.kind)) {
            Err(mut fault) if fault.at.is_none() => {
                fault.at = Some(span(&node.at));
                Err(fault)
            }
            result => result,
        }
    }

    fn kind(&mut self, kind: &'a Kind) -> Faulty<Value<'a>> {
        match kind {
            Kind::Literal(literal) => self.literal(literal),
            Kind::Name { name, optional } => self.name(name, *optional),
            Kind::Local(local) => match self.locals.get(*local as usize) {
                Some(value) => Ok(value.clone()),
                None => Err(Fault::new("the expression is damaged")),
            },
            Kind::TypeName(name) => Ok(Value::Type(*name)),
            Kind::Select { of, key, optional } => {
                let of = self.value(*of)?;
                select(&of, key, *optional)
            }
            Kind::Index { of, key, optional } => {
                let of = self.value(*of)?;
                let key = self.value(*key)?;
                index(&of, &key, *optional)
            }
            Kind::Has(of) => self.has(*of),
            Kind::Call { function, arguments, pattern } => {
                let arguments = self.values(arguments)?;
                match (pattern, arguments.first()) {
                    (Some(pattern), Some(Value::Text(text))) => {
                        pattern.matches(text.as_str(), self.meter)
                    }
                    _ => function.call(&arguments, self.meter),
                }
            }
            Kind::Not(of) => match self.value(*of)? {
                Value::Bool(value) => Ok(Value::Bool(!value)),
                other => Err(Fault::new(format!("`!` needs a bool, not {}", other.described()))),
            },
            Kind::Negate(of) => {
                let value = self.value(*of)?;
                operate::negate(&value)
            }
            Kind::Chain(first, rest) => self.chain(*first, rest),
            Kind::All(operands) => self.decided(operands, false),
            Kind::Any(operands) => self.decided(operands, true),
            Kind::Conditional(condition, yes, no) => match self.value(*condition)? {
                Value::Bool(true) => self.value(*yes),
                Value::Bool(false) => self.value(*no),
                other => Err(Fault::new(format!(
                    "the condition of `?` is {}, not a bool",
                    other.described()
                ))
                .hint("compare it: x != null, x != \"\", size(x) > 0")),
            },
            Kind::List(items) => self.list(items),
            Kind::Map(entries) => self.map(entries),
            Kind::Fold(fold) => self.fold(fold),
            Kind::Bind { value, body, local } => {
                let value = self.value(*value)?;
                self.with(*local, [value], *body)
            }
            Kind::OptMap { of, body, local, flat } => self.opt_map(*of, *body, *local, *flat),
            Kind::First { of, otherwise } => self.first(of, *otherwise),
        }
    }

    #[inline(never)]
    fn literal(&mut self, literal: &'a Literal) -> Faulty<Value<'a>> {
        Ok(match literal {
            Literal::Null => Value::Null,
            Literal::Bool(value) => Value::Bool(*value),
            Literal::Int(number) => Value::Int(*number),
            Literal::Uint(number) => Value::Uint(*number),
            Literal::Double(number) => Value::Double(*number),
            Literal::Text(text) => Value::Text(Text::Borrowed(text)),
            Literal::Bytes(bytes) => {
                self.meter.allocate(bytes.len())?;
                Value::Bytes(Rc::from(&**bytes))
            }
        })
    }

    #[inline(never)]
    fn name(&mut self, name: &str, optional: bool) -> Faulty<Value<'a>> {
        match (self.scope.get(name), optional) {
            (Some(value), false) => Ok(Value::from_json(value)),
            (Some(value), true) => Ok(Value::some(Value::from_json(value))),
            (None, true) => Ok(Value::none()),
            (None, false) => {
                let fault = Fault::new(format!("there is no `{name}` here"));
                Err(match meant(name, self.scope.names()) {
                    Some(hint) => fault.hint(hint),
                    None => fault.hint(format!("write `{name}?` if it may be absent")),
                })
            }
        }
    }

    #[inline(never)]
    fn values(&mut self, ids: &[Id]) -> Faulty<Vec<Value<'a>>> {
        let mut values = Vec::with_capacity(ids.len());
        for id in ids {
            values.push(self.value(*id)?);
        }
        Ok(values)
    }

    /// `a + b - c`, from left to right.
    #[inline(never)]
    fn chain(&mut self, first: Id, rest: &[(Operator, Id)]) -> Faulty<Value<'a>> {
        let mut left = self.value(first)?;
        for (operator, right) in rest {
            self.meter.step(1)?;
            let value = self.value(*right)?;
            left = binary(*operator, &left, &value, self.meter)
                .map_err(|fault| self.placed(fault, first, *right))?;
        }
        Ok(left)
    }

    /// A fault of what stands from the first to the last node.
    fn placed(&self, mut fault: Box<Fault>, first: Id, last: Id) -> Box<Fault> {
        if let (Some(first), Some(last)) =
            (self.nodes.get(first as usize), self.nodes.get(last as usize))
        {
            fault.at.get_or_insert(first.at.start as usize..last.at.end as usize);
        }
        fault
    }

    /// `has(a.b)`; the last access is optional.
    #[inline(never)]
    fn has(&mut self, of: Id) -> Faulty<Value<'a>> {
        match self.value(of)? {
            Value::Optional(found) => Ok(Value::Bool(found.is_some())),
            _ => Ok(Value::Bool(true)),
        }
    }

    /// `&&` and `||`: one operand may decide, and then no other matters, not even if it fails.
    #[inline(never)]
    fn decided(&mut self, operands: &[Id], by: bool) -> Faulty<Value<'a>> {
        let mut failed = None;
        for id in operands {
            match self.value(*id) {
                Ok(Value::Bool(value)) if value == by => return Ok(Value::Bool(by)),
                Ok(Value::Bool(_)) => {}
                Ok(other) => {
                    let sign = if by { "||" } else { "&&" };
                    let mut fault =
                        Fault::new(format!("`{sign}` needs bools, not {}", other.described()))
                            .hint("compare the value: x != null, x != \"\", size(x) > 0");
                    fault.at = self.nodes.get(*id as usize).map(|node| span(&node.at));
                    failed.get_or_insert(fault);
                }
                Err(fault) if fault.limit => return Err(fault),
                Err(fault) => {
                    failed.get_or_insert(fault);
                }
            }
        }
        match failed {
            Some(fault) => Err(fault),
            None => Ok(Value::Bool(!by)),
        }
    }

    #[inline(never)]
    fn list(&mut self, items: &[Item]) -> Faulty<Value<'a>> {
        self.meter.allocate(items.len() * ELEMENT)?;
        let mut list = Vec::with_capacity(items.len());
        for item in items {
            let value = self.value(item.value)?;
            if item.optional {
                list.extend(spread(value)?);
            } else {
                list.push(value);
            }
        }
        Ok(Value::list(list))
    }

    #[inline(never)]
    fn map(&mut self, entries: &[Entry]) -> Faulty<Value<'a>> {
        self.meter.allocate(entries.len() * 2 * ELEMENT)?;
        let mut table = Table::with_capacity(entries.len());
        for entry in entries {
            let key = self.value(entry.key)?;
            let value = self.value(entry.value)?;
            let value = if entry.optional { spread(value)? } else { Some(value) };
            if let Some(value) = value {
                insert(&mut table, &key, value)?;
            }
        }
        Ok(Value::Map(Map::Shared(Rc::new(table))))
    }

    #[inline(never)]
    fn opt_map(&mut self, of: Id, body: Id, local: u32, flat: bool) -> Faulty<Value<'a>> {
        let value = match self.value(of)? {
            Value::Optional(Some(value)) => value,
            Value::Optional(None) => return Ok(Value::none()),
            other => {
                return Err(Fault::new(format!(
                    "`optMap` needs an optional, not {}",
                    other.described()
                ))
                .hint("write value.?field or optional.of(value)"));
            }
        };
        let made = self.with(local, [(*value).clone()], body)?;
        match made {
            Value::Optional(_) if flat => Ok(made),
            other if flat => Err(Fault::new(format!(
                "`optFlatMap` needs an optional from its body, not {}",
                other.described()
            ))
            .hint("write optMap")),
            other => Ok(Value::some(other)),
        }
    }

    #[inline(never)]
    fn first(&mut self, of: &[Id], otherwise: bool) -> Faulty<Value<'a>> {
        let tried = of.len() - usize::from(otherwise);
        for id in of.iter().take(tried) {
            match self.value(*id)? {
                Value::Optional(Some(value)) if !matches!(*value, Value::Null) => {
                    return Ok((*value).clone());
                }
                Value::Optional(_) | Value::Null => {}
                value => return Ok(value),
            }
        }
        match of.last() {
            Some(last) if otherwise => self.value(*last),
            _ => Ok(Value::Null),
        }
    }

    /// Evaluates `body` with variables.
    fn with<const N: usize>(
        &mut self,
        local: u32,
        values: [Value<'a>; N],
        body: Id,
    ) -> Faulty<Value<'a>> {
        self.locals.truncate(local as usize);
        self.locals.extend(values);
        let result = self.value(body);
        self.locals.truncate(local as usize);
        result
    }
}

fn span(at: &Range<u32>) -> Range<usize> {
    at.start as usize..at.end as usize
}

/// The value of an element that stands in the list or map only if it has one.
fn spread(value: Value<'_>) -> Faulty<Option<Value<'_>>> {
    match value {
        Value::Optional(value) => Ok(value.map(|value| (*value).clone())),
        other => Err(Fault::new(format!("`?` here needs an optional, not {}", other.described()))
            .hint("write value.?field or optional.of(value)")),
    }
}

fn insert<'a>(table: &mut Table<'a>, key: &Value<'a>, value: Value<'a>) -> Faulty<()> {
    let found = match key {
        Value::Double(_) => None,
        _ => Key::of(key),
    };
    let Some(key) = found else {
        return Err(Fault::new(format!("a key of a map cannot be {}", key.described()))
            .hint("use a string, a whole number or a bool"));
    };
    if table.contains_key(&key) {
        return Err(Fault::new(format!(
            "the key `{}` stands twice in the map",
            shortened(&key.shown())
        )));
    }
    table.insert(key, value);
    Ok(())
}

/// `of.key`.
fn select<'a>(of: &Value<'a>, key: &str, optional: bool) -> Faulty<Value<'a>> {
    match of {
        Value::Optional(None) => Ok(Value::none()),
        Value::Optional(Some(of)) => select(of, key, true),
        Value::Null if optional => Ok(Value::none()),
        Value::Map(map) => match (map.field(key), optional) {
            (Some(value), false) => Ok(value),
            (Some(value), true) => Ok(Value::some(value)),
            (None, true) => Ok(Value::none()),
            (None, false) => Err(no_key(map, key)),
        },
        other => {
            let fault =
                Fault::new(format!("{} has no field `{}`", other.described(), shortened(key)));
            Err(match other {
                Value::Null => fault.hint(format!("write `?.{key}` if it may be null")),
                Value::List(_) => {
                    fault.hint(format!("write list.map(x, x.{key}), or list[0].{key}"))
                }
                _ => fault,
            })
        }
    }
}

/// `of[key]`.
fn index<'a>(of: &Value<'a>, key: &Value<'a>, optional: bool) -> Faulty<Value<'a>> {
    let found = match (of, key) {
        (Value::Optional(None), _) => return Ok(Value::none()),
        (Value::Optional(Some(of)), _) => return index(of, key, true),
        (Value::Null, _) if optional => return Ok(Value::none()),
        (Value::List(list), _) => match key.as_whole() {
            Some(position) => {
                usize::try_from(position).ok().and_then(|position| list.get(position))
            }
            None => {
                return Err(Fault::new(format!(
                    "the index of a list is a whole number, not {}",
                    key.described()
                )));
            }
        },
        (Value::Map(map), _) => match Key::of(key) {
            Some(key) => map.get(&key),
            None if matches!(key, Value::Double(_)) => None,
            None => {
                return Err(Fault::new(format!("the key of a map cannot be {}", key.described())));
            }
        },
        (other, _) => {
            return Err(Fault::new(format!("{} has no elements", other.described())));
        }
    };
    match (found, optional) {
        (Some(value), true) => Ok(Value::some(value)),
        (Some(value), false) => Ok(value),
        (None, true) => Ok(Value::none()),
        (None, false) => Err(match (of, key) {
            (Value::List(list), _) => outside(list, key),
            (Value::Map(map), Value::Text(text)) => no_key(map, text.as_str()),
            (_, Value::Double(key)) => Fault::new(format!("no such key: {key}")),
            (_, key) => Fault::new(format!(
                "no such key: {}",
                Key::of(key).map_or_else(String::new, |key| key.shown())
            )),
        }),
    }
}

fn outside(list: &List<'_>, index: &Value<'_>) -> Box<Fault> {
    let index = index.as_whole().unwrap_or_default();
    let fault = Fault::new(format!("there is no element {index} in a list of {}", list.len()));
    if index < 0 {
        fault.hint("write list.last() for the last element")
    } else {
        fault.hint("write list[?index] if it may be absent")
    }
}

#[inline(never)]
fn no_key(map: &Map<'_>, key: &str) -> Box<Fault> {
    // Messages name a few keys of whatever a tool answered.
    const NAMED: usize = 8;
    let names: Vec<String> = map.entries().take(64).map(|(key, _)| key.shown()).collect();
    let shown = shortened(key);
    let fault = Fault::new(match names.len() {
        0 => format!("no such key: `{shown}`, the map is empty"),
        _ => {
            let few: Vec<String> =
                names.iter().take(NAMED).map(|name| format!("`{}`", shortened(name))).collect();
            let more = if names.len() > NAMED { ", …" } else { "" };
            format!("no such key: `{shown}`, the map has {}{more}", few.join(", "))
        }
    });
    match meant(key, names.iter().map(String::as_str)) {
        Some(hint) => fault.hint(hint),
        None => {
            fault.hint(format!("write `.?{shown}` or default(…, otherwise) if it may be absent"))
        }
    }
}
