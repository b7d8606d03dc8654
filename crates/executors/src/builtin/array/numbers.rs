//! Operations on arrays of numbers. Sums are decimal, so that 0.1 + 0.2 is 0.3; what
//! exceeds their range is summed in floating point.

use std::cmp::Ordering;

use serde_json::{Number, Value, json};
use windlass::{Error, Output};

use super::super::arguments::{Arguments, invalid};
use super::super::bounds::{MAX_ITEMS, too_many_items};
use super::super::value;
use super::{Key, items, list};

pub(super) fn sum(arguments: &Arguments<'_>) -> Result<Output, Error> {
    Ok(Output::json(total(&numbers(arguments)?).to_json()))
}

pub(super) fn average(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let numbers = numbers(arguments)?;
    if numbers.is_empty() {
        return Err(invalid("an empty array has no average"));
    }
    Ok(Output::json(tidy(total(&numbers).to_float() / numbers.len() as f64)))
}

/// The smallest or largest item, by value or by key.
pub(super) fn extreme(arguments: &Arguments<'_>, wanted: Ordering) -> Result<Output, Error> {
    let key = Key::optional(arguments)?;
    let mut best: Option<(&Value, &Value)> = None;
    for item in items(arguments)? {
        let Some(found) = key.of(item) else { continue };
        if best.is_none_or(|(_, so_far)| value::compare(found, so_far) == wanted) {
            best = Some((item, found));
        }
    }
    match best {
        Some((item, _)) => Ok(Output::json(item.clone())),
        None => Err(invalid("there is nothing to choose from: no item has a value")),
    }
}

/// Numbers from `start` up or down to `end`, exclusive.
pub(super) fn range(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let start = if arguments.get("start").is_some() { arguments.number("start")? } else { 0.0 };
    let end = arguments.number("end")?;
    let step = match arguments.get("step") {
        Some(_) => arguments.number("step")?,
        None if end < start => -1.0,
        None => 1.0,
    };
    if step == 0.0 {
        return Err(invalid("the parameter `step` must not be 0"));
    }
    // A billionth of a step less, so that 0, 0.1 … excludes 0.3 despite rounding errors.
    let count = ((end - start) / step - 1e-9).ceil().max(0.0);
    if count > MAX_ITEMS as f64 {
        return Err(too_many_items(value::short(count)));
    }
    list((0..count as usize).map(|index| tidy(start + index as f64 * step)).collect())
}

fn numbers<'a>(arguments: &Arguments<'a>) -> Result<Vec<&'a Number>, Error> {
    let key = Key::optional(arguments)?;
    let numbered = items(arguments)?.iter().enumerate();
    let number = |(index, item): (usize, &'a Value)| match key.of(item) {
        Some(Value::Number(number)) => Ok(number),
        Some(other) => {
            Err(invalid(format!("item {index} is {}, not a number", value::type_name(other))))
        }
        None => Err(invalid(format!("item {index} does not have the key"))),
    };
    numbered.map(number).collect()
}

enum Total {
    /// `digits / 10^scale`.
    Decimal {
        digits: i128,
        scale: u32,
    },
    Float(f64),
}

/// Maximum number of decimals that are summed exactly.
const MAX_SCALE: u32 = 18;

fn total(numbers: &[&Number]) -> Total {
    let decimal = numbers.iter().try_fold((0_i128, 0_u32), |(sum, scale), number| {
        let (digits, own) = decimal(number)?;
        let common = scale.max(own);
        let sum = sum.checked_mul(10_i128.checked_pow(common - scale)?)?;
        let digits = digits.checked_mul(10_i128.checked_pow(common - own)?)?;
        Some((sum.checked_add(digits)?, common))
    });
    match decimal {
        Some((digits, scale)) => Total::Decimal { digits, scale },
        None => Total::Float(numbers.iter().filter_map(|number| number.as_f64()).sum()),
    }
}

impl Total {
    fn to_float(&self) -> f64 {
        match self {
            Self::Float(float) => *float,
            Self::Decimal { digits, scale: 0 } => *digits as f64,
            // Through text, because parsing a decimal rounds only once.
            Self::Decimal { digits, scale } => {
                format!("{digits}e-{scale}").parse().unwrap_or(f64::NAN)
            }
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Decimal { digits, scale: 0 } => match i64::try_from(*digits) {
                Ok(integer) => json!(integer),
                Err(_) => json!(self.to_float()),
            },
            _ => tidy(self.to_float()),
        }
    }
}

/// The decimal value of a JSON number, within limits.
fn decimal(number: &Number) -> Option<(i128, u32)> {
    if let Some(integer) = number.as_i64() {
        return Some((integer.into(), 0));
    }
    let text = format!("{}", number.as_f64()?);
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let scale = u32::try_from(fraction.len()).ok().filter(|&scale| scale <= MAX_SCALE)?;
    format!("{whole}{fraction}").parse().ok().map(|digits| (digits, scale))
}

/// An integer without a decimal point; another number without floating-point noise.
fn tidy(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 9e15 {
        return json!(number as i64);
    }
    json!(format!("{number:.14e}").parse().unwrap_or(number))
}
