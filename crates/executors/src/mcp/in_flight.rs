//! Requests that a server works on, and whom its messages about them are for.

#![expect(deprecated, reason = "servers of both eras still send log messages")]

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::{
    LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken, RequestId,
};
use serde_json::{Value, json};
use windlass::{Call, Content, Emitter, TenantId};

use super::ask::Asker;

/// The fact of a progress block that holds a server's log message.
const LOG: &str = "log";
/// How many requests that were given up are remembered each for itself.
const MAX_ABANDONED: usize = 256;

/// Whom messages about a request are for.
pub(super) struct InFlightRequest {
    pub(super) emitter: Option<Emitter>,
    pub(super) asker: Option<Arc<Asker>>,
    whose: Option<Whose>,
    /// The highest progress so far: it never goes back.
    progress: Mutex<Option<f64>>,
}

/// The conversation that a request belongs to. What is said in it may be read by
/// whoever made any of its requests, and by nobody else.
#[derive(Clone, PartialEq)]
struct Whose {
    tenant: TenantId,
    user: Option<Arc<str>>,
    conversation: Arc<str>,
}

impl InFlightRequest {
    pub(super) fn new(call: &Call, asker: Option<Arc<Asker>>) -> Arc<Self> {
        let caller = call.caller();
        let whose = caller.conversation.clone().map(|conversation| Whose {
            tenant: caller.tenant.clone(),
            user: caller.user.clone(),
            conversation,
        });
        Arc::new(Self { emitter: Some(call.emitter()), asker, whose, progress: Mutex::new(None) })
    }

    /// A request that nobody follows.
    pub(super) fn unheard(asker: Option<Arc<Asker>>) -> Arc<Self> {
        Arc::new(Self { emitter: None, asker, whose: None, progress: Mutex::new(None) })
    }
}

/// All requests of a connection that have no answer yet.
#[derive(Default)]
pub(super) struct InFlightRequests(Mutex<Open>);

#[derive(Default)]
struct Open {
    by_id: HashMap<RequestId, Entry>,
    by_token: HashMap<ProgressToken, Arc<InFlightRequest>>,
    /// All that was sent and is waited for, also what is nobody's.
    sent: HashSet<RequestId>,
    /// Requests that nobody waits for any more, and that the server may still
    /// work on. One that was told to stop need not say that it has.
    abandoned: HashMap<RequestId, Option<Whose>>,
    /// Whether there were too many of them to be remembered.
    overflowed: bool,
    /// Whether a question could not be placed because of them.
    muddled: bool,
    began: u64,
}

struct Entry {
    token: Option<ProgressToken>,
    flight: Arc<InFlightRequest>,
    /// Which one it is, in the order of their beginnings.
    number: u64,
}

/// A question of a server that several requests may have led to.
#[derive(Debug)]
pub(super) struct Unclear;

impl InFlightRequests {
    pub(super) fn begin(
        &self,
        id: RequestId,
        token: Option<ProgressToken>,
        flight: Option<Arc<InFlightRequest>>,
    ) {
        let mut open = self.0.lock();
        // It may have been given up before it was on its way.
        if open.abandoned.contains_key(&id) {
            return;
        }
        open.sent.insert(id.clone());
        let Some(flight) = flight else { return };
        if let Some(token) = &token {
            open.by_token.insert(token.clone(), Arc::clone(&flight));
        }
        open.began += 1;
        let number = open.began;
        open.by_id.insert(id, Entry { token, flight, number });
    }

    /// The server has answered.
    pub(super) fn end(&self, id: &RequestId) {
        let mut open = self.0.lock();
        open.abandoned.remove(id);
        open.take(id);
    }

