//! Write-ahead intents and idempotency keys: what happens between the slot and
//! the first attempt.

use std::sync::Arc;
use std::time::Duration;

use super::{Deadline, Engine};
use crate::call::content::Output;
use crate::call::{Call, CallOptions};
use crate::error::{Error, ErrorKind};
use crate::journal::OpenCall;
use crate::journal::record::{Begun, CallRecord, IdempotencyKey, Status};
use crate::stage::{Attempts, Outcome};
use crate::value::fingerprint::Fingerprint;
use crate::value::name::CallId;

/// Polling interval for a duplicate that waits for the first call: doubled each
/// time, up to the maximum, then starting over.
const FIRST_LOOK: Duration = Duration::from_millis(5);
const LAST_LOOK: Duration = Duration::from_millis(320);

impl Engine {
    /// Backpressure: waits while the store is too far behind, within the call's
    /// deadline, so that its queue stays bounded.
    pub(super) async fn catch_up(&self, until: &Deadline<'_>) -> Result<(), Error> {
        let store = &*self.0.shared.journal.store;
        if store.keeps_up() {
            return Ok(());
        }
        let caught_up = Box::pin(tokio::time::timeout_at(until.deadline, store.caught_up()));
        caught_up.await.map_err(|_| {
            let why = "calls are not started while their records cannot be written";
            Error::new(ErrorKind::StorageUnavailable, why)
        })
    }

    /// Stores the call's intent. Returns the result of an earlier call with the
    /// same idempotency key, if there is one; then this call must not run.
    pub(super) async fn begin(
        &self,
        attempts: &mut Attempts<'_, '_>,
    ) -> Result<Option<Outcome>, Error> {
        let Attempts { request, call, open, .. } = attempts;
        let may_change = !call.tool.spec().behaviour.read_only;
        let keeps_intents = || self.0.shared.journal.store.keeps_intents();
        if request.key().is_none() && !(may_change && keeps_intents()) {
            return Ok(None);
        }
        let earlier = Box::pin(self.announce(request, call, open)).await?;
        Ok(earlier.map(Outcome::Earlier))
    }

    async fn announce(
        &self,
        request: &CallOptions,
        call: &Call,
        open: &mut OpenCall,
    ) -> Result<Option<Arc<Output>>, Error> {
        let store = &*self.0.shared.journal.store;
        let key = request.key().map(|key| identify(key, call)).transpose()?;
        let intent = open.intent(key);
        let mut begun = store.begin(intent.clone()).await?;
        while let Begun::Duplicate(first) = begun {
            let is_own = first == call.id;
            if is_own {
                open.left_to_another();
            }
            let away = call.slot().leave();
            match self.end_of(first, call).await? {
                Some(record) if is_own => {
                    away.stay_away();
                    return outcome(record).map(Some);
                }
                Some(record) if may_be_done_again(&record, call) => {
                    away.come_back().await;
                    return Ok(None);
                }
                Some(record) => {
                    away.stay_away();
                    open.same_as(first);
                    return outcome(record).map(Some);
                }
                // It takes long. Asking again lets the store find out whether
                // the process of the first call is still alive, and whether it
                // ever began.
                None => {
                    begun = store.begin(intent.clone()).await?;
                    away.come_back().await;
                }
            }
        }
        if let Begun::OtherArguments(first) = begun {
            return Err(Error::new(
                ErrorKind::IdempotencyConflict,
                format!("call {first} has this key and asked for something else"),
            ));
        }
        open.taken_back();
        open.intended = store.keeps_intents();
        Ok(None)
    }

    /// Waits for the record of another call; `None` if it has not ended for a
    /// while.
    async fn end_of(&self, first: CallId, call: &Call) -> Result<Option<CallRecord>, Error> {
        let mut pause = FIRST_LOOK;
        while pause <= LAST_LOOK {
            let found = self.0.shared.journal.store.get(&call.caller().tenant, first).await?;
            // Another call that never ran has released its key.
            let says = |record: &CallRecord| record.attempts > 0 || first == call.id;
            if let Some(record) = found.filter(says) {
                return Ok(Some(record));
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        Ok(None)
    }
}

/// Whether the first call was interrupted without an effect: then a repetition
/// is useful.
fn may_be_done_again(first: &CallRecord, call: &Call) -> bool {
    let cut_off = [Status::Cancelled, Status::TimedOut, Status::Interrupted];
    call.tool.spec().behaviour.read_only && cut_off.contains(&first.status)
}

/// The outcome stored in a record.
pub(super) fn outcome(record: CallRecord) -> Result<Arc<Output>, Error> {
    match (record.result, record.error) {
        (Some(output), _) => Ok(output),
        (None, Some(error)) => Err(Error::from(&*error)),
        (None, None) => Ok(Arc::default()),
    }
}

/// The idempotency key with the fingerprint of tool, arguments and person:
/// results are never shared between people.
fn identify(key: &Arc<str>, call: &Call) -> Result<IdempotencyKey, Error> {
    let mut fingerprint = Fingerprint::default();
    fingerprint.text(call.tool.name().as_str());
    fingerprint.optional(call.caller().user.as_deref());
    fingerprint.value(call.arguments());
    IdempotencyKey::new(Arc::clone(key), fingerprint.finish())
}
