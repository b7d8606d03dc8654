//! Operations on case, length and order of characters.

use std::collections::HashSet;

use unicode_segmentation::UnicodeSegmentation;
use windlass::{Error, Output};

use super::super::arguments::{Arguments, invalid};
use super::super::bounds::{BoundedText, MAX_TEXT};
use super::text;

pub(super) fn title(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let mut titled = String::new();
    for part in text(arguments)?.split_inclusive(char::is_whitespace) {
        capitalize_into(part, &mut titled);
    }
    Ok(Output::text(titled))
}

pub(super) fn capitalize(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let mut capitalized = String::new();
    capitalize_into(text(arguments)?, &mut capitalized);
    Ok(Output::text(capitalized))
}

pub(super) fn trim(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let text = text(arguments)?;
    let listed: Option<HashSet<char>> =
        arguments.optional_text("characters")?.map(|listed| listed.chars().collect());
    let goes = |c: char| match &listed {
        Some(listed) => listed.contains(&c),
        None => c.is_whitespace(),
    };
    Ok(Output::text(match side(arguments, Side::Both)? {
        Side::Both => text.trim_matches(goes),
        Side::Start => text.trim_start_matches(goes),
        Side::End => text.trim_end_matches(goes),
    }))
}

pub(super) fn pad(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let text = text(arguments)?;
    let fill = arguments.text_or("fill", " ")?;
    if fill.is_empty() {
        return Err(invalid("the parameter `fill` must not be empty"));
    }
    let length = arguments.size("length")?;
    let missing = length.saturating_sub(text.chars().count());
    let (before, after) = match side(arguments, Side::End)? {
        Side::Start => (missing, 0),
        Side::End => (0, missing),
        Side::Both => (missing / 2, missing - missing / 2),
    };
    let filled = |count: usize| -> Result<String, Error> {
        let mut filled = BoundedText::default();
        for c in fill.chars().cycle().take(count.min(MAX_TEXT + 1)) {
            filled.push(c.encode_utf8(&mut [0; 4]))?;
        }
        Ok(filled.into_string())
    };
    let mut padded = BoundedText::default();
    for part in [&filled(before)?, text, &filled(after)?] {
        padded.push(part)?;
    }
    Ok(Output::text(padded.into_string()))
}

pub(super) fn truncate(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let text = text(arguments)?;
    let length = arguments.size("length")?;
    if text.chars().nth(length).is_none() {
        return Ok(Output::text(text));
    }
    let mut short: String = text.chars().take(length.saturating_sub(1)).collect();
    if length > 0 {
        short.push('…');
    }
    Ok(Output::text(short))
}

pub(super) fn repeat(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let (text, separator) = (text(arguments)?, arguments.text_or("separator", "")?);
    let count = arguments.size("count")?;
    if count > 0 && text.is_empty() && separator.is_empty() {
        return Ok(Output::text(""));
    }
    let parts = std::iter::repeat_n(text.into(), count);
    Ok(Output::text(super::bounds::join(parts, separator)?))
}

/// Reverses by grapheme clusters, so that accents and emoji modifiers stay with their
/// base.
pub(super) fn reverse(arguments: &Arguments<'_>) -> Result<Output, Error> {
    Ok(Output::text(text(arguments)?.graphemes(true).rev().collect::<String>()))
}

pub(super) fn substring(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let text = text(arguments)?;
    let count = text.chars().count();
    let start = position(arguments.optional_integer("start")?.unwrap_or(0), count);
    let end = arguments.optional_integer("end")?.map_or(count, |end| position(end, count));
    let part: String = text.chars().take(end).skip(start).collect();
    Ok(Output::text(part))
}

/// `Hello, World!` becomes `hello-world`. Letters of all scripts are kept.
pub(super) fn slug(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let lower = text(arguments)?.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    Ok(Output::text(words.collect::<Vec<_>>().join("-")))
}

/// A position as an offset from the start, clamped to `0..=count`.
fn position(at: i64, count: usize) -> usize {
    let distance = usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX);
    if at < 0 { count.saturating_sub(distance) } else { distance.min(count) }
}

fn capitalize_into(part: &str, result: &mut String) {
    let mut chars = part.chars();
    if let Some(first) = chars.next() {
        result.extend(first.to_uppercase());
        result.push_str(&chars.as_str().to_lowercase());
    }
}

#[derive(Clone, Copy)]
enum Side {
    Both,
    Start,
    End,
}

fn side(arguments: &Arguments<'_>, default: Side) -> Result<Side, Error> {
    match arguments.optional_text("side")? {
        None => Ok(default),
        Some("both") => Ok(Side::Both),
        Some("start") => Ok(Side::Start),
        Some("end") => Ok(Side::End),
        Some(other) => Err(invalid(format!("unknown side `{other}`; known: both, start, end"))),
    }
}
