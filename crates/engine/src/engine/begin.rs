//! What happens between the slot and the first attempt: the store hears what
//! is about to be done, and calls with the same key become one.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Engine;
use crate::call::{Call, CallRequest};
use crate::content::Output;
use crate::error::{Error, ErrorKind};
use crate::fingerprint::Fingerprint;
use crate::journal::OpenCall;
use crate::name::CallId;
use crate::record::{Begun, IdempotencyKey};

/// The longest key that is kept.
const MAX_KEY: usize = 255;

/// How often a twin looks whether the first call has ended.
const FIRST_LOOK: Duration = Duration::from_millis(5);
const LAST_LOOK: Duration = Duration::from_millis(250);

impl Engine {
    /// Tells the store what the call is about to do, where that must be known
    /// before it is done. Returns the result of an earlier call with the same
    /// key, if there is one; then this call must not run.
    pub(super) async fn begin(
        &self,
        request: &CallRequest,
        call: &Call,
        open: &mut OpenCall,
    ) -> Result<Option<Arc<Output>>, Error> {
        let store = &*self.0.journal.store;
        let durable = !call.tool.spec().behaviour.read_only && store.keeps_intents();
        if !durable && request.key.is_none() {
            return Ok(None);
        }
        let key = request.key.as_ref().map(|key| identify(key, call)).transpose()?;
        match store.begin(open.intent(key)).await? {
            Begun::New => {
                open.intended = store.keeps_intents();
                Ok(None)
            }
            Begun::Twin(first) => {
                call.leave_slot();
                open.same_as(first);
                self.result_of(first, call).await.map(Some)
            }
            Begun::OtherArguments(first) => Err(Error::new(
                ErrorKind::IdempotencyConflict,
                format!("call {first} has this key and asked for something else"),
            )),
        }
    }

    /// The result of another call, which may still run.
    async fn result_of(&self, first: CallId, call: &Call) -> Result<Arc<Output>, Error> {
        let mut pause = FIRST_LOOK;
        loop {
            let found = self.0.journal.store.get(&call.caller().tenant, first).await?;
            if let Some(record) = found {
                return match (record.result, record.error) {
                    (Some(output), _) => Ok(output),
                    (None, Some(error)) => Err(Error::from(&error)),
                    (None, None) => Ok(Arc::default()),
                };
            }
            let wake = Instant::now() + pause;
            tokio::time::sleep_until(wake).await;
            pause = (pause * 2).min(LAST_LOOK);
        }
    }
}

/// A key with what stands for the tool and its arguments.
fn identify(key: &Arc<str>, call: &Call) -> Result<IdempotencyKey, Error> {
    if key.is_empty() || key.len() > MAX_KEY {
        let why = format!("an idempotency key has 1 to {MAX_KEY} bytes, this one {}", key.len());
        return Err(Error::new(ErrorKind::InvalidArguments, why));
    }
    let mut fingerprint = Fingerprint::default();
    fingerprint.text(call.tool.name().as_str());
    fingerprint.value(&call.arguments);
    Ok(IdempotencyKey { key: Arc::clone(key), fingerprint: fingerprint.finish() })
}
