//! `format` and `strings.quote`.

use std::fmt::Write as _;

use Form::{Global, Method};
use Takes::{List, Text};

use super::{Form, Gives, Row, Takes, convert, row, unexpected};
use crate::error::{Fault, Faulty};
use crate::meter::Meter;
use crate::value::Value;

pub(super) const ROWS: &[Row] = &[
    row("format", Method, &[Text, List], Gives::Text, format),
    row("strings.quote", Global, &[Text], Gives::Text, quote),
];

/// The most digits behind a point.
const PRECISION: usize = 100;

/// `"%s has %d".format(["Ann", 3])`
fn format<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let [Value::Text(text), Value::List(values)] = arguments else { return Err(unexpected()) };
    let mut values = values.iter();
    let mut rest = text.as_str();
    meter.read(rest.len())?;
    let mut made = Output { text: String::new(), meter };
    while let Some((before, after)) = rest.split_once('%') {
        made.push(before)?;
        if let Some(after) = after.strip_prefix('%') {
            made.push("%")?;
            rest = after;
            continue;
        }
        let (precision, after) = precision(after)?;
        let mut letters = after.chars();
        let Some(clause) = letters.next() else {
            return Err(Fault::new("the format ends with `%`").hint("write %% for a percent sign"));
        };
        rest = letters.as_str();
        if !"sdfebxXo".contains(clause) {
            return Err(Fault::new(format!("there is no format `%{clause}`"))
                .hint("write %s, %d, %f, %e, %b, %o, %x, %X, or %% for a percent sign"));
        }
        let Some(value) = values.next() else {
            return Err(Fault::new("the format has more places than there are values"));
        };
        made.clause(clause, precision, &value)?;
    }
    made.push(rest)?;
    Ok(Value::text(made.text))
}

/// `.3` of `%.3f`.
fn precision(text: &str) -> Faulty<(Option<usize>, &str)> {
    let Some(text) = text.strip_prefix('.') else { return Ok((None, text)) };
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    match digits.parse() {
        Ok(digits) if digits <= PRECISION => Ok((Some(digits), rest)),
        _ => Err(Fault::new(format!("a format has 0 to {PRECISION} digits behind the point"))),
    }
}

struct Output<'m> {
    text: String,
    meter: &'m mut Meter,
}

impl Output<'_> {
    fn push(&mut self, text: &str) -> Faulty<()> {
        self.meter.allocate(text.len())?;
        self.text.push_str(text);
        Ok(())
    }

    fn clause(&mut self, clause: char, precision: Option<usize>, value: &Value<'_>) -> Faulty<()> {
        // Digits of numbers are long divisions.
        self.meter.step(1 + precision.unwrap_or(0) as u64)?;
        let special = match value {
            Value::Double(number) if !number.is_finite() => Some(convert::scalar(value)),
            _ => None,
        };
        let text = match (clause, value) {
            ('s', _) => return self.value(value),
            ('d' | 'f' | 'e', Value::Double(_)) if special.is_some() => special,
            ('d', Value::Int(_) | Value::Uint(_)) => Some(convert::scalar(value)),
            ('d', _) => value.as_whole().map(|whole| whole.to_string()),
            ('f', _) => value.as_f64().map(|number| format!("{number:.*}", precision.unwrap_or(6))),
            ('e', _) => value.as_f64().map(|number| scientific(number, precision.unwrap_or(6))),
            ('b', Value::Bool(value)) => Some(u8::from(*value).to_string()),
            ('b', _) => radix(value, |whole| format!("{whole:b}")),
            ('o', _) => radix(value, |whole| format!("{whole:o}")),
            ('x' | 'X', Value::Text(text)) => Some(self.hex(text.as_str().as_bytes())?),
            ('x' | 'X', Value::Bytes(bytes)) => Some(self.hex(bytes)?),
            ('x' | 'X', _) => radix(value, |whole| format!("{whole:x}")),
            _ => None,
        };
        match text {
            Some(text) if clause == 'X' => self.push(&text.to_ascii_uppercase()),
            Some(text) => self.push(&text),
            None => Err(Fault::new(format!("`%{clause}` cannot show {}", value.described()))
                .hint("write %s for any value")),
        }
    }

    fn hex(&mut self, bytes: &[u8]) -> Faulty<String> {
        self.meter.allocate(bytes.len() * 2)?;
        self.meter.read(bytes.len() * 4)?;
        let mut text = String::with_capacity(bytes.len() * 2);
        for byte in bytes {
            let _ = write!(text, "{byte:02x}");
        }
        Ok(text)
    }

    /// `%s`: strings without quotes, maps in the order of their keys.
    fn value(&mut self, value: &Value<'_>) -> Faulty<()> {
        self.meter.step(1)?;
        match value {
            Value::Text(text) => self.push(text.as_str()),
            Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => self.push(text),
                Err(_) => Err(Fault::new("the bytes are not UTF-8").hint("write %x")),
            },
            Value::List(list) => {
                self.push("[")?;
                for (index, item) in list.iter().enumerate() {
                    if index > 0 {
                        self.push(", ")?;
                    }
                    self.value(&item)?;
                }
                self.push("]")
            }
            Value::Map(map) => {
                self.meter.step(map.len() as u64 * 8)?;
                let mut entries = Vec::new();
                for (key, value) in map.entries() {
                    let key = key.shown();
                    self.meter.allocate(key.len() + crate::evaluate::ELEMENT * 2)?;
                    entries.push((key, value));
                }
                entries.sort_by(|(a, _), (b, _)| a.cmp(b));
                self.push("{")?;
                for (index, (key, value)) in entries.iter().enumerate() {
                    if index > 0 {
                        self.push(", ")?;
                    }
                    self.push(key)?;
                    self.push(": ")?;
                    self.value(value)?;
                }
                self.push("}")
            }
            Value::Optional(_) => Err(Fault::new("`%s` cannot show an optional")
                .hint("write value.orValue(otherwise) or default(value, otherwise)")),
            _ => self.push(&convert::scalar(value)),
        }
    }
}

/// A whole number by its digits, with a sign.
fn radix(value: &Value<'_>, digits: fn(u128) -> String) -> Option<String> {
    let whole = value.as_whole()?;
    let sign = if whole < 0 { "-" } else { "" };
    Some(format!("{sign}{}", digits(whole.unsigned_abs())))
}

/// With two digits of the exponent at least, as C writes it.
fn scientific(number: f64, precision: usize) -> String {
    let text = format!("{number:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}

/// A string as an expression writes it, with quotes and escapes.
fn quote<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let [Value::Text(text)] = arguments else { return Err(unexpected()) };
    let text = text.as_str();
    meter.allocate(text.len() * 2 + 2)?;
    meter.read(text.len() * 2)?;
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    Ok(Value::text(quoted))
}
