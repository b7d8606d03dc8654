//! Filters and tests.

use std::cmp::Ordering;

use super::eval::{Given, Got, Run, fail, whole};
use super::{JinjaError, method};
use crate::value::number::{parse_float, parse_int};
use crate::value::{Object, Value, text};

type Result_<T> = Result<T, JinjaError>;

/// Applies a filter.
pub(super) fn apply(run: &mut Run<'_>, name: &str, base: Got, given: &Given) -> Result_<Got> {
    if matches!(name, "default" | "d") {
        let fallback = given.get(0, "default_value").cloned().unwrap_or_else(|| "".into());
        let also_false = given.get(1, "boolean").is_some_and(Value::is_truthy);
        return Ok(match base {
            Got::Undefined(_) => fallback.into(),
            Got::Plain(value) if also_false && !value.is_truthy() => fallback.into(),
            other => other,
        });
    }
    let value = run.plain(base)?;
    run.look_at(&value)?;
    if matches!(name, "first" | "last" | "min" | "max") {
        return one_of(run, name, &value, given);
    }
    Ok(match name {
        "upper" | "lower" | "title" | "capitalize" | "replace" | "center" => {
            let subject = run.python(&value)?;
            method::call(run, &Value::from(subject), name, given)?
        }
        "trim" => {
            let subject = run.python(&value)?;
            method::call(run, &Value::from(subject), "strip", given)?
        }
        "items" => match value {
            Value::Object(_) => method::call(run, &value, "items", given)?,
            _ => return fail("can only get item pairs from a mapping"),
        },
        "string" | "safe" | "escape" | "e" | "forceescape" => {
            let text = run.python(&value)?;
            if matches!(name, "escape" | "e" | "forceescape") {
                return Ok(escaped(run, &text)?.into());
            }
            run.text(text)?
        }
        "length" | "count" => run_length(&value)?.into(),
        "list" => {
            let items = run.items(&value)?;
            run.list(items)?
        }
        "join" => join(run, &value, given)?,
        "int" => to_int(&value, given),
        "float" => {
            let fallback = given.get(0, "default").cloned().unwrap_or(Value::Float(0.0));
            match &value {
                Value::Text(text) => parse_float(text).map_or(fallback, Value::Float),
                other => other.as_number().map_or(fallback, Value::Float),
            }
        }
        "abs" => match value {
            Value::Int(int) => Value::Int(int.saturating_abs()),
            Value::Float(float) => Value::Float(float.abs()),
            other => return fail(format!("bad operand type for abs(): '{}'", other.python_type())),
        },
        "round" => round(&value, given)?,
        "sum" => sum(run, &value, given)?,
        "sort" | "unique" | "reverse" | "dictsort" | "groupby" => {
            ordered(run, name, &value, given)?
        }
        "map" | "select" | "reject" | "selectattr" | "rejectattr" => {
            each(run, name, &value, given)?
        }
        "batch" | "slice" => parts(run, name, &value, given)?,
        "attr" => {
            let key = text_of(given, 0, "name");
            return run.attribute(value.into(), &key);
        }
        "tojson" | "pprint" => {
            if name == "pprint" {
                let text = text::repr(&value);
                return Ok(run.text(text)?.into());
            }
            let value = sorted(&value);
            let json = match given.get(0, "indent").is_some_and(Value::is_truthy) {
                true => text::json_indented(&value),
                false => text::json(&value),
            };
            run.allocate(json.len())?;
            run.text(html_safe(&json))?
        }
        "format" => match &value {
            Value::Text(format) => percent(run, format, &given.list)?,
            other => return fail(format!("'{}' cannot be formatted", other.python_type())),
        },
        "truncate" => truncate(run, &value, given)?,
        "indent" => indent(run, &value, given)?,
        "wordcount" => {
            let text = run.python(&value)?;
            text.split(|c: char| !c.is_alphanumeric() && c != '_')
                .filter(|w| !w.is_empty())
                .count()
                .into()
        }
        "striptags" => {
            let text = run.python(&value)?;
            strip_tags(run, &text)?
        }
        "urlencode" => {
            let text = run.python(&value)?;
            let encoded = text.bytes().map(|b| match b {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                    char::from(b).to_string()
                }
                b => format!("%{b:02X}"),
            });
            let encoded = encoded.collect();
            run.text(encoded)?
        }
        _ => return fail(format!("no filter named '{name}'")),
    }
    .into())
}

