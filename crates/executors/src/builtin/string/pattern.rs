//! Search and replace with plain text or regular expressions. Plain text is escaped, so
//! that both share one code path and `ignore_case` works for either.
//!
//! A single match takes time linear in the text and in the size of the compiled
//! expression, so their product is bounded; finding all matches may take quadratic time,
//! so it stops after [`PATIENCE`].

use std::time::{Duration, Instant};

use regex::{Captures, Regex, RegexBuilder};
use serde_json::{Map, Value, json};
use windlass::{Error, Output};

use super::super::arguments::{Arguments, invalid};
use super::super::bounds::{self, BoundedText, MAX_ITEMS, MAX_TEXT, too_many_items};
use super::text;

/// Maximum length of an expression in bytes.
const MAX_PATTERN: usize = 1_000;

/// Maximum size of a text that an expression is run on, in bytes.
const MAX_SEARCHED: usize = 100_000;

/// Maximum size of a compiled expression in bytes: for the largest text, and for short
/// ones.
const SMALL_PROGRAM: usize = 512 << 10;
const LARGE_PROGRAM: usize = 4 << 20;

/// Timeout of a search for all matches.
const PATIENCE: Duration = Duration::from_millis(200);

pub(super) fn contains(arguments: &Arguments<'_>) -> Result<Output, Error> {
    Ok(Output::json(Search::new(arguments, Anchor::None)?.is_match()))
}

pub(super) fn starts_with(arguments: &Arguments<'_>) -> Result<Output, Error> {
    Ok(Output::json(Search::new(arguments, Anchor::Start)?.is_match()))
}

pub(super) fn ends_with(arguments: &Arguments<'_>) -> Result<Output, Error> {
    Ok(Output::json(Search::new(arguments, Anchor::End)?.is_match()))
}

/// The position of the first match, or -1.
pub(super) fn find(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let Search { text, regex, .. } = Search::new(arguments, Anchor::None)?;
    let position = regex.find(text).map(|found| characters(text, found.start()));
    Ok(Output::json(position.map_or(json!(-1), Value::from)))
}

pub(super) fn count(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let mut count = 0_usize;
    Search::new(arguments, Anchor::None)?.each(|_| {
        count += 1;
        Ok(Go::On)
    })?;
    Ok(Output::json(count))
}

pub(super) fn replace(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let search = Search::new(arguments, Anchor::None)?;
    let text = search.text;
    let replacement = bounds::text(arguments.text("replacement")?)?;
    let limit = arguments.optional_size("limit")?.unwrap_or(usize::MAX);
    let mut replaced = BoundedText::default();
    let (mut copied, mut count) = (0, 0);
    search.each(|captures| {
        if count == limit {
            return Ok(Go::Stop);
        }
        count += 1;
        let whole = captures.get_match();
        replaced.push(&text[copied..whole.start()])?;
        if search.is_regex {
            replaced.push(&expand(replacement, captures)?)?;
        } else {
            replaced.push(replacement)?;
        }
        copied = whole.end();
        Ok(Go::On)
    })?;
    replaced.push(&text[copied..])?;
    Ok(Output::text(replaced.into_string()))
}

/// Splits at a separator; without one, at white space.
pub(super) fn split(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let limit = arguments.optional_size("limit")?.unwrap_or(usize::MAX).max(1);
    let search = match arguments.optional_text("separator")? {
        Some(separator) => {
            Search::compile(separator, arguments.flag("regex")?, arguments, Anchor::None)?
        }
        None if limit == usize::MAX => return super::listed(text(arguments)?.split_whitespace()),
        None => Search::compile(r"\s+", true, arguments, Anchor::None)?,
    };
    let mut parts: Vec<Value> = Vec::new();
    let mut copied = 0;
    search.each(|captures| {
        if parts.len() + 1 >= limit {
            return Ok(Go::Stop);
        }
        if parts.len() + 1 >= MAX_ITEMS {
            return Err(too_many_items(format!("more than {MAX_ITEMS}")));
        }
        let whole = captures.get_match();
        parts.push(search.text[copied..whole.start()].into());
        copied = whole.end();
        Ok(Go::On)
    })?;
    parts.push(search.text[copied..].into());
    Ok(Output::json(parts))
}

/// The first match of a regular expression, with its groups.
pub(super) fn first_match(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let Search { text, regex, .. } = Search::expression(arguments)?;
    let Some(captures) = regex.captures(text) else {
        return Ok(Output::json(json!({"matched": false})));
    };
    let group = |index: usize| captures.get(index).map(|group| group.as_str());
    let groups: Vec<Option<&str>> = (1..captures.len()).map(group).collect();
    let named: Map<String, Value> = regex
        .capture_names()
        .flatten()
        .map(|name| (name.to_owned(), json!(captures.name(name).map(|group| group.as_str()))))
        .collect();
    Ok(Output::json(json!({
        "matched": true,
        "match": group(0),
        "index": characters(text, captures.get_match().start()),
        "groups": groups,
        "named": named,
    })))
}

