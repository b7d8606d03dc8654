//! Lists and sets.

use std::cmp::Ordering;

use Form::{Global, Method};
use Takes::{List, Whole};

use super::{Form, Gives, Row, Takes, row, unexpected};
use crate::error::{Fault, Faulty};
use crate::evaluate::ELEMENT;
use crate::meter::Meter;
use crate::value::{List as Items, Value, compare, equal};

pub(super) const ROWS: &[Row] = &[
    row("lists.range", Global, &[Whole], Gives::Ints, range),
    row("range", Global, &[Whole], Gives::Ints, range),
    row("distinct", Method, &[List], Gives::Same, distinct),
    row("flatten", Method, &[List], Gives::Dyns, flatten),
    row("flatten", Method, &[List, Whole], Gives::Dyns, flatten),
    row("slice", Method, &[List, Whole, Whole], Gives::Same, slice),
    row("sort", Method, &[List], Gives::Same, sort),
    row("reverse", Method, &[List], Gives::Same, reverse),
    row("reverse", Method, &[Takes::Text], Gives::Text, super::text::reverse),
    row("first", Method, &[List], Gives::OptionalElement, first),
    row("last", Method, &[List], Gives::OptionalElement, last),
    row("sets.contains", Global, &[List, List], Gives::Bool, set_contains),
    row("sets.equivalent", Global, &[List, List], Gives::Bool, set_equivalent),
    row("sets.intersects", Global, &[List, List], Gives::Bool, set_intersects),
];

/// Room for a list of so many elements.
fn room<'a>(length: usize, meter: &mut Meter) -> Faulty<Vec<Value<'a>>> {
    meter.step(length as u64)?;
    meter.allocate(length.saturating_mul(ELEMENT))?;
    Ok(Vec::with_capacity(length))
}

fn range<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let [length] = arguments else { return Err(unexpected()) };
    // A negative length is that of an empty list.
    let length = length.as_whole().unwrap_or_default().max(0);
    let mut numbers = room(usize::try_from(length).unwrap_or(usize::MAX), meter)?;
    numbers.extend((0..length).map(|number| Value::Int(number as i64)));
    Ok(Value::list(numbers))
}

fn distinct<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let [Value::List(list)] = arguments else { return Err(unexpected()) };
    let mut found = room(list.len(), meter)?;
    for item in list.iter() {
        if !holds(&found, &item, meter)? {
            found.push(item);
        }
    }
    Ok(Value::list(found))
}

fn holds(list: &[Value<'_>], item: &Value<'_>, meter: &mut Meter) -> Faulty<bool> {
    for other in list {
        if equal(other, item, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn flatten<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let (list, depth) = match arguments {
        [Value::List(list)] => (list, 1),
        [Value::List(list), depth] => (list, depth.as_whole().unwrap_or_default()),
        _ => return Err(unexpected()),
    };
    if depth < 0 {
        return Err(Fault::new("`flatten` opens 0 levels or more"));
    }
    let mut flat = Vec::new();
    flatten_into(list, depth, &mut flat, meter)?;
    Ok(Value::list(flat))
}

/// Recurses as deep as the value is, which its reader bounded.
fn flatten_into<'a>(
    list: &Items<'a>,
    depth: i128,
    flat: &mut Vec<Value<'a>>,
    meter: &mut Meter,
) -> Faulty<()> {
    for item in list.iter() {
        meter.step(1)?;
        match item {
            Value::List(inner) if depth > 0 => flatten_into(&inner, depth - 1, flat, meter)?,
            item => {
                meter.allocate(ELEMENT)?;
                flat.push(item);
            }
        }
    }
    Ok(())
}

fn slice<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let [Value::List(list), start, end] = arguments else { return Err(unexpected()) };
    let (start, end) = bounds(start, end, list.len())?;
    let mut part = room(end - start, meter)?;
    part.extend((start..end).filter_map(|index| list.get(index)));
    Ok(Value::list(part))
}

/// Two places in something of a length.
pub(super) fn bounds(start: &Value<'_>, end: &Value<'_>, length: usize) -> Faulty<(usize, usize)> {
    let start = start.as_whole().unwrap_or(-1);
    let end = end.as_whole().unwrap_or(-1);
    match (usize::try_from(start), usize::try_from(end)) {
        (Ok(start), Ok(end)) if start <= end && end <= length => Ok((start, end)),
        _ => Err(Fault::new(format!(
            "there is no part from {start} to {end} of a length of {length}"
        ))
        .hint("the end is not included; write min([size(x), n]) for an end that may be too far")),
    }
}

fn sort<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let [Value::List(list)] = arguments else { return Err(unexpected()) };
    let mut items = room(list.len(), meter)?;
    items.extend(list.iter());
    sorted(&items, &items, meter)
}

