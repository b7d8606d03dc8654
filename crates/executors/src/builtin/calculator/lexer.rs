//! Lexer: splits an expression into tokens.

use num_bigint::BigInt;
use num_traits::{One, Zero};

use super::Fault;
use super::number::MAX_DIGITS;

/// Maximum number of decimals, and maximum exponent, of a literal.
const MAX_SCALE: usize = 1_000;

/// A token and the character at which it starts, counted from 1.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) at: usize,
    pub(super) kind: Kind,
}

/// A literal number as written: `0.25` is 25 / 100.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Literal {
    pub(super) numerator: BigInt,
    pub(super) denominator: BigInt,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Number(Literal),
    Name(String),
    Plus,
    Minus,
    Times,
    Divide,
    FloorDivide,
    Remainder,
    Power,
    Factorial,
    Open,
    Close,
    Comma,
    End,
}

impl Kind {
    /// How an error names the token.
    pub(super) fn describe(&self) -> String {
        let symbol = match self {
            Self::Number(_) => return "a number".into(),
            Self::Name(name) => return format!("`{name}`"),
            Self::End => return "the end".into(),
            Self::Plus => "+",
            Self::Minus => "-",
            Self::Times => "*",
            Self::Divide => "/",
            Self::FloorDivide => "//",
            Self::Remainder => "%",
            Self::Power => "^",
            Self::Factorial => "!",
            Self::Open => "(",
            Self::Close => ")",
            Self::Comma => ",",
        };
        format!("`{symbol}`")
    }
}

/// Splits an expression; the last token is [`Kind::End`].
pub(super) fn lex(expression: &str) -> Result<Vec<Token>, Fault> {
    let chars: Vec<char> = expression.chars().collect();
    let mut tokens = Vec::new();
    let mut next = 0;
    while let Some(&c) = chars.get(next) {
        let at = next + 1;
        let doubled = chars.get(next + 1) == Some(&c);
        let kind = match c {
            c if c.is_whitespace() => {
                next += 1;
                continue;
            }
            '0'..='9' | '.' => {
                let (number, length) = lex_number(&chars[next..], at)?;
                next += length;
                tokens.push(Token { at, kind: Kind::Number(number) });
                continue;
            }
            c if c.is_alphabetic() || c == '_' => {
                let is_name = |c: &&char| c.is_alphanumeric() || **c == '_';
                let name: String = chars[next..].iter().take_while(is_name).collect();
                next += name.chars().count();
                tokens.push(Token { at, kind: Kind::Name(name.to_lowercase()) });
                continue;
            }
            '*' if doubled => Kind::Power,
            '/' if doubled => Kind::FloorDivide,
            '+' | '＋' => Kind::Plus,
            '-' | '−' | '–' | '－' => Kind::Minus,
            '*' | '×' | '·' | '⋅' | '∗' | '＊' => Kind::Times,
            '/' | '÷' | '∕' | '／' => Kind::Divide,
            '%' => Kind::Remainder,
            '^' => Kind::Power,
            '!' => Kind::Factorial,
            '(' | '（' | '[' => Kind::Open,
            ')' | '）' | ']' => Kind::Close,
            ',' | '，' | ';' => Kind::Comma,
            '√' => Kind::Name("sqrt".into()),
            '=' => {
                return Err(Fault::syntax(at, "an `=` is not understood; give only an expression"));
            }
            other => return Err(Fault::syntax(at, format!("unexpected character {other:?}"))),
        };
        next +=
            if matches!((c, &kind), ('*', Kind::Power) | ('/', Kind::FloorDivide)) { 2 } else { 1 };
        tokens.push(Token { at, kind });
    }
    tokens.push(Token { at: chars.len() + 1, kind: Kind::End });
    Ok(tokens)
}

/// Reads `1_000.25e-3` or `0xff`, and returns how many characters it has.
fn lex_number(chars: &[char], at: usize) -> Result<(Literal, usize), Fault> {
    let radix = match (chars.first(), chars.get(1)) {
        (Some('0'), Some('x' | 'X')) => 16,
        (Some('0'), Some('b' | 'B')) => 2,
        (Some('0'), Some('o' | 'O')) => 8,
        _ => return lex_decimal(chars, at),
    };
    let (digits, length) = take_digits(&chars[2..], radix);
    let number = BigInt::parse_bytes(digits.as_bytes(), radix)
        .ok_or_else(|| Fault::syntax(at, "expected digits after the prefix"))?;
    end_of_number(chars, 2 + length, at)?;
    Ok((scaled(number, 0), 2 + length))
}

fn lex_decimal(chars: &[char], at: usize) -> Result<(Literal, usize), Fault> {
    let (mut digits, mut length) = take_digits(chars, 10);
    let mut scale = 0;
    if chars.get(length) == Some(&'.') {
        let (fraction, taken) = take_digits(&chars[length + 1..], 10);
        length += 1 + taken;
        scale = fraction.len();
        digits.push_str(&fraction);
    }
    if digits.is_empty() {
        return Err(Fault::syntax(at, "expected a number, found a lone `.`"));
    }
    let mut exponent = 0_i64;
    if let Some((written, taken)) = take_exponent(&chars[length..]) {
        // An exponent that does not fit is out of range in any case.
        exponent = written.parse().unwrap_or(i64::MAX / 2);
        length += taken;
    }
    end_of_number(chars, length, at)?;
    if digits.len() > MAX_DIGITS || scale > MAX_SCALE || exponent.unsigned_abs() > MAX_SCALE as u64
    {
        return Err(Fault::syntax(
            at,
            format!(
                "the number is too long: at most {MAX_DIGITS} digits, {MAX_SCALE} after the point, \
                 and an exponent of {MAX_SCALE}"
            ),
        ));
    }
    let number = BigInt::parse_bytes(digits.as_bytes(), 10).unwrap_or_else(BigInt::zero);
    Ok((scaled(number, exponent - scale as i64), length))
}

/// `number × 10^exponent`, for a small exponent.
fn scaled(number: BigInt, exponent: i64) -> Literal {
    let power = BigInt::from(10).pow(exponent.unsigned_abs() as u32);
    if exponent >= 0 {
        Literal { numerator: number * power, denominator: BigInt::one() }
    } else {
        Literal { numerator: number, denominator: power }
    }
}

fn take_digits(chars: &[char], radix: u32) -> (String, usize) {
    let length = chars.iter().take_while(|&&c| c.is_digit(radix) || c == '_').count();
    (chars[..length].iter().filter(|&&c| c != '_').collect(), length)
}

/// `e-3`, but not the constant `e` in `2e` and not `exp` in `2exp`.
fn take_exponent(chars: &[char]) -> Option<(String, usize)> {
    let sign = match chars {
        ['e' | 'E', sign @ ('+' | '-' | '−'), '0'..='9', ..] => Some(*sign),
        ['e' | 'E', '0'..='9', ..] => None,
        _ => return None,
    };
    let before = 1 + usize::from(sign.is_some());
    let (digits, taken) = take_digits(&chars[before..], 10);
    let minus = if matches!(sign, Some('-' | '−')) { "-" } else { "" };
    Some((format!("{minus}{digits}"), before + taken))
}

/// Rejects `2x` and `1.2.3`, rather than guess what was meant.
fn end_of_number(chars: &[char], length: usize, at: usize) -> Result<(), Fault> {
    match chars.get(length) {
        Some(c) if c.is_alphanumeric() || *c == '.' => Err(Fault::syntax(
            at + length,
            format!("expected an operator after the number, found {c:?}"),
        )),
        _ => Ok(()),
    }
}