/// Whether `value is name(…)`.
pub(super) fn test(run: &mut Run<'_>, name: &str, base: Got, given: &Given) -> Result_<bool> {
    match name {
        "defined" => return Ok(!matches!(base, Got::Undefined(_))),
        "undefined" => return Ok(matches!(base, Got::Undefined(_))),
        "callable" => return Ok(matches!(base, Got::Macro(_))),
        "filter" | "test" => return fail("tests for names of filters are not available"),
        _ => {}
    }
    let value = run.plain(base)?;
    run.look_at(&value)?;
    let other = || given.get(0, "other").cloned().unwrap_or_default();
    Ok(match name {
        "none" => matches!(value, Value::Null),
        "true" => matches!(value, Value::Bool(true)),
        "false" => matches!(value, Value::Bool(false)),
        "boolean" => matches!(value, Value::Bool(_)),
        "integer" => matches!(value, Value::Int(_)),
        "float" => matches!(value, Value::Float(_)),
        "number" => value.as_number().is_some(),
        "string" => matches!(value, Value::Text(_)),
        "mapping" => matches!(value, Value::Object(_)),
        "sequence" | "iterable" => {
            matches!(value, Value::List(_) | Value::Object(_) | Value::Text(_))
        }
        "odd" | "even" | "divisibleby" => {
            let by = match given.get(0, "num") {
                Some(Value::Int(by)) if name == "divisibleby" => *by,
                _ => 2,
            };
            let Value::Int(int) = value else {
                return fail(format!("'{}' is not a whole number", value.python_type()));
            };
            match int.checked_rem(by) {
                Some(rest) => (rest == 0) != (name == "odd"),
                None => return fail("division by zero"),
            }
        }
        "eq" | "equalto" | "sameas" | "==" => value == other(),
        "ne" | "!=" => value != other(),
        "lt" | "lessthan" => run.ordering(&value, &other())? == Some(Ordering::Less),
        "gt" | "greaterthan" => run.ordering(&value, &other())? == Some(Ordering::Greater),
        "le" => matches!(run.ordering(&value, &other())?, Some(o) if o != Ordering::Greater),
        "ge" => matches!(run.ordering(&value, &other())?, Some(o) if o != Ordering::Less),
        "in" => run.contains(&other(), &value)?,
        "upper" => matches!(&value, Value::Text(t) if method::has_case(t, char::is_uppercase)),
        "lower" => matches!(&value, Value::Text(t) if method::has_case(t, char::is_lowercase)),
        "escaped" => false,
        _ => return fail(format!("no test named '{name}'")),
    })
}

/// The value with the keys of its objects in order, as `tojson` writes them.
fn sorted(value: &Value) -> Value {
    match value {
        Value::List(items) => items.iter().map(sorted).collect(),
        Value::Object(entries) => {
            let mut entries: Vec<(String, Value)> =
                entries.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            entries.into_iter().collect()
        }
        other => other.clone(),
    }
}

/// JSON in ASCII, without what has a meaning in HTML.
fn html_safe(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\'' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c if c.is_ascii() => out.push(c),
            c => {
                let mut units = [0; 2];
                let units = c.encode_utf16(&mut units);
                units.iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
            }
        }
    }
    out
}

fn text_of(given: &Given, at: usize, name: &str) -> String {
    given.get(at, name).map(text::python).unwrap_or_default()
}

fn count_of(given: &Given, at: usize, name: &str, fallback: usize) -> usize {
    match given.get(at, name) {
        Some(Value::Int(int)) => usize::try_from(*int).unwrap_or(0),
        _ => fallback,
    }
}

fn run_length(value: &Value) -> Result_<usize> {
    Ok(match value {
        Value::Text(text) => text.chars().count(),
        Value::List(items) => items.len(),
        Value::Object(entries) => entries.len(),
        other => return fail(format!("object of type '{}' has no len()", other.python_type())),
    })
}

fn escaped(run: &mut Run<'_>, text: &str) -> Result_<Value> {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    run.text(text.replace('\'', "&#39;").replace('"', "&#34;"))
}

/// The value at a dotted path, as `attribute=` takes it.
fn at_path(run: &mut Run<'_>, item: &Value, path: &Value) -> Result_<Got> {
    let mut got = Got::Plain(item.clone());
    let path = text::python(path);
    for key in path.split('.') {
        let key = parse_int(key).map_or_else(|| Value::from(key), Value::Int);
        got = run.item(got, &key)?;
    }
    Ok(got)
}

