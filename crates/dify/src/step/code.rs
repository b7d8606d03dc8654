//! The code node: its arguments, and the check of what it returned.

use super::{CodeCall, Failure, Outcome, lookup};
use crate::node::reach::{Code, CodeOutput};
use crate::pool::Pool;
use crate::value::number::float_text;
use crate::value::{Kind, Object, Segment, Value};

const MAX_TEXT: usize = 400_000;
const MAX_NUMBER: f64 = 9_223_372_036_854_775_807.0;
const MAX_DECIMALS: usize = 20;
const MAX_DEPTH: usize = 5;
const MAX_TEXTS: usize = 30;
const MAX_NUMBERS: usize = 1_000;
const MAX_OBJECTS: usize = 30;

pub(super) fn call(settings: &Code, pool: &Pool) -> Result<CodeCall, Failure> {
    let mut arguments = Object::new();
    for (name, selector) in &settings.variables {
        let value = match lookup(pool, selector)? {
            Some(Segment { kind: Kind::FileList, value }) if !value.is_truthy() => Value::Null,
            Some(segment) => segment.value,
            None => Value::Null,
        };
        arguments.insert(name.clone(), value);
    }
    Ok(CodeCall { language: settings.language.clone(), code: settings.code.clone(), arguments })
}

/// The outputs, checked against what the node declares.
pub(super) fn outcome(settings: &Code, result: &Value) -> Result<Outcome, Failure> {
    let Value::Object(result) = result else {
        let class = result.python_type();
        return Err(wrong(format!("result must be a dict, got {class} instead.")));
    };
    let checked = declared(result, &settings.outputs, "", 1)?;
    let outputs = checked.into_iter().map(|(name, value)| (name, value.into()));
    Ok(Outcome { outputs: outputs.collect(), ..Outcome::default() })
}

fn wrong(message: impl Into<String>) -> Failure {
    Failure::new("OutputValidationError", message)
}

fn path(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}

fn check_depth(depth: usize) -> Result<(), Failure> {
    match depth > MAX_DEPTH {
        true => {
            let message = format!("Depth limit {MAX_DEPTH} reached, object too deep.");
            Err(Failure::new("DepthLimitError", message))
        }
        false => Ok(()),
    }
}

fn declared(
    result: &Object,
    outputs: &[CodeOutput],
    prefix: &str,
    depth: usize,
) -> Result<Object, Failure> {
    check_depth(depth)?;
    let mut checked = Object::new();
    for output in outputs {
        let at = path(prefix, &output.name);
        let Some(value) = result.get(&output.name) else {
            return Err(wrong(format!("Output {at} is missing.")));
        };
        checked.insert(output.name.clone(), typed(value, output, &at, depth)?);
    }
    match checked.len() == result.len() {
        true => Ok(checked),
        false => Err(Failure::new("CodeNodeError", "Not all output parameters are validated.")),
    }
}

fn inside(value: &Object, output: &CodeOutput, at: &str, depth: usize) -> Result<Value, Failure> {
    match &output.children {
        Some(children) => declared(value, children, at, depth + 1).map(Value::from),
        None => {
            undeclared(&Value::from(value.clone()), at, depth + 1)?;
            Ok(Value::from(value.clone()))
        }
    }
}

fn typed(value: &Value, output: &CodeOutput, at: &str, depth: usize) -> Result<Value, Failure> {
    let class = value.python_type();
    match (output.kind, value) {
        (_, Value::Null) => Ok(Value::Null),
        (Kind::Object, Value::Object(object)) => inside(object, output, at, depth),
        (Kind::Object, _) => {
            Err(wrong(format!("Output {at} is not an object, got <class '{class}'> instead.")))
        }
        (Kind::Number, value) => match value.as_number() {
            Some(_) => number(value, at),
            None => {
                Err(wrong(format!("Output {at} is not a number, got <class '{class}'> instead.")))
            }
        },
        (Kind::String, Value::Text(text)) => self::text(text, at),
        (Kind::String, _) => {
            Err(wrong(format!("Output {at} must be a string, got {class} instead.")))
        }
        (Kind::Boolean, value) => Ok(value.clone()),
        (list, Value::List(items)) if list.is_list() => self::list(list, items, output, at, depth),
        (list, _) if list.is_list() => {
            Err(wrong(format!("Output {at} is not an array, got <class '{class}'> instead.")))
        }
        (kind, _) => Err(wrong(format!("Output type {kind} is not supported."))),
    }
}

