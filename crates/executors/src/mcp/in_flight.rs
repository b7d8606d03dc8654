//! Requests in flight: attributes a server's progress, logs and questions to the call
//! that they belong to.

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

/// Marks a progress block as a log message of the server.
const LOG: &str = "log";
/// Maximum number of abandoned requests that are remembered one by one.
const MAX_ABANDONED: usize = 256;

/// Who receives messages about a request.
pub(super) struct InFlightRequest {
    pub(super) emitter: Option<Emitter>,
    pub(super) asker: Option<Arc<Asker>>,
    whose: Option<Whose>,
    /// The highest progress so far, since progress must not decrease.
    progress: Mutex<Option<f64>>,
}

/// The conversation that a request belongs to. Its messages may be read by whoever made
/// any request of the conversation, and by nobody else.
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

    /// A request whose progress nobody receives.
    pub(super) fn unheard(asker: Option<Arc<Asker>>) -> Arc<Self> {
        Arc::new(Self { emitter: None, asker, whose: None, progress: Mutex::new(None) })
    }
}

/// All pending requests of a connection.
#[derive(Default)]
pub(super) struct InFlightRequests(Mutex<Open>);

#[derive(Default)]
struct Open {
    by_id: HashMap<RequestId, SentRequest>,
    by_token: HashMap<ProgressToken, Arc<InFlightRequest>>,
    /// All ids that were sent and are awaited, including those of the connection itself.
    sent: HashSet<RequestId>,
    /// Cancelled requests that the server may still be working on: it need not confirm a
    /// cancellation.
    abandoned: HashMap<RequestId, Option<Whose>>,
    /// Whether more requests were abandoned than are remembered.
    overflowed: bool,
    /// Whether a question could not be attributed because of abandoned requests.
    muddled: bool,
    began: u64,
}

struct SentRequest {
    token: Option<ProgressToken>,
    flight: Arc<InFlightRequest>,
    /// Sequence number, in the order in which requests began.
    number: u64,
}

/// A server's question could belong to several requests.
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
        // It may have been cancelled before it was sent.
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
        open.by_id.insert(id, SentRequest { token, flight, number });
    }

    /// A response has arrived.
    pub(super) fn end(&self, id: &RequestId) {
        let mut open = self.0.lock();
        open.abandoned.remove(id);
        open.take(id);
    }

    /// Marks a request as cancelled; the server may still send messages about it.
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

    /// The id of the only request in flight.
    pub(super) fn only_sent(&self) -> Option<RequestId> {
        let open = self.0.lock();
        let mut sent = open.sent.iter();
        let only = sent.next()?;
        sent.next().is_none().then(|| only.clone())
    }

    /// Whether questions can no longer be attributed on this connection, whoever calls
    /// next.
    pub(super) fn is_muddled(&self) -> bool {
        self.0.lock().muddled
    }

    /// The request that a server's question belongs to: the one on whose stream it
    /// arrived, else the latest one if all belong to the same conversation. Nobody is
    /// ever shown a question that may be meant for somebody else.
    pub(super) fn asked_by(
        &self,
        id: Option<&RequestId>,
    ) -> Result<Option<Arc<InFlightRequest>>, Unclear> {
        let mut open = self.0.lock();
        if let Some(id) = id {
            return Ok(open.by_id.get(id).map(|entry| Arc::clone(&entry.flight)));
        }
        // The caller it was meant for is gone, or cannot be asked.
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

    /// Forwards a log message. It does not say which request it belongs to, so it is
    /// dropped unless that is certain.
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

/// A log message as a progress block.
pub(super) fn log_block(message: Value) -> Content {
    Content::json(message).with_meta(LOG, true)
}

/// Whether a progress block is a log message of the server.
pub(super) fn is_log(progress: &Content) -> bool {
    progress.meta.get(LOG) == Some(&Value::Bool(true))
}

impl Open {
    fn take(&mut self, id: &RequestId) {
        self.sent.remove(id);
        if let Some(SentRequest { token: Some(token), .. }) = self.by_id.remove(id) {
            self.by_token.remove(&token);
        }
    }

    /// The request that a message without an id belongs to: the only one that the server
    /// can be working on, or the latest if all are of the same conversation.
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
