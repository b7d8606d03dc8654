//! Secrets: values that must not appear in logs, records, events or errors.

mod encodings;
mod part;
mod veil;

pub use veil::Veil;
use zeroize::Zeroizing;

/// Redacting shorter secrets would hide ordinary words.
const MIN_CHARS: usize = 6;

/// Placeholder of redacted values.
pub(crate) const HIDDEN: &str = "[hidden]";

/// A credential or other hidden value.
///
/// It deliberately does not implement `Debug`, `Display` or `Serialize`, so
/// that it cannot reach a log, a record, an event or an error by accident. Only
/// [`Secret::expose`] reveals it, and its memory is wiped on drop.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Minimum length of a secret that is redacted, in characters: redacting a
    /// shorter one would hide ordinary words.
    pub const MIN_CHARS: usize = MIN_CHARS;

    /// Wraps a value.
    pub fn new(value: impl Into<String>) -> Self {
        Self(Zeroizing::new(value.into()))
    }

    /// Whether a text looks like a secret rather than a word: digits among
    /// letters, capitals in the middle, or longer than words are.
    pub fn is_likely(text: &str) -> bool {
        part::is_opaque(text)
    }

    /// The value itself, for the one place that sends it where it belongs.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The parts that are secret by themselves: password, path and query of a
    /// URL, each line of a multi-line key.
    pub fn parts(&self) -> Vec<Secret> {
        part::of(self.expose()).into_iter().map(Self).collect()
    }

    /// The encodings in which it may appear, starting with itself: as JSON,
    /// URL- or HTML-encoded, in base64 or hex; also those of its parts, if it
    /// is a URL or has several lines.
    pub fn encodings(&self) -> Vec<Secret> {
        encodings::of(self.expose()).into_iter().map(Self).collect()
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Self::new(value)
    }
}

impl From<&str> for Secret {
    fn from(value: &str) -> Self {
        Self::new(value)
    }
}
