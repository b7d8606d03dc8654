//! A value that must not be seen.

mod encodings;
mod part;
mod veil;

pub use veil::Veil;
use zeroize::Zeroizing;

/// Shorter secrets would hide ordinary words.
const MIN_CHARS: usize = 6;

/// What stands in place of a hidden value.
pub(crate) const HIDDEN: &str = "[hidden]";

/// A credential or other hidden value.
///
/// It deliberately has no `Debug`, `Display` or `Serialize`: it cannot reach a
/// log, a record, an event or an error by accident. Only [`Secret::expose`]
/// shows it, and the memory is wiped when the last copy goes.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// How many characters a secret has at least. A shorter one could not be
    /// hidden in what others say: it would hide ordinary words.
    pub const MIN_CHARS: usize = MIN_CHARS;

    /// Takes the value.
    pub fn new(value: impl Into<String>) -> Self {
        Self(Zeroizing::new(value.into()))
    }

    /// Whether a text looks like a secret and not like a word: it has digits
    /// among letters, capitals in the middle, or is longer than words are.
    pub fn is_likely(text: &str) -> bool {
        part::is_opaque(text)
    }

    /// The value itself, for the one place that sends it where it belongs.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The parts that are secret by themselves: of an address its password, path
    /// and query, of a key in several lines each line.
    pub fn parts(&self) -> Vec<Secret> {
        part::of(self.expose()).into_iter().map(Self).collect()
    }

    /// The texts that it may come back as, itself first: quoted in JSON, in an
    /// address, in a page, in base64 or hex; and those of its parts, where it is
    /// an address or has several lines.
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
