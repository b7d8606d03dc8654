//! Nodes that steer.

use super::{Failure, Outcome, Outputs, lookup, written};
use crate::node::flow::{
    Aggregator, Assignment, Case, Input, InputKind, Operand, Operation, Output,
};
use crate::node::{Node, NodeKind};
use crate::pool::Pool;
use crate::template::Template;
use crate::value::number::{parse_float, parse_int};
use crate::value::{File, Kind, Segment, Value, text};

/// Puts the inputs of a run into the pool, with the defaults of those that are missing.
/// What does not fit the form stays as it is: whoever offers the workflow checks that.
pub fn start(node: &Node, given: &crate::value::Object, pool: &mut Pool) {
    let NodeKind::Start(settings) = &node.kind else {
        // What a trigger would give.
        given.iter().for_each(|(name, value)| pool.set(&node.id, name, value.clone()));
        return;
    };
    for input in &settings.inputs {
        let value = match given.get(&input.name) {
            None | Some(Value::Null) => input.default.clone(),
            Some(value) => value.clone(),
        };
        let fitted = fit(input, value.clone());
        pool.set(&node.id, &input.name, fitted.unwrap_or_else(|_| value.into()));
    }
}

/// Whether the inputs of a run fit the form.
pub fn check_inputs(node: &Node, given: &crate::value::Object) -> Result<(), Failure> {
    let NodeKind::Start(settings) = &node.kind else { return Ok(()) };
    for input in &settings.inputs {
        match given.get(&input.name) {
            None | Some(Value::Null) if input.required && matches!(input.default, Value::Null) => {
                return Err(Failure::value(format!("{} is required in input form", input.name)));
            }
            None | Some(Value::Null) => {}
            Some(value) => drop(fit(input, value.clone())?),
        }
    }
    Ok(())
}

/// A value in the type of its input.
fn fit(input: &Input, value: Value) -> Result<Segment, Failure> {
    let name = &input.name;
    let wrong = |what: &str| Err(Failure::value(format!("{name} in input form must be {what}")));
    let file = |value: Value| match value {
        Value::Object(object) => {
            let json = Value::Object(object).to_json();
            let file = json.as_object().map(File::from_object).unwrap_or_default();
            Value::File(file.into())
        }
        other => other,
    };
    let value = match (input.kind, value) {
        (InputKind::Files, Value::Null) => {
            return Ok(Segment { kind: Kind::FileList, value: Value::List(Vec::new().into()) });
        }
        (_, Value::Null) => Value::Null,
        (InputKind::Number, Value::Text(text)) if text.trim().is_empty() => Value::Null,
        (InputKind::Number, Value::Text(text)) => {
            let number = match text.contains('.') {
                true => parse_float(&text).map(Value::Float),
                false => parse_int(&text).map(Value::Int),
            };
            match number {
                Some(number) => number,
                None => return wrong("a valid number"),
            }
        }
        (InputKind::Checkbox, Value::Text(text)) => {
            Value::Bool(matches!(text.to_lowercase().as_str(), "true" | "yes" | "1" | "on"))
        }
        (InputKind::Checkbox, value) => Value::Bool(value.is_truthy()),
        (InputKind::File, value) => file(value),
        (InputKind::Files, Value::List(items)) => {
            let value = items.iter().cloned().map(file).collect();
            return Ok(Segment { kind: Kind::FileList, value });
        }
        (InputKind::Object, Value::Text(text)) => match serde_json::from_str(&text) {
            Ok(json @ serde_json::Value::Object(_)) => Value::from_json(json),
            _ => return wrong("a JSON object"),
        },
        (InputKind::Select, Value::Text(text)) => {
            let known = input.options.iter().any(|option| **option == *text);
            if !known && !text.is_empty() && !input.options.is_empty() {
                return wrong(&format!("one of the following: {}", input.options.join(", ")));
            }
            Value::Text(text)
        }
        (InputKind::Text | InputKind::Paragraph, Value::Text(text)) => {
            let length = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
            if let Some(most) = input.max_length
                && length > most
            {
                return wrong(&format!("less than {most} characters"));
            }
            Value::Text(text)
        }
        (InputKind::Text | InputKind::Paragraph | InputKind::Select, _) => {
            return wrong("a string");
        }
        (_, value) => value,
    };
    Ok(value.into())
}

/// The inputs of the run, and all other variables by `node.name`.
pub(super) fn start_outputs(node: &Node, pool: &Pool) -> Outcome {
    let mut outputs = Outputs::new();
    for (id, name, segment) in pool.of_others(&node.id) {
        outputs.insert(format!("{id}.{name}"), segment.clone());
    }
    let own = pool.of_node(&node.id).map(|(name, segment)| (name.to_owned(), segment.clone()));
    outputs.extend(own);
    Outcome { outputs, ..Outcome::default() }
}

