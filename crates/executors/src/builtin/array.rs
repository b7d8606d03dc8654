//! `array`: operations on arrays. Indices start at 0; a negative one counts from the end.
//! A `key` is a path into each item (see [`super::path`]), so that arrays of objects work
//! like arrays of values.

pub(super) mod condition;
mod numbers;
mod sets;

use serde_json::{Map, Value, json};
use windlass::{Error, Output};

use super::arguments::{Arguments, Operation, dispatch, invalid};
use super::path::Path;
use super::{bounds, value};

pub(super) fn run(arguments: &Arguments<'_>) -> Result<Output, Error> {
    dispatch(OPERATIONS, arguments)
}

pub(super) const OPERATIONS: &[(&str, Operation)] = &[
    ("length", |arguments| Ok(Output::json(items(arguments)?.len()))),
    ("get", get),
    ("first", |arguments| end_item(arguments, 0)),
    ("last", |arguments| end_item(arguments, -1)),
    ("slice", slice),
    ("sort", sort),
    ("reverse", |arguments| list(items(arguments)?.iter().rev().cloned().collect())),
    ("flatten", flatten),
    ("chunk", chunk),
    ("filter", condition::filter),
    ("pluck", pluck),
    ("group_by", group_by),
    ("contains", |arguments| Ok(Output::json(find(arguments)?.is_some()))),
    ("index_of", |arguments| Ok(Output::json(find(arguments)?.map_or(json!(-1), |at| json!(at))))),
    ("count", sets::count),
    ("unique", sets::unique),
    ("union", sets::union),
    ("intersection", sets::intersection),
    ("difference", sets::difference),
    ("concat", concat),
    ("zip", zip),
    ("join", join),
    ("sum", numbers::sum),
    ("average", numbers::average),
    ("min", |arguments| numbers::extreme(arguments, std::cmp::Ordering::Less)),
    ("max", |arguments| numbers::extreme(arguments, std::cmp::Ordering::Greater)),
    ("range", numbers::range),
];

fn items<'a>(arguments: &Arguments<'a>) -> Result<&'a [Value], Error> {
    bounds::items(arguments.list("items")?)
}

fn other<'a>(arguments: &Arguments<'a>) -> Result<&'a [Value], Error> {
    bounds::items(arguments.list("other")?)
}

fn list(items: Vec<Value>) -> Result<Output, Error> {
    bounds::items(&items)?;
    Ok(Output::json(items))
}

/// The value to compare in each item: the one at `key`, or the item itself.
struct Key(Path);

impl Key {
    fn optional(arguments: &Arguments<'_>) -> Result<Self, Error> {
        Path::parse(arguments.text_or("key", "")?).map(Self)
    }

    fn required(arguments: &Arguments<'_>) -> Result<Self, Error> {
        Path::parse(arguments.text("key")?).map(Self)
    }

    fn of<'a>(&self, item: &'a Value) -> Option<&'a Value> {
        self.0.get(item)
    }

    /// The value, or `null` if an item does not have it.
    fn or_null<'a>(&self, item: &'a Value) -> &'a Value {
        self.of(item).unwrap_or(&Value::Null)
    }
}

fn get(arguments: &Arguments<'_>) -> Result<Output, Error> {
    item_at(items(arguments)?, arguments.integer("index")?)
}

fn item_at(items: &[Value], index: i64) -> Result<Output, Error> {
    let count = items.len() as i64;
    let at = if index < 0 { index.saturating_add(count) } else { index };
    match usize::try_from(at).ok().and_then(|at| items.get(at)) {
        Some(item) => Ok(Output::json(item.clone())),
        None => Err(invalid(format!("there is no item {index}: the array has {count} items"))),
    }
}

/// The first or last item, or the first or last `count` of them as a list.
fn end_item(arguments: &Arguments<'_>, index: i64) -> Result<Output, Error> {
    let items = items(arguments)?;
    match arguments.optional_size("count")?.map(|count| count.min(items.len())) {
        None => item_at(items, index),
        Some(count) if index < 0 => list(items[items.len() - count..].to_vec()),
        Some(count) => list(items[..count].to_vec()),
    }
}

fn slice(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let items = items(arguments)?;
    let position = |at: i64| {
        let distance = usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX);
        if at < 0 { items.len().saturating_sub(distance) } else { distance.min(items.len()) }
    };
    let start = position(arguments.optional_integer("start")?.unwrap_or(0));
    let end = arguments.optional_integer("end")?.map_or(items.len(), position);
    list(items.get(start..end).unwrap_or_default().to_vec())
}

/// Sorts by value or by key; items without the key come last in both directions.
fn sort(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let key = Key::optional(arguments)?;
    let descending = match arguments.text_or("order", "asc")? {
        "asc" => false,
        "desc" => true,
        other => return Err(invalid(format!("unknown order `{other}`; known: asc, desc"))),
    };
    let mut with: Vec<(&Value, &Value)> = Vec::new();
    let mut without: Vec<&Value> = Vec::new();
    for item in items(arguments)? {
        match key.of(item) {
            Some(found) => with.push((found, item)),
            None => without.push(item),
        }
    }
    with.sort_by(|(left, _), (right, _)| {
        let order = value::compare(left, right);
        if descending { order.reverse() } else { order }
    });
    list(with.into_iter().map(|(_, item)| item).chain(without).cloned().collect())
}

fn flatten(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let depth = arguments.optional_size("depth")?.unwrap_or(1);
    let mut flat = Vec::new();
    flatten_into(items(arguments)?, depth, &mut flat);
    list(flat)
}

fn flatten_into(items: &[Value], depth: usize, flat: &mut Vec<Value>) {
    for item in items {
        match item {
            Value::Array(inner) if depth > 0 => flatten_into(inner, depth - 1, flat),
            other => flat.push(other.clone()),
        }
    }
}

fn chunk(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let size = arguments.size("size")?;
    if size == 0 {
        return Err(invalid("the parameter `size` must be at least 1"));
    }
    list(items(arguments)?.chunks(size).map(Value::from).collect())
}

fn pluck(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let key = Key::required(arguments)?;
    list(items(arguments)?.iter().map(|item| key.or_null(item).clone()).collect())
}

fn group_by(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let key = Key::required(arguments)?;
    let mut groups: Map<String, Value> = Map::new();
    for item in items(arguments)? {
        let name = value::plain(key.or_null(item)).into_owned();
        let group = groups.entry(name).or_insert_with(|| json!([]));
        if let Value::Array(group) = group {
            group.push(item.clone());
        }
    }
    Ok(Output::json(groups))
}

/// The position of the first item that equals `value`.
fn find(arguments: &Arguments<'_>) -> Result<Option<usize>, Error> {
    let (key, wanted) = (Key::optional(arguments)?, arguments.any("value")?);
    let matches = |item: &Value| key.of(item).is_some_and(|found| value::equal(found, wanted));
    Ok(items(arguments)?.iter().position(matches))
}

fn concat(arguments: &Arguments<'_>) -> Result<Output, Error> {
    list([items(arguments)?, other(arguments)?].concat())
}

/// Pairs items up to the length of the shorter array.
fn zip(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let pairs = items(arguments)?.iter().zip(other(arguments)?);
    list(pairs.map(|(left, right)| json!([left, right])).collect())
}

fn join(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let key = Key::optional(arguments)?;
    let parts = items(arguments)?.iter().map(|item| value::plain(key.or_null(item)));
    Ok(Output::text(bounds::join(parts, arguments.text_or("separator", ", ")?)?))
}

#[cfg(test)]
mod tests;
