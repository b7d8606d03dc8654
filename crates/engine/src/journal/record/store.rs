//! [`RecordStore`]: who keeps records, and answers questions about them.

use std::future;

use serde::{Deserialize, Serialize};

use super::{
    Begun, CallRecord, Intent, PageRequest, RecordFilter, RecordPage, Statistics, Summary,
};
use crate::error::Error;
use crate::tool::executor::BoxFuture;
use crate::value::name::{CallId, TenantId};

/// Keeps records. Every question is asked for one tenant.
pub trait RecordStore: Send + Sync + 'static {
    /// Takes the record of a call that ended. Called from `Drop` too, so it
    /// neither waits nor fails: a store that writes elsewhere queues it.
    fn append(&self, record: CallRecord);

    /// Whether intents survive the process. Where they do, [`RecordStore::begin`]
    /// is called before every call that may change something, and the answer
    /// waits until the record is flushed; where they do not, only for calls
    /// with a key.
    fn keeps_intents(&self) -> bool {
        false
    }

    /// Keeps what a call is about to do; ends when it is kept for good. The
    /// intent is forgotten with the commit of the call's record. An error means
    /// that the call must not run.
    ///
    /// A call begins once: where another process that lives has begun one with
    /// this id, or it has a record, the answer is [`Begun::Duplicate`] of the id.
    ///
    /// A key is kept while its call runs, and then for a time that the store
    /// sets, and the call's record as long as the key. The record of a call that
    /// never ran frees its key.
    fn begin(&self, intent: Intent) -> BoxFuture<'_, Result<Begun, Error>>;

    /// Who this store is to others that share its records, as long as it is
    /// open; none where nobody shares them.
    fn owner(&self) -> BoxFuture<'_, Result<Option<OwnerId>, Error>> {
        Box::pin(future::ready(Ok(None)))
    }

    /// Whether an owner is gone, however it ended. In doubt it is not.
    fn is_gone<'a>(&'a self, owner: &'a OwnerId) -> BoxFuture<'a, Result<bool, Error>> {
        let _ = owner;
        Box::pin(future::ready(Ok(true)))
    }

    /// The calls that processes which have ended left behind, and that this
    /// store has closed since it was last asked; each is handed out once.
    fn take_interrupted(&self) -> Vec<CallRecord> {
        Vec::new()
    }

    /// Whether the store keeps up. Where it does not, the engine waits for
    /// [`RecordStore::caught_up`] before it starts another call, so that the
    /// queue stays bounded.
    fn keeps_up(&self) -> bool {
        true
    }

    /// Ends when the store keeps up again.
    fn caught_up(&self) -> BoxFuture<'_, ()> {
        Box::pin(future::ready(()))
    }

    /// Whether a call with an effect could begin now, found out by writing
    /// something: a store that can be read may have no room left.
    fn probe(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(future::ready(Ok(())))
    }

    /// How many records were appended and are not kept for good yet.
    fn unwritten(&self) -> usize {
        0
    }

    /// Ends when everything appended before is kept for good.
    fn flush(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// One record.
    fn get<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
    ) -> BoxFuture<'a, Result<Option<CallRecord>, Error>>;

    /// A page of records, newest first.
    fn query<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: &'a RecordFilter,
        page: PageRequest,
    ) -> BoxFuture<'a, Result<RecordPage, Error>>;

    /// The summary of a conversation.
    fn summary<'a>(
        &'a self,
        tenant: &'a TenantId,
        conversation: &'a str,
    ) -> BoxFuture<'a, Result<Summary, Error>>;

    /// Statistics over everything.
    fn statistics<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<Statistics, Error>>;

    /// Keeps the whole of a result that was cut for the model.
    fn keep_output<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
        output: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), Error>>;

    /// Forgets what was kept whole under this id, if anything was.
    fn forget_output<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
    ) -> BoxFuture<'a, Result<(), Error>>;

    /// A part of a result that was cut; nothing where it is not kept (any more).
    fn read_output<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
        offset: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<Option<OutputPart>, Error>>;
}

/// The name of an open store among those that share records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OwnerId(String);

impl OwnerId {
    /// A name that a store gave itself.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A part of a kept result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputPart {
    /// The bytes, from the offset asked for.
    pub bytes: Vec<u8>,
    /// The size of the whole.
    pub total_bytes: u64,
}