/// The items in the order of their keys.
pub(crate) fn sorted<'a>(
    items: &[Value<'a>],
    keys: &[Value<'a>],
    meter: &mut Meter,
) -> Faulty<Value<'a>> {
    let length = items.len();
    // Comparisons, of which each may read two texts.
    let mut work = 1;
    for (index, key) in keys.iter().enumerate() {
        work = work.max(1 + key.as_str().map_or(0, |text| text.len() as u64 / 64));
        let first = keys.first().unwrap_or(key);
        let comparable =
            compare(key, first).is_some() || (key.as_f64().is_some() && first.as_f64().is_some());
        if !comparable {
            let fault = Fault::new(format!(
                "elements 0 and {index} of the list have no order: {} and {}",
                first.described(),
                key.described()
            ));
            return Err(match key {
                Value::Map(_) => fault.hint("write list.sortBy(x, x.field)"),
                _ => fault,
            });
        }
    }
    meter.allocate(length.saturating_mul(ELEMENT))?;
    let mut order: Vec<usize> = (0..length).collect();
    meter.step(length as u64 * u64::from(length.max(1).ilog2() + 1) * work)?;
    order.sort_by(|a, b| match (keys.get(*a), keys.get(*b)) {
        (Some(a), Some(b)) => total(a, b),
        _ => Ordering::Equal,
    });
    let mut sorted = room(length, meter)?;
    sorted.extend(order.iter().filter_map(|index| items.get(*index).cloned()));
    Ok(Value::list(sorted))
}

/// A total order, in which NaN comes last.
fn total(a: &Value<'_>, b: &Value<'_>) -> Ordering {
    let nan = |value: &Value<'_>| value.as_f64().is_some_and(f64::is_nan);
    compare(a, b).unwrap_or_else(|| nan(a).cmp(&nan(b)))
}

fn reverse<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let [Value::List(list)] = arguments else { return Err(unexpected()) };
    let mut items = room(list.len(), meter)?;
    items.extend(list.iter().rev());
    Ok(Value::list(items))
}

fn first<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    let [Value::List(list)] = arguments else { return Err(unexpected()) };
    Ok(list.get(0).map_or(Value::none(), Value::some))
}

fn last<'a>(arguments: &[Value<'a>], _: &mut Meter) -> Faulty<Value<'a>> {
    let [Value::List(list)] = arguments else { return Err(unexpected()) };
    let last = list.len().checked_sub(1).and_then(|index| list.get(index));
    Ok(last.map_or(Value::none(), Value::some))
}

/// Whether each element of `inner` is in `outer`.
fn within(inner: &Items<'_>, outer: &Items<'_>, meter: &mut Meter) -> Faulty<bool> {
    for item in inner.iter() {
        if !is_in(&item, outer, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_in(item: &Value<'_>, list: &Items<'_>, meter: &mut Meter) -> Faulty<bool> {
    for other in list.iter() {
        if equal(item, &other, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn set_contains<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let [Value::List(outer), Value::List(inner)] = arguments else { return Err(unexpected()) };
    within(inner, outer, meter).map(Value::Bool)
}

fn set_equivalent<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let [Value::List(a), Value::List(b)] = arguments else { return Err(unexpected()) };
    Ok(Value::Bool(within(a, b, meter)? && within(b, a, meter)?))
}

fn set_intersects<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let [Value::List(a), Value::List(b)] = arguments else { return Err(unexpected()) };
    for item in a.iter() {
        if is_in(&item, b, meter)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}
