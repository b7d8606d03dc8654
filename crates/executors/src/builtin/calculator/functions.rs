//! Functions and constants of expressions.

use std::f64::consts;
use std::ops::RangeInclusive;

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{One, Signed, ToPrimitive, Zero};

use super::number::{Budget, Number, words};

/// A function: name, arity and implementation.
pub(super) struct Function {
    pub(super) name: &'static str,
    pub(super) arguments: RangeInclusive<usize>,
    pub(super) apply: fn(&[Number], &mut Budget) -> Result<Number, String>,
}

impl Function {
    /// Says how many arguments there should be.
    pub(super) fn wrong_count(&self, found: usize) -> String {
        let (least, most) = (*self.arguments.start(), *self.arguments.end());
        let wanted = match (least, most) {
            (least, usize::MAX) => format!("at least {least}"),
            (least, most) if least == most => least.to_string(),
            (least, most) => format!("{least} to {most}"),
        };
        format!("`{}` takes {wanted} arguments, found {found}", self.name)
    }
}

/// A constant; all of them are irrational.
#[derive(Clone, Copy)]
pub(super) struct Constant(f64);

impl Constant {
    pub(super) fn number(self) -> Number {
        Number::Approximate(self.0)
    }
}

pub(super) const CONSTANTS: &[(&str, Constant)] = &[
    ("pi", Constant(consts::PI)),
    ("π", Constant(consts::PI)),
    ("e", Constant(consts::E)),
    ("tau", Constant(consts::TAU)),
    ("phi", Constant(1.618_033_988_749_895)),
];

macro_rules! functions {
    ($($name:literal ($arguments:expr) => $apply:expr;)*) => {
        pub(super) static FUNCTIONS: &[Function] =
            &[$(Function { name: $name, arguments: $arguments, apply: $apply }),*];
    };
}

functions! {
    "sqrt" (1..=1) => |x, budget| x[0].root(2, budget);
    "cbrt" (1..=1) => |x, budget| x[0].root(3, budget);
    "root" (2..=2) => |x, budget| x[0].root(natural(&x[1], "root")?, budget);
    "pow" (2..=2) => |x, budget| x[0].power(&x[1], budget);
    "exp" (1..=1) => |x, _| real(&x[0], f64::exp);
    "ln" (1..=1) => |x, _| logarithm(&x[0], consts::E);
    "log" (1..=2) => |x, budget| log(x, budget);
    "log10" (1..=1) => |x, budget| exact_log(&x[0], 10, budget);
    "log2" (1..=1) => |x, budget| exact_log(&x[0], 2, budget);
    "abs" (1..=1) => |x, _| Ok(if x[0].is_negative() { x[0].negate() } else { x[0].clone() });
    "sign" (1..=1) => |x, _| sign(&x[0]);
    "round" (1..=2) => round;
    "floor" (1..=1) => |x, _| x[0].floor();
    "ceil" (1..=1) => |x, _| Ok(x[0].negate().floor()?.negate());
    "trunc" (1..=1) => |x, _| {
        if x[0].is_negative() { Ok(x[0].negate().floor()?.negate()) } else { x[0].floor() }
    };
    "mod" (2..=2) => |x, budget| x[0].remainder(&x[1], budget);
    "min" (1..=usize::MAX) => |x, budget| extreme(x, |order| order.is_lt(), budget);
    "max" (1..=usize::MAX) => |x, budget| extreme(x, |order| order.is_gt(), budget);
    "sum" (1..=usize::MAX) => sum;
    "avg" (1..=usize::MAX) => average;
    "mean" (1..=usize::MAX) => average;
    "gcd" (1..=usize::MAX) => |x, budget| fold(x, "gcd", BigInt::gcd, budget);
    "lcm" (1..=usize::MAX) => |x, budget| fold(x, "lcm", BigInt::lcm, budget);
    "factorial" (1..=1) => |x, budget| x[0].factorial(budget);
    "comb" (2..=2) => combinations;
    "perm" (2..=2) => permutations;
    "sin" (1..=1) => |x, _| angle(&x[0], f64::sin);
    "cos" (1..=1) => |x, _| angle(&x[0], f64::cos);
    "tan" (1..=1) => |x, _| angle(&x[0], f64::tan);
    "asin" (1..=1) => |x, _| real(&x[0], f64::asin);
    "acos" (1..=1) => |x, _| real(&x[0], f64::acos);
    "atan" (1..=1) => |x, _| real(&x[0], f64::atan);
    "atan2" (2..=2) => |x, _| Number::float(x[0].to_float()?.atan2(x[1].to_float()?));
    "sinh" (1..=1) => |x, _| real(&x[0], f64::sinh);
    "cosh" (1..=1) => |x, _| real(&x[0], f64::cosh);
    "tanh" (1..=1) => |x, _| real(&x[0], f64::tanh);
    "hypot" (2..=2) => hypotenuse;
    "radians" (1..=1) => |x, _| real(&x[0], f64::to_radians);
    "degrees" (1..=1) => |x, _| real(&x[0], f64::to_degrees);
}

