//! The operators.

use std::cmp::Ordering;

use jiff::SignedDuration;
use jiff::civil::DateTime;

use super::ELEMENT;
use crate::error::{Fault, Faulty};
use crate::meter::Meter;
use crate::syntax::Operator;
use crate::value::{Key, Value, compare, equal};

/// `-x`.
pub(crate) fn negate<'a>(value: &Value<'a>) -> Faulty<Value<'a>> {
    match value {
        Value::Int(number) => number.checked_neg().map(Value::Int).ok_or_else(overflow),
        Value::Double(number) => Ok(Value::Double(-number)),
        other => Err(Fault::new(format!("`-` needs a number, not {}", other.described()))),
    }
}

/// `left operator right`.
pub(crate) fn binary<'a>(
    operator: Operator,
    left: &Value<'a>,
    right: &Value<'a>,
    meter: &mut Meter,
) -> Faulty<Value<'a>> {
    match operator {
        Operator::Equal => Ok(Value::Bool(equal(left, right, meter)?)),
        Operator::Unequal => Ok(Value::Bool(!equal(left, right, meter)?)),
        Operator::In => contains(left, right, meter).map(Value::Bool),
        Operator::Less => ordered(operator, left, right, meter, Ordering::is_lt),
        Operator::LessEqual => ordered(operator, left, right, meter, Ordering::is_le),
        Operator::Greater => ordered(operator, left, right, meter, Ordering::is_gt),
        Operator::GreaterEqual => ordered(operator, left, right, meter, Ordering::is_ge),
        Operator::Add => add(left, right, meter),
        Operator::Subtract => subtract(left, right),
        _ => calculate(operator, left, right),
    }
}

/// `element in list`, `key in map`.
fn contains(element: &Value<'_>, of: &Value<'_>, meter: &mut Meter) -> Faulty<bool> {
    match of {
        Value::List(list) => {
            for other in list.iter() {
                if equal(element, &other, meter)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Map(map) => Ok(Key::of(element).is_some_and(|key| map.get(&key).is_some())),
        Value::Text(_) => Err(Fault::new("`in` needs a list or a map on its right, not a string")
            .hint("write text.contains(part)")),
        other => Err(Fault::new(format!(
            "`in` needs a list or a map on its right, not {}",
            other.described()
        ))),
    }
}

fn ordered<'a>(
    operator: Operator,
    left: &Value<'a>,
    right: &Value<'a>,
    meter: &mut Meter,
    holds: fn(Ordering) -> bool,
) -> Faulty<Value<'a>> {
    if let (Value::Text(left), Value::Text(right)) = (left, right) {
        meter.read(left.as_str().len().min(right.as_str().len()))?;
    }
    match compare(left, right) {
        Some(order) => Ok(Value::Bool(holds(order))),
        // NaN is neither less nor greater.
        None if left.as_f64().is_some() && right.as_f64().is_some() => Ok(Value::Bool(false)),
        None => Err(unfit(operator, left, right)),
    }
}

fn add<'a>(left: &Value<'a>, right: &Value<'a>, meter: &mut Meter) -> Faulty<Value<'a>> {
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => {
            let (left, right) = (left.as_str(), right.as_str());
            meter.allocate(left.len() + right.len())?;
            meter.read(left.len() + right.len())?;
            Ok(Value::text([left, right].concat()))
        }
        (Value::Bytes(left), Value::Bytes(right)) => {
            meter.allocate(left.len() + right.len())?;
            meter.read(left.len() + right.len())?;
            Ok(Value::Bytes([&**left, &**right].concat().into()))
        }
        (Value::List(left), Value::List(right)) => {
            let length = left.len() + right.len();
            meter.step(length as u64)?;
            meter.allocate(length.saturating_mul(ELEMENT))?;
            Ok(Value::list(left.iter().chain(right.iter()).collect()))
        }
        (Value::Timestamp(time), Value::Duration(duration))
        | (Value::Duration(duration), Value::Timestamp(time)) => moved(*time, Some(*duration)),
        (Value::Duration(left), Value::Duration(right)) => lasting(left.checked_add(*right)),
        _ => calculate(Operator::Add, left, right),
    }
}

fn subtract<'a>(left: &Value<'a>, right: &Value<'a>) -> Faulty<Value<'a>> {
    match (left, right) {
        (Value::Timestamp(time), Value::Duration(duration)) => moved(*time, duration.checked_neg()),
        (Value::Timestamp(left), Value::Timestamp(right)) => {
            lasting(Some(left.duration_since(*right)))
        }
        (Value::Duration(left), Value::Duration(right)) => lasting(left.checked_sub(*right)),
        _ => calculate(Operator::Subtract, left, right),
    }
}

/// A time, if it is one of those that RFC 3339 can write.
pub(crate) fn timestamp<'a>(time: Option<DateTime>) -> Faulty<Value<'a>> {
    match time {
        Some(time) if time.year() >= 1 => Ok(Value::Timestamp(time)),
        _ => Err(Fault::new("the timestamp is not of the years 1 to 9999")),
    }
}

