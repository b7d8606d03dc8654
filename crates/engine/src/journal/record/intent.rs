//! What is kept of a call before it runs.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::{CallRecord, RecordedError, Status};
use crate::call::context::Caller;
use crate::error::{Error, ErrorKind};
use crate::value::name::CallId;

/// A call that is about to take effect. The store keeps it until the call's
/// record comes; where none comes, because the process ended, it becomes the
/// record of an interrupted call.
#[derive(Clone, Debug)]
pub struct Intent {
    /// The call's id.
    pub id: CallId,
    /// The id that the model gave the call.
    pub call_ref: Option<Arc<str>>,
    /// The tool's name.
    pub tool_name: Arc<str>,
    /// The arguments: redacted and capped.
    pub arguments: Arc<Value>,
    /// Who calls.
    pub caller: Arc<Caller>,
    /// When the call came.
    pub created_at: Timestamp,
    /// The key that makes the call one with others like it.
    pub key: Option<IdempotencyKey>,
}

impl Intent {
    /// What is said of a call whose process ended while it ran.
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

/// A caller's name for what a call is to achieve: within a tenant, calls with
/// the same key are one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The key.
    pub key: Arc<str>,
    /// What stands for the tool and its arguments.
    pub fingerprint: [u8; 32],
}

impl IdempotencyKey {
    /// What the keys of calls begin with that a kept run makes. A store keeps
    /// them at least as long as the run can go on: without them, what it did
    /// would be done again.
    pub const OF_RUNS: &str = "run:";

    /// The longest key, in bytes.
    pub const MAX_BYTES: usize = 255;

    /// A key with what stands for the tool and its arguments. Refuses what
    /// [`IdempotencyKey::check`] refuses.
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

    /// Whether it is the key of a call that a kept run makes.
    pub fn is_of_a_run(&self) -> bool {
        self.key.starts_with(Self::OF_RUNS)
    }
}

/// What a store says to an intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It is kept for good: the call may run.
    New,
    /// This call has the same key and the same fingerprint, or is the same
    /// call; it runs, or has ended and left a record. The new intent is not
    /// kept.
    Duplicate(CallId),
    /// This call has the same key and another fingerprint. The new intent is
    /// not kept.
    OtherArguments(CallId),
}