/// A function with irrational values, except for 0 or 1 at 0 (such as sine and cosine).
fn real(number: &Number, function: fn(f64) -> f64) -> Result<Number, String> {
    let value = function(number.to_float()?);
    let at_zero = number.as_integer().is_some_and(Zero::is_zero);
    if at_zero && (value == 0.0 || value == 1.0) {
        return Number::integer((value as u8).into());
    }
    Number::float(value)
}

/// A trigonometric function. A float near a multiple of π is off by up to its own
/// precision, so a result below that counts as 0, and one beyond it as a pole.
fn angle(number: &Number, function: fn(f64) -> f64) -> Result<Number, String> {
    let float = number.to_float()?;
    let precision = float.abs() * f64::EPSILON;
    if precision > 1e-3 {
        return Err("the angle is too large".into());
    }
    let value = function(float);
    if value.abs() < precision {
        return Ok(Number::Approximate(0.0));
    }
    if value.abs() * precision > 1.0 {
        return Err("not defined at this angle".into());
    }
    real(number, function)
}

/// `log(x)` is the common logarithm; `log(x, base)` any other.
fn log(x: &[Number], budget: &mut Budget) -> Result<Number, String> {
    let Some(base) = x.get(1) else { return exact_log(&x[0], 10, budget) };
    if let Some(base) = base.as_integer().and_then(BigInt::to_u32).filter(|&base| base >= 2) {
        return exact_log(&x[0], base, budget);
    }
    let base = base.to_float()?;
    if base <= 0.0 || base == 1.0 {
        return Err("the base of a logarithm must be positive and not 1".into());
    }
    logarithm(&x[0], base)
}

/// A logarithm that is exact for powers of its base.
fn exact_log(number: &Number, base: u32, budget: &mut Budget) -> Result<Number, String> {
    let approximate = logarithm(number, f64::from(base))?;
    let Number::Exact(ratio) = number else { return Ok(approximate) };
    let guess = approximate.to_float()?.round();
    let guess = Number::integer(BigInt::from(guess as i64))?;
    let base = Number::integer(base.into())?;
    match base.power(&guess, budget) {
        // Compares the parts, because `Ratio` compares by repeated division.
        Ok(Number::Exact(power))
            if power.numer() == ratio.numer() && power.denom() == ratio.denom() =>
        {
            Ok(guess)
        }
        _ => Ok(approximate),
    }
}

fn logarithm(number: &Number, base: f64) -> Result<Number, String> {
    let not_positive = || "a logarithm needs a positive number".to_owned();
    let natural = match (number, number.to_float()) {
        (_, Ok(float)) if float > 0.0 => float.ln(),
        (Number::Exact(ratio), Err(_)) if ratio.is_positive() => {
            ln_integer(ratio.numer()) - ln_integer(ratio.denom())
        }
        _ => return Err(not_positive()),
    };
    if natural == 0.0 && number.as_integer().is_some_and(One::is_one) {
        return Number::integer(BigInt::zero());
    }
    // `ln(x) / ln(10)` would work for all bases, but is slightly less precise.
    let value = match number.to_float() {
        Ok(float) if base == 10.0 => float.log10(),
        Ok(float) if base == 2.0 => float.log2(),
        _ if base == consts::E => natural,
        _ => natural / base.ln(),
    };
    Number::float(value)
}

