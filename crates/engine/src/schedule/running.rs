//! Registry of running calls, so that they can be cancelled.
//!
//! A call that completes at its first poll is never listed: nobody could have
//! cancelled it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::call::context::{Caller, Context};
use crate::value::name::{BatchId, CallId, TenantId};

/// The running calls of an engine.
#[derive(Default)]
pub(crate) struct RunningCalls {
    calls: Mutex<HashMap<CallId, RunningCall, ahash::RandomState>>,
}

/// A pending or running call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UnderWay {
    /// The call's id.
    pub id: CallId,
    /// The caller.
    pub caller: Arc<Caller>,
    /// The batch that it belongs to.
    pub batch: Option<BatchId>,
    /// Who initiated it: [`Context::begun_by`].
    pub begun_by: Option<Arc<str>>,
}

struct RunningCall {
    call: UnderWay,
    cancel: CancellationToken,
    /// Number of guards: a call of a batch has one while it waits for its turn,
    /// and another while it runs.
    places: usize,
}

/// Guard of a listed call (RAII); dropping the last one removes the call.
pub(crate) struct ListedCall {
    running: Arc<RunningCalls>,
    id: CallId,
    /// Cancelled when the call is to stop.
    pub(crate) cancel: CancellationToken,
}

impl RunningCalls {
    /// Lists a call, if it is not listed yet. A token of the caller cancels it,
    /// too.
    pub(crate) fn list(
        self: &Arc<Self>,
        id: CallId,
        context: &Context,
        batch: Option<BatchId>,
        own: Option<&CancellationToken>,
    ) -> ListedCall {
        let mut calls = self.calls.lock();
        let entry = calls.entry(id).or_insert_with(|| RunningCall {
            call: UnderWay {
                id,
                caller: Arc::clone(&context.caller),
                batch,
                begun_by: context.begun_by.clone(),
            },
            cancel: own.map_or_else(CancellationToken::new, CancellationToken::child_token),
            places: 0,
        });
        entry.places += 1;
        ListedCall { running: Arc::clone(self), id, cancel: entry.cancel.clone() }
    }

    pub(crate) fn find(&self, tenant: &TenantId, id: CallId) -> Option<UnderWay> {
        let calls = self.calls.lock();
        let found = calls.get(&id).filter(|entry| entry.call.caller.tenant == *tenant);
        found.map(|entry| entry.call.clone())
    }

    pub(crate) fn cancel_call(&self, tenant: &TenantId, id: CallId) -> bool {
        let calls = self.calls.lock();
        let found = calls.get(&id).filter(|entry| entry.call.caller.tenant == *tenant);
        let cancel = found.map(|entry| entry.cancel.clone());
        drop(calls);
        // Outside the lock: waking a call may run it, and it removes itself
        // from the list.
        cancel.inspect(CancellationToken::cancel).is_some()
    }

    pub(crate) fn cancel_where(
        &self,
        tenant: &TenantId,
        chosen: impl Fn(&UnderWay) -> bool,
    ) -> usize {
        self.cancel_all(|call| call.caller.tenant == *tenant && chosen(call))
    }

    pub(crate) fn cancel_everything(&self) -> usize {
        self.cancel_all(|_| true)
    }

    /// Number of listed calls.
    pub(crate) fn len(&self) -> usize {
        self.calls.lock().len()
    }

    /// Number of listed calls of a tenant.
    pub(crate) fn of(&self, tenant: &TenantId) -> usize {
        self.calls.lock().values().filter(|entry| entry.call.caller.tenant == *tenant).count()
    }

    fn cancel_all(&self, chosen: impl Fn(&UnderWay) -> bool) -> usize {
        let calls = self.calls.lock();
        let tokens: Vec<CancellationToken> = calls
            .values()
            .filter(|entry| chosen(&entry.call))
            .map(|entry| entry.cancel.clone())
            .collect();
        drop(calls);
        tokens.iter().for_each(CancellationToken::cancel);
        tokens.len()
    }
}

impl Drop for ListedCall {
    fn drop(&mut self) {
        let mut calls = self.running.calls.lock();
        let Some(entry) = calls.get_mut(&self.id) else { return };
        entry.places -= 1;
        let gone = if entry.places == 0 { calls.remove(&self.id) } else { None };
        drop(calls);
        drop(gone);
    }
}
