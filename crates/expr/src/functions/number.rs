//! Mathematics.

use std::cmp::Ordering;

use Form::{Global, Method};
use Takes::{List, Number, Rest, Uint, Whole};

use super::{Form, Gives, Row, Takes, row, unexpected};
use crate::error::{Fault, Faulty};
use crate::evaluate::binary;
use crate::meter::Meter;
use crate::syntax::Operator;
use crate::value::{Value, compare};

pub(super) const ROWS: &[Row] = &[
    row("math.greatest", Global, &[List], Gives::Element, greatest),
    row("math.greatest", Global, &[Number, Rest], Gives::Dyn, greatest),
    row("math.least", Global, &[List], Gives::Element, least),
    row("math.least", Global, &[Number, Rest], Gives::Dyn, least),
    row("max", Global, &[List], Gives::Element, greatest),
    row("max", Global, &[Takes::Any, Rest], Gives::Dyn, greatest),
    row("min", Global, &[List], Gives::Element, least),
    row("min", Global, &[Takes::Any, Rest], Gives::Dyn, least),
    row("max", Method, &[List], Gives::Element, greatest),
    row("min", Method, &[List], Gives::Element, least),
    row("sum", Method, &[List], Gives::Element, sum),
    row("sum", Global, &[List], Gives::Element, sum),
    row("math.abs", Global, &[Number], Gives::Same, abs),
    row("abs", Global, &[Number], Gives::Same, abs),
    row("math.sign", Global, &[Number], Gives::Same, sign),
    row("math.ceil", Global, &[Number], Gives::Double, ceil),
    row("math.floor", Global, &[Number], Gives::Double, floor),
    row("math.round", Global, &[Number], Gives::Double, round),
    row("math.trunc", Global, &[Number], Gives::Double, trunc),
    row("math.sqrt", Global, &[Number], Gives::Double, sqrt),
    row("ceil", Global, &[Number], Gives::Int, whole_ceil),
    row("floor", Global, &[Number], Gives::Int, whole_floor),
    row("round", Global, &[Number], Gives::Int, whole_round),
    row("math.isNaN", Global, &[Number], Gives::Bool, is_nan),
    row("math.isInf", Global, &[Number], Gives::Bool, is_infinite),
    row("math.isFinite", Global, &[Number], Gives::Bool, is_finite),
    row("math.bitAnd", Global, &[Uint, Uint], Gives::Uint, bit_and),
    row("math.bitAnd", Global, &[Whole, Whole], Gives::Int, bit_and),
    row("math.bitOr", Global, &[Uint, Uint], Gives::Uint, bit_or),
    row("math.bitOr", Global, &[Whole, Whole], Gives::Int, bit_or),
    row("math.bitXor", Global, &[Uint, Uint], Gives::Uint, bit_xor),
    row("math.bitXor", Global, &[Whole, Whole], Gives::Int, bit_xor),
    row("math.bitNot", Global, &[Uint], Gives::Uint, bit_not),
    row("math.bitNot", Global, &[Whole], Gives::Int, bit_not),
    row("math.bitShiftLeft", Global, &[Uint, Whole], Gives::Uint, shift_left),
    row("math.bitShiftLeft", Global, &[Whole, Whole], Gives::Int, shift_left),
    row("math.bitShiftRight", Global, &[Uint, Whole], Gives::Uint, shift_right),
    row("math.bitShiftRight", Global, &[Whole, Whole], Gives::Int, shift_right),
];

fn greatest<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    extreme(arguments, meter, Ordering::Greater)
}

fn least<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    extreme(arguments, meter, Ordering::Less)
}

/// The largest or smallest of the arguments, or of the list that is the only one.
fn extreme<'a>(arguments: &[Value<'a>], meter: &mut Meter, wanted: Ordering) -> Faulty<Value<'a>> {
    let mut found: Option<Value<'a>> = None;
    let mut visit = |value: Value<'a>| -> Faulty<()> {
        meter.step(1)?;
        if let Some(text) = value.as_str() {
            meter.read(text.len())?;
        }
        let better = match &found {
            None => compare(&value, &value).is_some() || value.as_f64().is_some(),
            Some(best) => match compare(&value, best) {
                Some(order) => order == wanted,
                None if value.as_f64().is_some() && best.as_f64().is_some() => false,
                None => {
                    return Err(Fault::new(format!(
                        "{} and {} have no order",
                        best.described(),
                        value.described()
                    )));
                }
            },
        };
        match (&found, better) {
            (None, false) => Err(Fault::new(format!("{} has no order", value.described()))),
            (_, true) => {
                found = Some(value);
                Ok(())
            }
            _ => Ok(()),
        }
    };
    match arguments {
        [Value::List(list)] => {
            for item in list.iter() {
                visit(item)?;
            }
        }
        _ => {
            for argument in arguments {
                visit(argument.clone())?;
            }
        }
    }
    found.ok_or_else(|| {
        Fault::new("an empty list has no least and no greatest element")
            .hint("ask size(list) > 0 first")
    })
}

