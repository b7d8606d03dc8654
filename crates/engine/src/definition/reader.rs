//! Reads fields and typed values from the syntax tree, and collects all errors
//! in a report.

use std::time::Duration;

use super::LoadError;
use super::lint::Lint;
use super::node::{MapEntry, Node, NodeValue, Position};
use crate::value::duration;
use crate::value::text::Text;

/// Maximum number of errors reported for a file.
const MAX_ERRORS: usize = 100;

/// Maximum length of a message, which may quote the file.
const MAX_MESSAGE: usize = 400;
/// Maximum number of candidates for spelling suggestions.
const MAX_CANDIDATES: usize = 500;
/// Budget of a file for compiling schemas while reading; a value costs 1.
const CHECK_BUDGET: usize = 100_000;

/// The errors and notes of a file so far.
pub(super) struct FaultReport<'f> {
    file: &'f str,
    errors: Vec<LoadError>,
    notes: Vec<Lint>,
    checks_left: usize,
}

impl<'f> FaultReport<'f> {
    pub(super) fn new(file: &'f str) -> Self {
        Self { file, errors: Vec::new(), notes: Vec::new(), checks_left: CHECK_BUDGET }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    pub(super) fn add(&mut self, at: Position, message: impl Into<String>) {
        self.record(at, message.into(), None);
    }

    /// Reports an error with a suggestion.
    pub(super) fn hinted(
        &mut self,
        at: Position,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.record(at, message.into(), Some(hint.into()));
    }

    /// Adds a note, which does not keep the tool from being loaded.
    pub(super) fn note(
        &mut self,
        at: Position,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        if self.notes.len() < MAX_ERRORS {
            self.notes.push(Lint::new(at, message, hint));
        }
    }

    /// Takes the notes since the last tool.
    pub(super) fn take_notes(&mut self) -> Vec<Lint> {
        std::mem::take(&mut self.notes)
    }

    /// A report for a part of the file, whose errors are counted separately.
    pub(super) fn apart(&self) -> Self {
        Self::new(self.file)
    }

    /// Merges the report of a part.
    pub(super) fn take_over(&mut self, part: Self) {
        let left = MAX_ERRORS.saturating_sub(self.errors.len());
        self.errors.extend(part.errors.into_iter().take(left));
        let left = MAX_ERRORS.saturating_sub(self.notes.len());
        self.notes.extend(part.notes.into_iter().take(left));
    }

    /// Merges the report of an optional part: its errors become notes with a
    /// prefix.
    pub(super) fn take_over_as_notes(&mut self, part: Self, word: &str) {
        for LoadError { line, column, message, hint, .. } in part.errors {
            self.note(
                Position { line, column },
                format!("{word}{message}"),
                hint.unwrap_or_default(),
            );
        }
    }

    /// Takes the notes that belong to no tool.
    pub(super) fn take_file_notes(&mut self) -> Vec<LoadError> {
        let told = |Lint { line, column, message, hint }| LoadError {
            file: self.file.to_owned(),
            line,
            column,
            message: shortened(message),
            hint: Some(hint).filter(|hint| !hint.is_empty()),
        };
        std::mem::take(&mut self.notes).into_iter().map(told).collect()
    }

    /// Spends from the budget for compiled checks. A file of costly checks
    /// exhausts it and is refused.
    pub(super) fn afford(&mut self, at: Position, cost: usize) -> bool {
        match self.checks_left.checked_sub(cost) {
            Some(left) => {
                self.checks_left = left;
                true
            }
            None => {
                if self.checks_left > 0 {
                    self.hinted(at, "too many patterns and defaults in one file", "split it");
                }
                self.checks_left = 0;
                false
            }
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.errors.len() >= MAX_ERRORS
    }

    fn record(&mut self, at: Position, message: String, hint: Option<String>) {
        if !self.is_full() {
            let (file, Position { line, column }) = (self.file.to_owned(), at);
            let (message, hint) = (shortened(message), hint.map(shortened));
            self.errors.push(LoadError { file, line, column, message, hint });
        }
    }

    /// The value, or the errors in file order.
    pub(super) fn into_result<T>(mut self, value: T) -> Result<T, Vec<LoadError>> {
        if self.errors.is_empty() {
            return Ok(value);
        }
        self.errors.sort_by_key(|error| (error.line, error.column));
        Err(self.errors)
    }
}

/// Keys that are often nested by mistake under something with a name.
const NAMELESS: [&str; 2] = ["prompts", "resources"];
const OWNERS: [&str; 2] = ["a tool", "a provider"];

/// The fields of a mapping. Fields that are never read are reported as unknown.
pub(super) struct MapFields<'n> {
    pub(super) at: Position,
    what: &'static str,
    entries: &'n [MapEntry],
    known: Vec<&'static str>,
    ignored: &'static [&'static str],
}

