//! [`RecordStore`]: storage and queries of records.

use std::future;

use serde::{Deserialize, Serialize};

use super::{
    Begun, CallRecord, Intent, PageRequest, RecordFilter, RecordPage, Statistics, Summary,
};
use crate::error::Error;
use crate::tool::executor::BoxFuture;
use crate::value::name::{CallId, TenantId};

/// Stores records. Every query names a tenant.
pub trait RecordStore: Send + Sync + 'static {
    /// Appends the record of a finished call. Called from `Drop` too, so it
    /// neither waits nor fails: a store with slower storage queues it.
    fn append(&self, record: CallRecord);

    /// Whether intents survive the process. If so, [`RecordStore::begin`] is
    /// called before every call that may change something, and the result is
    /// held back until the record is flushed; otherwise only for calls with an
    /// idempotency key.
    fn keeps_intents(&self) -> bool {
        false
    }

    /// Stores the intent of a call durably (write-ahead). The intent is removed
    /// in the transaction of the call's record. On an error the call must not
    /// run.
    ///
    /// A call begins once: if another live process has begun one with this id,
    /// or there is a record of it, the answer is [`Begun::Duplicate`] with the
    /// id.
    ///
    /// An idempotency key is kept while its call runs, and afterwards for a TTL
    /// of the store, together with the call's record. The record of a call that
    /// never ran releases its key.
    fn begin(&self, intent: Intent) -> BoxFuture<'_, Result<Begun, Error>>;

    /// Identity of this store among those that share its records, as long as it
    /// is open; `None` if nobody shares them.
    fn owner(&self) -> BoxFuture<'_, Result<Option<OwnerId>, Error>> {
        Box::pin(future::ready(Ok(None)))
    }

    /// Whether an owner has ended, for whatever reason. In doubt it has not.
    fn is_gone<'a>(&'a self, owner: &'a OwnerId) -> BoxFuture<'a, Result<bool, Error>> {
        let _ = owner;
        Box::pin(future::ready(Ok(true)))
    }

    /// Calls that ended processes left behind, and that this store has closed
    /// since the last request; each is returned once.
    fn take_interrupted(&self) -> Vec<CallRecord> {
        Vec::new()
    }

    /// Backpressure: whether the store keeps up. If not, the engine awaits
    /// [`RecordStore::caught_up`] before it starts another call, so that the
    /// queue stays bounded.
    fn keeps_up(&self) -> bool {
        true
    }

    /// Completes when the store keeps up again.
    fn caught_up(&self) -> BoxFuture<'_, ()> {
        Box::pin(future::ready(()))
    }

    /// Readiness probe: whether a call with an effect could begin now. It
    /// writes, because a readable store may be out of space.
    fn probe(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(future::ready(Ok(())))
    }

    /// Number of appended records that are not durable yet.
    fn unwritten(&self) -> usize {
        0
    }

    /// Completes when everything appended before is durable.
    fn flush(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// Returns a record.
    fn get<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
    ) -> BoxFuture<'a, Result<Option<CallRecord>, Error>>;

    /// Returns a page of records, newest first.
    fn query<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: &'a RecordFilter,
        page: PageRequest,
    ) -> BoxFuture<'a, Result<RecordPage, Error>>;

    /// Returns the summary of a conversation.
    fn summary<'a>(
        &'a self,
        tenant: &'a TenantId,
        conversation: &'a str,
    ) -> BoxFuture<'a, Result<Summary, Error>>;

    /// Returns statistics over all calls of a tenant.
    fn statistics<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<Statistics, Error>>;

    /// Stores the whole of a result that was truncated for the model.
    fn keep_output<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
        output: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), Error>>;

    /// Deletes the whole result stored under this id, if there is one.
    fn forget_output<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
    ) -> BoxFuture<'a, Result<(), Error>>;

    /// Reads a part of a whole result; `None` if it is not stored (any more).
    fn read_output<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
        offset: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<Option<OutputPart>, Error>>;
}

/// Identity of an open store among those that share records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OwnerId(String);

impl OwnerId {
    /// Creates an id that a store gave itself.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A part of a stored result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputPart {
    /// The bytes from the requested offset.
    pub bytes: Vec<u8>,
    /// The size of the whole.
    pub total_bytes: u64,
}
