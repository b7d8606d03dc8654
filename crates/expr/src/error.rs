//! What is wrong with an expression, and where.

use std::fmt;
use std::ops::Range;

/// An expression that cannot be used: it does not parse, its types do not fit, or its
/// evaluation failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// At which stage.
    pub kind: ErrorKind,
    /// What is wrong. Lowercase, without a full stop.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
    /// The bytes that are meant, in the text that was parsed.
    pub at: Range<usize>,
    /// The string that is meant, as a JSON pointer into the parsed [`Tree`](crate::Tree).
    /// Empty for the root, and for anything that is not a tree.
    pub path: String,
}

/// The stage at which an expression failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text is no expression.
    Parse,
    /// The types of operands or arguments do not fit.
    Type,
    /// The evaluation found values that do not fit.
    Evaluate,
    /// The evaluation needs more steps or bytes than its [`Meter`](crate::Meter) has.
    Limit,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>, at: Range<usize>) -> Self {
        Self { kind, message: message.into(), hint: None, at, path: String::new() }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same error in a text in which the expression begins at `offset`.
    pub(crate) fn shifted(mut self, offset: usize) -> Self {
        self.at = self.at.start + offset..self.at.end + offset;
        self
    }

    pub(crate) fn below(mut self, path: &str) -> Self {
        path.clone_into(&mut self.path);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// Why an evaluation stops, before it is known where.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// A limit ends the whole evaluation; `&&` and `||` do not absorb it.
    pub(crate) limit: bool,
    /// The innermost node that failed.
    pub(crate) at: Option<Range<usize>>,
}

/// Boxed: results travel through every node.
pub(crate) type Faulty<T> = Result<T, Box<Fault>>;

impl Fault {
    pub(crate) fn new(message: impl Into<String>) -> Box<Self> {
        Box::new(Self { message: message.into(), hint: None, limit: false, at: None })
    }

    pub(crate) fn limit(message: impl Into<String>) -> Box<Self> {
        Box::new(Self { message: message.into(), hint: None, limit: true, at: None })
    }

    pub(crate) fn hint(mut self: Box<Self>, hint: impl Into<String>) -> Box<Self> {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn into_error(self, whole: Range<usize>) -> Error {
        Error {
            kind: if self.limit { ErrorKind::Limit } else { ErrorKind::Evaluate },
            message: self.message,
            hint: self.hint,
            at: self.at.unwrap_or(whole),
            path: String::new(),
        }
    }
}

/// The candidate that was probably meant.
pub(crate) fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let allowed = match name.len() {
        0..=2 => 0,
        3..=5 => 1,
        6..=11 => 2,
        _ => 3,
    };
    candidates
        .into_iter()
        // Names are compared, not documents.
        .filter(|candidate| candidate.len() <= 128 && name.len() <= 128)
        .map(|candidate| {
            let distance = if candidate.eq_ignore_ascii_case(name) {
                0
            } else {
                strsim::damerau_levenshtein(name, candidate)
            };
            (distance, candidate)
        })
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// A `did you mean` for the candidate that was probably meant.
pub(crate) fn meant<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    nearest(name, candidates).map(|near| format!("did you mean `{near}`?"))
}

/// The beginning of a text of any length, for messages.
pub(crate) fn shortened(text: &str) -> String {
    let mut beginning: String = text.chars().take(40).collect();
    if beginning.len() < text.len() {
        beginning.push('…');
    }
    beginning
}