fn one_of(run: &mut Run<'_>, name: &str, value: &Value, given: &Given) -> Result_<Got> {
    let items = run.items(value)?;
    let found = match name {
        "first" => items.into_iter().next(),
        "last" => items.into_iter().next_back(),
        _ => {
            let attribute = given.get(1, "attribute").cloned();
            let mut best: Option<(Value, Value)> = None;
            for item in items {
                let key = match &attribute {
                    Some(path) => at_path(run, &item, path).and_then(|got| run.plain(got))?,
                    None => item.clone(),
                };
                let wanted = if name == "min" { Ordering::Less } else { Ordering::Greater };
                let better = match &best {
                    None => true,
                    Some((_, top)) => run.ordering(&key, top)? == Some(wanted),
                };
                if better {
                    best = Some((item, key));
                }
            }
            best.map(|(item, _)| item)
        }
    };
    let none = || Got::Undefined(format!("No {name} item, sequence was empty.").into());
    Ok(found.map_or_else(none, Got::Plain))
}

fn join(run: &mut Run<'_>, value: &Value, given: &Given) -> Result_<Value> {
    let separator = text_of(given, 0, "d");
    let mut joined = String::new();
    for (at, item) in run.items(value)?.iter().enumerate() {
        if at > 0 {
            run.allocate(separator.len())?;
            joined.push_str(&separator);
        }
        let item = match given.get(1, "attribute") {
            Some(path) => at_path(run, item, path).and_then(|got| run.plain(got))?,
            None => item.clone(),
        };
        joined.push_str(&run.python(&item)?);
    }
    run.text(joined)
}

fn to_int(value: &Value, given: &Given) -> Value {
    let fallback = given.get(0, "default").cloned().unwrap_or(Value::Int(0));
    match value {
        Value::Int(int) => Value::Int(*int),
        Value::Bool(flag) => Value::Int(i128::from(*flag)),
        Value::Float(float) => whole(*float).unwrap_or(fallback),
        Value::Text(text) => match (parse_int(text), parse_float(text)) {
            (Some(int), _) => Value::Int(int),
            (None, Some(float)) => whole(float).unwrap_or(fallback),
            (None, None) => fallback,
        },
        _ => fallback,
    }
}

fn round(value: &Value, given: &Given) -> Result_<Value> {
    let Some(number) = value.as_number() else {
        return fail(format!("type {} doesn't define round", value.python_type()));
    };
    let digits = match given.get(0, "precision") {
        Some(Value::Int(int)) => i32::try_from((*int).clamp(-300, 300)).unwrap_or(0),
        _ => 0,
    };
    let scale = 10_f64.powi(digits);
    Ok(Value::Float(match text_of(given, 1, "method").as_str() {
        "ceil" => (number * scale).ceil() / scale,
        "floor" => (number * scale).floor() / scale,
        // Exact decimals, halves to even, as Python does.
        _ if digits >= 0 => {
            let digits = usize::try_from(digits).unwrap_or(0);
            format!("{number:.digits$}").parse().unwrap_or(number)
        }
        _ => (number * scale).round_ties_even() / scale,
    }))
}

fn sum(run: &mut Run<'_>, value: &Value, given: &Given) -> Result_<Value> {
    let mut total = given.get(1, "start").cloned().unwrap_or(Value::Int(0));
    for item in run.items(value)? {
        let item = match given.get(0, "attribute") {
            Some(path) => at_path(run, &item, path).and_then(|got| run.plain(got))?,
            None => item,
        };
        total = run.add(&total, &item)?;
    }
    Ok(total)
}