pub(super) fn end(outputs: &[Output], pool: &Pool) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    for Output { name, selector } in outputs {
        let segment = lookup(pool, selector)?;
        outcome.outputs.insert(name.clone(), segment.unwrap_or_else(|| Value::Null.into()));
    }
    Ok(outcome)
}

pub(super) fn answer(text: &str, pool: &Pool) -> Result<Outcome, Failure> {
    let segments = Template::parse(text).resolve(pool)?;
    let files: Vec<Value> = segments.iter().flat_map(Segment::files).collect();
    let text: String = segments.iter().map(Segment::markdown).collect();
    let files = Segment { kind: Kind::FileList, value: files.into_iter().collect() };
    Ok(Outcome::of([("answer", Value::from(text).into()), ("files", files)]))
}

pub(super) fn if_else(cases: &[Case], pool: &Pool) -> Result<Outcome, Failure> {
    let mut taken = None;
    for case in cases {
        let holds = case.conditions.hold(pool);
        if holds.map_err(|error| Failure::new(error.class, error.message))? {
            taken = Some(case.id.as_str());
            break;
        }
    }
    let handle = taken.unwrap_or("false");
    let outputs = [
        ("result", Value::Bool(taken.is_some()).into()),
        ("selected_case_id", Value::from(handle).into()),
    ];
    Ok(Outcome::of(outputs).at(handle))
}

pub(super) fn aggregate(settings: &Aggregator, pool: &Pool) -> Outcome {
    let first =
        |selectors: &[Vec<String>]| selectors.iter().find_map(|selector| pool.get(selector));
    match settings {
        Aggregator::One(selectors) => match first(selectors) {
            Some(segment) => Outcome::of([("output", segment)]),
            None => Outcome::default(),
        },
        Aggregator::Groups(groups) => {
            let mut outcome = Outcome::default();
            for (name, selectors) in groups {
                if let Some(segment) = first(selectors) {
                    let group: Value = [("output".to_owned(), segment.value)].into_iter().collect();
                    outcome.outputs.insert(name.clone(), group.into());
                }
            }
            outcome
        }
    }
}

pub(super) fn assign(changes: &[Assignment], pool: &Pool) -> Result<Outcome, Failure> {
    // Later changes see earlier ones.
    let mut pool = pool.clone();
    let mut assigned: Vec<(String, String, Segment)> = Vec::new();
    for change in changes {
        let [node, name, ..] = change.target.as_slice() else {
            return Err(fault(format!("Variable {} not found", written(&change.target))));
        };
        let Some(variable) = pool.variable(node, name).cloned() else {
            return Err(match change.unchecked {
                true => fault("assigned variable not found"),
                false => fault(format!("Variable {} not found", written(&change.target))),
            });
        };
        let value = match change.unchecked {
            true => Some(changed_unchecked(change, &variable, &pool)?),
            false => changed(change, &variable, &pool)?,
        };
        let Some(value) = value else { continue };
        let segment = Segment { kind: variable.kind, value };
        pool.set(node, name, segment.clone());
        assigned.retain(|(n, v, _)| (n, v) != (node, name));
        assigned.push((node.clone(), name.clone(), segment));
    }
    Ok(Outcome { assigned, ..Outcome::default() })
}

fn fault(message: impl Into<String>) -> Failure {
    Failure::new("VariableOperatorNodeError", message)
}

fn zero(kind: Kind) -> Result<Value, Failure> {
    kind.zero().ok_or_else(|| Failure::value(format!("unsupported variable type: {kind}")))
}

/// The first version of the node: any value goes.
fn changed_unchecked(
    change: &Assignment,
    variable: &Segment,
    pool: &Pool,
) -> Result<Value, Failure> {
    if change.operation == Operation::Clear {
        return zero(variable.kind);
    }
    let Operand::Variable(selector) = &change.operand else {
        return Err(fault("input value not found"));
    };
    let Some(income) = lookup(pool, selector)? else { return Err(fault("input value not found")) };
    match (change.operation, variable.kind.is_list(), &variable.value) {
        (Operation::Append, true, Value::List(items)) => {
            Ok(items.iter().cloned().chain([income.value]).collect())
        }
        (Operation::Append, ..) => Err(fault("append mode requires an array variable")),
        _ => Ok(income.value),
    }
}

