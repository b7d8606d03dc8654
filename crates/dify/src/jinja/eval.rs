//! Runs the syntax tree, within its limits.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use super::syntax::{Arguments, Comparison, Expr, FilterCall, Macro, Node, Operator, Target, What};
use super::{JinjaError, Limits, Missing, filter, method};
use crate::value::number::{compare, truncate};
use crate::value::text::{Bounded, write_python};
use crate::value::{Object, Value};

/// How deep values may nest.
const MAX_DEPTH: usize = 40;
/// How deep expressions, blocks and macros may nest, all together.
const MAX_NESTING: usize = 150;
/// The longest `range`.
const MAX_RANGE: i128 = 100_000;

/// What an expression gives.
#[derive(Clone)]
pub(super) enum Got {
    Plain(Value),
    /// Nothing is there; with the message for whoever uses it.
    Undefined(Rc<str>),
    Namespace(Rc<RefCell<Object>>),
    Macro(Rc<Macro>),
}

impl From<Value> for Got {
    fn from(value: Value) -> Self {
        Self::Plain(value)
    }
}

/// The arguments of a call, evaluated.
#[derive(Default)]
pub(super) struct Given {
    pub(super) list: Vec<Value>,
    pub(super) named: Vec<(String, Value)>,
}

impl Given {
    /// The argument at a place, or of a name.
    pub(super) fn get(&self, at: usize, name: &str) -> Option<&Value> {
        let named = || self.named.iter().find(|(known, _)| known == name).map(|(_, value)| value);
        self.list.get(at).or_else(named)
    }
}

pub(super) fn render(
    nodes: &[Node],
    variables: &Object,
    missing: Missing,
    limits: Limits,
) -> Result<String, JinjaError> {
    let mut run = Run {
        globals: variables,
        scopes: vec![HashMap::new()],
        missing,
        limits,
        steps: limits.steps,
        memory: limits.memory,
        nesting: 0,
        line: 0,
    };
    let mut out = String::new();
    run.nodes(nodes, &mut out).map_err(|error| error.at(run.line))?;
    if out.chars().count() > limits.output {
        let bound = limits.output;
        return Err(JinjaError::new(format!("Output length exceeds {bound} characters")));
    }
    Ok(out)
}

/// A run of a template.
pub(super) struct Run<'t> {
    globals: &'t Object,
    scopes: Vec<HashMap<String, Got>>,
    missing: Missing,
    limits: Limits,
    steps: usize,
    memory: usize,
    nesting: usize,
    line: u32,
}

type Result_<T> = Result<T, JinjaError>;

pub(super) fn fail<T>(message: impl Into<String>) -> Result_<T> {
    Err(JinjaError::new(message))
}

