//! Paginated lists of a server (tools, prompts, resources), bounded and checked.
//!
//! A server may list without end, or send something that is no list. Usable items are
//! taken, the rest is reported, and a list without any usable item is an error.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};
use windlass::Error;

use super::connection::Connection;
use super::failure::unreadable;

/// Maximum number of tools, prompts or resources of a server.
const MAX_ITEMS: usize = 2_000;
/// Maximum number of pages, and their maximum total size.
const MAX_PAGES: usize = 200;
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// Bounds for the TTL that a server gives its list.
const MIN_TTL: Duration = Duration::from_secs(5);
const MAX_TTL: Duration = Duration::from_secs(24 * 3600);

/// The items of a list.
#[derive(Debug, Default)]
pub(super) struct List {
    pub(super) items: Vec<Value>,
    /// The list's TTL, if the server gives one.
    pub(super) ttl: Option<Duration>,
    /// What was left out and why, for operators.
    pub(super) odd: Vec<String>,
}

impl List {
    /// Lists a server's tools. Items without a name are left out.
    pub(super) async fn of_tools(connection: &Connection) -> Result<Self, Error> {
        let mut list = Self::of(connection, "tools/list", "tools").await?;
        let before = list.items.len();
        let is_named = |tool: &Value| tool["name"].as_str().is_some_and(|name| !name.is_empty());
        list.items.retain(is_named);
        let nameless = before - list.items.len();
        if nameless > 0 {
            list.odd.push(format!("{nameless} of {before} tools are left out: they have no name"));
        }
        Ok(list)
    }

    /// Fetches all pages of a list.
    pub(super) async fn of(
        connection: &Connection,
        method: &str,
        items: &str,
    ) -> Result<Self, Error> {
        let mut list = Self::default();
        let (mut cursor, mut seen, mut bytes) = (None::<String>, HashSet::new(), 0);
        for _ in 0..MAX_PAGES {
            let params = cursor.as_ref().map_or(json!({}), |cursor| json!({"cursor": cursor}));
            let mut page = connection.ask(method, &params).await?;
            list.ttl = life(&page).or(list.ttl);
            let next = page["nextCursor"].as_str().map(str::to_owned);
            match page.get_mut(items).map(Value::take) {
                Some(Value::Array(found)) => {
                    // Each message is bounded already; their number is not.
                    bytes += next.as_ref().map_or(0, |_| size(&found));
                    list.items.extend(found);
                }
                None if page.is_object() => {}
                _ => {
                    let why = format!("`{items}` of `{method}` is no list");
                    return Err(unreadable(connection.server(), &why));
                }
            }
            if list.items.len() > MAX_ITEMS {
                list.items.truncate(MAX_ITEMS);
                list.odd
                    .push(format!("it lists more than {MAX_ITEMS} {items}; the rest is left out"));
                return Ok(list);
            }
            let Some(next) = next else { return Ok(list) };
            if bytes > MAX_BYTES {
                let why = format!("`{method}` gives more than {MAX_BYTES} bytes");
                return Err(unreadable(connection.server(), &why));
            }
            if !seen.insert(next.clone()) {
                list.odd.push(format!("the pages of `{method}` begin again; they are read once"));
                return Ok(list);
            }
            cursor = Some(next);
        }
        list.odd.push(format!("`{method}` has more than {MAX_PAGES} pages; the rest is left out"));
        Ok(list)
    }
}

fn size(items: &[Value]) -> usize {
    serde_json::to_vec(items).map_or(0, |text| text.len())
}

fn life(page: &Value) -> Option<Duration> {
    let millis = page["ttlMs"].as_u64().filter(|millis| *millis > 0)?;
    Some(Duration::from_millis(millis).clamp(MIN_TTL, MAX_TTL))
}
