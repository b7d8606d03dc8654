//! Methods of texts, lists and objects: those of Python that templates use.

use std::sync::Arc;

use super::JinjaError;
use super::eval::{Given, Run, fail};
use super::filter::pairs;
use crate::value::{Value, text};

type Result_<T> = Result<T, JinjaError>;

/// Methods that change what they are called on.
pub(super) const CHANGING: [&str; 9] =
    ["append", "extend", "insert", "pop", "remove", "clear", "update", "reverse", "setdefault"];

/// Whether a value can be changed by its methods.
pub(super) fn is_container(value: &Value) -> bool {
    matches!(value, Value::List(_) | Value::Object(_))
}

/// Whether a text has letters, and all of them are of a case.
pub(super) fn has_case(text: &str, case: fn(char) -> bool) -> bool {
    let mut letters = text.chars().filter(|c| c.is_uppercase() || c.is_lowercase()).peekable();
    letters.peek().is_some() && letters.all(case)
}

/// Calls a method.
pub(super) fn call(run: &mut Run<'_>, on: &Value, name: &str, given: &Given) -> Result_<Value> {
    run.look_at(on)?;
    match on {
        Value::Text(subject) => of_text(run, subject, name, given),
        Value::Object(entries) => Ok(match name {
            "items" => pairs(run, entries)?,
            "keys" => run.list(entries.keys().map(|key| key.as_str().into()).collect())?,
            "values" => run.list(entries.values().cloned().collect())?,
            "copy" => on.clone(),
            "cycle" => match entries.get("index0") {
                Some(Value::Int(at)) if !given.list.is_empty() => {
                    let at = usize::try_from(*at).unwrap_or(0) % given.list.len();
                    given.list[at].clone()
                }
                _ => return unknown(on, name),
            },
            "get" => {
                let key = given.list.first().map(text::python).unwrap_or_default();
                let found = entries.get(&key).cloned();
                found.unwrap_or_else(|| given.list.get(1).cloned().unwrap_or_default())
            }
            _ => return unknown(on, name),
        }),
        Value::List(items) => Ok(match name {
            "copy" => on.clone(),
            "count" => items.iter().filter(|item| given.list.first() == Some(item)).count().into(),
            "index" => match items.iter().position(|item| given.list.first() == Some(item)) {
                Some(at) => at.into(),
                None => return fail("the value is not in the list"),
            },
            _ => return unknown(on, name),
        }),
        _ => unknown(on, name),
    }
}

fn unknown<T>(on: &Value, name: &str) -> Result_<T> {
    fail(format!("'{} object' has no attribute '{name}'", on.python_type()))
}

/// Calls a method that changes a list or object; the changed one, and the result.
pub(super) fn change(
    run: &mut Run<'_>,
    on: Value,
    name: &str,
    given: &Given,
) -> Result_<(Value, Value)> {
    let first = given.list.first().cloned();
    match on {
        Value::List(items) => {
            let mut items = Arc::unwrap_or_clone(items);
            run.spend(items.len())?;
            let mut result = Value::Null;
            let place = |at: &Value, length: usize| match at {
                Value::Int(at) if *at < 0 => {
                    length.saturating_sub(usize::try_from(-*at).unwrap_or(length))
                }
                Value::Int(at) => usize::try_from(*at).unwrap_or(length).min(length),
                _ => length,
            };
            match (name, first) {
                ("append", Some(item)) => items.push(item),
                ("extend", Some(more)) => items.extend(run.items(&more)?),
                ("insert", Some(at)) => {
                    let at = place(&at, items.len());
                    items.insert(at, given.list.get(1).cloned().unwrap_or_default());
                }
                ("pop", at) => {
                    let at = at.map_or(items.len().saturating_sub(1), |at| place(&at, items.len()));
                    if at >= items.len() {
                        return fail("pop index out of range");
                    }
                    result = items.remove(at);
                }
                ("remove", Some(item)) => match items.iter().position(|known| *known == item) {
                    Some(at) => drop(items.remove(at)),
                    None => return fail("list.remove(x): x not in list"),
                },
                ("clear", _) => items.clear(),
                ("reverse", _) => items.reverse(),
                _ => return fail(format!("'list object' has no attribute '{name}'")),
            }
            Ok((run.list(items)?, result))
        }
        Value::Object(entries) => {
            let mut entries = Arc::unwrap_or_clone(entries);
            run.spend(entries.len())?;
            let mut result = Value::Null;
            match (name, first) {
                ("update", more) => {
                    if let Some(Value::Object(more)) = more {
                        entries.extend(more.iter().map(|(k, v)| (k.clone(), v.clone())));
                    }
                    entries.extend(given.named.iter().cloned());
                }
                ("pop", Some(key)) => {
                    let removed = entries.shift_remove(&text::python(&key));
                    result = removed.or_else(|| given.list.get(1).cloned()).unwrap_or_default();
                }
                ("setdefault", Some(key)) => {
                    let fallback = given.list.get(1).cloned().unwrap_or_default();
                    result = entries.entry(text::python(&key)).or_insert(fallback).clone();
                }
                ("clear", _) => entries.clear(),
                _ => return fail(format!("'dict object' has no attribute '{name}'")),
            }
            Ok((run.object(entries)?, result))
        }
        other => unknown(&other, name),
    }
}

