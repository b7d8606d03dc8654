//! [`Number`]: a rational as long as possible, else a float; and the [`Budget`] that
//! bounds the total cost of an expression.

use std::cmp::Ordering;

use num_bigint::BigInt;
use num_integer::Integer;
use num_rational::BigRational;
use num_traits::{One, Signed, ToPrimitive, Zero};

/// Maximum number of digits of an integer.
pub(super) const MAX_DIGITS: usize = 10_000;

/// The same in bits.
const MAX_BITS: u64 = 33_220;

/// Maximum denominator of an exponent that is tried as an exact root.
const MAX_EXACT_ROOT: u32 = 64;

/// The remaining cost budget of an expression, in products of two machine words: a few
/// milliseconds in all.
pub(super) struct Budget {
    work: u64,
    /// The budget for reducing fractions, which is the most expensive step. Once it is
    /// spent, fractions are approximated instead; that is no error.
    reducing: u64,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self { work: 2_000_000, reducing: 1_000_000 }
    }

    /// Spends from the budget; fails if too little is left.
    pub(super) fn spend(&mut self, cost: u64) -> Result<(), String> {
        match self.work.checked_sub(cost) {
            Some(left) => {
                self.work = left;
                Ok(())
            }
            None => Err("the expression takes too much work; use fewer or smaller numbers".into()),
        }
    }

    fn can_reduce(&mut self, cost: u64) -> bool {
        let left = self.reducing.checked_sub(cost);
        self.reducing = left.unwrap_or(0);
        left.is_some()
    }
}

/// A number, exact or approximate.
#[derive(Clone, Debug)]
pub(super) enum Number {
    /// In lowest terms; the denominator is positive.
    Exact(BigRational),
    /// Always finite.
    Approximate(f64),
}

impl Number {
    /// An integer within the limit.
    pub(super) fn integer(number: BigInt) -> Result<Self, String> {
        if number.bits() > MAX_BITS {
            return Err(format!("the result has more than {MAX_DIGITS} digits"));
        }
        Ok(Self::Exact(BigRational::from_integer(number)))
    }

    /// A reduced fraction, or an approximation if reducing would cost too much.
    pub(super) fn ratio(
        numerator: BigInt,
        denominator: BigInt,
        budget: &mut Budget,
    ) -> Result<Self, String> {
        if denominator.is_zero() {
            return Err("division by zero".into());
        }
        if denominator.is_one() {
            return Self::integer(numerator);
        }
        budget.spend(words(&numerator) * words(&denominator))?;
        let (whole, rest) = numerator.div_rem(&denominator);
        if rest.is_zero() {
            return Self::integer(whole);
        }
        let bits = numerator.bits() + denominator.bits();
        let gcd_cost = bits * words(&numerator).max(words(&denominator));
        if budget.can_reduce(gcd_cost) {
            return Ok(Self::Exact(BigRational::new(numerator, denominator)));
        }
        float_of(&BigRational::new_raw(numerator, denominator)).and_then(Self::float)
    }

    /// An approximate number.
    pub(super) fn float(float: f64) -> Result<Self, String> {
        if float.is_nan() {
            return Err("the result is not a real number".into());
        }
        if float.is_infinite() {
            return Err("the result is too large".into());
        }
        Ok(Self::Approximate(float))
    }

    pub(super) fn to_float(&self) -> Result<f64, String> {
        match self {
            Self::Exact(ratio) => float_of(ratio),
            Self::Approximate(float) => Ok(*float),
        }
    }

    /// The value, if it is an exact integer.
    pub(super) fn as_integer(&self) -> Option<&BigInt> {
        match self {
            Self::Exact(ratio) if ratio.is_integer() => Some(ratio.numer()),
            _ => None,
        }
    }

    pub(super) fn is_negative(&self) -> bool {
        match self {
            Self::Exact(ratio) => ratio.is_negative(),
            Self::Approximate(float) => *float < 0.0,
        }
    }

    pub(super) fn negate(&self) -> Self {
        match self {
            Self::Exact(ratio) => Self::Exact(-ratio),
            Self::Approximate(float) => Self::Approximate(-float),
        }
    }

