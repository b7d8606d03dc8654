//! Formats a number for people, models and programs.

use num_bigint::BigInt;
use num_integer::Integer;
use num_rational::BigRational;
use num_traits::{One, Signed, ToPrimitive, Zero};
use serde_json::Value;

use super::number::Number;

/// Digits of a fraction with a repeating decimal.
const ROUNDED_DIGITS: i64 = 20;

/// Digits of a float; the last two of its 17 are often noise.
const FLOAT_DIGITS: usize = 15;

/// Maximum number of decimals.
const MAX_DECIMALS: u32 = 100;

/// Maximum length of an `n/d` beside a rounded result.
const MAX_FRACTION: usize = 60;

/// A formatted result.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) text: String,
    /// A JSON number if no digit is lost, else text.
    pub(super) value: Value,
    /// Whether the text is exact.
    pub(super) exact: bool,
    /// The exact fraction, if the text is rounded.
    pub(super) fraction: Option<String>,
}

pub(super) fn show(number: &Number) -> Shown {
    match number {
        Number::Approximate(float) => show_float(*float),
        Number::Exact(ratio) => match decimals(ratio) {
            Some(text) => {
                let value = lossless(ratio, &text).unwrap_or_else(|| text.clone().into());
                Shown { text, value, exact: true, fraction: None }
            }
            None => show_rounded(ratio),
        },
    }
}

fn show_float(float: f64) -> Shown {
    let digits = FLOAT_DIGITS - 1;
    let rounded: f64 = format!("{float:.digits$e}").parse().unwrap_or(float);
    let text = if rounded != 0.0 && !(1e-6..1e21).contains(&rounded.abs()) {
        format!("{rounded:e}")
    } else {
        rounded.to_string()
    };
    Shown { text, value: rounded.into(), exact: false, fraction: None }
}

fn show_rounded(ratio: &BigRational) -> Shown {
    let (text, exact) = significant(ratio);
    if exact {
        let value = lossless(ratio, &text).unwrap_or_else(|| text.clone().into());
        return Shown { text, value, exact, fraction: None };
    }
    let value = match text.parse::<f64>() {
        Ok(float) if float.is_finite() && float != 0.0 => float.into(),
        _ => text.clone().into(),
    };
    let fraction = ratio.to_string();
    let fraction = Some(fraction).filter(|fraction| fraction.len() <= MAX_FRACTION);
    Shown { text, value, exact: false, fraction }
}

/// A JSON number with exactly these digits.
fn lossless(ratio: &BigRational, text: &str) -> Option<Value> {
    if ratio.is_integer() {
        return ratio.numer().to_i64().map(Value::from);
    }
    let value = Value::from(text.parse::<f64>().ok()?);
    let written = value.to_string();
    (written == text).then_some(value)
}

/// All digits, if there are few enough decimals.
fn decimals(ratio: &BigRational) -> Option<String> {
    if ratio.is_integer() {
        return Some(ratio.numer().to_string());
    }
    // Decimals end if the denominator has no prime factors but 2 and 5.
    let twos = ratio.denom().trailing_zeros().unwrap_or(0);
    let mut rest = ratio.denom() >> twos;
    let mut fives = 0;
    while !rest.is_one() {
        fives += 1;
        if fives > MAX_DECIMALS || !(&rest % 5_u32).is_zero() {
            return None;
        }
        rest /= 5_u32;
    }
    let count = u32::try_from(twos).ok()?.max(fives);
    if count > MAX_DECIMALS {
        return None;
    }
    let scaled = ratio.numer().abs() * BigInt::from(10).pow(count) / ratio.denom();
    Some(signed(ratio, &with_point(&scaled.to_string(), count as usize)))
}

/// The leading digits, correctly rounded, and whether they are all there are:
/// `0.33333333333333333333` and false.
fn significant(ratio: &BigRational) -> (String, bool) {
    let (numerator, denominator) = (ratio.numer().abs(), ratio.denom());
    let digits_wanted = ROUNDED_DIGITS as usize;
    let bits = numerator.bits() as f64 - denominator.bits() as f64;
    // The exponent of the first digit: a guess that is off by one at most.
    let mut exponent = (bits * std::f64::consts::LOG10_2).floor() as i64;
    let (digits, exact) = loop {
        let shift = ROUNDED_DIGITS - 1 - exponent;
        let power = BigInt::from(10).pow(u32::try_from(shift.unsigned_abs()).unwrap_or(0));
        let (dividend, divisor) = if shift >= 0 {
            (&numerator * power, denominator.clone())
        } else {
            (numerator.clone(), denominator * power)
        };
        let (whole, rest) = dividend.div_rem(&divisor);
        let exact = rest.is_zero();
        let digits = if rest * 2 >= divisor { whole + 1 } else { whole }.to_string();
        match digits.len() {
            length if length > digits_wanted => exponent += 1,
            length if length < digits_wanted => exponent -= 1,
            _ => break (digits, exact),
        }
    };
    let text = if (-7..ROUNDED_DIGITS).contains(&exponent) {
        with_point(&digits, usize::try_from(ROUNDED_DIGITS - 1 - exponent).unwrap_or(0))
    } else {
        let mantissa = with_point(&digits, digits_wanted - 1);
        format!("{mantissa}e{exponent}")
    };
    (signed(ratio, &text), exact)
}

/// Puts a point before the last `decimals` digits and drops zeros at the end.
fn with_point(digits: &str, decimals: usize) -> String {
    let digits = format!("{digits:0>width$}", width = decimals + 1);
    let (whole, fraction) = digits.split_at(digits.len() - decimals);
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") }
}

fn signed(ratio: &BigRational, text: &str) -> String {
    if ratio.is_negative() { format!("-{text}") } else { text.to_owned() }
}
