//! Prices of tokens.

use std::fmt;
use std::str::FromStr;

use windlass::Usage;

/// The price of 1,000 tokens in US dollars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// Input tokens.
    pub input: f64,
    /// Output tokens.
    pub output: f64,
}

/// Prompt caching: the price of a token read from, or written to, the cache, relative to
/// an ordinary input token.
const CACHE_READ: f64 = 0.1;
const CACHE_WRITE: f64 = 1.25;

impl Default for Price {
    fn default() -> Self {
        Self { input: 0.003, output: 0.015 }
    }
}

impl Price {
    /// Adds the cost to a usage.
    pub fn of(&self, mut usage: Usage) -> Usage {
        let read = usage.input_tokens as f64
            + usage.cache_read_tokens as f64 * CACHE_READ
            + usage.cache_write_tokens as f64 * CACHE_WRITE;
        usage.cost_usd = (read * self.input + usage.output_tokens as f64 * self.output) / 1000.0;
        usage
    }
}

/// Parses `0.003/0.015`.
impl FromStr for Price {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no price; write INPUT/OUTPUT per 1,000 tokens");
        let (input, output) = text.split_once('/').ok_or_else(wrong)?;
        let read = |text: &str| {
            let price: f64 = text.trim().parse().map_err(|_| wrong())?;
            if price.is_finite() && price >= 0.0 { Ok(price) } else { Err(wrong()) }
        };
        Ok(Self { input: read(input)?, output: read(output)? })
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.input, self.output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_per_thousand_and_caches_cost_less() {
        let usage = Usage { input_tokens: 2_000, output_tokens: 1_000, ..Usage::default() };
        assert!((Price::default().of(usage).cost_usd - 0.021).abs() < 1e-9);
        let cached = Usage { cache_read_tokens: 10_000, ..Usage::default() };
        assert!((Price::default().of(cached).cost_usd - 0.003).abs() < 1e-9);
        assert_eq!("0.001/0.005".parse(), Ok(Price { input: 0.001, output: 0.005 }));
        for wrong in ["", "1", "1/", "-1/2", "nan/1", "1/inf"] {
            assert!(wrong.parse::<Price>().is_err(), "{wrong}");
        }
    }
}
