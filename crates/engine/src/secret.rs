//! A value that must not be seen.

mod guise;
mod veil;

pub(crate) use veil::Veil;
use zeroize::Zeroizing;

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
    /// Takes the value.
    pub fn new(value: impl Into<String>) -> Self {
        Self(Zeroizing::new(value.into()))
    }

    /// The value itself, for the one place that sends it where it belongs.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The texts that it may come back as, itself first: quoted in JSON, in an
    /// address, in a page.
    pub fn guises(&self) -> Vec<Secret> {
        guise::of(self.expose()).into_iter().map(Self).collect()
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