fn of_text(run: &mut Run<'_>, subject: &str, name: &str, given: &Given) -> Result_<Value> {
    let argument = |at: usize| given.list.get(at).map(text::python);
    let count = |at: usize| match given.list.get(at) {
        Some(Value::Int(int)) => usize::try_from(*int).unwrap_or(0),
        _ => usize::MAX,
    };
    let made = match name {
        "upper" => subject.to_uppercase(),
        "lower" => subject.to_lowercase(),
        "capitalize" => {
            let mut chars = subject.chars();
            let first: String =
                chars.next().map(|c| c.to_uppercase().collect()).unwrap_or_default();
            first + &chars.as_str().to_lowercase()
        }
        "title" => title(subject),
        "strip" | "lstrip" | "rstrip" => {
            let set: Option<Vec<char>> =
                given.get(0, "chars").map(|c| text::python(c).chars().collect());
            let gone = |c: char| set.as_ref().map_or(c.is_whitespace(), |set| set.contains(&c));
            let subject = if name == "rstrip" { subject } else { subject.trim_start_matches(gone) };
            let subject = if name == "lstrip" { subject } else { subject.trim_end_matches(gone) };
            subject.to_owned()
        }
        "replace" => {
            let (old, new) = (given.get(0, "old"), given.get(1, "new"));
            let old = old.map(text::python).unwrap_or_default();
            let new = new.map(text::python).unwrap_or_default();
            let found = match old.is_empty() {
                true => subject.chars().count() + 1,
                false => subject.matches(old.as_str()).count(),
            };
            let found = found.min(count(2));
            run.allocate(found.saturating_mul(new.len()))?;
            subject.replacen(old.as_str(), &new, count(2))
        }
        "center" | "ljust" | "rjust" | "zfill" => {
            let length = subject.chars().count();
            let missing = match given.get(0, "width") {
                Some(Value::Int(width)) => usize::try_from(*width).unwrap_or(0),
                _ => 80,
            };
            let missing = missing.saturating_sub(length);
            run.allocate(missing)?;
            let fill = if name == "zfill" { "0" } else { " " };
            match name {
                "ljust" => subject.to_owned() + &fill.repeat(missing),
                "center" => {
                    let left = missing / 2;
                    fill.repeat(left) + subject + &fill.repeat(missing - left)
                }
                _ => fill.repeat(missing) + subject,
            }
        }
        "join" => {
            let items = given.list.first().cloned().unwrap_or_default();
            let mut joined = String::new();
            for (at, item) in run.items(&items)?.iter().enumerate() {
                let Value::Text(item) = item else {
                    let class = item.python_type();
                    return fail(format!(
                        "sequence item {at}: expected str instance, {class} found"
                    ));
                };
                run.allocate(item.len() + subject.len())?;
                joined.push_str(if at > 0 { subject } else { "" });
                joined.push_str(item);
            }
            joined
        }
        "format" => braces(run, subject, given)?,
        _ => return facts(run, subject, name, argument(0), count(1)),
    };
    run.text(made)
}

