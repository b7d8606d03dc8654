//! Typed reads of a mapping's fields. What is absent or null has a default; what has the
//! wrong type is a fault.

use serde_json::Value as Json;

use super::report::{Report, nearest};
use super::tree::{Data, Position, Tree};
use crate::value::Value;

/// The fields of a mapping, and a name for it in messages.
#[derive(Clone, Copy)]
pub(super) struct Fields<'t> {
    tree: &'t Tree,
    pub(super) what: &'t str,
}

impl<'t> Fields<'t> {
    /// The fields of a value that must be a mapping.
    pub(super) fn of(tree: &'t Tree, what: &'t str, report: &mut Report<'_>) -> Option<Self> {
        match tree.data {
            Data::Map(_) => Some(Self { tree, what }),
            _ => {
                report.wrong(tree, what, "a mapping");
                None
            }
        }
    }

    pub(super) fn at(&self) -> Position {
        self.tree.at
    }

    /// A field that is there and not null.
    pub(super) fn get(&self, key: &str) -> Option<&'t Tree> {
        self.tree.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn need(&self, key: &str, hint: &str, report: &mut Report<'_>) -> Option<&'t Tree> {
        let found = self.get(key);
        if found.is_none() {
            report.fault(self.at(), format!("{} needs `{key}`", self.what), hint);
        }
        found
    }

    /// A mapping; its fields are named after it.
    pub(super) fn map(&self, key: &'t str, report: &mut Report<'_>) -> Option<Self> {
        Self::of(self.get(key)?, key, report)
    }

    /// The items of a list; none if it is absent.
    pub(super) fn list(&self, key: &str, report: &mut Report<'_>) -> &'t [Tree] {
        match self.get(key) {
            None => &[],
            Some(tree) => match &tree.data {
                Data::List(items) => items,
                _ => {
                    report.wrong(tree, key, "a list");
                    &[]
                }
            },
        }
    }

    /// The mappings of a list.
    pub(super) fn maps(&self, key: &'t str, report: &mut Report<'_>) -> Vec<Self> {
        let items = self.list(key, report).iter();
        items.filter_map(|item| Self::of(item, key, report)).collect()
    }

    pub(super) fn text(&self, key: &str, report: &mut Report<'_>) -> Option<String> {
        let tree = self.get(key)?;
        let text = tree.scalar();
        if text.is_none() {
            report.wrong(tree, key, "a text");
        }
        text
    }

    /// A text; empty if absent.
    pub(super) fn text_or_empty(&self, key: &str, report: &mut Report<'_>) -> String {
        self.text(key, report).unwrap_or_default()
    }

    /// A text that must be there.
    pub(super) fn need_text(&self, key: &str, hint: &str, report: &mut Report<'_>) -> String {
        match self.need(key, hint, report) {
            Some(_) => self.text_or_empty(key, report),
            None => String::new(),
        }
    }

    /// A boolean; 0, 1 and the words count.
    pub(super) fn flag(&self, key: &str, fallback: bool, report: &mut Report<'_>) -> bool {
        let Some(tree) = self.get(key) else { return fallback };
        match &tree.data {
            Data::Bool(flag) => *flag,
            Data::Number(number, _) => number.as_f64() != Some(0.0),
            Data::Text(text) if matches!(text.as_str(), "true" | "True") => true,
            Data::Text(text) if matches!(text.as_str(), "false" | "False" | "") => false,
            _ => {
                report.wrong(tree, key, "true or false");
                fallback
            }
        }
    }

    pub(super) fn number(&self, key: &str, report: &mut Report<'_>) -> Option<f64> {
        let tree = self.get(key)?;
        match &tree.data {
            Data::Number(number, _) => number.as_f64(),
            Data::Text(text) if text.trim().parse::<f64>().is_ok() => text.trim().parse().ok(),
            Data::Text(text) if text.is_empty() => None,
            _ => {
                report.wrong(tree, key, "a number");
                None
            }
        }
    }

    /// A whole number, 0 or more.
    pub(super) fn count(&self, key: &str, fallback: u64, report: &mut Report<'_>) -> u64 {
        match self.number(key, report) {
            None => fallback,
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "casts saturate"
            )]
            Some(number) => number as u64,
        }
    }

    /// The selector of a variable; `None` if it is absent or empty.
    pub(super) fn selector(&self, key: &str, report: &mut Report<'_>) -> Option<Vec<String>> {
        let tree = self.get(key)?;
        selector(tree, key, report).filter(|selector| !selector.is_empty())
    }

    /// A selector that must be there.
    pub(super) fn need_selector(&self, key: &str, report: &mut Report<'_>) -> Vec<String> {
        match self.need(key, "write [node, name]", report) {
            Some(tree) => selector(tree, key, report).unwrap_or_default(),
            None => Vec::new(),
        }
    }

    /// One of some words.
    pub(super) fn choice<T: Copy>(
        &self,
        key: &str,
        choices: &[(&str, T)],
        fallback: T,
        report: &mut Report<'_>,
    ) -> T {
        let Some(tree) = self.get(key) else { return fallback };
        let word = self.text_or_empty(key, report);
        match choices.iter().find(|(name, _)| *name == word) {
            Some((_, value)) => *value,
            None => {
                let hint = instead(&word, choices);
                report.fault(tree.at, format!("unknown {key} `{word}`"), hint);
                fallback
            }
        }
    }

    /// One of some words; another is taken for the fallback, and noted.
    pub(super) fn choice_or<T: Copy>(
        &self,
        key: &str,
        choices: &[(&str, T)],
        fallback: T,
        report: &mut Report<'_>,
    ) -> T {
        let Some(tree) = self.get(key) else { return fallback };
        let word = tree.scalar().unwrap_or_default();
        match choices.iter().find(|(name, _)| *name == word) {
            Some((_, value)) => *value,
            None => {
                let hint = instead(&word, choices);
                report.note(tree.at, format!("unknown {key} `{word}`"), hint);
                fallback
            }
        }
    }

    pub(super) fn json(&self, key: &str) -> Json {
        self.get(key).map_or(Json::Null, Tree::to_json)
    }

    pub(super) fn value(&self, key: &str) -> Value {
        Value::from_json(self.json(key))
    }

    /// The entries of the mapping itself.
    pub(super) fn entries(&self) -> &'t [super::tree::Entry] {
        self.tree.entries()
    }
}

/// What to write in place of a word.
fn instead<T>(word: &str, choices: &[(&str, T)]) -> String {
    let names = || choices.iter().map(|(name, _)| *name);
    match nearest(word, names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("use one of {}", names().collect::<Vec<_>>().join(", ")),
    }
}

/// Reads a selector: a list of texts.
pub(super) fn selector(tree: &Tree, what: &str, report: &mut Report<'_>) -> Option<Vec<String>> {
    let read = match &tree.data {
        // Hand-written files have a list of one selector.
        Data::List(items) if matches!(items.as_slice(), [Tree { data: Data::List(_), .. }]) => {
            return selector(&items[0], what, report);
        }
        Data::List(items) => items.iter().map(Tree::scalar).collect::<Option<Vec<String>>>(),
        // Old files have `node.name`.
        Data::Text(text) if text.is_empty() => Some(Vec::new()),
        Data::Text(text) => Some(text.split('.').map(str::to_owned).collect()),
        _ => None,
    };
    if read.is_none() {
        let found = match &tree.data {
            Data::List(_) => "a list of lists".to_owned(),
            _ => tree.kind_name().to_owned(),
        };
        let message = format!("`{what}` is a selector, found {found}");
        report.fault(tree.at, message, "write [node, name]");
    }
    read
}
