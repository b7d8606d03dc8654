//! Conversions between types.

use std::rc::Rc;

use Form::{Both, Global};
use Takes::{Any, Text};

use super::{Form, Gives, Row, Takes, row, time, unexpected};
use crate::error::{Fault, Faulty, shortened};
use crate::evaluate::{lasting, timestamp};
use crate::meter::Meter;
use crate::value::{Value, rfc3339, seconds};

pub(super) const ROWS: &[Row] = &[
    row("int", Global, &[Any], Gives::Int, int),
    row("uint", Global, &[Any], Gives::Uint, uint),
    row("double", Global, &[Any], Gives::Double, double),
    row("string", Global, &[Any], Gives::Text, string),
    row("bool", Global, &[Any], Gives::Bool, boolean),
    row("bytes", Global, &[Any], Gives::Bytes, bytes),
    row("dyn", Global, &[Any], Gives::Dyn, same),
    row("type", Global, &[Any], Gives::Type, type_of),
    row("timestamp", Global, &[Any], Gives::Timestamp, to_timestamp),
    row("duration", Global, &[Any], Gives::Duration, to_duration),
    row("size", Both, &[Text], Gives::Int, size),
    row("size", Both, &[Takes::Bytes], Gives::Int, size),
    row("size", Both, &[Takes::List], Gives::Int, size),
    row("size", Both, &[Takes::Map], Gives::Int, size),
];

fn size<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let size = match arguments {
        [Value::Text(text)] => {
            meter.read(text.as_str().len())?;
            text.as_str().chars().count()
        }
        [Value::Bytes(bytes)] => bytes.len(),
        [Value::List(list)] => list.len(),
        [Value::Map(map)] => map.len(),
        _ => return Err(unexpected()),
    };
    Ok(Value::Int(size as i64))
}

fn same<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    arguments.first().cloned().ok_or_else(unexpected)
}

fn type_of<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    arguments.first().map(|value| Value::Type(value.type_name())).ok_or_else(unexpected)
}

/// The failure of a conversion.
fn no<T>(value: &Value<'_>, to: &str) -> Faulty<T> {
    let fault = match value {
        Value::Text(text) => Fault::new(format!("\"{}\" is not {to}", shortened(text.as_str()))),
        other => Fault::new(format!("{} cannot become {to}", other.described())),
    };
    Err(match value {
        Value::Null | Value::Optional(_) => {
            fault.hint("write default(value, otherwise) if it may be absent")
        }
        _ => fault,
    })
}

fn out_of_range<T>(to: &str) -> Faulty<T> {
    Err(Fault::new(format!("the number is out of the range of {to}")))
}

/// A number without its fraction.
fn truncated(number: f64) -> Option<i128> {
    (number.is_finite() && number.abs() < 1e30).then_some(number as i128)
}

fn int<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let value = arguments.first().ok_or_else(unexpected)?;
    let number = match value {
        Value::Int(number) => i128::from(*number),
        Value::Uint(number) => i128::from(*number),
        // Doubles that are next to the bounds are rounded to them, so those are out.
        Value::Double(number) => match truncated(*number) {
            Some(whole) if whole > i128::from(i64::MIN) && whole < i128::from(i64::MAX) => whole,
            _ => return out_of_range("int"),
        },
        Value::Text(text) => {
            meter.read(text.as_str().len())?;
            match text.as_str().parse::<i64>() {
                Ok(number) => i128::from(number),
                Err(_) => return no(value, "an int"),
            }
        }
        Value::Timestamp(time) => i128::from(time::unix(*time)),
        other => return no(other, "an int"),
    };
    i64::try_from(number).map(Value::Int).or_else(|_| out_of_range("int"))
}