impl Run<'_> {
    /// Pays for steps.
    pub(super) fn spend(&mut self, steps: usize) -> Result_<()> {
        match self.steps.checked_sub(steps) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => fail(format!("the template takes more than {} steps", self.limits.steps)),
        }
    }

    /// Pays for memory.
    pub(super) fn allocate(&mut self, bytes: usize) -> Result_<()> {
        match self.memory.checked_sub(bytes) {
            Some(left) => {
                self.memory = left;
                Ok(())
            }
            None => fail(format!("the template makes more than {} bytes", self.limits.memory)),
        }
    }

    /// A text that was made.
    pub(super) fn text(&mut self, text: String) -> Result_<Value> {
        self.allocate(text.len() + 16)?;
        Ok(Value::from(text))
    }

    /// A list that was made.
    pub(super) fn list(&mut self, items: Vec<Value>) -> Result_<Value> {
        self.allocate(items.len() * 32 + 32)?;
        let value = Value::List(Arc::new(items));
        self.check_depth(&value, MAX_DEPTH)?;
        Ok(value)
    }

    /// An object that was made.
    pub(super) fn object(&mut self, entries: Object) -> Result_<Value> {
        let keys: usize = entries.keys().map(String::len).sum();
        self.allocate(entries.len() * 64 + keys + 64)?;
        let value = Value::from(entries);
        self.check_depth(&value, MAX_DEPTH)?;
        Ok(value)
    }

    /// Values that hold themselves again and again would end the stack.
    fn check_depth(&mut self, value: &Value, left: usize) -> Result_<()> {
        self.spend(1)?;
        if left == 0 {
            return fail(format!("values are nested more than {MAX_DEPTH} levels deep"));
        }
        match value {
            Value::List(items) => items.iter().try_for_each(|item| match item {
                Value::List(_) | Value::Object(_) => self.check_depth(item, left - 1),
                _ => Ok(()),
            }),
            Value::Object(entries) => entries.values().try_for_each(|item| match item {
                Value::List(_) | Value::Object(_) => self.check_depth(item, left - 1),
                _ => Ok(()),
            }),
            _ => Ok(()),
        }
    }

    /// The text of a value, paid for.
    pub(super) fn python(&mut self, value: &Value) -> Result_<String> {
        let mut out = Bounded::new(self.memory);
        if write_python(value, &mut out).is_err() {
            return fail(format!("the template makes more than {} bytes", self.limits.memory));
        }
        self.allocate(out.text.len())?;
        Ok(out.text)
    }

    /// Pays for looking at all of a value.
    pub(super) fn look_at(&mut self, value: &Value) -> Result_<()> {
        self.spend(match value {
            Value::Text(text) => text.len() / 64,
            Value::List(_) | Value::Object(_) => value.weight(self.steps.saturating_mul(16)) / 16,
            _ => 1,
        })
    }

    /// A value that must be there.
    pub(super) fn plain(&self, got: Got) -> Result_<Value> {
        match got {
            Got::Plain(value) => Ok(value),
            Got::Undefined(message) => match self.missing {
                Missing::Fails => fail(&*message),
                Missing::IsEmpty => Ok(Value::from("")),
            },
            Got::Namespace(entries) => Ok(Value::from(entries.borrow().clone())),
            Got::Macro(made) => Ok(Value::from(format!("<Macro '{}'>", made.name))),
        }
    }

    fn is_truthy(&self, got: &Got) -> Result_<bool> {
        match got {
            Got::Plain(value) => Ok(value.is_truthy()),
            Got::Undefined(message) => match self.missing {
                Missing::Fails => fail(&**message),
                Missing::IsEmpty => Ok(false),
            },
            Got::Namespace(_) | Got::Macro(_) => Ok(true),
        }
    }

    fn nodes(&mut self, nodes: &[Node], out: &mut String) -> Result_<()> {
        self.nested(|run| {
            nodes.iter().try_for_each(|node| {
                run.line = node.line;
                let done = run.node(&node.what, out);
                done.map_err(|error| error.at(node.line))
            })
        })
    }

    /// One level deeper: the stack bounds how far expressions, blocks and macros nest.
    fn nested<T>(&mut self, inside: impl FnOnce(&mut Self) -> Result_<T>) -> Result_<T> {
        if self.nesting >= MAX_NESTING {
            return fail("expressions, blocks and macros are nested too deeply");
        }
        self.nesting += 1;
        let done = inside(self);
        self.nesting -= 1;
        done
    }

    /// Writes to the result or to what a block captures.
    fn write(&mut self, part: &str, out: &mut String) -> Result_<()> {
        self.allocate(part.len())?;
        out.push_str(part);
        Ok(())
    }

    fn node(&mut self, node: &What, out: &mut String) -> Result_<()> {
        self.spend(1)?;
        match node {
            What::Text(text) => self.write(text, out),
            What::Print(expr) => {
                let value = self.value(expr)?;
                match &value {
                    Value::Text(text) => self.write(text, out),
                    other => {
                        let text = self.python(other)?;
                        out.push_str(&text);
                        Ok(())
                    }
                }
            }
            What::For { targets, over, only, body, otherwise } => {
                self.for_loop(targets, over, only.as_ref(), body, otherwise, out)
            }
            What::If { cases, otherwise } => {
                for (test, body) in cases {
                    let got = self.got(test)?;
                    if self.is_truthy(&got)? {
                        return self.nodes(body, out);
                    }
                }
                self.nodes(otherwise, out)
            }
            What::Set { targets, value } => {
                let got = self.got(value)?;
                if let [target] = targets.as_slice() {
                    return self.assign(target, got);
                }
                let items = self.plain(got).and_then(|value| self.items(&value))?;
                if items.len() != targets.len() {
                    return fail(format!("expected {} values, got {}", targets.len(), items.len()));
                }
                let mut pairs = targets.iter().zip(items);
                pairs.try_for_each(|(target, item)| self.assign(target, item.into()))
            }
            What::SetBlock { target, filters, body } => {
                let text = self.capture(filters, body)?;
                self.assign(target, text.into())
            }
            What::Filter { filters, body } => {
                let value = self.capture(filters, body)?;
                let text = self.python(&value)?;
                out.push_str(&text);
                Ok(())
            }
            What::With { names, body } => {
                let mut scope = HashMap::new();
                for (name, expr) in names {
                    scope.insert(name.clone(), self.got(expr)?);
                }
                self.scoped(scope, |run| run.nodes(body, out))
            }
            What::Macro(made) => {
                self.assign(&Target::Name(made.name.clone()), Got::Macro(Rc::clone(made)))
            }
        }
    }

    fn scoped<T>(
        &mut self,
        scope: HashMap<String, Got>,
        inside: impl FnOnce(&mut Self) -> Result_<T>,
    ) -> Result_<T> {
        self.scopes.push(scope);
        let done = inside(self);
        self.scopes.pop();
        done
    }

    fn capture(&mut self, filters: &[FilterCall], body: &[Node]) -> Result_<Value> {
        let mut text = String::new();
        self.scoped(HashMap::new(), |run| run.nodes(body, &mut text))?;
        let mut value = Value::from(text);
        for call in filters {
            let given = self.given(&call.arguments)?;
            let got = filter::apply(self, &call.name, value.into(), &given)?;
            value = self.plain(got)?;
        }
        Ok(value)
    }

    fn assign(&mut self, target: &Target, got: Got) -> Result_<()> {
        self.allocate(64)?;
        match target {
            Target::Name(name) => {
                if let Some(scope) = self.scopes.last_mut() {
                    scope.insert(name.clone(), got);
                }
                Ok(())
            }
            Target::Attribute(name, attribute) => match self.find(name) {
                Got::Namespace(entries) => {
                    let value = self.plain(got)?;
                    entries.borrow_mut().insert(attribute.clone(), value);
                    Ok(())
                }
                _ => fail("cannot assign attribute on non-namespace object"),
            },
        }
    }

    fn for_loop(
        &mut self,
        targets: &[String],
        over: &Expr,
        only: Option<&Expr>,
        body: &[Node],
        otherwise: &[Node],
        out: &mut String,
    ) -> Result_<()> {
        let got = self.got(over)?;
        let items = match &got {
            Got::Undefined(_) if self.missing == Missing::IsEmpty => Vec::new(),
            _ => self.plain(got).and_then(|value| self.items(&value))?,
        };
        let mut kept = Vec::new();
        for item in items {
            let scope = self.bind(targets, &item)?;
            let keep = match only {
                None => true,
                Some(test) => self.scoped(scope, |run| {
                    let got = run.got(test)?;
                    run.is_truthy(&got)
                })?,
            };
            if keep {
                kept.push(item);
            }
        }
        if kept.is_empty() {
            return self.nodes(otherwise, out);
        }
        for at in 0..kept.len() {
            self.spend(1)?;
            let mut scope = self.bind(targets, &kept[at])?;
            scope.insert("loop".to_owned(), Got::Plain(self.loop_state(at, &kept)?));
            self.scoped(scope, |run| run.nodes(body, out))?;
        }
        Ok(())
    }

    fn loop_state(&mut self, at: usize, items: &[Value]) -> Result_<Value> {
        let length = items.len();
        let mut state = Object::new();
        for (name, count) in [
            ("index", at + 1),
            ("index0", at),
            ("revindex", length - at),
            ("revindex0", length - at - 1),
            ("length", length),
        ] {
            state.insert(name.to_owned(), count.into());
        }
        state.insert("first".to_owned(), (at == 0).into());
        state.insert("last".to_owned(), (at + 1 == length).into());
        if let Some(before) = at.checked_sub(1) {
            state.insert("previtem".to_owned(), items[before].clone());
        }
        if let Some(after) = items.get(at + 1) {
            state.insert("nextitem".to_owned(), after.clone());
        }
        Ok(Value::from(state))
    }

    fn bind(&mut self, targets: &[String], item: &Value) -> Result_<HashMap<String, Got>> {
        if let [target] = targets {
            return Ok(HashMap::from([(target.clone(), item.clone().into())]));
        }
        let parts = self.items(item)?;
        if parts.len() != targets.len() {
            return fail(format!("expected {} values, got {}", targets.len(), parts.len()));
        }
        Ok(targets.iter().cloned().zip(parts.into_iter().map(Got::Plain)).collect())
    }

    /// What a loop over a value sees: items, keys, or characters.
    pub(super) fn items(&mut self, value: &Value) -> Result_<Vec<Value>> {
        let items: Vec<Value> = match value {
            Value::List(items) => items.to_vec(),
            Value::Object(entries) => entries.keys().map(|key| key.as_str().into()).collect(),
            Value::Text(text) => {
                self.allocate(text.len().saturating_mul(16))?;
                text.chars().map(|c| Value::from(c.to_string())).collect()
            }
            other => return fail(format!("'{}' object is not iterable", other.python_type())),
        };
        self.spend(items.len())?;
        self.allocate(items.len() * 32)?;
        Ok(items)
    }

    fn find(&self, name: &str) -> Got {
        let local = self.scopes.iter().rev().find_map(|scope| scope.get(name)).cloned();
        local
            .or_else(|| self.globals.get(name).cloned().map(Got::Plain))
            .unwrap_or_else(|| Got::Undefined(format!("'{name}' is undefined").into()))
    }

    pub(super) fn value(&mut self, expr: &Expr) -> Result_<Value> {
        let got = self.got(expr)?;
        self.plain(got)
    }

    pub(super) fn got(&mut self, expr: &Expr) -> Result_<Got> {
        self.spend(1)?;
        self.nested(|run| run.evaluate(expr))
    }

    fn evaluate(&mut self, expr: &Expr) -> Result_<Got> {
        Ok(match expr {
            Expr::Constant(value) => value.clone().into(),
            Expr::Name(name) => self.find(name),
            Expr::List(items) => {
                let items = items.iter().map(|item| self.value(item)).collect::<Result_<_>>()?;
                self.list(items)?.into()
            }
            Expr::Dict(entries) => {
                let mut object = Object::new();
                for (key, item) in entries {
                    let key = self.value(key)?;
                    object.insert(self.python(&key)?, self.value(item)?);
                }
                self.object(object)?.into()
            }
            Expr::Attribute(base, name) => {
                let base = self.got(base)?;
                self.attribute(base, name)?
            }
            Expr::Item(base, key) => {
                let base = self.got(base)?;
                let key = self.value(key)?;
                self.item(base, &key)?
            }
            Expr::Slice(base, parts) => self.slice(base, parts)?.into(),
            Expr::Call(callee, arguments) => return self.call(callee, arguments),
            Expr::Filter(base, call) => {
                let base = self.got(base)?;
                let given = self.given(&call.arguments)?;
                filter::apply(self, &call.name, base, &given)?
            }
            Expr::Test(base, call, negated) => {
                let base = self.got(base)?;
                let given = self.given(&call.arguments)?;
                Value::Bool(filter::test(self, &call.name, base, &given)? != *negated).into()
            }
            Expr::Not(inner) => {
                let got = self.got(inner)?;
                Value::Bool(!self.is_truthy(&got)?).into()
            }
            Expr::Negative(inner) => {
                let value = self.value(inner)?;
                self.binary(Operator::Subtract, &Value::Int(0), &value)?.into()
            }
            Expr::Binary(operator, left, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                self.binary(*operator, &left, &right)?.into()
            }
            Expr::Concat(parts) => {
                let mut text = String::new();
                for part in parts {
                    let value = self.value(part)?;
                    text.push_str(&self.python(&value)?);
                }
                self.text(text)?.into()
            }
            Expr::Compare(first, rest) => Value::Bool(self.comparisons(first, rest)?).into(),
            Expr::And(all) => return self.first_that(all, false),
            Expr::Or(all) => return self.first_that(all, true),
            Expr::Choice(test, value, otherwise) => {
                let got = self.got(test)?;
                match (self.is_truthy(&got)?, otherwise) {
                    (true, _) => return self.got(value),
                    (false, Some(otherwise)) => return self.got(otherwise),
                    // Jinja prints nothing here, even where missing variables fail.
                    (false, None) => Value::from("").into(),
                }
            }
        })
    }

    fn first_that(&mut self, all: &[Expr], wanted: bool) -> Result_<Got> {
        let mut last = Got::Plain(Value::Null);
        for expr in all {
            last = self.got(expr)?;
            if self.is_truthy(&last)? == wanted {
                break;
            }
        }
        Ok(last)
    }

    pub(super) fn attribute(&mut self, base: Got, name: &str) -> Result_<Got> {
        let found = match &base {
            Got::Namespace(entries) => entries.borrow().get(name).cloned(),
            Got::Undefined(message) => return fail(&**message),
            Got::Plain(Value::Object(entries)) => entries.get(name).cloned(),
            // Groups are pairs, and have names for their parts.
            Got::Plain(Value::List(items)) if items.len() == 2 => match name {
                "grouper" => items.first().cloned(),
                "list" => items.get(1).cloned(),
                _ => None,
            },
            _ => None,
        };
        Ok(match (found, base) {
            (Some(value), _) => value.into(),
            (None, Got::Plain(value)) => {
                let class = value.python_type();
                Got::Undefined(format!("'{class} object' has no attribute '{name}'").into())
            }
            (None, _) => Got::Undefined(format!("no attribute '{name}'").into()),
        })
    }

    pub(super) fn item(&mut self, base: Got, key: &Value) -> Result_<Got> {
        let base = match base {
            Got::Undefined(message) => return fail(&*message),
            base => self.plain(base)?,
        };
        let found = match (&base, key) {
            (Value::Object(entries), Value::Text(key)) => entries.get(&**key).cloned(),
            (Value::Object(entries), key) => entries.get(&self.python(key)?).cloned(),
            (Value::List(items), Value::Int(at)) => {
                position(*at, items.len()).and_then(|at| items.get(at).cloned())
            }
            (Value::Text(text), Value::Int(at)) => {
                let count = text.chars().count();
                self.spend(count / 64)?;
                let at = position(*at, count);
                at.and_then(|at| text.chars().nth(at)).map(|c| Value::from(c.to_string()))
            }
            _ => None,
        };
        Ok(found.map_or_else(
            || {
                let key = crate::value::text::python(key);
                let class = base.python_type();
                Got::Undefined(format!("'{class} object' has no attribute '{key}'").into())
            },
            Got::Plain,
        ))
    }

    fn slice(&mut self, base: &Expr, parts: &[Option<Box<Expr>>; 3]) -> Result_<Value> {
        let base = self.value(base)?;
        let mut bounds = [None; 3];
        for (bound, part) in bounds.iter_mut().zip(parts) {
            if let Some(part) = part {
                *bound = match self.value(part)? {
                    Value::Int(int) => Some(int),
                    Value::Null => None,
                    _ => return fail("slice indices must be integers"),
                };
            }
        }
        let items = match &base {
            Value::List(_) | Value::Text(_) => self.items(&base)?,
            other => return fail(format!("'{}' object is not sliceable", other.python_type())),
        };
        let step = bounds[2].unwrap_or(1);
        if step == 0 {
            return fail("slice step cannot be zero");
        }
        let length = i128::try_from(items.len()).unwrap_or(0);
        let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
        let clamp = |bound: i128| if bound < 0 { bound + length } else { bound }.clamp(low, high);
        let start = bounds[0].map_or(if step > 0 { 0 } else { length - 1 }, clamp);
        let stop = bounds[1].map_or(if step > 0 { length } else { -1 }, clamp);
        let mut taken = Vec::new();
        let mut at = start;
        while (step > 0 && at < stop) || (step < 0 && at > stop) {
            if let Some(item) = usize::try_from(at).ok().and_then(|at| items.get(at)) {
                taken.push(item.clone());
            }
            at = match at.checked_add(step) {
                Some(next) => next,
                None => break,
            };
        }
        match base {
            Value::Text(_) => {
                let text = taken.iter().filter_map(Value::as_text).collect();
                self.text(text)
            }
            _ => self.list(taken),
        }
    }

    pub(super) fn given(&mut self, arguments: &Arguments) -> Result_<Given> {
        let list = arguments.list.iter().map(|expr| self.value(expr)).collect::<Result_<_>>()?;
        let named = arguments.named.iter();
        let named = named.map(|(name, expr)| Ok((name.clone(), self.value(expr)?)));
        Ok(Given { list, named: named.collect::<Result_<_>>()? })
    }

    fn call(&mut self, callee: &Expr, arguments: &Arguments) -> Result_<Got> {
        let given = self.given(arguments)?;
        match callee {
            Expr::Attribute(base, name) => {
                let receiver = self.got(base)?;
                let receiver = match receiver {
                    Got::Undefined(message) => return fail(&*message),
                    receiver => self.plain(receiver)?,
                };
                if method::CHANGING.contains(&name.as_str()) && method::is_container(&receiver) {
                    let (changed, result) = method::change(self, receiver, name, &given)?;
                    self.put_back(base, changed)?;
                    return Ok(result.into());
                }
                if let Value::Object(entries) = &receiver
                    && let Some(Value::Null) = entries.get(name)
                {
                    return fail("'NoneType' object is not callable");
                }
                Ok(method::call(self, &receiver, name, &given)?.into())
            }
            Expr::Name(name) => match (self.find(name), name.as_str()) {
                (Got::Macro(made), _) => self.call_macro(&made, given),
                (Got::Undefined(_), "range") => self.range(&given).map(Got::Plain),
                (Got::Undefined(_), "dict") => {
                    let mut entries = match given.list.first() {
                        Some(Value::Object(entries)) => (**entries).clone(),
                        _ => Object::new(),
                    };
                    entries.extend(given.named);
                    Ok(self.object(entries)?.into())
                }
                (Got::Undefined(_), "namespace") => {
                    let mut entries = match given.list.first() {
                        Some(Value::Object(entries)) => (**entries).clone(),
                        _ => Object::new(),
                    };
                    entries.extend(given.named);
                    Ok(Got::Namespace(Rc::new(RefCell::new(entries))))
                }
                (Got::Undefined(message), _) => fail(&*message),
                _ => fail(format!("'{name}' is not callable")),
            },
            _ => fail("this value is not callable"),
        }
    }

    /// After a method changed a list or object: the new one takes its place.
    fn put_back(&mut self, place: &Expr, value: Value) -> Result_<()> {
        match place {
            Expr::Name(name) => {
                let scope = self.scopes.iter_mut().rev().find(|scope| scope.contains_key(name));
                match scope {
                    Some(scope) => scope.insert(name.clone(), value.into()),
                    None => self.scopes[0].insert(name.clone(), value.into()),
                };
                Ok(())
            }
            Expr::Attribute(base, name) => match self.got(base)? {
                Got::Namespace(entries) => {
                    entries.borrow_mut().insert(name.clone(), value);
                    Ok(())
                }
                _ => fail("only variables and attributes of namespaces can be changed in place"),
            },
            _ => Ok(()),
        }
    }

    fn call_macro(&mut self, made: &Rc<Macro>, given: Given) -> Result_<Got> {
        let mut scope = HashMap::new();
        let mut list = given.list.into_iter();
        for (name, default) in &made.parameters {
            let named = given.named.iter().find(|(known, _)| known == name);
            let got = match (list.next(), named, default) {
                (Some(value), _, _) => value.into(),
                (None, Some((_, value)), _) => value.clone().into(),
                (None, None, Some(default)) => self.got(default)?,
                (None, None, None) => {
                    Got::Undefined(format!("parameter '{name}' was not provided").into())
                }
            };
            scope.insert(name.clone(), got);
        }
        // A macro sees its arguments and the variables of the template, not of its caller.
        let outer = self.scopes.split_off(1);
        let mut text = String::new();
        let done = self.scoped(scope, |run| run.nodes(&made.body, &mut text));
        self.scopes.truncate(1);
        self.scopes.extend(outer);
        done?;
        Ok(Value::from(text).into())
    }

    fn range(&mut self, given: &Given) -> Result_<Value> {
        let mut numbers = Vec::new();
        for value in &given.list {
            match value {
                Value::Int(int) => numbers.push(*int),
                Value::Bool(flag) => numbers.push(i128::from(*flag)),
                other => {
                    let class = other.python_type();
                    return fail(format!("'{class}' object cannot be interpreted as an integer"));
                }
            }
        }
        let (start, stop, step) = match *numbers.as_slice() {
            [stop] => (0, stop, 1),
            [start, stop] => (start, stop, 1),
            [start, stop, step] if step != 0 => (start, stop, step),
            _ => return fail("range() takes one to three whole numbers"),
        };
        let mut items = Vec::new();
        let mut at = start;
        while (step > 0 && at < stop) || (step < 0 && at > stop) {
            if i128::try_from(items.len()).unwrap_or(MAX_RANGE) >= MAX_RANGE {
                return fail(format!("a range of more than {MAX_RANGE} numbers"));
            }
            items.push(Value::Int(at));
            at = at.saturating_add(step);
        }
        self.spend(items.len())?;
        self.list(items)
    }

    fn comparisons(&mut self, first: &Expr, rest: &[(Comparison, Expr)]) -> Result_<bool> {
        let mut left = self.value(first)?;
        for (comparison, expr) in rest {
            let right = self.value(expr)?;
            if !self.compared(*comparison, &left, &right)? {
                return Ok(false);
            }
            left = right;
        }
        Ok(true)
    }

    fn compared(&mut self, comparison: Comparison, left: &Value, right: &Value) -> Result_<bool> {
        use std::cmp::Ordering::{Greater, Less};
        self.look_at(left)?;
        self.look_at(right)?;
        Ok(match comparison {
            Comparison::Equal => left == right,
            Comparison::NotEqual => left != right,
            Comparison::In => self.contains(right, left)?,
            Comparison::NotIn => !self.contains(right, left)?,
            Comparison::Less => self.ordering(left, right)? == Some(Less),
            Comparison::Greater => self.ordering(left, right)? == Some(Greater),
            Comparison::LessOrEqual => {
                matches!(self.ordering(left, right)?, Some(o) if o != Greater)
            }
            Comparison::GreaterOrEqual => {
                matches!(self.ordering(left, right)?, Some(o) if o != Less)
            }
        })
    }

    pub(super) fn contains(&self, container: &Value, item: &Value) -> Result_<bool> {
        match (container, item) {
            (Value::List(items), item) => Ok(items.contains(item)),
            (Value::Text(text), Value::Text(part)) => Ok(text.contains(&**part)),
            (Value::Object(entries), Value::Text(key)) => Ok(entries.contains_key(&**key)),
            (Value::Object(_), _) => Ok(false),
            (other, _) => {
                fail(format!("argument of type '{}' is not iterable", other.python_type()))
            }
        }
    }

    pub(super) fn ordering(
        &self,
        left: &Value,
        right: &Value,
    ) -> Result_<Option<std::cmp::Ordering>> {
        match (left, right) {
            (Value::Text(a), Value::Text(b)) => Ok(Some(a.cmp(b))),
            (Value::List(a), Value::List(b)) => {
                for (a, b) in a.iter().zip(b.iter()) {
                    if a != b {
                        return self.ordering(a, b);
                    }
                }
                Ok(Some(a.len().cmp(&b.len())))
            }
            _ if left.as_number().is_some() && right.as_number().is_some() => {
                Ok(compare(left, right))
            }
            _ => {
                let (a, b) = (left.python_type(), right.python_type());
                fail(format!("'<' not supported between instances of '{a}' and '{b}'"))
            }
        }
    }

    pub(super) fn add(&mut self, left: &Value, right: &Value) -> Result_<Value> {
        self.binary(Operator::Add, left, right)
    }

    fn binary(&mut self, operator: Operator, left: &Value, right: &Value) -> Result_<Value> {
        match (operator, left, right) {
            (Operator::Add, Value::Text(a), Value::Text(b)) => {
                self.allocate(a.len() + b.len())?;
                return Ok(Value::from(format!("{a}{b}")));
            }
            (Operator::Add, Value::List(a), Value::List(b)) => {
                return self.list(a.iter().chain(b.iter()).cloned().collect());
            }
            (Operator::Multiply, Value::Text(text), Value::Int(times))
            | (Operator::Multiply, Value::Int(times), Value::Text(text)) => {
                let times = usize::try_from(*times).unwrap_or(0);
                self.allocate(text.len().saturating_mul(times))?;
                return Ok(Value::from(text.repeat(times)));
            }
            (Operator::Multiply, Value::List(items), Value::Int(times)) => {
                let times = usize::try_from(*times).unwrap_or(0);
                self.allocate(items.len().saturating_mul(times).saturating_mul(32))?;
                return self.list((0..times).flat_map(|_| items.iter().cloned()).collect());
            }
            (Operator::Remainder, Value::Text(format), values) => {
                let values = match values {
                    Value::List(items) => items.to_vec(),
                    single => vec![single.clone()],
                };
                return filter::percent(self, format, &values);
            }
            _ => {}
        }
        arithmetic(operator, left, right)
    }
}

