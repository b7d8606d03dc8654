//! Ordering, equality and text of JSON values for the array and object tools: `1` and
//! `1.0` are equal, and the order of an object's keys does not matter.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::{Number, Value};

/// Total preorder of values: null, booleans, numbers, strings, arrays, objects. All
/// objects compare as equal, so a stable sort leaves them in place.
pub(super) fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => left
            .iter()
            .zip(right)
            .map(|(left, right)| compare(left, right))
            .find(|order| order.is_ne())
            .unwrap_or_else(|| left.len().cmp(&right.len())),
        _ => rank(left).cmp(&rank(right)),
    }
}

/// Whether two values are equal.
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right).is_eq(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(l, r)| equal(l, r))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, l)| right.get(key).is_some_and(|r| equal(l, r)))
        }
        _ => left == right,
    }
}

/// A canonical text, the same for equal values only, as a key for sets.
pub(super) fn identity(value: &Value) -> String {
    let mut text = String::new();
    write_identity(value, &mut text);
    text
}

/// A value as a person writes it: strings without quotes, the rest as JSON.
pub(super) fn plain(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}

/// A number in few characters, for messages.
pub(super) fn short(number: f64) -> String {
    let size = number.abs();
    let plain = size == 0.0 || (1e-6..1e15).contains(&size);
    if plain { number.to_string() } else { format!("{number:e}") }
}

/// The name of a value's type, for errors.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}

fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => {
            let float = |number: &Number| number.as_f64().unwrap_or(f64::NAN);
            float(left).total_cmp(&float(right))
        }
    }
}

/// The number as an integer, even if it is written `1.0`.
fn integer(number: &Number) -> Option<i128> {
    let whole = |float: &f64| float.fract() == 0.0 && float.abs() < 1e18;
    (number.as_i64().map(i128::from))
        .or_else(|| number.as_u64().map(i128::from))
        .or_else(|| number.as_f64().filter(whole).map(|float| float as i128))
}

fn write_identity(value: &Value, text: &mut String) {
    match value {
        Value::Number(number) => match integer(number) {
            Some(integer) => text.push_str(&integer.to_string()),
            None => text.push_str(&number.to_string()),
        },
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write_identity(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            text.push('{');
            for (key, value) in entries {
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push(':');
                write_identity(value, text);
                text.push(',');
            }
            text.push('}');
        }
        other => text.push_str(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equality_is_about_meaning() {
        let same = [
            (json!(1), json!(1.0)),
            (json!({"a": 1, "b": [2]}), json!({"b": [2.0], "a": 1})),
            (json!(0.0), json!(-0.0)),
        ];
        for (left, right) in &same {
            assert!(equal(left, right), "{left} = {right}");
            assert_eq!(identity(left), identity(right));
        }
        let different =
            [(json!(1), json!("1")), (json!([1]), json!([1, 1])), (json!(null), json!(false))];
        for (left, right) in &different {
            assert!(!equal(left, right), "{left} ≠ {right}");
            assert_ne!(identity(left), identity(right));
        }
    }

    #[test]
    fn types_have_an_order() {
        let mut values = vec![json!({}), json!("b"), json!(2), json!("a"), json!(1.5), json!(null)];
        values.sort_by(compare);
        assert_eq!(json!(values), json!([null, 1.5, 2, "a", "b", {}]));
    }
}