fn ordered(run: &mut Run<'_>, name: &str, value: &Value, given: &Given) -> Result_<Value> {
    if let ("reverse", Value::Text(text)) = (name, value) {
        return run.text(text.chars().rev().collect());
    }
    let pairs = match (name, value) {
        ("dictsort", Value::Object(_)) => method::call(run, value, "items", &Given::default())?,
        ("dictsort", _) => return fail("cannot sort what is not a mapping"),
        _ => value.clone(),
    };
    let mut items = run.items(&pairs)?;
    if name == "reverse" {
        items.reverse();
        return run.list(items);
    }
    let attribute = match name {
        "sort" => given.get(2, "attribute"),
        "unique" => given.get(1, "attribute"),
        "groupby" => given.get(0, "attribute"),
        _ => None,
    };
    let exact =
        given.get(usize::from(name == "sort"), "case_sensitive").is_some_and(Value::is_truthy);
    let mut keyed = Vec::new();
    for item in items {
        let key = match (attribute, name) {
            (Some(path), _) => at_path(run, &item, path).and_then(|got| run.plain(got))?,
            (None, "dictsort") if text_of(given, 1, "by") == "value" => {
                item.as_list().and_then(|pair| pair.get(1)).cloned().unwrap_or_default()
            }
            (None, "dictsort") => {
                item.as_list().and_then(|p| p.first()).cloned().unwrap_or_default()
            }
            (None, _) => item.clone(),
        };
        let key = match key {
            Value::Text(text) if !exact => Value::from(text.to_lowercase()),
            key => key,
        };
        keyed.push((key, item));
    }
    if name == "unique" {
        let mut kept: Vec<(Value, Value)> = Vec::new();
        for (key, item) in keyed {
            run.spend(kept.len())?;
            if !kept.iter().any(|(known, _)| *known == key) {
                kept.push((key, item));
            }
        }
        return run.list(kept.into_iter().map(|(_, item)| item).collect());
    }
    run.spend(keyed.len() * 16)?;
    let mut failure = None;
    keyed.sort_by(|(a, _), (b, _)| match run.ordering(a, b) {
        Ok(order) => order.unwrap_or(Ordering::Equal),
        Err(error) => {
            failure = Some(error);
            Ordering::Equal
        }
    });
    if let Some(error) = failure {
        return Err(error);
    }
    let down = match name {
        "sort" => given.get(0, "reverse"),
        "dictsort" => given.get(2, "reverse"),
        _ => None,
    };
    if down.is_some_and(Value::is_truthy) {
        keyed.reverse();
    }
    if name == "groupby" {
        let mut groups: Vec<(Value, Vec<Value>)> = Vec::new();
        for (key, item) in keyed {
            match groups.last_mut() {
                Some((known, group)) if *known == key => group.push(item),
                _ => groups.push((key, vec![item])),
            }
        }
        let groups = groups.into_iter().map(|(key, group)| {
            let group = run.list(group)?;
            run.list(vec![key, group])
        });
        let groups = groups.collect::<Result_<_>>()?;
        return run.list(groups);
    }
    run.list(keyed.into_iter().map(|(_, item)| item).collect())
}

fn each(run: &mut Run<'_>, name: &str, value: &Value, given: &Given) -> Result_<Value> {
    let mut kept = Vec::new();
    let rest = |from: usize| Given {
        list: given.list.get(from..).unwrap_or_default().to_vec(),
        named: given.named.clone(),
    };
    for item in run.items(value)? {
        run.spend(4)?;
        match name {
            "map" => {
                let attribute = given.named.iter().find(|(name, _)| name == "attribute");
                let got = match attribute {
                    Some((_, path)) => at_path(run, &item, path)?,
                    None => apply(run, &text_of(given, 0, "filter"), item.into(), &rest(1))?,
                };
                let fallback = given.named.iter().find(|(name, _)| name == "default");
                kept.push(match (got, fallback) {
                    (Got::Undefined(_), Some((_, fallback))) => fallback.clone(),
                    (got, _) => run.plain(got)?,
                });
            }
            "select" | "reject" => {
                let holds = match given.list.first() {
                    Some(test_name) => {
                        let test_name = text::python(test_name);
                        test(run, &test_name, item.clone().into(), &rest(1))?
                    }
                    None => item.is_truthy(),
                };
                if holds == (name == "select") {
                    kept.push(item);
                }
            }
            _ => {
                let path = given.list.first().cloned().unwrap_or_default();
                let got = at_path(run, &item, &path)?;
                let holds = match given.list.get(1) {
                    Some(test_name) => {
                        let test_name = text::python(test_name);
                        test(run, &test_name, got, &rest(2))?
                    }
                    None => run.plain(got)?.is_truthy(),
                };
                if holds == (name == "selectattr") {
                    kept.push(item);
                }
            }
        }
    }
    run.list(kept)
}

fn parts(run: &mut Run<'_>, name: &str, value: &Value, given: &Given) -> Result_<Value> {
    let count = count_of(given, 0, "linecount", 0);
    if count == 0 {
        return fail("the number of parts must be at least 1");
    }
    let fill = given.get(1, "fill_with").cloned();
    let items = run.items(value)?;
    let mut made = Vec::new();
    if name == "batch" {
        run.allocate(if fill.is_some() { count.saturating_mul(32) } else { 0 })?;
        for chunk in items.chunks(count) {
            let mut chunk = chunk.to_vec();
            if let Some(fill) = &fill {
                chunk.resize(count, fill.clone());
            }
            made.push(run.list(chunk)?);
        }
        return run.list(made);
    }
    run.allocate(count.saturating_mul(32))?;
    let (each, extra, mut at) = (items.len() / count, items.len() % count, 0);
    for part in 0..count {
        let size = each + usize::from(part < extra);
        let mut chunk = items[at..at + size].to_vec();
        at += size;
        if let Some(fill) = &fill
            && extra > 0
            && part >= extra
        {
            chunk.push(fill.clone());
        }
        made.push(run.list(chunk)?);
    }
    run.list(made)
}

