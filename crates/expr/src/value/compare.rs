//! Equality and order, across the types of numbers.

use std::cmp::Ordering;

use super::Value;
use crate::error::Faulty;
use crate::meter::Meter;

/// Whether two values are equal. Values of different types are not, except numbers.
pub(crate) fn equal(a: &Value<'_>, b: &Value<'_>, meter: &mut Meter) -> Faulty<bool> {
    meter.step(1)?;
    Ok(match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Text(a), Value::Text(b)) => {
            let (a, b) = (a.as_str(), b.as_str());
            meter.read(a.len().min(b.len()))?;
            a == b
        }
        (Value::Bytes(a), Value::Bytes(b)) => {
            meter.read(a.len().min(b.len()))?;
            a == b
        }
        (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Type(a), Value::Type(b)) => a == b,
        (Value::Optional(None), Value::Optional(None)) => true,
        (Value::Optional(Some(a)), Value::Optional(Some(b))) => equal(a, b, meter)?,
        (Value::List(a), Value::List(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (a, b) in a.iter().zip(b.iter()) {
                if !equal(&a, &b, meter)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Map(a), Value::Map(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (key, value) in a.entries() {
                match b.get(&key) {
                    Some(other) if equal(&value, &other, meter)? => {}
                    _ => return Ok(false),
                }
            }
            true
        }
        _ => compare_numbers(a, b) == Some(Ordering::Equal),
    })
}

/// The order of two values that have one; `None` also for NaN.
pub(crate) fn compare(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Text(a), Value::Text(b)) => Some(a.as_str().cmp(b.as_str())),
        (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
        (Value::Timestamp(a), Value::Timestamp(b)) => Some(a.cmp(b)),
        (Value::Duration(a), Value::Duration(b)) => Some(a.cmp(b)),
        _ => compare_numbers(a, b),
    }
}

/// The order of two numbers, exact between integers and doubles.
fn compare_numbers(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    match (a, b) {
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Double(a), b) => double_and_whole(*a, b.as_whole()?),
        (a, Value::Double(b)) => double_and_whole(*b, a.as_whole()?).map(Ordering::reverse),
        (a, b) => Some(a.as_whole()?.cmp(&b.as_whole()?)),
    }
}

fn double_and_whole(a: f64, b: i128) -> Option<Ordering> {
    if a.is_nan() {
        return None;
    }
    // Beyond any 64-bit number, and well within 128 bits.
    let bounded = a.clamp(-1e20, 1e20);
    let fraction = if bounded.fract() > 0.0 {
        Ordering::Greater
    } else if bounded.fract() < 0.0 {
        Ordering::Less
    } else {
        Ordering::Equal
    };
    Some((bounded.trunc() as i128).cmp(&b).then(fraction))
}
