//! Regular expressions: linear in the text, and limited in size.

use regex::{Regex, RegexBuilder};

use crate::error::{Fault, Faulty};
use crate::meter::Meter;
use crate::value::Value;

/// A compiled regular expression.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    regex: Regex,
    /// How many times the work of the smallest one each byte of a text may be.
    weight: u64,
}

/// What the compiled form may take, from small to large: the first that suffices tells how
/// much work a pattern is.
const SIZES: [usize; 4] = [4 << 10, 16 << 10, 64 << 10, 256 << 10];

/// The longest pattern.
const LONGEST: usize = 1_000;

impl Pattern {
    pub(crate) fn new(text: &str) -> Faulty<Self> {
        if text.len() > LONGEST {
            return Err(Fault::new(format!("a regular expression has at most {LONGEST} bytes")));
        }
        for size in SIZES {
            let built = RegexBuilder::new(text)
                .size_limit(size)
                .dfa_size_limit(256 << 10)
                .nest_limit(50)
                .build();
            match built {
                Ok(regex) => return Ok(Self { regex, weight: (size / SIZES[0]) as u64 }),
                Err(regex::Error::CompiledTooBig(_)) => {}
                Err(error) => {
                    // The last line says what is wrong; those before draw it.
                    let text = error.to_string();
                    let reason = text.lines().last().unwrap_or_default();
                    let reason = reason.trim_start_matches("error: ");
                    return Err(Fault::new(format!("the regular expression is invalid: {reason}"))
                        .hint("write backslashes twice, or the pattern as r\"…\""));
                }
            }
        }
        Err(Fault::new("the regular expression is too large").hint("use smaller repetitions"))
    }

    /// One that is known at run time only; compiling it is charged.
    pub(crate) fn compiled(text: &str, meter: &mut Meter) -> Faulty<Self> {
        meter.step(500 + text.len() as u64 * 4)?;
        Self::new(text)
    }

    /// Whether the text contains a match.
    pub(crate) fn matches<'a>(&self, text: &str, meter: &mut Meter) -> Faulty<Value<'a>> {
        meter.step(text.len() as u64 / 64 * self.weight + self.weight)?;
        Ok(Value::Bool(self.regex.is_match(text)))
    }
}