fn moved<'a>(time: DateTime, by: Option<SignedDuration>) -> Faulty<Value<'a>> {
    timestamp(by.and_then(|by| time.checked_add(by).ok()))
}

/// A duration, if its nanoseconds fit into 64 bits, as in other implementations of CEL.
pub(crate) fn lasting<'a>(duration: Option<SignedDuration>) -> Faulty<Value<'a>> {
    const MOST: SignedDuration = SignedDuration::from_nanos(i64::MAX);
    match duration {
        Some(duration) if duration.abs() <= MOST => Ok(Value::Duration(duration)),
        _ => Err(Fault::new("the duration is longer than 292 years")),
    }
}

fn calculate<'a>(operator: Operator, left: &Value<'a>, right: &Value<'a>) -> Faulty<Value<'a>> {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => signed(operator, *a, *b).map(Value::Int),
        (Value::Uint(a), Value::Uint(b)) => unsigned(operator, *a, *b).map(Value::Uint),
        (Value::Int(_) | Value::Uint(_), Value::Int(_) | Value::Uint(_)) => {
            mixed(operator, left, right)
        }
        _ => match (left.as_f64(), right.as_f64()) {
            (Some(a), Some(b)) => doubles(operator, a, b, left, right).map(Value::Double),
            _ => Err(unfit(operator, left, right)),
        },
    }
}

fn signed(operator: Operator, a: i64, b: i64) -> Faulty<i64> {
    let result = match operator {
        Operator::Add => a.checked_add(b),
        Operator::Subtract => a.checked_sub(b),
        Operator::Multiply => a.checked_mul(b),
        _ if b == 0 => return Err(by_zero(operator)),
        Operator::Divide => a.checked_div(b),
        _ => a.checked_rem(b),
    };
    result.ok_or_else(overflow)
}

fn unsigned(operator: Operator, a: u64, b: u64) -> Faulty<u64> {
    let result = match operator {
        Operator::Add => a.checked_add(b),
        Operator::Subtract => a.checked_sub(b),
        Operator::Multiply => a.checked_mul(b),
        _ if b == 0 => return Err(by_zero(operator)),
        Operator::Divide => a.checked_div(b),
        _ => a.checked_rem(b),
    };
    result.ok_or_else(overflow)
}

/// An int and a uint: an int where it fits.
fn mixed<'a>(operator: Operator, left: &Value<'a>, right: &Value<'a>) -> Faulty<Value<'a>> {
    let (Some(a), Some(b)) = (left.as_whole(), right.as_whole()) else {
        return Err(unfit(operator, left, right));
    };
    let result = match operator {
        Operator::Add => a + b,
        Operator::Subtract => a - b,
        // Of 64 bits each, so it fits.
        Operator::Multiply => a * b,
        _ if b == 0 => return Err(by_zero(operator)),
        Operator::Divide => a / b,
        _ => a % b,
    };
    i64::try_from(result)
        .map(Value::Int)
        .or_else(|_| u64::try_from(result).map(Value::Uint))
        .map_err(|_| overflow())
}

fn doubles(operator: Operator, a: f64, b: f64, left: &Value<'_>, right: &Value<'_>) -> Faulty<f64> {
    Ok(match operator {
        Operator::Add => a + b,
        Operator::Subtract => a - b,
        Operator::Multiply => a * b,
        Operator::Divide => a / b,
        _ => return Err(unfit(operator, left, right)),
    })
}

fn overflow() -> Box<Fault> {
    Fault::new("the result does not fit into 64 bits").hint("calculate with doubles: double(x)")
}

fn by_zero(operator: Operator) -> Box<Fault> {
    Fault::new(if operator == Operator::Divide {
        "division by zero"
    } else {
        "remainder of a division by zero"
    })
}

fn unfit(operator: Operator, left: &Value<'_>, right: &Value<'_>) -> Box<Fault> {
    let sign = operator.sign();
    let fault =
        Fault::new(format!("`{sign}` cannot take {} and {}", left.described(), right.described()));
    match (operator, left, right) {
        (_, Value::Optional(_), _) | (_, _, Value::Optional(_)) => {
            fault.hint("write value.orValue(otherwise) or default(value, otherwise)")
        }
        (_, Value::Null, _) | (_, _, Value::Null) => {
            fault.hint("write default(value, otherwise) if it may be null")
        }
        (Operator::Add, Value::Text(_), _) | (Operator::Add, _, Value::Text(_)) => {
            fault.hint("write string(value) to join texts")
        }
        (Operator::Remainder, ..) => fault.hint("`%` is for whole numbers; write int(x)"),
        (_, Value::Text(_), _) | (_, _, Value::Text(_)) => {
            fault.hint("write int(text) or double(text) for a number")
        }
        _ => fault,
    }
}
