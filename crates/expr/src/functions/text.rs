//! Strings. Places in them count characters (code points), not bytes.

use Form::{Both, Method};
use Takes::{List, Text, Whole};

use super::{Form, Gives, Pattern, Row, Takes, list, row, unexpected};
use crate::error::{Fault, Faulty};
use crate::evaluate::ELEMENT;
use crate::meter::Meter;
use crate::value::{Text as Chars, Value};

pub(super) const ROWS: &[Row] = &[
    row("contains", Method, &[Text, Text], Gives::Bool, contains),
    row("startsWith", Method, &[Text, Text], Gives::Bool, starts_with),
    row("endsWith", Method, &[Text, Text], Gives::Bool, ends_with),
    row("matches", Both, &[Text, Text], Gives::Bool, matches),
    row("charAt", Method, &[Text, Whole], Gives::Text, char_at),
    row("indexOf", Method, &[Text, Text], Gives::Int, index_of),
    row("indexOf", Method, &[Text, Text, Whole], Gives::Int, index_of),
    row("lastIndexOf", Method, &[Text, Text], Gives::Int, last_index_of),
    row("lastIndexOf", Method, &[Text, Text, Whole], Gives::Int, last_index_of),
    row("substring", Method, &[Text, Whole], Gives::Text, substring),
    row("substring", Method, &[Text, Whole, Whole], Gives::Text, substring),
    row("split", Method, &[Text, Text], Gives::Texts, split),
    row("split", Method, &[Text, Text, Whole], Gives::Texts, split),
    row("join", Method, &[List], Gives::Text, join),
    row("join", Method, &[List, Text], Gives::Text, join),
    row("replace", Method, &[Text, Text, Text], Gives::Text, replace),
    row("replace", Method, &[Text, Text, Text, Whole], Gives::Text, replace),
    row("trim", Method, &[Text], Gives::Text, trim),
    row("lower", Method, &[Text], Gives::Text, lower),
    row("upper", Method, &[Text], Gives::Text, upper),
    row("lowerAscii", Method, &[Text], Gives::Text, lower_ascii),
    row("upperAscii", Method, &[Text], Gives::Text, upper_ascii),
];

/// A part of a text; nothing is copied if it is one of the scope.
fn part<'a>(text: &Chars<'a>, start: usize, end: usize, meter: &mut Meter) -> Faulty<Chars<'a>> {
    Ok(match text {
        Chars::Borrowed(text) => Chars::Borrowed(text.get(start..end).unwrap_or_default()),
        Chars::Shared(text) => {
            meter.allocate(end - start)?;
            Chars::Shared(text.get(start..end).unwrap_or_default().into())
        }
    })
}

/// The byte at which a character begins; the end of the text is a place, too.
fn place(text: &str, index: usize) -> Option<usize> {
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(index)
}

fn whole(value: &Value<'_>) -> i128 {
    value.as_whole().unwrap_or(-1)
}

fn outside<T>(index: i128, text: &str) -> Faulty<T> {
    Err(Fault::new(format!(
        "there is no place {index} in a string of {} characters",
        text.chars().count()
    )))
}

/// The byte of an index that the author gave.
fn at(text: &str, index: &Value<'_>) -> Faulty<usize> {
    let index = whole(index);
    match usize::try_from(index).ok().and_then(|index| place(text, index)) {
        Some(at) => Ok(at),
        None => outside(index, text),
    }
}

fn two<'v, 'a>(arguments: &'v [Value<'a>], meter: &mut Meter) -> Faulty<(&'v str, &'v str)> {
    match arguments {
        [Value::Text(text), Value::Text(other), ..] => {
            meter.read(text.as_str().len())?;
            Ok((text.as_str(), other.as_str()))
        }
        _ => Err(unexpected()),
    }
}

fn contains<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let (text, other) = two(arguments, meter)?;
    Ok(Value::Bool(text.contains(other)))
}

fn starts_with<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let (text, other) = two(arguments, meter)?;
    Ok(Value::Bool(text.starts_with(other)))
}

fn ends_with<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let (text, other) = two(arguments, meter)?;
    Ok(Value::Bool(text.ends_with(other)))
}

/// A pattern that is not constant; constant ones are compiled when they are parsed.
fn matches<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let (text, pattern) = two(arguments, meter)?;
    Pattern::compiled(pattern, meter)?.matches(text, meter)
}

fn char_at<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let [Value::Text(text), index] = arguments else { return Err(unexpected()) };
    meter.read(text.as_str().len())?;
    let start = at(text.as_str(), index)?;
    let length =
        text.as_str().get(start..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
    part(text, start, start + length, meter).map(Value::Text)
}

fn characters(text: &str) -> i64 {
    text.chars().count() as i64
}

fn index_of<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let (text, wanted) = two(arguments, meter)?;
    let start = match arguments.get(2) {
        Some(index) => at(text, index)?,
        None => 0,
    };
    let found = text.get(start..).and_then(|rest| rest.find(wanted));
    let found = found.and_then(|found| text.get(..start + found));
    Ok(Value::Int(found.map_or(-1, characters)))
}

fn last_index_of<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let (text, wanted) = two(arguments, meter)?;
    // It may begin at the index at the latest. No match ends within a character.
    let end = match arguments.get(2) {
        Some(index) => (at(text, index)? + wanted.len()).min(text.len()),
        None => text.len(),
    };
    let within = text.get(..text.floor_char_boundary(end)).unwrap_or(text);
    let found = within.rfind(wanted).and_then(|found| text.get(..found));
    Ok(Value::Int(found.map_or(-1, characters)))
}