    /// Nobody waits for the answer any more, but what the server still says may
    /// be about it.
    pub(super) fn abandon(&self, id: &RequestId, flight: &InFlightRequest) {
        let mut open = self.0.lock();
        open.take(id);
        if open.abandoned.len() < MAX_ABANDONED {
            open.abandoned.insert(id.clone(), flight.whose.clone());
        } else {
            open.overflowed = true;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().by_id.len()
    }

    /// The request that is waited for, where there is one alone.
    pub(super) fn only_sent(&self) -> Option<RequestId> {
        let open = self.0.lock();
        let mut sent = open.sent.iter();
        let only = sent.next()?;
        sent.next().is_none().then(|| only.clone())
    }

    /// Whether questions cannot be placed any more, whoever calls next.
    pub(super) fn is_muddled(&self) -> bool {
        self.0.lock().muddled
    }

    /// The request that a question of the server belongs to: the one that it
    /// came with, else one of the conversation that all of them belong to.
    /// Nobody is asked what somebody else may have to answer.
    pub(super) fn asked_by(
        &self,
        id: Option<&RequestId>,
    ) -> Result<Option<Arc<InFlightRequest>>, Unclear> {
        let mut open = self.0.lock();
        if let Some(id) = id {
            return Ok(open.by_id.get(id).map(|entry| Arc::clone(&entry.flight)));
        }
        // Whoever it was for is gone, or there was nobody.
        if open.by_id.values().all(|entry| entry.flight.asker.is_none()) {
            return Ok(None);
        }
        match open.only() {
            Some(flight) => Ok(Some(flight)),
            None => {
                open.muddled = !open.abandoned.is_empty() || open.overflowed;
                Err(Unclear)
            }
        }
    }

    pub(super) fn progress(&self, told: &ProgressNotificationParam) {
        let Some(flight) = self.0.lock().by_token.get(&told.progress_token).cloned() else {
            return;
        };
        {
            let mut last = flight.progress.lock();
            if last.is_some_and(|last| told.progress < last) {
                return;
            }
            *last = Some(told.progress);
        }
        if let Some(emitter) = &flight.emitter {
            let mut shown = json!({"progress": told.progress});
            if let Some(total) = told.total {
                shown["total"] = json!(total);
            }
            if let Some(message) = &told.message {
                shown["message"] = json!(message);
            }
            emitter.emit(Content::json(shown));
        }
    }

    /// A message for whoever reads along. Which request it is about is not said,
    /// so where it may be somebody else's, nobody reads it.
    pub(super) fn log(&self, server: &str, said: &LoggingMessageNotificationParam) {
        tracing::debug!(server, level = ?said.level, data = %said.data, "a server's message");
        let flight = self.0.lock().only();
        if let Some(emitter) = flight.as_ref().and_then(|flight| flight.emitter.as_ref()) {
            let mut shown = json!({"level": said.level, "data": said.data});
            if let Some(logger) = &said.logger {
                shown["logger"] = json!(logger);
            }
            emitter.emit(log_block(shown));
        }
    }
}

/// A log message, as a tool reports it.
pub(super) fn log_block(message: Value) -> Content {
    Content::json(message).with_meta(LOG, true)
}

/// Whether progress is a server's log message.
pub(super) fn is_log(progress: &Content) -> bool {
    progress.meta.get(LOG) == Some(&Value::Bool(true))
}

impl Open {
    fn take(&mut self, id: &RequestId) {
        self.sent.remove(id);
        if let Some(Entry { token: Some(token), .. }) = self.by_id.remove(id) {
            self.by_token.remove(&token);
        }
    }

    /// The request that a message without a word about it belongs to: the only
    /// one that the server can be working on, or the latest of a conversation
    /// where all are of one.
    fn only(&self) -> Option<Arc<InFlightRequest>> {
        let latest = &self.by_id.values().max_by_key(|entry| entry.number)?.flight;
        let alone = self.by_id.len() == 1 && self.abandoned.is_empty();
        let same = |whose: &Option<Whose>| whose.is_some() && *whose == latest.whose;
        let one_conversation = self.by_id.values().all(|entry| same(&entry.flight.whose))
            && self.abandoned.values().all(same);
        let known = (alone || one_conversation) && !self.overflowed;
        known.then(|| Arc::clone(latest))
    }
}