/// All matches of a regular expression, or one group of each.
pub(super) fn extract(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let search = Search::expression(arguments)?;
    let group = search.group(arguments)?;
    let limit = arguments.optional_size("limit")?.unwrap_or(usize::MAX);
    let mut found: Vec<Value> = Vec::new();
    search.each(|captures| {
        if found.len() >= limit {
            return Ok(Go::Stop);
        }
        if found.len() >= MAX_ITEMS {
            return Err(too_many_items(format!("more than {MAX_ITEMS}")));
        }
        found.push(json!(captures.get(group).map(|group| group.as_str())));
        Ok(Go::On)
    })?;
    Ok(Output::json(found))
}

/// A text and a compiled pattern.
struct Search<'a> {
    text: &'a str,
    regex: Regex,
    is_regex: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Anchor {
    None,
    Start,
    End,
}

/// Whether to search on.
enum Go {
    On,
    Stop,
}

impl<'a> Search<'a> {
    /// From the parameter `search`, which is plain text unless `regex` is set.
    fn new(arguments: &Arguments<'a>, anchor: Anchor) -> Result<Self, Error> {
        text(arguments)?;
        Self::compile(arguments.text("search")?, arguments.flag("regex")?, arguments, anchor)
    }

    /// From the parameter `search`, always a regular expression.
    fn expression(arguments: &Arguments<'a>) -> Result<Self, Error> {
        text(arguments)?;
        Self::compile(arguments.text("search")?, true, arguments, Anchor::None)
    }

    fn compile(
        wanted: &str,
        is_regex: bool,
        arguments: &Arguments<'a>,
        anchor: Anchor,
    ) -> Result<Self, Error> {
        let text = text(arguments)?;
        if wanted.is_empty() {
            return Err(invalid("what to look for must not be empty"));
        }
        if wanted.len() > MAX_PATTERN {
            return Err(invalid(format!("what to look for has at most {MAX_PATTERN} bytes")));
        }
        if is_regex && text.len() > MAX_SEARCHED {
            return Err(invalid(format!(
                "a regular expression takes at most {MAX_SEARCHED} bytes of text, not {}",
                text.len()
            )));
        }
        let core = if is_regex { wanted.to_owned() } else { regex::escape(wanted) };
        let anchored = match anchor {
            Anchor::None => core,
            Anchor::Start => format!(r"\A(?:{core})"),
            Anchor::End => format!(r"(?:{core})\z"),
        };
        let size = SMALL_PROGRAM * MAX_SEARCHED / text.len().max(1);
        let regex = RegexBuilder::new(&anchored)
            .case_insensitive(arguments.flag("ignore_case")?)
            .size_limit(size.clamp(SMALL_PROGRAM, LARGE_PROGRAM))
            .nest_limit(50)
            .build()
            .map_err(|error| invalid(format!("`{wanted}` is not a valid pattern: {error}")))?;
        Ok(Self { text, regex, is_regex })
    }

    fn is_match(&self) -> bool {
        self.regex.is_match(self.text)
    }

    /// Visits all matches in order.
    fn each(&self, mut show: impl FnMut(&Captures<'a>) -> Result<Go, Error>) -> Result<(), Error> {
        let start = Instant::now();
        for captures in self.regex.captures_iter(self.text) {
            if start.elapsed() > PATIENCE {
                return Err(Error::tool("the pattern takes too long on this text"));
            }
            match show(&captures)? {
                Go::On => {}
                Go::Stop => break,
            }
        }
        Ok(())
    }

    /// The group that the parameter `group` names, by number or by name.
    fn group(&self, arguments: &Arguments<'_>) -> Result<usize, Error> {
        let Some(wanted) = arguments.get("group") else { return Ok(0) };
        let number = match wanted.as_str() {
            Some(name) => self
                .regex
                .capture_names()
                .position(|known| known == Some(name))
                .or_else(|| name.parse().ok()),
            None => arguments.optional_size("group")?,
        };
        number.filter(|&number| number < self.regex.captures_len()).ok_or_else(|| {
            invalid(format!(
                "there is no group {wanted}; the pattern has {}",
                self.regex.captures_len() - 1
            ))
        })
    }
}

/// Expands the groups in a replacement. A group is a part of the match, which bounds the
/// length of the result beforehand.
fn expand(replacement: &str, captures: &Captures<'_>) -> Result<String, Error> {
    let groups = replacement.matches('$').count();
    if replacement.len() + groups.saturating_mul(captures.get_match().len()) > MAX_TEXT {
        return Err(invalid(format!("the result could have more than {MAX_TEXT} bytes")));
    }
    let mut expanded = String::new();
    captures.expand(replacement, &mut expanded);
    Ok(expanded)
}

/// Converts a byte offset to a character offset.
fn characters(text: &str, bytes: usize) -> usize {
    text[..bytes].chars().count()
}
