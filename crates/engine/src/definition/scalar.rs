//! Resolves plain YAML scalars by the core schema of YAML 1.2.
//!
//! `yes`, `no`, `on` and dates stay strings. Numbers keep their spelling, so
//! that `version: 1.10` does not become `1.1`.

use serde_json::Number;

use super::node::NodeValue;

/// The value of a plain scalar, or why JSON has no such value.
pub(super) fn resolve(text: &str) -> Result<NodeValue, String> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(NodeValue::Null),
        "true" | "True" | "TRUE" => return Ok(NodeValue::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(NodeValue::Bool(false)),
        _ => {}
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    match unsigned {
        ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN" => {
            Err(format!("`{text}` is not a number that JSON can hold"))
        }
        _ if unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') => number(text),
        _ => Ok(NodeValue::Text(text.to_owned())),
    }
}

fn number(text: &str) -> Result<NodeValue, String> {
    let radix = |prefix: &str, radix| {
        text.strip_prefix(prefix).and_then(|digits| u64::from_str_radix(digits, radix).ok())
    };
    let integer = radix("0x", 16).or_else(|| radix("0o", 8)).map(Number::from);
    let integer = integer
        .or_else(|| text.parse::<i64>().ok().map(Number::from))
        .or_else(|| text.parse::<u64>().ok().map(Number::from));
    if let Some(integer) = integer {
        return Ok(NodeValue::Number(integer, text.into()));
    }
    // Rust's float grammar also accepts words such as `inf`, so the characters
    // are checked first.
    let looks_like_float = text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    match text.parse::<f64>() {
        Ok(float) if looks_like_float => match Number::from_f64(float) {
            Some(number) => Ok(NodeValue::Number(number, text.into())),
            None => Err(format!("`{text}` is out of the range of numbers")),
        },
        _ => Ok(NodeValue::Text(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_follow_the_core_schema() {
        for text in ["yes", "on", "2024-01-01", "1.2.3", "1_000", "-", ".", "1e", "inf", "0x", "+"]
        {
            assert!(matches!(resolve(text), Ok(NodeValue::Text(_))), "{text}");
        }
        for (text, json) in
            [("0x1F", "31"), ("0o17", "15"), ("-3", "-3"), ("1.10", "1.1"), ("1e3", "1000.0")]
        {
            let Ok(NodeValue::Number(number, written)) = resolve(text) else { panic!("{text}") };
            assert_eq!((number.to_string().as_str(), &*written), (json, text));
        }
        assert!(matches!(resolve("18446744073709551616"), Ok(NodeValue::Number(..))));
        for text in [".inf", "-.INF", ".nan", "1e999"] {
            assert!(resolve(text).is_err(), "{text}");
        }
    }
}