fn truncate(run: &mut Run<'_>, value: &Value, given: &Given) -> Result_<Value> {
    let text = run.python(value)?;
    let length = count_of(given, 0, "length", 255);
    let exact = given.get(1, "killwords").is_some_and(Value::is_truthy);
    let end = given.get(2, "end").map_or_else(|| "...".to_owned(), text::python);
    let leeway = count_of(given, 3, "leeway", 5);
    if text.chars().count() <= length.saturating_add(leeway) {
        return run.text(text);
    }
    let keep = length.saturating_sub(end.chars().count());
    let cut: String = text.chars().take(keep).collect();
    let cut = match (exact, cut.rsplit_once(' ')) {
        (false, Some((words, _))) => words.to_owned(),
        _ => cut,
    };
    run.text(cut + &end)
}

fn indent(run: &mut Run<'_>, value: &Value, given: &Given) -> Result_<Value> {
    let text = run.python(value)?;
    let prefix = match given.get(0, "width") {
        Some(Value::Text(prefix)) => prefix.to_string(),
        _ => {
            let width = count_of(given, 0, "width", 4);
            run.allocate(width)?;
            " ".repeat(width)
        }
    };
    let first = given.get(1, "first").is_some_and(Value::is_truthy);
    let blank = given.get(2, "blank").is_some_and(Value::is_truthy);
    let mut out = String::new();
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            out.push('\n');
        }
        if (at > 0 || first) && (blank || !line.is_empty() || at == 0) {
            run.allocate(prefix.len())?;
            out.push_str(&prefix);
        }
        out.push_str(line);
    }
    run.text(out)
}

fn strip_tags(run: &mut Run<'_>, text: &str) -> Result_<Value> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(start) = rest.find('<') {
        out.push_str(&rest[..start]);
        match rest[start..].find('>') {
            Some(end) => rest = &rest[start + end + 1..],
            None => {
                rest = &rest[start..];
                break;
            }
        }
    }
    out.push_str(rest);
    run.text(out.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// `format % values`.
pub(super) fn percent(run: &mut Run<'_>, format: &str, values: &[Value]) -> Result_<Value> {
    let (mut out, mut values) = (String::new(), values.iter());
    let mut rest = format;
    while let Some(start) = rest.find('%') {
        out.push_str(&rest[..start]);
        rest = &rest[start + 1..];
        let spec_end =
            rest.find(|c: char| !matches!(c, '0'..='9' | '.' | '-' | '+')).unwrap_or(rest.len());
        let spec = &rest[..spec_end];
        let Some(kind) = rest[spec_end..].chars().next() else { return fail("incomplete format") };
        rest = &rest[spec_end + kind.len_utf8()..];
        if kind == '%' {
            out.push('%');
            continue;
        }
        let Some(value) = values.next() else {
            return fail("not enough arguments for format string");
        };
        let (width, precision) = spec.split_once('.').unwrap_or((spec, ""));
        let precision: Option<usize> = precision.parse().ok().filter(|p| *p <= 1000);
        let piece = match (kind, value.as_number()) {
            ('s', _) => run.python(value)?,
            ('d' | 'i', Some(number)) => text::python(&whole(number)?),
            ('f' | 'F', Some(number)) => format!("{number:.0$}", precision.unwrap_or(6)),
            _ => return fail(format!("unsupported format '%{kind}' for this value")),
        };
        let left = width.starts_with('-');
        let width = width.trim_start_matches(['-', '+']);
        let zero = width.starts_with('0') && !left && kind != 's';
        let wanted: usize = width.parse().unwrap_or(0);
        let missing = wanted.saturating_sub(piece.chars().count());
        run.allocate(missing)?;
        match (left, zero) {
            (true, _) => out.extend([piece, " ".repeat(missing)]),
            (false, true) => out.extend(["0".repeat(missing), piece]),
            (false, false) => out.extend([" ".repeat(missing), piece]),
        }
    }
    out.push_str(rest);
    run.text(out)
}

/// The entries of an object as pairs.
pub(super) fn pairs(run: &mut Run<'_>, entries: &Object) -> Result_<Value> {
    run.spend(entries.len())?;
    let pairs =
        entries.iter().map(|(key, value)| run.list(vec![key.as_str().into(), value.clone()]));
    let pairs = pairs.collect::<Result_<_>>()?;
    run.list(pairs)
}
