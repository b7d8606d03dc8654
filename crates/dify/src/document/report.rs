//! What is wrong with a file, or worth knowing.

use std::fmt;

use super::tree::{Position, Tree};

/// The most faults and notes that are told of a file.
const MAX: usize = 100;
/// The longest message, which may quote the file.
const MAX_MESSAGE: usize = 400;

/// Something about a file: where, what, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file.
    pub file: String,
    /// Where in it.
    pub at: Position,
    /// What is wrong.
    pub message: String,
    /// What to write instead, or to do.
    pub hint: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, at: Position { line, column }, message, hint } = self;
        write!(f, "{file}:{line}:{column}: {message}")?;
        if hint.is_empty() { Ok(()) } else { write!(f, "; {hint}") }
    }
}

/// The faults and notes of a file so far.
pub(super) struct Report<'f> {
    file: &'f str,
    pub(super) faults: Vec<Fault>,
    pub(super) notes: Vec<Fault>,
}

impl<'f> Report<'f> {
    pub(super) fn new(file: &'f str) -> Self {
        Self { file, faults: Vec::new(), notes: Vec::new() }
    }

    /// Something for which the file is refused.
    pub(super) fn fault(
        &mut self,
        at: Position,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        if self.faults.len() < MAX {
            let fault = self.made(at, message.into(), hint.into());
            self.faults.push(fault);
        }
    }

    /// Something worth knowing.
    pub(super) fn note(
        &mut self,
        at: Position,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        if self.notes.len() < MAX {
            let note = self.made(at, message.into(), hint.into());
            self.notes.push(note);
        }
    }

    /// A value of the wrong type.
    pub(super) fn wrong(&mut self, tree: &Tree, what: &str, expected: &str) {
        let message = format!("`{what}` is {expected}, found {}", tree.kind_name());
        self.fault(tree.at, message, format!("write {expected}"));
    }

    fn made(&self, at: Position, message: String, hint: String) -> Fault {
        Fault { file: self.file.to_owned(), at, message: short(message), hint: short(hint) }
    }
}

fn short(text: String) -> String {
    match text.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The most similar of the known words.
pub(super) fn nearest<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let word: String = word.chars().take(64).collect::<String>().to_lowercase();
    known
        .take(500)
        .map(|candidate| (strsim::jaro_winkler(&word, &candidate.to_lowercase()), candidate))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}