fn uint<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let value = arguments.first().ok_or_else(unexpected)?;
    let number = match value {
        Value::Int(number) => i128::from(*number),
        Value::Uint(number) => i128::from(*number),
        Value::Double(number) => match truncated(*number) {
            Some(whole) if whole < i128::from(u64::MAX) && *number >= 0.0 => whole,
            _ => return out_of_range("uint"),
        },
        Value::Text(text) => {
            meter.read(text.as_str().len())?;
            match text.as_str().parse::<u64>() {
                Ok(number) => i128::from(number),
                Err(_) => return no(value, "a uint"),
            }
        }
        other => return no(other, "a uint"),
    };
    u64::try_from(number).map(Value::Uint).or_else(|_| out_of_range("uint"))
}

fn double<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let value = arguments.first().ok_or_else(unexpected)?;
    match value {
        Value::Text(text) => {
            meter.read(text.as_str().len())?;
            text.as_str().parse().map(Value::Double).or_else(|_| no(value, "a double"))
        }
        other => match other.as_f64() {
            Some(number) => Ok(Value::Double(number)),
            None => no(other, "a double"),
        },
    }
}

fn string<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let value = arguments.first().ok_or_else(unexpected)?;
    Ok(match value {
        Value::Text(_) => value.clone(),
        Value::Bytes(bytes) => {
            meter.allocate(bytes.len())?;
            meter.read(bytes.len())?;
            match std::str::from_utf8(bytes) {
                Ok(text) => Value::text(text),
                Err(_) => return Err(Fault::new("the bytes are not UTF-8")),
            }
        }
        Value::List(_) | Value::Map(_) => {
            return no(value, "a string")
                .map_err(|fault| fault.hint("write json(value), or list.join(\", \")"));
        }
        Value::Optional(_) => return no(value, "a string"),
        _ => {
            let text = scalar(value);
            meter.allocate(text.len())?;
            Value::text(text)
        }
    })
}

/// A value without parts, as a text.
pub(super) fn scalar(value: &Value<'_>) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => shown(*number),
        Value::Timestamp(time) => rfc3339(*time),
        Value::Duration(duration) => seconds(*duration),
        Value::Type(name) => name.name().to_owned(),
        _ => "null".to_owned(),
    }
}

/// A double, in the shorter of two forms: `0.0045`, `1e+100`.
fn shown(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let size = number.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return number.to_string();
    }
    let text = format!("{number:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent}"),
        _ => text,
    }
}

fn boolean<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    let value = arguments.first().ok_or_else(unexpected)?;
    match value {
        Value::Bool(value) => Ok(Value::Bool(*value)),
        Value::Text(text) => match text.as_str() {
            "1" | "t" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => no(value, "a bool"),
        },
        other => no(other, "a bool")
            .map_err(|fault| fault.hint("compare it: x != 0, x != null, size(x) > 0")),
    }
}

fn bytes<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    match arguments {
        [Value::Text(text)] => {
            meter.allocate(text.as_str().len())?;
            meter.read(text.as_str().len())?;
            Ok(Value::Bytes(Rc::from(text.as_str().as_bytes())))
        }
        [value @ Value::Bytes(_)] => Ok(value.clone()),
        [other] => no(other, "bytes"),
        _ => Err(unexpected()),
    }
}

fn to_timestamp<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    let value = arguments.first().ok_or_else(unexpected)?;
    match value {
        Value::Timestamp(_) => Ok(value.clone()),
        Value::Int(seconds) => timestamp(time::of_unix(*seconds)),
        Value::Text(text) => match time::parse_timestamp(text.as_str()) {
            Some(time) => timestamp(Some(time)),
            None => no(value, "a timestamp")
                .map_err(|fault| fault.hint("write it as in RFC 3339: 2026-01-31T09:30:00Z")),
        },
        other => no(other, "a timestamp"),
    }
}

fn to_duration<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    let value = arguments.first().ok_or_else(unexpected)?;
    match value {
        Value::Duration(_) => Ok(value.clone()),
        Value::Int(seconds) => lasting(Some(jiff::SignedDuration::from_secs(*seconds))),
        Value::Text(text) => match time::parse_duration(text.as_str()) {
            Some(duration) => lasting(Some(duration)),
            None => no(value, "a duration")
                .map_err(|fault| fault.hint("write it with units: 90s, 1h30m, 250ms")),
        },
        other => no(other, "a duration"),
    }
}