    pub(super) fn add(&self, other: &Self, budget: &mut Budget) -> Result<Self, String> {
        let Some((left, right)) = both_exact(self, other) else {
            return Self::float(self.to_float()? + other.to_float()?);
        };
        if left.is_integer() && right.is_integer() {
            budget.spend(words(left.numer()) + words(right.numer()))?;
            return Self::integer(left.numer() + right.numer());
        }
        budget.spend(size(left) * size(right))?;
        let numerator = left.numer() * right.denom() + right.numer() * left.denom();
        Self::ratio(numerator, left.denom() * right.denom(), budget)
    }

    pub(super) fn multiply(&self, other: &Self, budget: &mut Budget) -> Result<Self, String> {
        let Some((left, right)) = both_exact(self, other) else {
            return Self::float(self.to_float()? * other.to_float()?);
        };
        budget.spend(size(left) * size(right))?;
        Self::ratio(left.numer() * right.numer(), left.denom() * right.denom(), budget)
    }

    pub(super) fn divide(&self, other: &Self, budget: &mut Budget) -> Result<Self, String> {
        let Some((left, right)) = both_exact(self, other) else {
            let divisor = other.to_float()?;
            if divisor == 0.0 {
                return Err("division by zero".into());
            }
            return Self::float(self.to_float()? / divisor);
        };
        budget.spend(size(left) * size(right))?;
        Self::ratio(left.numer() * right.denom(), left.denom() * right.numer(), budget)
    }

    /// The remainder with the sign of the divisor, as in mathematics and Python: `-7 % 3`
    /// is 2.
    pub(super) fn remainder(&self, other: &Self, budget: &mut Budget) -> Result<Self, String> {
        let Some((left, right)) = both_exact(self, other) else {
            let (left, right) = (self.to_float()?, other.to_float()?);
            if right == 0.0 {
                return Err("division by zero".into());
            }
            return Self::float(left - right * (left / right).floor());
        };
        if right.is_zero() {
            return Err("division by zero".into());
        }
        budget.spend(2 * size(left) * size(right))?;
        let (dividend, divisor) = (left.numer() * right.denom(), right.numer() * left.denom());
        Self::ratio(dividend.mod_floor(&divisor), left.denom() * right.denom(), budget)
    }

    pub(super) fn power(&self, exponent: &Self, budget: &mut Budget) -> Result<Self, String> {
        if let (Self::Exact(base), Self::Exact(exponent)) = (self, exponent) {
            if exponent.is_integer() {
                return integer_power(base, exponent.numer(), budget);
            }
            let root = exponent.denom().to_u32().filter(|&root| root <= MAX_EXACT_ROOT);
            if let (Some(root), false) = (root, base.is_negative())
                && let Some(base) = exact_root(base, root, budget)?
            {
                return integer_power(&base, exponent.numer(), budget);
            }
        }
        let (base, exponent) = (self.to_float()?, exponent.to_float()?);
        if base < 0.0 && exponent.fract() != 0.0 {
            return Err("a fractional power of a negative number is not real; \
                        use root(x, n) for an odd root"
                .into());
        }
        if base == 0.0 && exponent < 0.0 {
            return Err("division by zero".into());
        }
        Self::float(base.powf(exponent))
    }

    /// The real `degree`-th root.
    pub(super) fn root(&self, degree: u32, budget: &mut Budget) -> Result<Self, String> {
        if degree == 0 {
            return Err("there is no 0th root".into());
        }
        if self.is_negative() && degree.is_even() {
            return Err("an even root of a negative number is not real".into());
        }
        if let Self::Exact(ratio) = self
            && let Some(root) = exact_root(ratio, degree, budget)?
        {
            return Ok(Self::Exact(root));
        }
        let float = self.to_float()?;
        Self::float(match degree {
            1 => float,
            2 => float.sqrt(),
            3 => float.cbrt(),
            _ => float.abs().powf(1.0 / f64::from(degree)).copysign(float),
        })
    }

    pub(super) fn factorial(&self, budget: &mut Budget) -> Result<Self, String> {
        let number = self.as_integer().filter(|number| !number.is_negative());
        let number = number.ok_or("a factorial needs a whole number of at least 0")?;
        let count = number.to_u32().filter(|&count| count <= 3_249);
        let count =
            count.ok_or_else(|| format!("the factorial has more than {MAX_DIGITS} digits"))?;
        let mut product = BigInt::one();
        for factor in 2..=count {
            budget.spend(words(&product))?;
            product *= factor;
        }
        Self::integer(product)
    }