fn list(
    kind: Kind,
    items: &[Value],
    output: &CodeOutput,
    at: &str,
    depth: usize,
) -> Result<Value, Failure> {
    let most = match kind {
        Kind::NumberList => MAX_NUMBERS,
        Kind::StringList => MAX_TEXTS,
        Kind::ObjectList => MAX_OBJECTS,
        _ => usize::MAX,
    };
    if items.len() > most {
        let message =
            format!("The length of output variable `{at}` must be less than {most} elements.");
        return Err(wrong(message));
    }
    let check = |(index, item): (usize, &Value)| {
        let (here, class) = (format!("{at}[{index}]"), item.python_type());
        match (kind, item) {
            (Kind::NumberList, item) => match item {
                Value::Bool(flag) => Ok(Value::Int(i128::from(*flag))),
                Value::Int(_) | Value::Float(_) => Ok(item.clone()),
                _ => Err(wrong(format!(
                    "The element at index {index} of output variable `{at}` must be a number."
                ))),
            },
            (_, Value::Null) => Ok(Value::Null),
            (Kind::StringList, Value::Text(text)) => self::text(text, &here),
            (Kind::StringList, _) => {
                Err(wrong(format!("Output {here} must be a string, got {class} instead.")))
            }
            (Kind::ObjectList, Value::Object(object)) => inside(object, output, &here, depth),
            (Kind::ObjectList, _) => Err(wrong(format!(
                "Output {here} is not an object, got <class '{class}'> instead at index {index}."
            ))),
            (Kind::BooleanList, Value::Bool(_)) => Ok(item.clone()),
            (Kind::BooleanList, _) => Err(wrong(format!(
                "Output {here} is not a boolean, got <class '{class}'> instead."
            ))),
            _ => Err(wrong(format!("Output type {kind} is not supported."))),
        }
    };
    items.iter().enumerate().map(check).collect()
}

fn text(text: &str, at: &str) -> Result<Value, Failure> {
    match text.chars().count() > MAX_TEXT {
        true => {
            let message = format!(
                "The length of output variable `{at}` must be less than {MAX_TEXT} characters"
            );
            Err(wrong(message))
        }
        false => Ok(Value::from(text.replace('\0', ""))),
    }
}

fn number(value: &Value, at: &str) -> Result<Value, Failure> {
    let float = value.as_number().unwrap_or(f64::NAN);
    if float.abs() > MAX_NUMBER {
        return Err(wrong(format!(
            "Output variable `{at}` is out of range, it must be between -9223372036854775808 and 9223372036854775807."
        )));
    }
    match value {
        Value::Bool(flag) => Ok(Value::Int(i128::from(*flag))),
        Value::Float(float) if decimals(*float) > MAX_DECIMALS => Err(wrong(format!(
            "Output variable `{at}` has too high precision, it must be less than {MAX_DECIMALS} digits."
        ))),
        value => Ok(value.clone()),
    }
}

/// How many digits follow the point.
fn decimals(float: f64) -> usize {
    let text = float_text(float);
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let fraction =
        digits.split_once('.').map_or(0, |(_, fraction)| fraction.trim_end_matches('0').len());
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let places = i64::try_from(fraction).unwrap_or(0) - exponent;
    usize::try_from(places).unwrap_or(0)
}

/// What is in an object of which nothing was declared.
fn undeclared(value: &Value, at: &str, depth: usize) -> Result<(), Failure> {
    match value {
        Value::Object(entries) => {
            check_depth(depth)?;
            entries.iter().try_for_each(|(name, value)| {
                let here = path(at, name);
                match value {
                    Value::Object(_) => undeclared(value, &here, depth + 1),
                    other => undeclared(other, &here, depth),
                }
            })
        }
        Value::List(items) => {
            let Some(first) = items.iter().find(|item| !matches!(item, Value::Null)) else {
                return Ok(());
            };
            let same = |item: &Value| match (first, item) {
                (_, Value::Null) => true,
                (first, item) if first.as_number().is_some() => item.as_number().is_some(),
                (first, item) => first.python_type() == item.python_type(),
            };
            if !items.iter().all(same) {
                return Err(wrong(format!(
                    "Output {at} is not a valid array. make sure all elements are of the same type."
                )));
            }
            items.iter().enumerate().try_for_each(|(index, item)| {
                undeclared(item, &format!("{at}[{index}]"), depth + 1)
            })
        }
        Value::Text(text) => self::text(text, at).map(drop),
        Value::Int(_) | Value::Float(_) => number(value, at).map(drop),
        _ => Ok(()),
    }
}
