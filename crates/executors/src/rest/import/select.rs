//! Which operations are meant: by tag, method, path or operationId.

use serde::{Deserialize, Serialize};

use crate::rest::document::Operation;

const METHODS: [&str; 9] =
    ["GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE", "QUERY"];

/// Names operations: `tag:pets`, `GET`, `/pets/*`, `GET /pets/*`, or an
/// operationId. A `*` stands for any text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Selector(String);

impl Selector {
    /// A selector from its text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    fn selects(&self, operation: &Operation<'_>) -> bool {
        let text = self.0.trim();
        if let Some(tag) = text.strip_prefix("tag:") {
            return operation.tags.iter().any(|own| matches(tag.trim(), own));
        }
        if text.starts_with('/') {
            return matches(text, operation.path);
        }
        if let Some((method, path)) = text.split_once(' ') {
            return method.eq_ignore_ascii_case(&operation.method)
                && matches(path.trim(), operation.path);
        }
        let is_method = METHODS.contains(&text);
        if is_method {
            return text == operation.method;
        }
        operation.id.is_some_and(|id| matches(text, id))
    }
}

/// Whether one of these selects an operation.
pub(super) fn any(selectors: &[Selector], operation: &Operation<'_>) -> bool {
    selectors.iter().any(|selector| selector.selects(operation))
}

/// Whether a text fits a pattern with `*`.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let parts: Vec<&str> = rest.split('*').collect();
    let (last, between) = match parts.split_last() {
        Some((last, between)) => (*last, between),
        None => ("", &[][..]),
    };
    for part in between {
        match text.find(part) {
            Some(at) => text = &text[at + part.len()..],
            None => return false,
        }
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, text) in
            [("*", ""), ("a*", "abc"), ("*c", "abc"), ("a*b*c", "a1b2c"), ("/a/*/c", "/a/b/c")]
        {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("a", "ab"), ("a*c", "ab"), ("a*b*c", "acb"), ("ab*b", "ab")] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }
}
