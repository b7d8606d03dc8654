//! Numbers as Python reads, compares and writes them.

use std::cmp::Ordering;

use super::Value;

/// Two numbers in order, booleans being 0 and 1; `None` if one is no number, or NaN.
pub fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (whole(left), whole(right)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => {
            let (a, b) = (left.as_number()?, right.as_number()?);
            a.partial_cmp(&b)
        }
    }
}

fn whole(value: &Value) -> Option<i128> {
    match value {
        Value::Bool(flag) => Some(i128::from(*flag)),
        Value::Int(int) => Some(*int),
        _ => None,
    }
}

/// `float(text)`: blanks around it, underscores between digits, `inf` and `nan`.
pub fn parse_float(text: &str) -> Option<f64> {
    let text = text.trim();
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let word = unsigned.to_ascii_lowercase();
    let named = matches!(word.as_str(), "inf" | "infinity" | "nan");
    if !named && !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    digits(text)?.parse().ok()
}

/// `int(text)`: no fraction, no exponent.
pub fn parse_int(text: &str) -> Option<i128> {
    let text = text.trim();
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !unsigned.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    digits(text)?.parse().ok()
}

/// The text without underscores, which may stand between digits only.
fn digits(text: &str) -> Option<String> {
    if !text.contains('_') {
        return Some(text.to_owned());
    }
    let bytes = text.as_bytes();
    let is_digit = |at: Option<&u8>| at.is_some_and(u8::is_ascii_digit);
    let between = bytes.iter().enumerate().filter(|(_, b)| **b == b'_').all(|(at, _)| {
        is_digit(at.checked_sub(1).and_then(|at| bytes.get(at))) && is_digit(bytes.get(at + 1))
    });
    between.then(|| text.replace('_', ""))
}

/// `int(float)`; `None` for infinity and NaN.
pub fn truncate(float: f64) -> Option<i128> {
    #[expect(clippy::cast_possible_truncation, reason = "saturates far beyond what is used")]
    float.is_finite().then_some(float as i128)
}

/// `repr(float)`: the shortest digits that read back, with an exponent below
/// 1e-4 and from 1e16 on.
pub fn float_text(float: f64) -> String {
    if float.is_nan() {
        return "nan".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    // `{:e}` gives the shortest digits, as `1.5e21`.
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if float != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.unsigned_abs());
    }
    let plain = format!("{float}");
    if plain.contains('.') { plain } else { format!("{plain}.0") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_python_writes_them() {
        for (float, text) in [
            (5.0, "5.0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1e21, "1e+21"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-0.0, "-0.0"),
            (123_456.789, "123456.789"),
        ] {
            assert_eq!(float_text(float), text);
        }
    }

    #[test]
    fn texts_are_read_as_python_reads_them() {
        for (text, int, float) in [
            ("5", Some(5), Some(5.0)),
            (" 5\n", Some(5), Some(5.0)),
            ("05", Some(5), Some(5.0)),
            ("1_000", Some(1000), Some(1000.0)),
            ("1__0", None, None),
            ("5.5", None, Some(5.5)),
            (".5", None, Some(0.5)),
            ("5.", None, Some(5.0)),
            ("1e3", None, Some(1000.0)),
            ("-Infinity", None, Some(f64::NEG_INFINITY)),
            ("", None, None),
            ("abc", None, None),
            ("0x10", None, None),
            ("e5", None, None),
        ] {
            assert_eq!((parse_int(text), parse_float(text)), (int, float), "{text:?}");
        }
    }
}
