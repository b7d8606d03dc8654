//! Selectors for operations: by tag, method, path or operationId.
//!
//! A selector that matches nothing is a mistake, and a dangerous one if it was to exclude
//! an operation or to require approval: each is tried on all operations, and reported if
//! it matches none.

use serde::{Deserialize, Serialize};

use super::ImportOptions;
use crate::rest::document::Operation;
use crate::rest::schema::brief;

/// The methods that an operation may have.
pub(crate) const METHODS: [&str; 9] =
    ["GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE", "QUERY"];

/// A selector: `tag:pets`, `GET`, `/pets/*`, `GET /pets/*`, or an operationId. `*`
/// matches any text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Selector(String);

impl Selector {
    /// A selector from its text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// What the import options say about operations.
pub(super) struct Marks<'o> {
    pub(super) include: Selection<'o>,
    pub(super) exclude: Selection<'o>,
    pub(super) read_only: Selection<'o>,
    pub(super) idempotent: Selection<'o>,
    pub(super) destructive: Selection<'o>,
    pub(super) ask: Selection<'o>,
    pub(super) defer: Selection<'o>,
}

impl<'o> Marks<'o> {
    pub(super) fn of(options: &'o ImportOptions, operations: &[&Operation<'_>]) -> Self {
        let read = |selectors| Selection::of(selectors, operations);
        Self {
            include: read(&options.include),
            exclude: read(&options.exclude),
            read_only: read(&options.read_only),
            idempotent: read(&options.idempotent),
            destructive: read(&options.destructive),
            ask: read(&options.ask),
            defer: read(&options.defer),
        }
    }

    /// Selectors without a match that were meant to exclude or to require approval.
    pub(super) fn strays(&self, operations: &[&Operation<'_>]) -> Vec<String> {
        [("ask", &self.ask), ("exclude", &self.exclude)]
            .into_iter()
            .flat_map(|(option, selection)| selection.misses(option, operations))
            .collect()
    }

    /// Warnings about the other selectors without a match.
    pub(super) fn notes(&self, operations: &[&Operation<'_>]) -> Vec<String> {
        [
            ("include", &self.include),
            ("read_only", &self.read_only),
            ("idempotent", &self.idempotent),
            ("destructive", &self.destructive),
            ("defer", &self.defer),
        ]
        .into_iter()
        .flat_map(|(option, selection)| selection.misses(option, operations))
        .collect()
    }
}

/// Selectors resolved against a document.
pub(super) struct Selection<'o>(Vec<(&'o str, Meant<'o>)>);

/// What a selector refers to in a document.
enum Meant<'o> {
    Tag(&'o str),
    Method(&'o str),
    Path(&'o str),
    MethodAndPath(&'o str, &'o str),
    Id(&'o str),
}

impl<'o> Selection<'o> {
    fn of(selectors: &'o [Selector], operations: &[&Operation<'_>]) -> Self {
        let read = |selector: &'o Selector| {
            let text = selector.0.trim();
            (text, Meant::of(text, operations))
        };
        Self(selectors.iter().map(read).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of the selectors matches an operation.
    pub(super) fn selects(&self, operation: &Operation<'_>) -> bool {
        self.0.iter().any(|(_, meant)| meant.selects(operation))
    }

    fn misses(&self, option: &str, operations: &[&Operation<'_>]) -> Vec<String> {
        let none = |meant: &Meant<'_>| !operations.iter().any(|one| meant.selects(one));
        let missed = self.0.iter().filter(|(_, meant)| none(meant));
        missed
            .map(|(text, _)| format!("`{}` of `{option}` selects nothing", brief(text, 80)))
            .collect()
    }
}

impl<'o> Meant<'o> {
    fn of(text: &'o str, operations: &[&Operation<'_>]) -> Self {
        if let Some(tag) = text.strip_prefix("tag:") {
            return Self::Tag(tag.trim());
        }
        if text.starts_with('/') {
            return Self::Path(text);
        }
        if let Some((method, path)) = text.split_once(' ') {
            return Self::MethodAndPath(method, path.trim());
        }
        // `delete` is a method, unless the document has an operation of that name.
        let is_method = METHODS.iter().any(|method| method.eq_ignore_ascii_case(text));
        match operations.iter().any(|operation| operation.id == Some(text)) {
            false if is_method => Self::Method(text),
            _ => Self::Id(text),
        }
    }

    fn selects(&self, operation: &Operation<'_>) -> bool {
        match self {
            Self::Tag(tag) => operation.tags.iter().any(|own| matches(tag, own)),
            Self::Method(method) => method.eq_ignore_ascii_case(&operation.method),
            Self::Path(path) => matches(path, operation.path),
            Self::MethodAndPath(method, path) => {
                method.eq_ignore_ascii_case(&operation.method) && matches(path, operation.path)
            }
            Self::Id(id) => operation.id.is_some_and(|own| matches(id, own)),
        }
    }
}

/// Whether a text matches a pattern with `*`.
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
