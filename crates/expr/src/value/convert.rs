//! Values become JSON and text.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::SignedDuration;
use jiff::civil::DateTime;
use serde_json::{Map as JsonMap, Number, Value as Json};

use super::Value;
use crate::error::{Fault, Faulty};
use crate::meter::Meter;

/// The bytes that a JSON value takes besides its texts.
const NODE: usize = 32;

/// The deepest nesting of a result. Readers of JSON accept 127 levels, so what is kept can
/// be read again, also within something else. Without a limit, a loop around an expression
/// that nests its last result would overflow a stack one day.
const DEPTH: usize = 120;

/// Converts a value to JSON, which is copied.
pub(crate) fn to_json(value: &Value<'_>, meter: &mut Meter) -> Faulty<Json> {
    json_at(value, meter, 0)
}

fn json_at(value: &Value<'_>, meter: &mut Meter, depth: usize) -> Faulty<Json> {
    if depth > DEPTH {
        return Err(Fault::limit(format!("the result is nested more than {DEPTH} levels deep")));
    }
    meter.step(1)?;
    meter.allocate(NODE)?;
    Ok(match value {
        Value::Null | Value::Optional(None) => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Int(number) => Json::from(*number),
        Value::Uint(number) => Json::from(*number),
        Value::Double(number) => match Number::from_f64(*number) {
            Some(number) => Json::Number(number),
            None => {
                return Err(Fault::new(format!("JSON has no number {number}"))
                    .hint("compare with math.isFinite(x), or convert with string(x)"));
            }
        },
        Value::Text(text) => {
            meter.allocate(text.as_str().len())?;
            Json::String(text.as_str().to_owned())
        }
        Value::Bytes(bytes) => {
            meter.allocate(bytes.len() / 3 * 4 + 4)?;
            Json::String(STANDARD.encode(bytes))
        }
        Value::List(list) => {
            let mut items = Vec::new();
            for item in list.iter() {
                items.push(json_at(&item, meter, depth + 1)?);
            }
            Json::Array(items)
        }
        Value::Map(map) => {
            let mut object = JsonMap::new();
            for (key, value) in map.entries() {
                let key = key.shown();
                meter.allocate(key.len() + NODE)?;
                object.insert(key, json_at(&value, meter, depth + 1)?);
            }
            Json::Object(object)
        }
        Value::Timestamp(time) => Json::String(rfc3339(*time)),
        Value::Duration(duration) => Json::String(seconds(*duration)),
        Value::Type(name) => Json::String(name.name().to_owned()),
        Value::Optional(Some(value)) => json_at(value, meter, depth + 1)?,
    })
}

/// Appends a value to a text: strings as they are, nothing for what is absent, and
/// everything else as JSON.
pub(crate) fn to_text(value: &Value<'_>, meter: &mut Meter, to: &mut String) -> Faulty<()> {
    match value {
        Value::Text(text) => {
            meter.allocate(text.as_str().len())?;
            to.push_str(text.as_str());
        }
        Value::Optional(None) => {}
        Value::Optional(Some(value)) => to_text(value, meter, to)?,
        _ => match to_json(value, meter)? {
            Json::String(text) => to.push_str(&text),
            json => {
                let text = json.to_string();
                meter.allocate(text.len())?;
                to.push_str(&text);
            }
        },
    }
    Ok(())
}

/// A time as RFC 3339 writes it, with as many digits as it needs.
pub(crate) fn rfc3339(time: DateTime) -> String {
    format!("{time}Z")
}

/// A duration in seconds: `90s`, `0.5s`.
pub(crate) fn seconds(duration: SignedDuration) -> String {
    let sign = if duration.is_negative() { "-" } else { "" };
    let whole = duration.as_secs().unsigned_abs();
    let mut text = format!("{sign}{whole}");
    let fraction = duration.subsec_nanos().unsigned_abs();
    if fraction != 0 {
        let mut digits = String::new();
        let _ = write!(digits, "{fraction:09}");
        let _ = write!(text, ".{}", digits.trim_end_matches('0'));
    }
    text.push('s');
    text
}