/// The new value; `None` if the variable stays as it is.
fn changed(change: &Assignment, variable: &Segment, pool: &Pool) -> Result<Option<Value>, Failure> {
    let (operation, kind) = (change.operation, variable.kind);
    if !supports(kind, operation) {
        let message = format!("Operation {} is not supported for type {kind}", name(operation));
        return Err(fault(message));
    }
    let no_value =
        matches!(operation, Operation::Clear | Operation::RemoveFirst | Operation::RemoveLast);
    let arithmetic = is_arithmetic(operation);
    let input = match &change.operand {
        Operand::Variable(_) if arithmetic || operation == Operation::Set => "variable",
        Operand::Constant(_) if !no_value && !takes_constant(kind, operation) => "constant",
        _ => "",
    };
    if !input.is_empty() {
        let message =
            format!("Input type {input} is not supported for operation {}", name(operation));
        return Err(fault(message));
    }
    let value = match &change.operand {
        _ if no_value => Value::Null,
        Operand::Constant(value) => value.clone(),
        Operand::Variable(selector) => match lookup(pool, selector)? {
            None => return Err(fault(format!("Variable {} not found", written(selector)))),
            Some(segment) if segment.kind == Kind::None => return Ok(None),
            Some(segment) => segment.value,
        },
    };
    let invalid = |value: &Value| fault(format!("Invalid input value {}", text::python(value)));
    let value = match (operation, kind, value) {
        (Operation::Set, Kind::Object, Value::Text(json)) => match serde_json::from_str(&json) {
            Ok(json) => Value::from_json(json),
            Err(_) => return Err(invalid(&Value::Text(json))),
        },
        (_, _, value) => value,
    };
    if !no_value && !accepts(kind, operation, &value) {
        return Err(invalid(&value));
    }
    apply(operation, variable, value).map(Some)
}

fn name(operation: Operation) -> &'static str {
    let known = crate::node::flow::OPERATIONS.iter().find(|(_, known)| *known == operation);
    known.map_or("", |(name, _)| name)
}

fn is_arithmetic(operation: Operation) -> bool {
    use Operation::{Add, Divide, Multiply, Subtract};
    matches!(operation, Add | Subtract | Multiply | Divide)
}

fn supports(kind: Kind, operation: Operation) -> bool {
    match operation {
        Operation::Overwrite | Operation::Clear => true,
        Operation::Set => {
            kind.is_number() || matches!(kind, Kind::Object | Kind::String | Kind::Boolean)
        }
        operation if is_arithmetic(operation) => kind.is_number(),
        _ => kind.is_list(),
    }
}

fn takes_constant(kind: Kind, operation: Operation) -> bool {
    let plain = matches!(operation, Operation::Overwrite | Operation::Set);
    match kind {
        Kind::String | Kind::Object | Kind::Boolean => plain,
        kind if kind.is_number() => plain || is_arithmetic(operation),
        _ => false,
    }
}

fn accepts(kind: Kind, operation: Operation, value: &Value) -> bool {
    if kind.is_number() {
        let number = value.as_number();
        return number.is_some_and(|number| operation != Operation::Divide || number != 0.0);
    }
    let item_fits = |item: &Value| match kind {
        Kind::AnyList => {
            item.as_number().is_some() || matches!(item, Value::Text(_) | Value::Object(_))
        }
        Kind::FileList => false,
        kind => kind.of_items().is_some_and(|kind| kind.fits(item)),
    };
    match (kind, operation) {
        (Kind::String | Kind::Boolean | Kind::Object, _) => kind.fits(value),
        (_, Operation::Append) => item_fits(value),
        (_, Operation::Extend | Operation::Overwrite) => {
            value.as_list().is_some_and(|items| items.iter().all(item_fits))
        }
        _ => false,
    }
}

fn apply(operation: Operation, variable: &Segment, value: Value) -> Result<Value, Failure> {
    let items = variable.value.as_list().unwrap_or_default();
    Ok(match operation {
        Operation::Overwrite | Operation::Set => value,
        Operation::Clear => zero(variable.kind)?,
        Operation::Append => items.iter().cloned().chain([value]).collect(),
        Operation::Extend => {
            items.iter().chain(value.as_list().unwrap_or_default()).cloned().collect()
        }
        Operation::RemoveFirst => items.iter().skip(1).cloned().collect(),
        Operation::RemoveLast => {
            items.iter().take(items.len().saturating_sub(1)).cloned().collect()
        }
        Operation::Add | Operation::Subtract | Operation::Multiply | Operation::Divide => {
            return arithmetic(operation, &variable.value, &value);
        }
    })
}

fn arithmetic(operation: Operation, left: &Value, right: &Value) -> Result<Value, Failure> {
    let whole = |value: &Value| match value {
        Value::Int(int) => Some(*int),
        Value::Bool(flag) => Some(i128::from(*flag)),
        _ => None,
    };
    if let (Some(a), Some(b)) = (whole(left), whole(right))
        && operation != Operation::Divide
    {
        let exact = match operation {
            Operation::Add => a.checked_add(b),
            Operation::Subtract => a.checked_sub(b),
            _ => a.checked_mul(b),
        };
        return exact.map(Value::Int).ok_or_else(|| fault("the number is too large"));
    }
    let (Some(a), Some(b)) = (left.as_number(), right.as_number()) else {
        return Err(fault(format!("Invalid input value {}", text::python(right))));
    };
    Ok(Value::Float(match operation {
        Operation::Add => a + b,
        Operation::Subtract => a - b,
        Operation::Multiply => a * b,
        _ => a / b,
    }))
}
