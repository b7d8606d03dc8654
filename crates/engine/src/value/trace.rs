//! W3C Trace Context: taken from the caller, propagated to requests of the
//! call. The engine creates no spans; exporters create them from its records.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::value::name::CallId;

/// Maximum length of a propagated `tracestate`.
const MAX_STATE: usize = 512;

/// A position in a trace: the parent span of what comes next.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct TraceContext {
    trace_id: u128,
    span_id: u64,
    flags: u8,
    state: Option<Arc<str>>,
    /// Whether spans of calls are exported, so that requests of a call become
    /// children of the call's own span.
    reported: bool,
}

impl TraceContext {
    /// Creates a trace context; neither id may be zero.
    pub fn new(trace_id: u128, span_id: u64, sampled: bool) -> Self {
        Self { trace_id, span_id, flags: u8::from(sampled), state: None, reported: false }
    }

    /// Parses the headers `traceparent` and `tracestate`; `None` if they
    /// violate the standard.
    pub fn parse(parent: &str, state: Option<&str>) -> Option<Self> {
        let mut parts = parent.trim().split('-');
        let version = hex(parts.next()?, 2)?;
        let trace_id = hex(parts.next()?, 32)?;
        let span_id = u64::try_from(hex(parts.next()?, 16)?).ok()?;
        let flags = u8::try_from(hex(parts.next()?, 2)?).ok()?;
        // Later versions may have more fields, this one does not; 255 is
        // invalid.
        let whole = version != 0 || parts.next().is_none();
        if version == 255 || trace_id == 0 || span_id == 0 || !whole {
            return None;
        }
        let printable = |state: &&str| {
            !state.is_empty()
                && state.len() <= MAX_STATE
                && state.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        };
        let state = state.map(str::trim).filter(printable).map(Into::into);
        Some(Self { trace_id, span_id, flags: flags & 1, state, reported: false })
    }

    /// The span id of a call, derived from the call's id, so that nested calls
    /// and requests know it.
    pub fn span_of(call: CallId) -> u64 {
        call.uuid().as_u64_pair().1
    }

    /// The same trace with this span as the parent.
    #[must_use]
    pub fn within(&self, span_id: u64) -> Self {
        Self { span_id, ..self.clone() }
    }

    /// Marks the spans of calls as exported.
    #[must_use]
    pub fn reported(mut self) -> Self {
        self.reported = true;
        self
    }

    /// The trace's id.
    pub fn trace_id(&self) -> u128 {
        self.trace_id
    }

    /// The id of the parent span.
    pub fn span_id(&self) -> u64 {
        self.span_id
    }

    /// Whether the trace is sampled.
    pub fn is_sampled(&self) -> bool {
        self.flags & 1 == 1
    }

    /// The header `tracestate`.
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// The trace context for requests of a call.
    pub(crate) fn of_call(&self, call: CallId) -> Self {
        if self.reported { self.within(Self::span_of(call)) } else { self.clone() }
    }
}

/// The header `traceparent`.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags)
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceContext({self})")
    }
}

impl From<TraceContext> for String {
    fn from(trace: TraceContext) -> Self {
        trace.to_string()
    }
}

impl TryFrom<String> for TraceContext {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text, None).ok_or_else(|| format!("`{text}` is no traceparent"))
    }
}

/// Lowercase digits only, as the standard has it.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != digits || !text.bytes().all(is_digit) {
        return None;
    }
    u128::from_str_radix(text, 16).ok()
}

text_schema!(TraceContext);

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn what_the_standard_has_is_read_and_written() {
        let trace = TraceContext::parse(PARENT, Some("vendor=1,other=2")).unwrap();
        assert_eq!(trace.to_string(), PARENT);
        assert!(trace.is_sampled() && trace.state() == Some("vendor=1,other=2"));
        let later = "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00-more";
        assert!(!TraceContext::parse(later, None).unwrap().is_sampled());
        let id = CallId::at(jiff::Timestamp::UNIX_EPOCH);
        assert_eq!(trace.of_call(id), trace, "nobody hears of the call's own span");
        let own = trace.reported().of_call(id);
        assert_eq!(own.span_id(), TraceContext::span_of(id));
    }

    #[test]
    fn anything_else_is_no_trace() {
        for wrong in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b71692033311-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(TraceContext::parse(wrong, None), None, "{wrong}");
        }
        let long = "x".repeat(MAX_STATE + 1);
        for state in ["", "a\nb", long.as_str()] {
            assert_eq!(TraceContext::parse(PARENT, Some(state)).unwrap().state(), None);
        }
    }
}
