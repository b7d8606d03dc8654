//! Splits a template into text and the tokens of its blocks.

use super::JinjaError;
use crate::value::Value;

/// The largest template, in bytes.
const MAX_SOURCE: usize = 1 << 20;

/// A token, with its line.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) line: u32,
    pub(super) what: TokenKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokenKind {
    /// Text between blocks.
    Text(String),
    /// `{{`
    PrintStart,
    /// `{%`
    BlockStart,
    /// `}}` or `%}`
    End,
    Name(String),
    Constant(Value),
    /// An operator or bracket.
    Sign(&'static str),
}

/// The signs; longer ones before their beginnings.
const SIGNS: [&str; 27] = [
    "**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<", ">", "=", "(", ")", "[",
    "]", "{", "}", ",", ":", ".", "|", ";", "!",
];

/// All tokens of a template.
pub(super) fn tokens(source: &str) -> Result<Vec<Token>, JinjaError> {
    if source.len() > MAX_SOURCE {
        return Err(JinjaError::new(format!("the template is larger than {MAX_SOURCE} bytes")));
    }
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let source = source.strip_suffix('\n').unwrap_or(&source);
    let mut lexer = Lexer { rest: source, line: 1, tokens: Vec::new() };
    lexer.template()?;
    Ok(lexer.tokens)
}

struct Lexer<'s> {
    rest: &'s str,
    line: u32,
    tokens: Vec<Token>,
}

impl<'s> Lexer<'s> {
    fn template(&mut self) -> Result<(), JinjaError> {
        // Whether the block before ended with `-`.
        let mut trim = false;
        loop {
            let next = ["{{", "{%", "{#"].iter().filter_map(|open| self.rest.find(open)).min();
            let Some(start) = next else {
                let text = self.advance(self.rest.len());
                self.text(text, trim, false);
                return Ok(());
            };
            let text = self.advance(start);
            let open = self.advance(2);
            let sign = self.rest.chars().next().filter(|c| matches!(c, '-' | '+'));
            if sign.is_some() {
                self.advance(1);
            }
            self.text(text, trim, sign == Some('-'));
            trim = match open {
                "{#" => self.comment()?,
                "{%" if self.word_ahead("raw") => self.raw()?,
                "{%" => self.block(TokenKind::BlockStart, "%}")?,
                _ => self.block(TokenKind::PrintStart, "}}")?,
            };
        }
    }

    fn text(&mut self, text: &str, trim_start: bool, trim_end: bool) {
        let text = if trim_start { text.trim_start() } else { text };
        let text = if trim_end { text.trim_end() } else { text };
        if !text.is_empty() {
            self.push(TokenKind::Text(text.to_owned()));
        }
    }

    fn push(&mut self, what: TokenKind) {
        self.tokens.push(Token { line: self.line, what });
    }

    fn advance(&mut self, bytes: usize) -> &'s str {
        let (taken, rest) = self.rest.split_at(bytes);
        let lines = taken.bytes().filter(|b| *b == b'\n').count();
        self.line = self.line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
        self.rest = rest;
        taken
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T, JinjaError> {
        Err(JinjaError::new(message).at(self.line))
    }

    fn comment(&mut self) -> Result<bool, JinjaError> {
        let Some(end) = self.rest.find("#}") else {
            return self.error("a comment is not closed; write #}");
        };
        let text = self.advance(end);
        self.advance(2);
        Ok(text.ends_with('-'))
    }

    /// Whether the next word is this, and the block ends after it.
    fn word_ahead(&self, word: &str) -> bool {
        let after = self.rest.trim_start().strip_prefix(word).map(str::trim_start);
        after.is_some_and(|after| after.starts_with("%}") || after.starts_with("-%}"))
    }

    /// Text up to `{% endraw %}`.
    fn raw(&mut self) -> Result<bool, JinjaError> {
        let head = self.rest.find("%}").unwrap_or(0);
        let trim_start = self.advance(head).ends_with('-');
        self.advance(2);
        let mut from = 0;
        while let Some(found) = self.rest[from..].find("{%") {
            let start = from + found;
            let after = &self.rest[start + 2..];
            let (after, trim_end) = match after.strip_prefix('-') {
                Some(after) => (after, true),
                None => (after, false),
            };
            let word = after.trim_start().strip_prefix("endraw").map(str::trim_start);
            if word.is_some_and(|after| after.starts_with("%}") || after.starts_with("-%}")) {
                let text = self.advance(start);
                self.text(text, trim_start, trim_end);
                let tail = self.rest.find("%}").unwrap_or(0);
                let trim = self.advance(tail).ends_with('-');
                self.advance(2);
                return Ok(trim);
            }
            from = start + 2;
        }
        self.error("'raw' is not closed; write {% endraw %}")
    }

