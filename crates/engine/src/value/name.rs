//! Names and ids: small validated types, so that a tenant cannot be confused
//! with a tool, and ids sort by creation time.

use std::borrow::Borrow;
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Error, ErrorKind};

/// Maximum length of a tool's name, in characters.
pub const MAX_TOOL_NAME: usize = 128;

/// The unique name of a tool in an engine.
///
/// Letters, digits, `_`, `-`, `.`, `/` and `:`, at most [`MAX_TOOL_NAME`]
/// characters; letters of any script. Model APIs take less than that:
/// [`ToolName::wire`] gives the form that fits all of them.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ToolName(Arc<str>);

impl ToolName {
    /// Validates a name.
    pub fn new(name: &str) -> Result<Self, Error> {
        let refused = |why: String| Err(Error::new(ErrorKind::InvalidDefinition, why));
        if name.is_empty() {
            return refused("a tool name is empty".into());
        }
        if name.chars().count() > MAX_TOOL_NAME {
            let start: String = name.chars().take(32).collect();
            return refused(format!(
                "the tool name `{start}…` is longer than {MAX_TOOL_NAME} characters"
            ));
        }
        match name.chars().find(|&c| !(c.is_alphanumeric() || "_-./:".contains(c))) {
            Some(bad) => refused(format!(
                "the tool name `{}` has a {bad:?}; use letters, digits and _ - . / :",
                name.escape_debug()
            )),
            None => Ok(Self(name.into())),
        }
    }

    /// Placeholder for an invalid name until the error is reported.
    pub(crate) fn unnamed() -> Self {
        Self("unnamed".into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as shared text, without copying it.
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }

    /// The name in a form that every model API accepts: at most 64 characters
    /// of `[A-Za-z0-9_-]`.
    ///
    /// An acceptable name is returned unchanged. In others `/` becomes `__`,
    /// `.` and `:` become `_`: `server/tool` is `server__tool`. Longer names
    /// and other scripts use [`ToolName::hashed`]. Two names may have the same
    /// wire name; [`crate::Tool::wire_name`] is the one used among the tools of
    /// an engine.
    pub fn wire(&self) -> String {
        self.readable().unwrap_or_else(|| self.hashed())
    }

    /// A unique wire name: shortened, with a hash of the whole name. An
    /// acceptable name is returned unchanged.
    pub fn hashed(&self) -> String {
        if self.fits() {
            return self.0.to_string();
        }
        let kept: String =
            self.0.chars().map(|c| if in_wire(c) { c } else { '_' }).take(MAX_WIRE - 14).collect();
        format!("{kept}__{:012x}", fnv1a(self.0.as_bytes()) & 0xffff_ffff_ffff)
    }

    /// Whether every model API accepts the name.
    pub(crate) fn fits(&self) -> bool {
        self.0.len() <= MAX_WIRE && self.0.chars().all(in_wire)
    }

    fn readable(&self) -> Option<String> {
        let wire = self.0.replace('/', "__").replace(['.', ':'], "_");
        (wire.len() <= MAX_WIRE && wire.chars().all(in_wire)).then_some(wire)
    }
}

/// Maximum length of a name that every model API accepts.
const MAX_WIRE: usize = 64;

fn in_wire(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

impl Borrow<str> for ToolName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ToolName {
    type Error = Error;
    fn try_from(name: String) -> Result<Self, Error> {
        Self::new(&name)
    }
}

impl From<ToolName> for String {
    fn from(name: ToolName) -> Self {
        name.0.to_string()
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// The id of one call: a UUIDv7, so ids sort by the time of the call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(Uuid);

impl CallId {
    /// Creates an id for a call that starts at `at`. Ids created by one thread
    /// sort in creation order, also within a millisecond.
    pub fn at(at: Timestamp) -> Self {
        let millis = u64::try_from(at.as_millisecond()).unwrap_or_default();
        let made = next_number();
        let mut tail = [0u8; 10];
        // 12 bits, then (below the two variant bits) 30 bits of the counter;
        // the last four bytes are random so that processes do not collide.
        tail[0] = (made >> 38) as u8 & 0x0f;
        tail[1] = (made >> 30) as u8;
        tail[2] = (made >> 24) as u8 & 0x3f;
        tail[3] = (made >> 16) as u8;
        tail[4] = (made >> 8) as u8;
        tail[5] = made as u8;
        tail[6..].copy_from_slice(&fastrand::u32(..).to_be_bytes());
        Self(uuid::Builder::from_unix_timestamp_millis(millis, &tail).into_uuid())
    }

    /// The id as a UUID.
    pub fn uuid(self) -> Uuid {
        self.0
    }
}

impl From<Uuid> for CallId {
    fn from(id: Uuid) -> Self {
        Self(id)
    }
}

impl std::str::FromStr for CallId {
    type Err = uuid::Error;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of a batch of calls: also a UUIDv7.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BatchId(CallId);

impl BatchId {
    /// Creates an id for a batch that starts at `at`.
    pub fn at(at: Timestamp) -> Self {
        Self(CallId::at(at))
    }

    /// The id as a UUID.
    pub fn uuid(self) -> Uuid {
        self.0.uuid()
    }
}

impl std::str::FromStr for BatchId {
    type Err = uuid::Error;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The tenant that owns a call, record or credential.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TenantId(Arc<str>);

impl TenantId {
    /// A tenant by its id.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TenantId {
    /// The id as shared text, without copying it.
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl Default for TenantId {
    /// The tenant of a single-tenant installation.
    fn default() -> Self {
        Self("default".into())
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A process-wide unique number. Threads reserve them in blocks, to avoid
/// contention.
fn next_number() -> u64 {
    const BLOCK: u64 = 256;
    static BLOCKS: AtomicU64 = AtomicU64::new(0);
    thread_local!(static NEXT: Cell<u64> = const { Cell::new(0) });
    NEXT.with(|next| {
        let number = match next.get() {
            number if number.is_multiple_of(BLOCK) => BLOCKS.fetch_add(BLOCK, Ordering::Relaxed),
            number => number,
        };
        next.set(number + 1);
        number
    })
}

/// A hash that is stable across releases: models and conversations remember
/// wire names.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

text_schema!(ToolName, TenantId, CallId {"format": "uuid"}, BatchId {"format": "uuid"});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_names_fit_every_api_and_differ() {
        let plain = ToolName::new("get_weather-v2").unwrap();
        assert_eq!(plain.wire(), "get_weather-v2");
        let dotted = ToolName::new("github.repos/list").unwrap();
        let slashed = ToolName::new("github/repos.list").unwrap();
        assert_eq!(
            (dotted.wire().as_str(), slashed.wire().as_str()),
            ("github_repos__list", "github__repos_list")
        );
        assert_ne!(dotted.hashed(), slashed.hashed());
        let long = ToolName::new(&format!("{}/x", "y".repeat(62))).unwrap();
        assert_eq!(long.wire(), long.hashed());
        for name in [dotted, slashed, long, ToolName::new(&"天".repeat(128)).unwrap()] {
            for wire in [name.wire(), name.hashed()] {
                assert!(wire.len() <= MAX_WIRE && wire.chars().all(in_wire), "{wire}");
            }
        }
    }

    #[test]
    fn bad_names_are_refused() {
        for bad in ["", "a b", "a\nb", "drop;table", &"x".repeat(129)] {
            assert!(ToolName::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn call_ids_sort_by_creation() {
        let at = Timestamp::now();
        let ids: Vec<CallId> = (0..1000).map(|_| CallId::at(at)).collect();
        assert!(ids.is_sorted());
        assert_eq!(ids[0].uuid().get_version_num(), 7);
    }
}