    pub(super) fn floor(&self) -> Result<Self, String> {
        match self {
            Self::Exact(ratio) => Self::integer(ratio.numer().div_floor(ratio.denom())),
            Self::Approximate(float) => Self::float(float.floor()),
        }
    }

    /// The nearest integer; halves are rounded away from zero.
    pub(super) fn round(&self) -> Result<Self, String> {
        match self {
            Self::Exact(ratio) => {
                let (numerator, denominator) = (ratio.numer().abs(), ratio.denom());
                let rounded: BigInt = (numerator * 2 + denominator) / (denominator * 2);
                Self::integer(if ratio.is_negative() { -rounded } else { rounded })
            }
            Self::Approximate(float) => Self::float(float.round()),
        }
    }

    pub(super) fn compare(&self, other: &Self, budget: &mut Budget) -> Result<Ordering, String> {
        let Some((left, right)) = both_exact(self, other) else {
            return Ok(self.to_float()?.total_cmp(&other.to_float()?));
        };
        budget.spend(size(left) * size(right))?;
        Ok((left.numer() * right.denom()).cmp(&(right.numer() * left.denom())))
    }
}

/// The size of a number in machine words, at least 1.
pub(super) fn words(number: &BigInt) -> u64 {
    number.bits() / 64 + 1
}

fn size(ratio: &BigRational) -> u64 {
    words(ratio.numer()) + words(ratio.denom())
}

fn both_exact<'a>(
    left: &'a Number,
    right: &'a Number,
) -> Option<(&'a BigRational, &'a BigRational)> {
    match (left, right) {
        (Number::Exact(left), Number::Exact(right)) => Some((left, right)),
        _ => None,
    }
}

fn float_of(ratio: &BigRational) -> Result<f64, String> {
    match ratio.to_f64() {
        Some(float) if float.is_finite() && (float != 0.0 || ratio.is_zero()) => Ok(float),
        _ => Err("a number is too large or too small to go on with approximately".into()),
    }
}

fn integer_power(
    base: &BigRational,
    exponent: &BigInt,
    budget: &mut Budget,
) -> Result<Number, String> {
    if base.is_zero() && exponent.is_negative() {
        return Err("division by zero".into());
    }
    if base.is_zero() && !exponent.is_zero() || base.is_one() {
        return Ok(Number::Exact(base.clone()));
    }
    if base.is_integer() && base.numer().magnitude().is_one() {
        let sign = if exponent.is_even() { 1 } else { -1 };
        return Number::integer(sign.into());
    }
    let bits = base.numer().bits().max(base.denom().bits());
    // One bit less, because 2^n has one bit more than n.
    let at_least = exponent.magnitude() * (bits - 1);
    match exponent.magnitude().to_u32().filter(|_| at_least <= MAX_BITS.into()) {
        Some(count) => {
            let words = bits * u64::from(count) / 64 + 1;
            budget.spend(words * words)?;
            let (numerator, denominator) = (base.numer().pow(count), base.denom().pow(count));
            if numerator.bits().max(denominator.bits()) > MAX_BITS {
                return Err(format!("the result has more than {MAX_DIGITS} digits"));
            }
            // Powers of coprime numbers are coprime, so nothing is to reduce.
            let power = BigRational::new_raw(numerator, denominator);
            Ok(Number::Exact(if exponent.is_negative() { power.recip() } else { power }))
        }
        None if base.is_integer() => {
            Err(format!("the result would have more than {MAX_DIGITS} digits"))
        }
        None => {
            let float = float_of(base)?.powf(exponent.to_f64().unwrap_or(f64::INFINITY));
            if float == 0.0 { Err("the result is too small".into()) } else { Number::float(float) }
        }
    }
}

/// The root of a fraction, if it is rational.
fn exact_root(
    ratio: &BigRational,
    degree: u32,
    budget: &mut Budget,
) -> Result<Option<BigRational>, String> {
    budget.spend(4 * size(ratio) * size(ratio))?;
    let root = |number: &BigInt| {
        let root = number.nth_root(degree);
        (root.pow(degree) == *number).then_some(root)
    };
    Ok(root(ratio.numer())
        .zip(root(ratio.denom()))
        .map(|(numerator, denominator)| BigRational::new_raw(numerator, denominator)))
}
