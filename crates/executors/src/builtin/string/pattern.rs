//! The operations that look for something in a text: a plain text, or a
//! regular expression. A plain text is an escaped expression, so that both
//! share one path and `ignore_case` works for either.
//!
//! The regex engine takes time linear in the text for one match, so the size
//! of the compiled expression and of the text bound that; finding all matches
//! may be quadratic, so it stops at [`PATIENCE`].

use std::time::{Duration, Instant};

use regex::{Captures, Regex, RegexBuilder};
use serde_json::{Map, Value, json};
use windlass::{Error, Output};

use super::super::arguments::{Arguments, invalid};
use super::super::bounds::{BoundedText, MAX_ITEMS, too_many_items};
use super::text;

/// The longest expression, in bytes.
const MAX_PATTERN: usize = 1_000;

/// The largest compiled expression, in bytes.
const MAX_PROGRAM: usize = 256 * 1024;

/// The largest text that an expression is run on, in bytes.
const MAX_SEARCHED: usize = 100_000;

/// How long a search for all matches may take.
const PATIENCE: Duration = Duration::from_millis(100);

pub(super) fn contains(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let found = Pattern::search(arguments, Anchor::None)?.is_match(text(arguments)?)?;
    Ok(Output::json(found))
}

pub(super) fn starts_with(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let found = Pattern::search(arguments, Anchor::Start)?.is_match(text(arguments)?)?;
    Ok(Output::json(found))
}

pub(super) fn ends_with(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let found = Pattern::search(arguments, Anchor::End)?.is_match(text(arguments)?)?;
    Ok(Output::json(found))
}

/// The position of the first match, or -1.
pub(super) fn find(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let text = text(arguments)?;
    let pattern = Pattern::search(arguments, Anchor::None)?;
    let found = pattern.on(text)?.find(text);
    Ok(Output::json(found.map_or(json!(-1), |found| json!(characters(text, found.start())))))
}

pub(super) fn count(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let mut count = 0_usize;
    Pattern::search(arguments, Anchor::None)?.each(text(arguments)?, |_| {
        count += 1;
        Ok(Go::On)
    })?;
    Ok(Output::json(count))
}

pub(super) fn replace(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let text = text(arguments)?;
    let pattern = Pattern::search(arguments, Anchor::None)?;
    let replacement = arguments.text("replacement")?;
    let limit = arguments.optional_size("limit")?.unwrap_or(usize::MAX);
    let mut replaced = BoundedText::default();
    let (mut copied, mut count) = (0, 0);
    pattern.each(text, |captures| {
        if count == limit {
            return Ok(Go::Stop);
        }
        count += 1;
        let whole = captures.get_match();
        replaced.push(&text[copied..whole.start()])?;
        if pattern.is_regex {
            let mut expanded = String::new();
            captures.expand(replacement, &mut expanded);
            replaced.push(&expanded)?;
        } else {
            replaced.push(replacement)?;
        }
        copied = whole.end();
        Ok(Go::On)
    })?;
    replaced.push(&text[copied..])?;
    Ok(Output::text(replaced.into_string()))
}

/// Splits at a separator; without one, at runs of white space.
pub(super) fn split(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let text = text(arguments)?;
    let limit = arguments.optional_size("limit")?.unwrap_or(usize::MAX).max(1);
    if arguments.optional_text("separator")?.is_none() && limit == usize::MAX {
        return super::listed(text.split_whitespace());
    }
    let pattern = match arguments.optional_text("separator")? {
        Some(separator) => {
            Pattern::new(separator, arguments.flag("regex")?, arguments, Anchor::None)?
        }
        None => Pattern::new(r"\s+", true, arguments, Anchor::None)?,
    };
    let mut parts: Vec<Value> = Vec::new();
    let mut copied = 0;
    pattern.each(text, |captures| {
        if parts.len() + 1 >= limit {
            return Ok(Go::Stop);
        }
        if parts.len() + 1 >= MAX_ITEMS {
            return Err(too_many_items(format!("more than {MAX_ITEMS}")));
        }
        let whole = captures.get_match();
        parts.push(text[copied..whole.start()].into());
        copied = whole.end();
        Ok(Go::On)
    })?;
    parts.push(text[copied..].into());
    Ok(Output::json(parts))
}

/// The first match of a regular expression, with its groups.
pub(super) fn first_match(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let text = text(arguments)?;
    let pattern = Pattern::expression(arguments)?;
    let Some(captures) = pattern.on(text)?.captures(text) else {
        return Ok(Output::json(json!({"matched": false})));
    };
    let group = |index: usize| captures.get(index).map(|group| group.as_str());
    let groups: Vec<Option<&str>> = (1..captures.len()).map(group).collect();
    let named: Map<String, Value> = pattern
        .regex
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
    let pattern = Pattern::expression(arguments)?;
    let group = pattern.group(arguments)?;
    let mut found: Vec<Value> = Vec::new();
    let limit = arguments.optional_size("limit")?.unwrap_or(usize::MAX);
    pattern.each(text(arguments)?, |captures| {
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

/// What is looked for.
struct Pattern {
    regex: Regex,
    is_regex: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Anchor {
    None,
    Start,
    End,
}

/// Whether to look for more.
enum Go {
    On,
    Stop,
}

impl Pattern {
    /// The parameter `search`, plain unless `regex` is set.
    fn search(arguments: &Arguments<'_>, anchor: Anchor) -> Result<Self, Error> {
        Self::new(arguments.text("search")?, arguments.flag("regex")?, arguments, anchor)
    }

    /// The parameter `search`, always a regular expression.
    fn expression(arguments: &Arguments<'_>) -> Result<Self, Error> {
        Self::new(arguments.text("search")?, true, arguments, Anchor::None)
    }

    fn new(
        search: &str,
        is_regex: bool,
        arguments: &Arguments<'_>,
        anchor: Anchor,
    ) -> Result<Self, Error> {
        if search.is_empty() {
            return Err(invalid("what to look for must not be empty"));
        }
        if search.len() > MAX_PATTERN {
            return Err(invalid(format!("what to look for has at most {MAX_PATTERN} bytes")));
        }
        let core = if is_regex { search.to_owned() } else { regex::escape(search) };
        let anchored = match anchor {
            Anchor::None => core,
            Anchor::Start => format!(r"\A(?:{core})"),
            Anchor::End => format!(r"(?:{core})\z"),
        };
        let regex = RegexBuilder::new(&anchored)
            .case_insensitive(arguments.flag("ignore_case")?)
            .size_limit(MAX_PROGRAM)
            .nest_limit(50)
            .build()
            .map_err(|error| invalid(format!("`{search}` is not a valid pattern: {error}")))?;
        Ok(Self { regex, is_regex })
    }

    /// The expression, if the text is not too large for it.
    fn on(&self, text: &str) -> Result<&Regex, Error> {
        if self.is_regex && text.len() > MAX_SEARCHED {
            return Err(invalid(format!(
                "a regular expression takes at most {MAX_SEARCHED} bytes of text, not {}",
                text.len()
            )));
        }
        Ok(&self.regex)
    }

    fn is_match(&self, text: &str) -> Result<bool, Error> {
        Ok(self.on(text)?.is_match(text))
    }

    /// Shows all matches, in order.
    fn each(
        &self,
        text: &str,
        mut show: impl FnMut(&Captures<'_>) -> Result<Go, Error>,
    ) -> Result<(), Error> {
        let start = Instant::now();
        for captures in self.on(text)?.captures_iter(text) {
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

/// A position in bytes as one in characters.
fn characters(text: &str, bytes: usize) -> usize {
    text[..bytes].chars().count()
}
