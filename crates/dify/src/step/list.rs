//! The list-operator node: filter, take one, order, cut.

use std::cmp::Ordering;

use super::{Failure, Outcome, lookup, written};
use crate::condition::Operator;
use crate::node::flow::ListOperator;
use crate::pool::Pool;
use crate::template;
use crate::value::number::{compare, parse_float, parse_int};
use crate::value::{Kind, Segment, Value, text};

pub(super) fn operate(settings: &ListOperator, pool: &Pool) -> Result<Outcome, Failure> {
    let Some(mut list) = lookup(pool, &settings.list)? else {
        let selector = written(&settings.list);
        return Err(fault(format!("Variable not found for selector: {selector}")));
    };
    if !list.value.is_truthy() {
        let kind = if list.kind.is_list() { list.kind } else { Kind::AnyList };
        return Ok(outcome(Segment { kind, value: Value::List(Vec::new().into()) }));
    }
    let works = [Kind::FileList, Kind::NumberList, Kind::StringList, Kind::BooleanList];
    let Value::List(items) = &list.value else { return Err(no_list(settings, list.kind)) };
    if !works.contains(&list.kind) {
        return Err(no_list(settings, list.kind));
    }
    let mut items = items.to_vec();
    for (key, operator, expected) in &settings.filter {
        let keep = filter(list.kind, key, *operator, expected, pool)?;
        let mut kept = Vec::new();
        for item in items {
            if keep(&item)? {
                kept.push(item);
            }
        }
        items = kept;
    }
    if let Some(serial) = &settings.extract {
        items = vec![extract(&template::render(serial, pool)?, &items)?];
    }
    if let Some((key, down)) = &settings.order {
        order(list.kind, key, *down, &mut items)?;
    }
    if let Some(limit) = settings.limit {
        let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let kept = if limit < 0 { length.saturating_add(limit) } else { limit };
        items.truncate(usize::try_from(kept).unwrap_or(0));
    }
    list.value = items.into_iter().collect();
    Ok(outcome(list))
}

fn fault(message: impl Into<String>) -> Failure {
    Failure::new("ListOperatorError", message)
}

fn no_list(settings: &ListOperator, kind: Kind) -> Failure {
    let selector = written(&settings.list);
    fault(format!("Variable {selector} is not an array type, actual type: {kind}"))
}

fn outcome(list: Segment) -> Outcome {
    let items = list.value.as_list().unwrap_or_default();
    let first = items.first().cloned().unwrap_or_default();
    let last = items.last().cloned().unwrap_or_default();
    Outcome::of([("result", list), ("first_record", first.into()), ("last_record", last.into())])
}

type Keep = Box<dyn Fn(&Value) -> Result<bool, Failure>>;

fn filter(
    kind: Kind,
    key: &str,
    operator: Operator,
    expected: &Value,
    pool: &Pool,
) -> Result<Keep, Failure> {
    let expected = match expected {
        Value::Text(template) => Value::from(template::render(template, pool)?),
        other => other.clone(),
    };
    let invalid = || fault(format!("Invalid filter value: {}", text::python(&expected)));
    match (kind, &expected) {
        (Kind::BooleanList, Value::Bool(_)) => match operator {
            Operator::Is => Ok(Box::new(move |item| Ok(*item == expected))),
            Operator::IsNot => Ok(Box::new(move |item| Ok(*item != expected))),
            _ => Err(fault("Invalid condition")),
        },
        (Kind::NumberList, Value::Text(number)) => {
            let number = parse_float(number).ok_or_else(|| {
                Failure::value(format!(
                    "could not convert string to float: {}",
                    text::repr(&expected)
                ))
            })?;
            by_number(operator, number)
        }
        (Kind::StringList, Value::Text(_)) => by_text(operator, &expected),
        (Kind::FileList, _) => by_attribute(key, operator, expected),
        _ => Err(invalid()),
    }
}

fn by_number(operator: Operator, expected: f64) -> Result<Keep, Failure> {
    let test: fn(Ordering) -> bool = match operator {
        Operator::Equal => |order| order == Ordering::Equal,
        Operator::NotEqual => |order| order != Ordering::Equal,
        Operator::Less => |order| order == Ordering::Less,
        Operator::LessOrEqual => |order| order != Ordering::Greater,
        Operator::Greater => |order| order == Ordering::Greater,
        Operator::GreaterOrEqual => |order| order != Ordering::Less,
        _ => return Err(fault("Invalid condition")),
    };
    let expected = Value::Float(expected);
    Ok(Box::new(move |item| Ok(compare(item, &expected).is_some_and(test))))
}

