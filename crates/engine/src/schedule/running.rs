//! The calls that have not ended yet, so that they can be cancelled.
//!
//! A call that ends the first time it is polled is never listed: it costs
//! nothing, and nobody could have cancelled it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::context::Caller;
use crate::name::{BatchId, CallId, TenantId};

/// The list.
#[derive(Default)]
pub(crate) struct Running {
    calls: Mutex<HashMap<CallId, Entry, ahash::RandomState>>,
}

struct Entry {
    caller: Arc<Caller>,
    batch: Option<BatchId>,
    cancel: CancellationToken,
    /// How many places it has: a call of a batch is listed while it waits for
    /// its turn, and again while it runs.
    places: usize,
}

/// A call's place in the list; dropping its last one takes the call off.
pub(crate) struct Listed {
    running: Arc<Running>,
    id: CallId,
    /// Cancelled when the call is to end.
    pub(crate) cancel: CancellationToken,
}

impl Running {
    /// Puts a call on the list, if it is not there. A token that the caller
    /// brought cancels it, too.
    pub(crate) fn list(
        self: &Arc<Self>,
        id: CallId,
        caller: &Arc<Caller>,
        batch: Option<BatchId>,
        own: Option<&CancellationToken>,
    ) -> Listed {
        let mut calls = self.calls.lock();
        let entry = calls.entry(id).or_insert_with(|| Entry {
            caller: Arc::clone(caller),
            batch,
            cancel: own.map_or_else(CancellationToken::new, CancellationToken::child_token),
            places: 0,
        });
        entry.places += 1;
        Listed { running: Arc::clone(self), id, cancel: entry.cancel.clone() }
    }

    pub(crate) fn has(&self, tenant: &TenantId, id: CallId) -> bool {
        self.calls.lock().get(&id).is_some_and(|entry| entry.caller.tenant == *tenant)
    }

    pub(crate) fn cancel_call(&self, tenant: &TenantId, id: CallId) -> bool {
        let calls = self.calls.lock();
        let found = calls.get(&id).filter(|entry| entry.caller.tenant == *tenant);
        let cancel = found.map(|entry| entry.cancel.clone());
        drop(calls);
        // Waking a call may run it, and it takes itself off the list.
        cancel.inspect(CancellationToken::cancel).is_some()
    }

    pub(crate) fn cancel_batch(&self, tenant: &TenantId, batch: BatchId) -> usize {
        self.cancel_all(|entry| entry.caller.tenant == *tenant && entry.batch == Some(batch))
    }

    pub(crate) fn cancel_conversation(&self, tenant: &TenantId, conversation: &str) -> usize {
        self.cancel_all(|entry| {
            entry.caller.tenant == *tenant
                && entry.caller.conversation.as_deref() == Some(conversation)
        })
    }

    pub(crate) fn cancel_everything(&self) -> usize {
        self.cancel_all(|_| true)
    }

    /// How many calls are on the list.
    pub(crate) fn len(&self) -> usize {
        self.calls.lock().len()
    }

    fn cancel_all(&self, chosen: impl Fn(&Entry) -> bool) -> usize {
        let calls = self.calls.lock();
        let tokens: Vec<CancellationToken> = calls
            .values()
            .filter(|entry| chosen(entry))
            .map(|entry| entry.cancel.clone())
            .collect();
        drop(calls);
        tokens.iter().for_each(CancellationToken::cancel);
        tokens.len()
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut calls = self.running.calls.lock();
        let Some(entry) = calls.get_mut(&self.id) else { return };
        entry.places -= 1;
        let gone = if entry.places == 0 { calls.remove(&self.id) } else { None };
        drop(calls);
        drop(gone);
    }
}
