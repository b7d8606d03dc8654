//! Write-ahead intents and idempotency keys.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::{CallRecord, RecordedError, Status};
use crate::call::context::Caller;
use crate::error::{Error, ErrorKind};
use crate::value::name::CallId;

/// The intent of a call that is about to take effect. The store keeps it until
/// the call's record arrives; if the process ends before that, the intent
/// becomes the record of an interrupted call.
#[derive(Clone, Debug)]
pub struct Intent {
    /// The call's id.
    pub id: CallId,
    /// The id that the model gave the call.
    pub call_ref: Option<Arc<str>>,
    /// The tool's name.
    pub tool_name: Arc<str>,
    /// The arguments, redacted and truncated.
    pub arguments: Arc<Value>,
    /// The caller.
    pub caller: Arc<Caller>,
    /// When the call was received.
    pub created_at: Timestamp,
    /// The idempotency key, if the caller gave one.
    pub key: Option<IdempotencyKey>,
}

impl Intent {
    /// Error message of a call whose process ended while it ran.
    pub const INTERRUPTED: &str = "the process ended while the call ran";

    /// The record of a call whose process ended while it ran.
    pub fn interrupted(self) -> CallRecord {
        let key = self.key.map(|key| key.key);
        CallRecord {
            id: self.id,
            call_ref: self.call_ref,
            tool_name: self.tool_name,
            arguments: self.arguments,
            result: None,
            status: Status::Interrupted,
            error: Some(Box::new(RecordedError {
                kind: ErrorKind::Interrupted,
                message: Self::INTERRUPTED.to_owned(),
                feedback: None,
            })),
            caller: self.caller,
            attempts: 1,
            queue_wait: std::time::Duration::ZERO,
            run_time: std::time::Duration::ZERO,
            created_at: self.created_at,
            details: key.map(|key| {
                Box::new(super::Details { idempotency_key: Some(key), ..super::Details::default() })
            }),
        }
    }
}

/// Idempotency key: within a tenant, calls with the same key are one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The key.
    pub key: Arc<str>,
    /// Fingerprint of the tool and its arguments.
    pub fingerprint: [u8; 32],
}

impl IdempotencyKey {
    /// Prefix of the keys of calls made by a durable run. Stores keep such keys
    /// at least as long as the run can continue: without them, its effects
    /// would be repeated.
    pub const OF_RUNS: &str = "run:";

    /// Maximum length of a key, in bytes.
    pub const MAX_BYTES: usize = 255;

    /// Creates a key. Refuses what [`IdempotencyKey::check`] refuses.
    pub fn new(key: Arc<str>, fingerprint: [u8; 32]) -> Result<Self, Error> {
        Self::check(&key)?;
        Ok(Self { key, fingerprint })
    }

    /// Refuses a key that is empty, longer than [`IdempotencyKey::MAX_BYTES`], or
    /// holds control characters.
    pub fn check(key: &str) -> Result<(), Error> {
        let why = match key.len() {
            1..=Self::MAX_BYTES if !key.chars().any(char::is_control) => return Ok(()),
            1..=Self::MAX_BYTES => "this one holds control characters".to_owned(),
            bytes => format!("this one has {bytes}"),
        };
        let most = Self::MAX_BYTES;
        let why = format!("an idempotency key has 1 to {most} bytes of plain text, {why}");
        Err(Error::new(ErrorKind::InvalidArguments, why))
    }

    /// Whether it is the key of a call made by a durable run.
    pub fn is_of_a_run(&self) -> bool {
        self.key.starts_with(Self::OF_RUNS)
    }
}

/// The answer of a store to an intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// The intent is stored durably: the call may run.
    New,
    /// A call with the same key and fingerprint, or with the same id, runs or
    /// has left a record. The new intent is not stored.
    Duplicate(CallId),
    /// A call with the same key has other arguments. The new intent is not
    /// stored.
    OtherArguments(CallId),
}