    /// The tokens of a block; whether it ended with `-`.
    fn block(&mut self, start: TokenKind, end: &str) -> Result<bool, JinjaError> {
        self.push(start);
        let mut brackets = 0_usize;
        loop {
            let blanks = self.rest.len() - self.rest.trim_start().len();
            self.advance(blanks);
            let Some(c) = self.rest.chars().next() else {
                return self.error(format!("a block is not closed; write {end}"));
            };
            if brackets == 0 {
                let (sign, after) = match self.rest.strip_prefix(['-', '+']) {
                    Some(after) => (self.rest.chars().next(), after),
                    None => (None, self.rest),
                };
                if after.starts_with(end) {
                    self.push(TokenKind::End);
                    self.advance(end.len() + usize::from(sign.is_some()));
                    return Ok(sign == Some('-'));
                }
            }
            match c {
                '"' | '\'' => self.string(c)?,
                _ if c.is_ascii_digit() => self.number()?,
                _ if c.is_alphabetic() || c == '_' => {
                    let is_word = |c: char| c.is_alphanumeric() || c == '_';
                    let length = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
                    let word = self.advance(length).to_owned();
                    self.push(TokenKind::Name(word));
                }
                _ => match SIGNS.iter().find(|sign| self.rest.starts_with(**sign)) {
                    Some(sign) => {
                        match *sign {
                            "(" | "[" | "{" => brackets += 1,
                            ")" | "]" | "}" => brackets = brackets.saturating_sub(1),
                            _ => {}
                        }
                        self.push(TokenKind::Sign(sign));
                        self.advance(sign.len());
                    }
                    None => return self.error(format!("unexpected character '{c}'")),
                },
            }
        }
    }

    fn string(&mut self, quote: char) -> Result<(), JinjaError> {
        let line = self.line;
        self.advance(1);
        let mut text = String::new();
        loop {
            let Some(c) = self.rest.chars().next() else {
                return self.error("a text is not closed");
            };
            self.advance(c.len_utf8());
            match c {
                c if c == quote => break,
                '\\' => {
                    let Some(c) = self.rest.chars().next() else { continue };
                    self.advance(c.len_utf8());
                    match c {
                        'n' => text.push('\n'),
                        't' => text.push('\t'),
                        'r' => text.push('\r'),
                        '\n' => {}
                        '\\' | '\'' | '"' => text.push(c),
                        'u' | 'x' => {
                            let digits = if c == 'u' { 4 } else { 2 };
                            let code = self.rest.get(..digits);
                            let code = code.and_then(|code| u32::from_str_radix(code, 16).ok());
                            let Some(c) = code.and_then(char::from_u32) else {
                                return self.error("an escape that stands for no character");
                            };
                            text.push(c);
                            self.advance(digits);
                        }
                        c => text.extend(['\\', c]),
                    }
                }
                c => text.push(c),
            }
        }
        self.tokens.push(Token { line, what: TokenKind::Constant(Value::from(text)) });
        Ok(())
    }

    fn number(&mut self) -> Result<(), JinjaError> {
        let bytes = self.rest.as_bytes();
        let run = |from: usize| {
            let digit = |b: &&u8| b.is_ascii_digit() || **b == b'_';
            bytes[from..].iter().take_while(digit).count()
        };
        let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
        let mut length = run(0);
        let mut is_float = false;
        if bytes.get(length) == Some(&b'.') && is_digit(length + 1) {
            length += 1 + run(length + 1);
            is_float = true;
        }
        if matches!(bytes.get(length), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
            if is_digit(length + 1 + sign) {
                length += 1 + sign + run(length + 1 + sign);
                is_float = true;
            }
        }
        let text = self.advance(length).replace('_', "");
        let value = match is_float {
            true => text.parse().ok().map(Value::Float),
            false => text.parse().ok().map(Value::Int),
        };
        match value {
            Some(value) => {
                self.push(TokenKind::Constant(value));
                Ok(())
            }
            None => self.error(format!("the number {text} is too large")),
        }
    }
}
