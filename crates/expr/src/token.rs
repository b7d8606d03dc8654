//! Splits an expression into tokens.

use std::ops::Range;

use crate::error::{Error, ErrorKind};

/// What a token is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    Name(String),
    /// A name in backticks, which may contain any of `-./ ` besides.
    Quoted(String),
    /// Without a sign: `-9223372036854775808` is a minus and a number.
    Int(u64),
    Uint(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    Sign(&'static str),
    End,
}

/// Longest first.
const SIGNS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "(", ")", "[", "]", "{", "}", ".", ",", "?", ":", "<", ">",
    "+", "-", "*", "/", "%", "!",
];

/// Reads tokens from a text; cheap to copy, which is how one looks ahead.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tokens<'t> {
    text: &'t str,
    position: usize,
}

type Found = Result<(Token, Range<usize>), Error>;

impl<'t> Tokens<'t> {
    /// Begins at `position`.
    pub(crate) fn new(text: &'t str, position: usize) -> Self {
        Self { text, position }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.position..).unwrap_or_default()
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest();
            let blanks =
                rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']).len();
            self.position += blanks;
            if !self.rest().starts_with("//") {
                return;
            }
            self.position += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    /// The next token.
    pub(crate) fn next(&mut self) -> Found {
        self.skip_blanks();
        let start = self.position;
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok((Token::End, start..start)) };
        let token = match first {
            '\'' | '"' => self.string(false, false)?,
            '`' => self.quoted()?,
            'a'..='z' | 'A'..='Z' | '_' => match prefix(rest) {
                Some((length, raw, bytes)) => {
                    self.position += length;
                    self.string(raw, bytes)?
                }
                None => {
                    let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                    let length = rest.find(|c| !name(c)).unwrap_or(rest.len());
                    self.position += length;
                    Token::Name(rest[..length].to_owned())
                }
            },
            '0'..='9' => self.number()?,
            '.' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => self.number()?,
            _ => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => {
                    self.position += sign.len();
                    Token::Sign(sign)
                }
                None => return Err(unexpected(first, start)),
            },
        };
        Ok((token, start..self.position))
    }

    fn quoted(&mut self) -> Result<Token, Error> {
        let start = self.position;
        let rest = &self.rest()[1..];
        match rest.find('`') {
            Some(0) => Err(error("a name in backticks is empty", start..start + 2)),
            Some(end) => {
                let name = &rest[..end];
                let strange = |c: char| !(c.is_alphanumeric() || "_-./ ".contains(c));
                if let Some((at, strange)) = name.char_indices().find(|(_, c)| strange(*c)) {
                    let at = start + 1 + at;
                    let at = at..at + strange.len_utf8();
                    return Err(error(
                        "a name in backticks has letters, digits and `_-./ ` only",
                        at,
                    )
                    .hint("write `[\"name\"]` for any other name"));
                }
                self.position += end + 2;
                Ok(Token::Quoted(name.to_owned()))
            }
            None => Err(error("a backtick is not closed", start..start + 1)),
        }
    }

    fn number(&mut self) -> Result<Token, Error> {
        let start = self.position;
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        let fail = |message: &str, end: usize| Err(error(message, start..start + end));

        if rest.starts_with("0x") || rest.starts_with("0X") {
            let hex = bytes[2..].iter().take_while(|b| b.is_ascii_hexdigit()).count();
            let Ok(number) = u64::from_str_radix(&rest[2..2 + hex], 16) else {
                return fail("a hexadecimal number has 1 to 16 digits", 2 + hex);
            };
            return self.whole(number, 2 + hex);
        }

        let mut end = digits(0);
        let mut double = false;
        if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
            double = true;
            end += 1 + digits(end + 1);
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let exponent = digits((end + 1 + sign).min(bytes.len()));
            if exponent > 0 {
                double = true;
                end += 1 + sign + exponent;
            }
        }
        if double {
            self.position += end;
            return match rest[..end].parse() {
                Ok(number) => Ok(Token::Double(number)),
                Err(_) => fail("this is no number", end),
            };
        }
        match rest[..end].parse() {
            Ok(number) => self.whole(number, end),
            Err(_) => fail("the number does not fit into 64 bits", end),
        }
    }

    fn whole(&mut self, number: u64, length: usize) -> Result<Token, Error> {
        let unsigned = self.rest()[length..].starts_with(['u', 'U']);
        let length = length + usize::from(unsigned);
        let next = self.rest()[length..].chars().next();
        if next.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
            let at = self.position + length;
            return Err(error("a letter follows a number", at..at + 1));
        }
        self.position += length;
        Ok(if unsigned { Token::Uint(number) } else { Token::Int(number) })
    }

    fn string(&mut self, raw: bool, bytes: bool) -> Result<Token, Error> {
        let start = self.position;
        let rest = self.rest();
        let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| rest.starts_with(quote));
        let Some(quote) = quote else { return Err(error("a quote is missing", start..start)) };
        let mut found = Vec::new();
        self.position += quote.len();
        loop {
            let at = self.position;
            let rest = self.rest();
            let Some(next) = rest.chars().next() else {
                return Err(error("a string is not closed", start..start + quote.len())
                    .hint(format!("close it with {quote}")));
            };
            if rest.starts_with(quote) {
                self.position += quote.len();
                break;
            }
            if quote.len() == 1 && (next == '\n' || next == '\r') {
                return Err(error("a string ends with its line", at..at + 1)
                    .hint("write \\n, or put the string into three quotes"));
            }
            if next == '\\' && !raw {
                self.escape(bytes, &mut found)?;
            } else {
                self.position += next.len_utf8();
                found.extend_from_slice(&rest.as_bytes()[..next.len_utf8()]);
            }
        }
        if bytes {
            return Ok(Token::Bytes(found));
        }
        // Escapes of strings are characters, so the bytes are UTF-8.
        Ok(Token::Text(String::from_utf8_lossy(&found).into_owned()))
    }

    fn escape(&mut self, bytes: bool, to: &mut Vec<u8>) -> Result<(), Error> {
        let start = self.position;
        let rest = &self.rest()[1..];
        let Some(letter) = rest.chars().next() else {
            return Err(error("a string ends in the middle of an escape", start..start + 1));
        };
        let plain = match letter {
            'a' => Some(7),
            'b' => Some(8),
            't' => Some(9),
            'n' => Some(10),
            'v' => Some(11),
            'f' => Some(12),
            'r' => Some(13),
            '"' | '\'' | '\\' | '?' | '`' => Some(letter as u8),
            _ => None,
        };
        if let Some(byte) = plain {
            to.push(byte);
            self.position += 2;
            return Ok(());
        }
        let (skip, digits, radix) = match letter {
            'x' | 'X' => (1, 2, 16),
            'u' if !bytes => (1, 4, 16),
            'U' if !bytes => (1, 8, 16),
            '0'..='3' => (0, 3, 8),
            _ => {
                return Err(error("there is no such escape", start..start + 1 + letter.len_utf8())
                    .hint("write \\\\ for a backslash, or r\"…\" for a string without escapes"));
            }
        };
        let number = rest
            .get(skip..skip + digits)
            .filter(|digits| digits.chars().all(|c| c.is_digit(radix)))
            .and_then(|digits| u32::from_str_radix(digits, radix).ok());
        let end = start + 1 + skip;
        let Some(number) = number else {
            return Err(error(format!("an escape needs {digits} digits"), start..end));
        };
        self.position = end + digits;
        if bytes {
            to.push(number as u8);
            return Ok(());
        }
        match char::from_u32(number) {
            Some(character) => {
                to.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                Ok(())
            }
            None => Err(error("there is no such character", start..self.position)),
        }
    }
}

/// The length of the letters before the quotes of a string, and what they say: raw, bytes.
fn prefix(rest: &str) -> Option<(usize, bool, bool)> {
    let length = rest.bytes().take(3).position(|b| matches!(b, b'"' | b'\''))?;
    match rest[..length].to_ascii_lowercase().as_str() {
        "r" => Some((1, true, false)),
        "b" => Some((1, false, true)),
        "rb" | "br" => Some((2, true, true)),
        _ => None,
    }
}

fn unexpected(character: char, at: usize) -> Error {
    let error = error(
        format!("an expression cannot contain `{character}` here"),
        at..at + character.len_utf8(),
    );
    match character {
        '=' => error.hint("write == to compare"),
        '&' => error.hint("write && for `and`"),
        '|' => error.hint("write || for `or`"),
        ';' => error.hint("an expression has one value and no statements"),
        '$' => error.hint("names stand without `$`"),
        '“' | '”' | '‘' | '’' => error.hint("write straight quotes"),
        _ => error,
    }
}

fn error(message: impl Into<String>, at: Range<usize>) -> Error {
    Error::new(ErrorKind::Parse, message, at)
}
