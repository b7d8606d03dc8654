//! Values that may be absent.

use Form::{Global, Method};
use Takes::{Any, List, Optional};

use super::{Form, Gives, Row, Takes, row, unexpected};
use crate::error::{Fault, Faulty};
use crate::evaluate::ELEMENT;
use crate::meter::Meter;
use crate::value::Value;

pub(super) const ROWS: &[Row] = &[
    row("optional.of", Global, &[Any], Gives::Optional, of),
    row("optional.none", Global, &[], Gives::OptionalDyn, none),
    row("optional.ofNonZeroValue", Global, &[Any], Gives::Optional, of_non_zero),
    row("optional.ofNonNull", Global, &[Any], Gives::Optional, of_non_null),
    row("optional.unwrap", Global, &[List], Gives::Held, unwrap),
    row("unwrapOpt", Method, &[List], Gives::Held, unwrap),
    row("hasValue", Method, &[Optional], Gives::Bool, has_value),
    row("value", Method, &[Optional], Gives::Element, value),
    row("or", Method, &[Optional, Optional], Gives::Same, or),
    row("orValue", Method, &[Optional, Any], Gives::ElementOr, or_value),
];

fn of<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    meter.allocate(ELEMENT)?;
    arguments.first().cloned().map(Value::some).ok_or_else(unexpected)
}

fn none<'a>(_: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    Ok(Value::none())
}

/// Present unless it is what its type begins with: null, false, 0, empty.
fn of_non_zero<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let value = arguments.first().ok_or_else(unexpected)?;
    let zero = match value {
        Value::Null
        | Value::Bool(false)
        | Value::Int(0)
        | Value::Uint(0)
        | Value::Optional(None) => true,
        Value::Double(number) => *number == 0.0,
        Value::Text(text) => text.as_str().is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::List(list) => list.len() == 0,
        Value::Map(map) => map.len() == 0,
        Value::Duration(duration) => duration.is_zero(),
        Value::Timestamp(time) => *time == super::time::EPOCH,
        Value::Bool(true)
        | Value::Int(_)
        | Value::Uint(_)
        | Value::Type(_)
        | Value::Optional(Some(_)) => false,
    };
    if zero { Ok(Value::none()) } else { of(arguments, meter) }
}

/// Present unless it is null; an optional stays what it is.
fn of_non_null<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    match arguments.first() {
        Some(Value::Null) => Ok(Value::none()),
        Some(value @ Value::Optional(_)) => Ok(value.clone()),
        _ => of(arguments, meter),
    }
}

fn unwrap<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let [Value::List(list)] = arguments else { return Err(unexpected()) };
    meter.step(list.len() as u64)?;
    meter.allocate(list.len() * ELEMENT)?;
    let mut held = Vec::new();
    for item in list.iter() {
        match item {
            Value::Optional(Some(value)) => held.push((*value).clone()),
            Value::Optional(None) => {}
            other => {
                return Err(Fault::new(format!(
                    "`unwrap` needs a list of optionals, not of {}",
                    other.described()
                )));
            }
        }
    }
    Ok(Value::list(held))
}

fn has_value<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    match arguments {
        [Value::Optional(held)] => Ok(Value::Bool(held.is_some())),
        _ => Err(unexpected()),
    }
}

fn value<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    match arguments {
        [Value::Optional(Some(held))] => Ok((**held).clone()),
        [Value::Optional(None)] => Err(Fault::new("the optional has no value")
            .hint("write orValue(otherwise), or ask hasValue() first")),
        _ => Err(unexpected()),
    }
}

fn or<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    match arguments {
        [first @ Value::Optional(Some(_)), _] => Ok(first.clone()),
        [_, second] => Ok(second.clone()),
        _ => Err(unexpected()),
    }
}

fn or_value<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    match arguments {
        [Value::Optional(Some(held)), _] => Ok((**held).clone()),
        [_, otherwise] => Ok(otherwise.clone()),
        _ => Err(unexpected()),
    }
}
