//! Plain scalars, as Python's YAML reader takes them: YAML 1.1.
//!
//! `yes` and `on` are booleans, `017` is fifteen, and a float needs a dot. Dates stay
//! texts, because nothing in these files is one.

use serde_json::Number;

use super::tree::Data;

pub(super) fn resolve(text: &str) -> Data {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Data::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => {
            return Data::Bool(true);
        }
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => {
            return Data::Bool(false);
        }
        _ => {}
    }
    let number = whole(text).or_else(|| float(text).and_then(Number::from_f64));
    match number {
        Some(number) => Data::Number(number, text.into()),
        None => Data::Text(text.to_owned()),
    }
}

fn whole(text: &str) -> Option<Number> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let plain = digits.replace('_', "");
    let (radix, plain) = match plain.as_str() {
        "0" => (10, "0"),
        hex if hex.starts_with("0x") => (16, &hex[2..]),
        binary if binary.starts_with("0b") => (2, &binary[2..]),
        octal if octal.starts_with('0') => (8, &octal[1..]),
        decimal => (10, decimal),
    };
    if !plain.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    let value = i128::from_str_radix(plain, radix).ok()?;
    let value = if negative { -value } else { value };
    i64::try_from(value)
        .ok()
        .map(Number::from)
        .or_else(|| u64::try_from(value).ok().map(Number::from))
}

fn float(text: &str) -> Option<f64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let fits = digits.contains('.')
        && digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits.contains(|c: char| c.is_ascii_digit())
        && digits.bytes().all(|b| b.is_ascii_digit() || b"._eE+-".contains(&b));
    fits.then(|| text.replace('_', "").parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_those_of_yaml_1_1() {
        let number = |text: &str| match resolve(text) {
            Data::Number(number, _) => Some(number.to_string()),
            _ => None,
        };
        for (text, expected) in [
            ("5", Some("5")),
            ("-3", Some("-3")),
            ("0", Some("0")),
            ("017", Some("15")),
            ("0x1F", Some("31")),
            ("1_000", Some("1000")),
            ("1.10", Some("1.1")),
            ("1.5e+3", Some("1500.0")),
            ("18446744073709551615", Some("18446744073709551615")),
            ("1e3", None),
            ("0.1.5", None),
            ("1731511528802931abc", None),
            (".", None),
            ("-", None),
            ("08", None),
            ("2024-01-01", None),
            ("99999999999999999999999999999999999999999999", None),
        ] {
            assert_eq!(number(text).as_deref(), expected, "{text}");
        }
        assert!(matches!(resolve("yes"), Data::Bool(true)));
        assert!(matches!(resolve("Off"), Data::Bool(false)));
        assert!(matches!(resolve("~"), Data::Null));
    }
}
