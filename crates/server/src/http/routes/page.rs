//! Pages of lists.

use std::fmt::Write;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use windlass::CallId;

use crate::http::document::shape;
use crate::http::front::problem::Problem;

const LIMIT: usize = 100;
pub(crate) const MAX: usize = 1_000;

/// Which page.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PageQuery {
    /// How many at the most; 100 if nobody says.
    #[schemars(range(min = 1, max = 1000))]
    pub(crate) limit: Option<usize>,
    /// The `next` of the page before.
    #[serde(default)]
    #[schemars(schema_with = "position")]
    pub(crate) cursor: Option<String>,
}

/// Which page of a list whose items have ids.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct IdPageQuery {
    /// How many at the most; 100 if nobody says.
    #[schemars(range(min = 1, max = 1000))]
    pub(crate) limit: Option<usize>,
    /// The `next` of the page before.
    #[serde(default)]
    #[schemars(schema_with = "shape::id")]
    cursor: Option<String>,
}

impl IdPageQuery {
    /// The last item that was seen.
    pub(crate) fn after(&self) -> Result<Option<&str>, Problem> {
        match self.cursor.as_deref() {
            Some(cursor) if cursor.parse::<CallId>().is_err() => Err(wrong_cursor()),
            cursor => Ok(cursor),
        }
    }
}

/// How many a page may have.
pub(crate) fn limit(wanted: Option<usize>) -> Result<usize, Problem> {
    match wanted.unwrap_or(LIMIT) {
        limit @ 1..=MAX => Ok(limit),
        _ => Err(Problem::bad("a limit is wrong").at("limit", "1 to 1000")),
    }
}

/// A part of a list that is in memory.
#[derive(Serialize)]
pub(crate) struct Cut<T> {
    pub(crate) items: Vec<T>,
    /// Where the next page begins; none on the last.
    pub(crate) next: Option<String>,
}

impl PageQuery {
    /// The page of these, which `key` puts in order and no two share.
    pub(crate) fn cut<T>(
        &self,
        mut items: Vec<T>,
        key: impl Fn(&T) -> String,
    ) -> Result<Cut<T>, Problem> {
        let limit = limit(self.limit)?;
        items.sort_by_cached_key(&key);
        if let Some(cursor) = &self.cursor {
            let after = read(cursor)?;
            items.retain(|item| key(item) > after);
        }
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| more).map(|last| cursor(&key(last)));
        Ok(Cut { items, next })
    }
}

/// What a cursor begins with. A name alone could be anything; this is ours.
const AFTER: &str = "after-";

/// A cursor, in the description of the API: whatever looks like one is one.
pub(crate) fn position(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "string", "pattern": "^after-([0-9a-f][0-9a-f])*$"})
}

fn cursor(key: &str) -> String {
    key.bytes().fold(AFTER.to_owned(), |mut cursor, byte| {
        let _ = write!(cursor, "{byte:02x}");
        cursor
    })
}

/// The key of the last item that was seen.
fn read(cursor: &str) -> Result<String, Problem> {
    let (digits, rest) = cursor
        .strip_prefix(AFTER)
        .filter(|hex| hex.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f')))
        .map(|hex| hex.as_bytes().as_chunks::<2>())
        .ok_or_else(wrong_cursor)?;
    if !rest.is_empty() {
        return Err(wrong_cursor());
    }
    let value = |digit: u8| if digit < b'a' { digit - b'0' } else { digit - b'a' + 10 };
    let bytes: Vec<u8> = digits.iter().map(|[high, low]| value(*high) << 4 | value(*low)).collect();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A cursor that none of our pages gave.
fn wrong_cursor() -> Problem {
    Problem::bad("a cursor is wrong").at("cursor", "take it from `next`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_hold_everything_once() {
        let all = || (0..7).map(|at| format!("item{at}")).rev().collect::<Vec<_>>();
        let mut page = PageQuery { limit: Some(3), cursor: None };
        let mut seen = Vec::new();
        loop {
            let cut = page.cut(all(), String::clone).unwrap();
            assert!(cut.items.len() <= 3);
            seen.extend(cut.items);
            page.cursor = cut.next;
            if page.cursor.is_none() {
                break;
            }
        }
        let mut sorted = all();
        sorted.sort();
        assert_eq!(seen, sorted);
        assert!(limit(Some(0)).is_err() && limit(Some(1001)).is_err());
        for garbage in ["garbage", "item3", "", "after", "after-6", "after-6G", "after-AA"] {
            let page = PageQuery { limit: None, cursor: Some(garbage.to_owned()) };
            assert!(page.cut(all(), String::clone).is_err(), "{garbage}");
        }
    }
}