fn substring<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let (text, start, end) = match arguments {
        [Value::Text(text), start] => (text, start, None),
        [Value::Text(text), start, end] => (text, start, Some(end)),
        _ => return Err(unexpected()),
    };
    meter.read(text.as_str().len())?;
    let length = text.as_str().chars().count();
    let whole = Value::Int(length as i64);
    let (start, end) = list::bounds(start, end.unwrap_or(&whole), length)?;
    let byte = |index| place(text.as_str(), index).unwrap_or(text.as_str().len());
    part(text, byte(start), byte(end), meter).map(Value::Text)
}

fn split<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let (text, by, limit) = match arguments {
        [Value::Text(text), Value::Text(by)] => (text, by.as_str(), -1),
        [Value::Text(text), Value::Text(by), limit] => (text, by.as_str(), whole(limit)),
        _ => return Err(unexpected()),
    };
    let all = text.as_str();
    meter.read(all.len())?;
    let mut parts = Vec::new();
    let mut add = |start: usize, end: usize, meter: &mut Meter| -> Faulty<()> {
        meter.step(1)?;
        meter.allocate(ELEMENT)?;
        parts.push(Value::Text(part(text, start, end, meter)?));
        Ok(())
    };
    if limit == 0 {
        return Ok(Value::list(Vec::new()));
    }
    let mut start = 0;
    let mut left = limit;
    let mut starts = SplitPlaces { all, by, from: 0 };
    while left != 1 {
        let Some((end, next)) = starts.next() else { break };
        add(start, end, meter)?;
        start = next;
        left -= 1;
    }
    // An empty separator leaves nothing behind the last character.
    if !(by.is_empty() && start == all.len()) {
        add(start, all.len(), meter)?;
    }
    Ok(Value::list(parts))
}

/// Where the parts of a text end, and where the next begin.
struct SplitPlaces<'t> {
    all: &'t str,
    by: &'t str,
    from: usize,
}

impl SplitPlaces<'_> {
    fn next(&mut self) -> Option<(usize, usize)> {
        let rest = self.all.get(self.from..)?;
        let (end, next) = if self.by.is_empty() {
            let length = rest.chars().next()?.len_utf8();
            (self.from + length, self.from + length)
        } else {
            let found = self.from + rest.find(self.by)?;
            (found, found + self.by.len())
        };
        self.from = next;
        Some((end, next))
    }
}

fn join<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let (items, by) = match arguments {
        [Value::List(items)] => (items, ""),
        [Value::List(items), Value::Text(by)] => (items, by.as_str()),
        _ => return Err(unexpected()),
    };
    let mut length = by.len().saturating_mul(items.len().saturating_sub(1));
    for (index, item) in items.iter().enumerate() {
        meter.step(1)?;
        match item.as_str() {
            Some(text) => length = length.saturating_add(text.len()),
            None => {
                return Err(Fault::new(format!(
                    "`join` needs strings; element {index} is {}",
                    item.described()
                ))
                .hint("write list.map(x, string(x)).join(\", \")"));
            }
        }
    }
    meter.allocate(length)?;
    meter.read(length)?;
    let mut joined = String::with_capacity(length);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            joined.push_str(by);
        }
        joined.push_str(item.as_str().unwrap_or_default());
    }
    Ok(Value::text(joined))
}

fn replace<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let (text, old, new, limit) = match arguments {
        [Value::Text(text), Value::Text(old), Value::Text(new)] => {
            (text, old.as_str(), new.as_str(), -1)
        }
        [Value::Text(text), Value::Text(old), Value::Text(new), limit] => {
            (text, old.as_str(), new.as_str(), whole(limit))
        }
        _ => return Err(unexpected()),
    };
    let all = text.as_str();
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    meter.read(all.len())?;
    let found = all.matches(old).take(limit).count();
    if found == 0 {
        return Ok(Value::Text(text.clone()));
    }
    let length = (all.len() - found.saturating_mul(old.len()))
        .saturating_add(found.saturating_mul(new.len()));
    meter.allocate(length)?;
    meter.read(length)?;
    meter.step(found as u64)?;
    Ok(Value::text(all.replacen(old, new, found)))
}

fn trim<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let [Value::Text(text)] = arguments else { return Err(unexpected()) };
    let all = text.as_str();
    meter.read(all.len())?;
    let start = all.len() - all.trim_start().len();
    let end = start + all.trim().len();
    part(text, start, end, meter).map(Value::Text)
}

fn made<'a>(
    arguments: &[Value<'a>],
    meter: &mut Meter,
    make: fn(&str) -> String,
) -> Faulty<Value<'a>> {
    let [Value::Text(text)] = arguments else { return Err(unexpected()) };
    // A few letters become up to three, of which each may be longer.
    let most = if text.as_str().is_ascii() { 1 } else { 3 };
    meter.allocate(text.as_str().len().saturating_mul(most))?;
    meter.read(text.as_str().len())?;
    Ok(Value::text(make(text.as_str())))
}

fn lower<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    made(arguments, meter, str::to_lowercase)
}

fn upper<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    made(arguments, meter, str::to_uppercase)
}

fn lower_ascii<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    made(arguments, meter, str::to_ascii_lowercase)
}

fn upper_ascii<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    made(arguments, meter, str::to_ascii_uppercase)
}

pub(super) fn reverse<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    made(arguments, meter, |text| text.chars().rev().collect())
}
