//! Pages of lists.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::problem::Problem;

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
    pub(crate) cursor: Option<String>,
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

/// What a cursor says before the key of the last item. A name alone could be
/// anything; this is ours.
const AFTER: &str = "after ";

fn cursor(key: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{AFTER}{key}"))
}

/// The key of the last item that was seen.
fn read(cursor: &str) -> Result<String, Problem> {
    let text = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|text| String::from_utf8(text).ok());
    text.and_then(|text| text.strip_prefix(AFTER).map(str::to_owned)).ok_or_else(wrong_cursor)
}

/// A cursor that none of our pages gave.
pub(crate) fn wrong_cursor() -> Problem {
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
        for garbage in ["garbage", "item3", "", "%", "YWZ0ZXI"] {
            let page = PageQuery { limit: None, cursor: Some(garbage.to_owned()) };
            assert!(page.cut(all(), String::clone).is_err(), "{garbage}");
        }
    }
}