fn sum<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let [Value::List(list)] = arguments else { return Err(unexpected()) };
    let mut total: Option<Value<'a>> = None;
    for item in list.iter() {
        meter.step(1)?;
        if !matches!(item, Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Duration(_)) {
            return Err(Fault::new(format!(
                "`sum` adds numbers or durations, not {}",
                item.described()
            )));
        }
        total = Some(match total {
            None => item,
            Some(total) => binary(Operator::Add, &total, &item, meter)?,
        });
    }
    Ok(total.unwrap_or(Value::Int(0)))
}

fn abs<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    match arguments {
        [Value::Int(number)] => match number.checked_abs() {
            Some(number) => Ok(Value::Int(number)),
            None => Err(Fault::new("the result does not fit into 64 bits")),
        },
        [Value::Uint(number)] => Ok(Value::Uint(*number)),
        [Value::Double(number)] => Ok(Value::Double(number.abs())),
        _ => Err(unexpected()),
    }
}

fn sign<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    match arguments {
        [Value::Int(number)] => Ok(Value::Int(number.signum())),
        [Value::Uint(number)] => Ok(Value::Uint(u64::from(*number > 0))),
        [Value::Double(number)] if *number == 0.0 => Ok(Value::Double(0.0)),
        [Value::Double(number)] => Ok(Value::Double(number.signum())),
        _ => Err(unexpected()),
    }
}

fn float(arguments: &[Value<'_>]) -> Faulty<f64> {
    arguments.first().and_then(Value::as_f64).ok_or_else(unexpected)
}

fn ceil<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    Ok(Value::Double(float(arguments)?.ceil()))
}

fn floor<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    Ok(Value::Double(float(arguments)?.floor()))
}

/// Halves go away from zero.
fn round<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    Ok(Value::Double(float(arguments)?.round()))
}

fn trunc<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    Ok(Value::Double(float(arguments)?.trunc()))
}

fn sqrt<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    Ok(Value::Double(float(arguments)?.sqrt()))
}

fn whole_ceil<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    whole(arguments, f64::ceil)
}

fn whole_floor<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    whole(arguments, f64::floor)
}

fn whole_round<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    whole(arguments, f64::round)
}

/// A whole number, which `math.round` and its like do not give.
fn whole<'a>(arguments: &[Value<'a>], to: fn(f64) -> f64) -> Faulty<Value<'a>> {
    match arguments {
        [Value::Double(number)] => {
            let number = to(*number);
            // The bounds of 64 bits, in doubles.
            if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number) {
                Ok(Value::Int(number as i64))
            } else {
                Err(Fault::new("the number does not fit into 64 bits"))
            }
        }
        [value] => Ok(value.clone()),
        _ => Err(unexpected()),
    }
}

fn is_nan<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    Ok(Value::Bool(float(arguments)?.is_nan()))
}

fn is_infinite<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    Ok(Value::Bool(float(arguments)?.is_infinite()))
}

fn is_finite<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    Ok(Value::Bool(float(arguments)?.is_finite()))
}

/// Works on two uints, or on two ints.
fn bits<'a>(arguments: &[Value<'a>], uints: fn(u64, u64) -> u64) -> Faulty<Value<'a>> {
    match arguments {
        [Value::Uint(a), Value::Uint(b)] => Ok(Value::Uint(uints(*a, *b))),
        [a, b] => {
            let (Some(a), Some(b)) = (int(a), int(b)) else { return Err(unexpected()) };
            Ok(Value::Int(uints(a.cast_unsigned(), b.cast_unsigned()).cast_signed()))
        }
        _ => Err(unexpected()),
    }
}

fn int(value: &Value<'_>) -> Option<i64> {
    value.as_whole().and_then(|whole| i64::try_from(whole).ok())
}

fn bit_and<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    bits(arguments, |a, b| a & b)
}

fn bit_or<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    bits(arguments, |a, b| a | b)
}

fn bit_xor<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    bits(arguments, |a, b| a ^ b)
}

fn bit_not<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    match arguments {
        [Value::Uint(number)] => Ok(Value::Uint(!number)),
        [value] => int(value).map(|number| Value::Int(!number)).ok_or_else(unexpected),
        _ => Err(unexpected()),
    }
}

fn shift_left<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    shifted(arguments, |number, by| number.checked_shl(by).unwrap_or(0))
}

fn shift_right<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    shifted(arguments, |number, by| number.checked_shr(by).unwrap_or(0))
}

/// The bits of an int move as those of a uint.
fn shifted<'a>(arguments: &[Value<'a>], shift: fn(u64, u32) -> u64) -> Faulty<Value<'a>> {
    let [number, by] = arguments else { return Err(unexpected()) };
    let Some(by) = by.as_whole().filter(|by| *by >= 0) else {
        return Err(Fault::new("a number is shifted by 0 bits or more"));
    };
    let by = u32::try_from(by).unwrap_or(u32::MAX);
    match number {
        Value::Uint(number) => Ok(Value::Uint(shift(*number, by))),
        other => int(other)
            .map(|number| Value::Int(shift(number.cast_unsigned(), by).cast_signed()))
            .ok_or_else(unexpected),
    }
}
