//! Requests that a server works on, and whom its messages about them are for.

#![expect(deprecated, reason = "servers of both eras still send log messages")]

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::{
    LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken, RequestId,
};
use serde_json::{Value, json};
use windlass::{Content, Emitter};

use super::ask::Asker;

/// The fact of a progress block that holds a server's log message.
const LOG: &str = "log";

/// Whom messages about a request are for.
pub(super) struct Flight {
    pub(super) emitter: Option<Emitter>,
    pub(super) asker: Option<Arc<Asker>>,
    /// The highest progress so far: it never goes back.
    progress: Mutex<Option<f64>>,
}

impl Flight {
    pub(super) fn new(emitter: Emitter, asker: Option<Arc<Asker>>) -> Arc<Self> {
        Arc::new(Self { emitter: Some(emitter), asker, progress: Mutex::new(None) })
    }

    /// A request that nobody follows.
    pub(super) fn unheard(asker: Option<Arc<Asker>>) -> Arc<Self> {
        Arc::new(Self { emitter: None, asker, progress: Mutex::new(None) })
    }
}

/// All requests of a connection that have no answer yet.
#[derive(Default)]
pub(super) struct Flights(Mutex<Open>);

#[derive(Default)]
struct Open {
    by_id: HashMap<RequestId, (Option<ProgressToken>, Arc<Flight>)>,
    by_token: HashMap<ProgressToken, Arc<Flight>>,
}

impl Flights {
    pub(super) fn begin(&self, id: RequestId, token: Option<ProgressToken>, flight: Arc<Flight>) {
        let mut open = self.0.lock();
        if let Some(token) = &token {
            open.by_token.insert(token.clone(), Arc::clone(&flight));
        }
        open.by_id.insert(id, (token, flight));
    }

    pub(super) fn end(&self, id: &RequestId) {
        let mut open = self.0.lock();
        if let Some((Some(token), _)) = open.by_id.remove(id) {
            open.by_token.remove(&token);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().by_id.len()
    }

    /// The request that a question of the server belongs to: the one that it
    /// came with, else the only one there is.
    pub(super) fn asked_by(&self, id: Option<&RequestId>) -> Option<Arc<Flight>> {
        let open = self.0.lock();
        match id {
            Some(id) => open.by_id.get(id).map(|(_, flight)| Arc::clone(flight)),
            None => only(&open),
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
    /// so where there are several, nobody may read it.
    pub(super) fn log(&self, server: &str, said: &LoggingMessageNotificationParam) {
        tracing::debug!(server, level = ?said.level, data = %said.data, "a server's message");
        let flight = only(&self.0.lock());
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

fn only(open: &Open) -> Option<Arc<Flight>> {
    let mut flights = open.by_id.values().filter(|(_, flight)| flight.emitter.is_some());
    let (_, first) = flights.next()?;
    flights.next().is_none().then(|| Arc::clone(first))
}