/// The place that an index means; negative ones count from the end.
fn position(at: i128, length: usize) -> Option<usize> {
    let length = i128::try_from(length).ok()?;
    usize::try_from(if at < 0 { at + length } else { at }).ok()
}

fn arithmetic(operator: Operator, left: &Value, right: &Value) -> Result_<Value> {
    let (Some(x), Some(y)) = (left.as_number(), right.as_number()) else {
        let (a, b) = (left.python_type(), right.python_type());
        return fail(format!("unsupported operand type(s): '{a}' and '{b}'"));
    };
    let whole = |value: &Value| match value {
        Value::Int(int) => Some(*int),
        Value::Bool(flag) => Some(i128::from(*flag)),
        _ => None,
    };
    let divides =
        matches!(operator, Operator::Divide | Operator::FloorDivide | Operator::Remainder);
    if divides && y == 0.0 {
        return fail("division by zero");
    }
    if let (Some(a), Some(b)) = (whole(left), whole(right)) {
        let exact = match operator {
            Operator::Add => a.checked_add(b),
            Operator::Subtract => a.checked_sub(b),
            Operator::Multiply => a.checked_mul(b),
            // Python rounds down; Euclid keeps the remainder positive.
            Operator::FloorDivide => a
                .checked_div_euclid(b)
                .map(|quotient| quotient - i128::from(b < 0 && a.rem_euclid(b) != 0)),
            Operator::Remainder => {
                a.checked_rem_euclid(b).map(|rest| if b < 0 && rest != 0 { rest + b } else { rest })
            }
            Operator::Power if b >= 0 => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
            Operator::Divide | Operator::Power => {
                return Ok(Value::Float(match operator {
                    Operator::Divide => x / y,
                    _ => x.powf(y),
                }));
            }
        };
        return match exact {
            Some(int) => Ok(Value::Int(int)),
            None => fail("the number is too large"),
        };
    }
    Ok(Value::Float(match operator {
        Operator::Add => x + y,
        Operator::Subtract => x - y,
        Operator::Multiply => x * y,
        Operator::Divide => x / y,
        Operator::FloorDivide => (x / y).floor(),
        Operator::Remainder => x - y * (x / y).floor(),
        Operator::Power => x.powf(y),
    }))
}

/// `int(value)` of a float.
pub(super) fn whole(float: f64) -> Result_<Value> {
    match truncate(float) {
        Some(int) => Ok(Value::Int(int)),
        None => fail("cannot convert float infinity or NaN to integer"),
    }
}