/// Tests of texts; `in` a text means being a part of it.
fn by_text(operator: Operator, expected: &Value) -> Result<Keep, Failure> {
    let test: fn(&str, &str) -> bool = match operator {
        Operator::Contains => |item, wanted| item.contains(wanted),
        Operator::NotContains => |item, wanted| !item.contains(wanted),
        Operator::StartWith => |item, wanted| item.starts_with(wanted),
        Operator::EndWith => |item, wanted| item.ends_with(wanted),
        Operator::Is => |item, wanted| item == wanted,
        Operator::IsNot => |item, wanted| item != wanted,
        Operator::In => |item, wanted| wanted.contains(item),
        Operator::NotIn => |item, wanted| !wanted.contains(item),
        Operator::Empty => |item, _| item.is_empty(),
        Operator::NotEmpty => |item, _| !item.is_empty(),
        _ => return Err(fault("Invalid condition")),
    };
    let wanted = text::python(expected);
    Ok(Box::new(move |item| Ok(item.as_text().is_some_and(|item| test(item, &wanted)))))
}

fn by_attribute(key: &str, operator: Operator, expected: Value) -> Result<Keep, Failure> {
    let key = key.to_owned();
    let attribute = {
        let key = key.clone();
        move |item: &Value| match item {
            Value::File(file) => file.attribute(&key).map(Value::from_json).unwrap_or_default(),
            _ => Value::Null,
        }
    };
    match (key.as_str(), &expected) {
        ("name" | "extension" | "mime_type" | "url" | "related_id", Value::Text(_)) => {
            let keep = by_text(operator, &expected)?;
            Ok(Box::new(move |item| {
                let value = attribute(item);
                keep(&Value::from(value.as_text().unwrap_or_default()))
            }))
        }
        ("type" | "transfer_method", _) => {
            let wanted = match operator {
                Operator::In => true,
                Operator::NotIn => false,
                _ => return Err(fault("Invalid condition")),
            };
            Ok(Box::new(move |item| {
                let value = attribute(item);
                let is_in = match (&expected, value.as_text()) {
                    (Value::List(items), _) => items.contains(&value),
                    (Value::Text(text), Some(part)) => text.contains(part),
                    _ => false,
                };
                Ok(is_in == wanted)
            }))
        }
        ("size", Value::Text(number)) => {
            let number = parse_float(number)
                .ok_or_else(|| fault(format!("Invalid filter value: {number}")))?;
            let keep = by_number(operator, number)?;
            Ok(Box::new(move |item| keep(&attribute(item))))
        }
        _ => Err(fault(format!("Invalid key: {key}"))),
    }
}

fn extract(serial: &str, items: &[Value]) -> Result<Value, Failure> {
    let Some(serial) = parse_int(serial) else {
        let quoted = text::repr(&Value::from(serial));
        return Err(Failure::value(format!("invalid literal for int() with base 10: {quoted}")));
    };
    if serial < 1 {
        return Err(Failure::value(format!("Invalid serial index: must be >= 1, got {serial}")));
    }
    let found = usize::try_from(serial - 1).ok().and_then(|at| items.get(at)).cloned();
    found.ok_or_else(|| {
        fault(format!("Invalid serial index: must be <= {}, got {serial}", items.len()))
    })
}

fn order(kind: Kind, key: &str, down: bool, items: &mut [Value]) -> Result<(), Failure> {
    let of_files = kind == Kind::FileList;
    let known =
        ["name", "type", "extension", "mime_type", "transfer_method", "url", "related_id", "size"];
    if of_files && !known.contains(&key) {
        return Err(fault(format!("Invalid order key: {key}")));
    }
    let sort_key = |item: &Value| match item {
        Value::File(file) => match file.attribute(key).map(Value::from_json) {
            Some(Value::Null) | None => Value::from(""),
            Some(value) => value,
        },
        other => other.clone(),
    };
    let by = |a: &Value, b: &Value| match (sort_key(a), sort_key(b)) {
        (Value::Text(a), Value::Text(b)) => a.cmp(&b),
        (a, b) => compare(&a, &b).unwrap_or(Ordering::Equal),
    };
    // Equal items keep their order in both directions, as in Python.
    match down {
        true => items.sort_by(|a, b| by(b, a)),
        false => items.sort_by(by),
    }
    Ok(())
}