/// The natural logarithm of an integer that may exceed the range of a float.
fn ln_integer(number: &BigInt) -> f64 {
    let shift = number.bits().saturating_sub(64);
    let leading = (number >> shift).to_f64().unwrap_or(f64::NAN);
    leading.ln() + shift as f64 * consts::LN_2
}

fn sign(number: &Number) -> Result<Number, String> {
    let sign = match number {
        Number::Exact(ratio) if ratio.is_zero() => 0,
        Number::Approximate(float) if *float == 0.0 => 0,
        number if number.is_negative() => -1,
        _ => 1,
    };
    Number::integer(sign.into())
}

/// `round(x)`, or `round(x, digits)` after the point.
fn round(x: &[Number], budget: &mut Budget) -> Result<Number, String> {
    let Some(digits) = x.get(1) else { return x[0].round() };
    let digits = digits.as_integer().and_then(BigInt::to_i32).filter(|d| d.abs() <= 100);
    let digits = digits.ok_or("round takes a number of digits from -100 to 100")?;
    let ten = Number::integer(10.into())?;
    let scale = ten.power(&Number::integer(digits.into())?, budget)?;
    x[0].multiply(&scale, budget)?.round()?.divide(&scale, budget)
}

fn extreme(
    x: &[Number],
    better: fn(std::cmp::Ordering) -> bool,
    budget: &mut Budget,
) -> Result<Number, String> {
    let mut best = &x[0];
    for number in &x[1..] {
        if better(number.compare(best, budget)?) {
            best = number;
        }
    }
    Ok(best.clone())
}

fn sum(x: &[Number], budget: &mut Budget) -> Result<Number, String> {
    let mut total = x[0].clone();
    for number in &x[1..] {
        total = total.add(number, budget)?;
    }
    Ok(total)
}

fn average(x: &[Number], budget: &mut Budget) -> Result<Number, String> {
    sum(x, budget)?.divide(&Number::integer(x.len().into())?, budget)
}

fn hypotenuse(x: &[Number], budget: &mut Budget) -> Result<Number, String> {
    let (left, right) = (x[0].multiply(&x[0], budget)?, x[1].multiply(&x[1], budget)?);
    left.add(&right, budget)?.root(2, budget)
}

fn fold(
    x: &[Number],
    name: &str,
    join: fn(&BigInt, &BigInt) -> BigInt,
    budget: &mut Budget,
) -> Result<Number, String> {
    let mut folded: Option<BigInt> = None;
    for number in x {
        let number = number.as_integer().ok_or_else(|| format!("{name} needs whole numbers"))?;
        folded = Some(match folded {
            None => number.abs(),
            Some(so_far) => {
                let bits = so_far.bits() + number.bits();
                budget.spend((bits + 1) * words(&so_far).max(words(number)))?;
                join(&so_far, number)
            }
        });
    }
    Number::integer(folded.unwrap_or_else(BigInt::zero))
}

fn combinations(x: &[Number], budget: &mut Budget) -> Result<Number, String> {
    let (all, chosen) = (natural(&x[0], "comb")?, natural(&x[1], "comb")?);
    if chosen > all {
        return Number::integer(BigInt::zero());
    }
    let chosen = chosen.min(all - chosen);
    let mut product = BigInt::one();
    for step in 1..=chosen {
        // A division costs several times what a product does.
        budget.spend(10 * words(&product))?;
        // The product of `step` neighbouring numbers has `step` as a factor.
        product = product * (all - chosen + step) / step;
        Number::integer(product.clone())?;
    }
    Number::integer(product)
}

fn permutations(x: &[Number], budget: &mut Budget) -> Result<Number, String> {
    let (all, chosen) = (natural(&x[0], "perm")?, natural(&x[1], "perm")?);
    if chosen > all {
        return Number::integer(BigInt::zero());
    }
    let mut product = BigInt::one();
    for factor in all - chosen + 1..=all {
        budget.spend(words(&product))?;
        product *= factor;
        Number::integer(product.clone())?;
    }
    Number::integer(product)
}

fn natural(number: &Number, name: &str) -> Result<u32, String> {
    let number = number.as_integer().and_then(BigInt::to_u32);
    number.ok_or_else(|| format!("{name} needs whole numbers from 0 to {}", u32::MAX))
}
