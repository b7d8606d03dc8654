//! Pagination of lists: the limit of items, and the cursor of the next page.

use std::borrow::Cow;
use std::fmt::Write;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use windlass::CallId;

use crate::http::document::shape;

/// What a cursor is refused with that no page gave.
const TAKE_NEXT: &str = "take it from `next`";

/// How many items a page has at the most.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "usize")]
pub(crate) struct Limit(usize);

impl Limit {
    pub(crate) const MAX: Self = Self(1_000);

    pub(crate) fn get(self) -> usize {
        self.0
    }
}

impl Default for Limit {
    fn default() -> Self {
        Self(100)
    }
}

impl TryFrom<usize> for Limit {
    type Error = String;

    fn try_from(wanted: usize) -> Result<Self, String> {
        match wanted {
            1..=1_000 => Ok(Self(wanted)),
            _ => Err("1 to 1000".to_owned()),
        }
    }
}

/// Written by hand: what is derived describes the `usize` that it is made from.
impl JsonSchema for Limit {
    fn schema_name() -> Cow<'static, str> {
        "Limit".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({"type": "integer", "minimum": 1, "maximum": Self::MAX.0})
    }
}

/// Which page of a list. Where it begins is a [`TextCursor`] in lists that are sorted in
/// memory, and an [`AfterId`] in those that a store reads by id.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PageQuery<C> {
    /// Maximum number of items; 100 by default.
    pub(crate) limit: Option<Limit>,
    /// The cursor: the `next` of the previous page.
    pub(crate) cursor: Option<C>,
}

impl<C> PageQuery<C> {
    pub(crate) fn limit(&self) -> usize {
        self.limit.unwrap_or_default().get()
    }
}

/// A page of a list that is in memory.
#[derive(Serialize)]
pub(crate) struct ListPage<T> {
    pub(crate) items: Vec<T>,
    /// The cursor of the next page; none on the last page.
    pub(crate) next: Option<String>,
}

impl PageQuery<TextCursor> {
    /// The page of these, which `key` puts in order and no two share.
    pub(crate) fn cut<T>(&self, mut items: Vec<T>, key: impl Fn(&T) -> String) -> ListPage<T> {
        let limit = self.limit();
        items.sort_by_cached_key(&key);
        if let Some(TextCursor(after)) = &self.cursor {
            items.retain(|item| key(item) > *after);
        }
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| more).map(|last| TextCursor(key(last)).to_cursor());
        ListPage { items, next }
    }
}

/// A cursor: the key of the last item that was seen.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct TextCursor(String);

/// What such a cursor begins with. A name alone could be anything; this is ours.
const AFTER: &str = "after-";

impl TextCursor {
    fn to_cursor(&self) -> String {
        self.0.bytes().fold(AFTER.to_owned(), |mut cursor, byte| {
            let _ = write!(cursor, "{byte:02x}");
            cursor
        })
    }
}

impl TryFrom<String> for TextCursor {
    type Error = &'static str;

    fn try_from(cursor: String) -> Result<Self, Self::Error> {
        let (digits, rest) = cursor
            .strip_prefix(AFTER)
            .filter(|hex| hex.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f')))
            .map(|hex| hex.as_bytes().as_chunks::<2>())
            .ok_or(TAKE_NEXT)?;
        if !rest.is_empty() {
            return Err(TAKE_NEXT);
        }
        let value = |digit: u8| if digit < b'a' { digit - b'0' } else { digit - b'a' + 10 };
        let bytes: Vec<u8> =
            digits.iter().map(|[high, low]| value(*high) << 4 | value(*low)).collect();
        Ok(Self(String::from_utf8_lossy(&bytes).into_owned()))
    }
}

/// In the description of the API whatever looks like a cursor is one.
impl JsonSchema for TextCursor {
    fn schema_name() -> Cow<'static, str> {
        "Cursor".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({"type": "string", "pattern": "^after-([0-9a-f][0-9a-f])*$"})
    }
}

/// A cursor: the id of the last item that was seen.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct AfterId(pub(crate) CallId);

impl TryFrom<String> for AfterId {
    type Error = &'static str;

    fn try_from(cursor: String) -> Result<Self, Self::Error> {
        cursor.parse().map(Self).map_err(|_| TAKE_NEXT)
    }
}

impl JsonSchema for AfterId {
    fn schema_name() -> Cow<'static, str> {
        "IdCursor".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        shape::id(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_hold_everything_once() {
        let all = || (0..7).map(|at| format!("item{at}")).rev().collect::<Vec<_>>();
        let mut page = PageQuery { limit: Limit::try_from(3).ok(), cursor: None };
        let mut seen = Vec::new();
        loop {
            let cut = page.cut(all(), String::clone);
            assert!(cut.items.len() <= 3);
            seen.extend(cut.items);
            page.cursor = cut.next.map(|next| TextCursor::try_from(next).unwrap());
            if page.cursor.is_none() {
                break;
            }
        }
        let mut sorted = all();
        sorted.sort();
        assert_eq!(seen, sorted);
        assert!(Limit::try_from(0).is_err() && Limit::try_from(1001).is_err());
        for garbage in ["garbage", "item3", "", "after", "after-6", "after-6G", "after-AA"] {
            assert_eq!(TextCursor::try_from(garbage.to_owned()), Err(TAKE_NEXT), "{garbage}");
        }
    }
}