impl<'n> MapFields<'n> {
    /// The fields of a node, which must be a mapping.
    pub(super) fn of(
        node: &'n Node,
        what: &'static str,
        report: &mut FaultReport<'_>,
    ) -> Option<Self> {
        match &node.data {
            NodeValue::Map(entries) => {
                Some(Self { at: node.at, what, entries, known: Vec::new(), ignored: &[] })
            }
            _ => {
                report.add(node.at, format!("{what} is a mapping, found {}", node.kind_name()));
                None
            }
        }
    }

    /// Ignores keys of other systems that mean nothing here.
    pub(super) fn ignore(&mut self, keys: &'static [&'static str]) {
        self.ignored = keys;
    }

    /// The value of a key; `None` if it is absent or null.
    pub(super) fn get(&mut self, key: &'static str) -> Option<&'n Node> {
        self.written(key).filter(|node| !matches!(node.data, NodeValue::Null))
    }

    /// The value of a key, also if it is null.
    pub(super) fn written(&mut self, key: &'static str) -> Option<&'n Node> {
        self.known.push(key);
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// The value of the first of several aliases.
    pub(super) fn get_any(
        &mut self,
        keys: &[&'static str],
        report: &mut FaultReport<'_>,
    ) -> Option<&'n Node> {
        let mut found: Option<(&'static str, &'n Node)> = None;
        for key in keys {
            let Some(node) = self.get(key) else { continue };
            match found {
                Some((first, _)) => {
                    report.add(node.at, format!("`{key}` and `{first}` say the same; keep one"));
                }
                None => found = Some((key, node)),
            }
        }
        found.map(|(_, node)| node)
    }

    /// The value of a required key.
    pub(super) fn need(
        &mut self,
        key: &'static str,
        report: &mut FaultReport<'_>,
    ) -> Option<&'n Node> {
        let node = self.get(key);
        if node.is_none() {
            report.add(self.at, format!("{} needs `{key}`", self.what));
        }
        node
    }

    /// Reports all unknown keys.
    pub(super) fn finish(self, report: &mut FaultReport<'_>) {
        for entry in self.unknown() {
            let key = entry.key.as_str();
            let what = format!("key `{key}` in {}", self.what);
            match NAMELESS.contains(&key) && OWNERS.contains(&self.what) {
                true => {
                    let hint = format!("`{key}` are a document of their own, without `name`");
                    report.hinted(entry.at, format!("unknown {what}"), hint);
                }
                false => unknown(entry.at, &what, key, &self.known, report),
            }
        }
    }

    /// Notes all unknown keys, for formats that others extend.
    pub(super) fn finish_with_notes(self, report: &mut FaultReport<'_>) {
        for entry in self.unknown() {
            let hint = match nearest(&entry.key, &self.known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "nothing is done about it".to_owned(),
            };
            let what = format!("the key `{}` in {} means nothing here", entry.key, self.what);
            report.note(entry.at, what, hint);
        }
    }

    fn unknown(&self) -> impl Iterator<Item = &'n MapEntry> {
        self.entries.iter().filter(|entry| {
            let key = entry.key.as_str();
            !self.known.contains(&key) && !self.ignored.contains(&key)
        })
    }
}

/// Reports an unknown word with the nearest known one, or with all known ones.
pub(super) fn unknown(
    at: Position,
    what: &str,
    word: &str,
    known: &[&str],
    report: &mut FaultReport<'_>,
) {
    if report.is_full() {
        return;
    }
    let hint = match nearest(word, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("use one of {}", known.join(", ")),
    };
    report.hinted(at, format!("unknown {what}"), hint);
}