/// Methods whose result is no text.
fn facts(
    run: &mut Run<'_>,
    subject: &str,
    name: &str,
    argument: Option<String>,
    count: usize,
) -> Result_<Value> {
    let wanted = argument.clone().unwrap_or_default();
    let all = |test: fn(char) -> bool| !subject.is_empty() && subject.chars().all(test);
    Ok(match name {
        "startswith" => subject.starts_with(wanted.as_str()).into(),
        "endswith" => subject.ends_with(wanted.as_str()).into(),
        "count" => subject.matches(wanted.as_str()).count().into(),
        "find" | "index" => match subject.find(wanted.as_str()) {
            Some(at) => subject[..at].chars().count().into(),
            None if name == "find" => Value::Int(-1),
            None => return fail("substring not found"),
        },
        "isdigit" | "isnumeric" => all(char::is_numeric).into(),
        "isalpha" => all(char::is_alphabetic).into(),
        "isalnum" => all(char::is_alphanumeric).into(),
        "isspace" => all(char::is_whitespace).into(),
        "isupper" => has_case(subject, char::is_uppercase).into(),
        "islower" => has_case(subject, char::is_lowercase).into(),
        "split" | "rsplit" | "splitlines" => {
            run.allocate(subject.len().saturating_mul(16))?;
            let limit = count.saturating_add(1);
            let parts: Vec<Value> = match (name, argument) {
                ("splitlines", _) => subject.lines().map(Value::from).collect(),
                (_, Some(separator)) if separator.is_empty() => return fail("empty separator"),
                ("split", Some(separator)) => {
                    subject.splitn(limit, separator.as_str()).map(Value::from).collect()
                }
                (_, Some(separator)) => {
                    let mut parts: Vec<_> =
                        subject.rsplitn(limit, separator.as_str()).map(Value::from).collect();
                    parts.reverse();
                    parts
                }
                (_, None) => subject.split_whitespace().map(Value::from).collect(),
            };
            run.spend(parts.len())?;
            run.list(parts)?
        }
        _ => return fail(format!("'str object' has no attribute '{name}'")),
    })
}

fn title(subject: &str) -> String {
    let (mut out, mut inside) = (String::new(), false);
    for c in subject.chars() {
        match inside {
            true => out.extend(c.to_lowercase()),
            false => out.extend(c.to_uppercase()),
        }
        inside = c.is_alphanumeric() || c == '\'';
    }
    out
}

/// `format.format(…)` with `{}`, `{0}`, `{name}` and `{:.2f}`.
fn braces(run: &mut Run<'_>, format: &str, given: &Given) -> Result_<String> {
    let (mut out, mut rest, mut next) = (String::new(), format, 0);
    while let Some(start) = rest.find(['{', '}']) {
        out.push_str(&rest[..start]);
        let found = &rest[start..start + 1];
        rest = &rest[start + 1..];
        if rest.starts_with(found) {
            out.push_str(found);
            rest = &rest[1..];
            continue;
        }
        let Some(end) = rest.find('}').filter(|_| found == "{") else {
            return fail("single brace in a format");
        };
        let (field, spec) = rest[..end].split_once(':').unwrap_or((&rest[..end], ""));
        rest = &rest[end + 1..];
        let value = match (field, field.parse::<usize>()) {
            ("", _) => {
                next += 1;
                given.list.get(next - 1)
            }
            (_, Ok(at)) => given.list.get(at),
            (name, _) => given.named.iter().find(|(known, _)| known == name).map(|(_, v)| v),
        };
        let Some(value) = value else { return fail("a replacement of the format is missing") };
        let digits = spec.strip_prefix('.').and_then(|spec| spec.strip_suffix('f'));
        let digits = digits.and_then(|digits| digits.parse::<usize>().ok()).filter(|d| *d < 1000);
        let piece = match (digits, value.as_number()) {
            (Some(digits), Some(number)) => format!("{number:.digits$}"),
            _ => run.python(value)?,
        };
        run.allocate(piece.len())?;
        out.push_str(&piece);
    }
    out.push_str(rest);
    Ok(out)
}
