//! Size limits for inputs and results of the built-in tools.
//!
//! A small argument can ask for a huge result (`repeat` a billion times), so every result
//! that may be larger than its input is built here.

use serde_json::Value;
use windlass::Error;

use super::arguments::invalid;

/// Maximum size of a text in bytes.
pub(super) const MAX_TEXT: usize = 1_000_000;

/// Maximum length of an array.
pub(super) const MAX_ITEMS: usize = 100_000;

/// Whether arguments are small enough to be processed inline.
pub(super) fn is_small(arguments: &Value) -> bool {
    const SMALL: usize = 8_000;
    fn spend(value: &Value, left: usize) -> Option<usize> {
        match value {
            Value::String(text) => left.checked_sub(text.len() + 1),
            Value::Array(items) => {
                items.iter().try_fold(left.checked_sub(1)?, |left, item| spend(item, left))
            }
            Value::Object(map) => map.iter().try_fold(left.checked_sub(1)?, |left, (key, item)| {
                spend(item, left.checked_sub(key.len() + 1)?)
            }),
            _ => left.checked_sub(1),
        }
    }
    spend(arguments, SMALL).is_some()
}

/// A text within the limit.
pub(super) fn text(text: &str) -> Result<&str, Error> {
    if text.len() > MAX_TEXT {
        return Err(invalid(format!(
            "the text has {} bytes; the most that is taken is {MAX_TEXT}",
            text.len()
        )));
    }
    Ok(text)
}

/// An array within the limit.
pub(super) fn items(items: &[Value]) -> Result<&[Value], Error> {
    if items.len() > MAX_ITEMS {
        return Err(too_many_items(items.len()));
    }
    Ok(items)
}

/// The error of an array that exceeds the limit.
pub(super) fn too_many_items(count: impl std::fmt::Display) -> Error {
    invalid(format!("{count} items are too many; the most is {MAX_ITEMS}"))
}

/// A text that may grow up to [`MAX_TEXT`].
#[derive(Default)]
pub(super) struct BoundedText(String);

impl BoundedText {
    pub(super) fn push(&mut self, more: &str) -> Result<(), Error> {
        if self.0.len() + more.len() > MAX_TEXT {
            return Err(invalid(format!("the result would have more than {MAX_TEXT} bytes")));
        }
        self.0.push_str(more);
        Ok(())
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

/// Joins texts with a separator.
pub(super) fn join<'a>(
    parts: impl IntoIterator<Item = std::borrow::Cow<'a, str>>,
    separator: &str,
) -> Result<String, Error> {
    let mut joined = BoundedText::default();
    for (index, part) in parts.into_iter().enumerate() {
        if index > 0 {
            joined.push(separator)?;
        }
        joined.push(&part)?;
    }
    Ok(joined.into_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_join_stops_at_the_bound() {
        let parts = || std::iter::repeat_n("x".into(), 1000);
        assert_eq!(join(parts(), "").unwrap().len(), 1000);
        assert!(join(parts(), &"-".repeat(1001)).is_err());
    }
}