/// The most similar known word.
pub(super) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let word: String = word.chars().take(64).collect::<String>().to_lowercase();
    known
        .iter()
        .take(MAX_CANDIDATES)
        .map(|&candidate| (strsim::jaro_winkler(&word, &candidate.to_lowercase()), candidate))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}

/// A string; numbers and booleans count as they were written.
pub(super) fn text(node: &Node, what: &str, report: &mut FaultReport<'_>) -> Option<String> {
    match &node.data {
        NodeValue::Text(text) => Some(text.clone()),
        NodeValue::Number(_, written) => Some(written.to_string()),
        NodeValue::Bool(flag) => Some(flag.to_string()),
        _ => wrong(node, what, "a text", report),
    }
}

/// `true` or `false`.
pub(super) fn flag(node: &Node, what: &str, report: &mut FaultReport<'_>) -> Option<bool> {
    match &node.data {
        NodeValue::Bool(flag) => Some(*flag),
        _ => wrong(node, what, "true or false", report),
    }
}

/// A non-negative integer.
pub(super) fn count(node: &Node, what: &str, report: &mut FaultReport<'_>) -> Option<u64> {
    match &node.data {
        NodeValue::Number(number, _) if number.as_u64().is_some() => number.as_u64(),
        _ => wrong(node, what, "a whole number, 0 or more", report),
    }
}

/// A list of strings.
pub(super) fn texts(node: &Node, what: &str, report: &mut FaultReport<'_>) -> Option<Vec<String>> {
    match &node.data {
        NodeValue::List(items) => items.iter().map(|item| text(item, what, report)).collect(),
        _ => wrong(node, what, "a list of texts", report),
    }
}

/// A duration: `30s`, `500ms`, or a number of seconds.
pub(super) fn span(node: &Node, what: &str, report: &mut FaultReport<'_>) -> Option<Duration> {
    let read = match &node.data {
        NodeValue::Text(text) => duration::parse(text),
        NodeValue::Number(number, _) => duration::from_seconds(number.as_f64().unwrap_or(f64::NAN)),
        _ => {
            return wrong(
                node,
                what,
                "a duration such as 30s, 500ms or a number of seconds",
                report,
            );
        }
    };
    read.map_err(|why| report.add(node.at, format!("`{what}`: {why}"))).ok()
}

/// One text, or one per language.
pub(super) fn i18n(node: &Node, what: &str, report: &mut FaultReport<'_>) -> Option<Text> {
    let entries = match &node.data {
        NodeValue::Text(text) => return Some(Text::One(text.clone())),
        NodeValue::Map(entries) if !entries.is_empty() => entries,
        _ => return wrong(node, what, "a text, or one per language", report),
    };
    let mut texts = std::collections::BTreeMap::new();
    for MapEntry { key, at, value } in entries {
        if !is_language(key) {
            report.hinted(
                *at,
                format!("`{key}` in `{what}` is not a language"),
                "write a tag such as en_US or zh_Hans",
            );
        } else if !matches!(value.data, NodeValue::Null)
            && let Some(words) = text(value, what, report)
        {
            texts.insert(key.clone(), words);
        }
    }
    Some(Text::Many(texts))
}

/// One of a fixed set of words.
pub(super) fn choice<T: Copy>(
    node: &Node,
    what: &str,
    choices: &[(&str, T)],
    report: &mut FaultReport<'_>,
) -> Option<T> {
    let word = text(node, what, report)?;
    let found = choices.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
    if found.is_none() {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        unknown(node.at, &format!("{what} `{word}`"), &word, &names, report);
    }
    found
}

/// A language tag: two or three letters, and optionally a script or country.
fn is_language(tag: &str) -> bool {
    let language = tag.split(['_', '-']).next().unwrap_or_default();
    (2..=3).contains(&language.len())
        && tag.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

fn shortened(message: String) -> String {
    match message.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message,
    }
}

fn wrong<T>(node: &Node, what: &str, expected: &str, report: &mut FaultReport<'_>) -> Option<T> {
    report.add(node.at, format!("`{what}` is {expected}, found {}", node.kind_name()));
    None
}
