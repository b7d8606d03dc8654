//! Calls that wait for their client's answers.
//!
//! A client of the newer era gets a tool's questions as the answer to its
//! request, with a state that it sends back with the answers. The state is a
//! random name of what waits here, good once, and only for whoever made the
//! request and for the same request. So it lives on one server and not for
//! ever; who comes too late is told so.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::ErrorData;
use tokio::time::Instant;
use windlass_executors::mcp::Questions;

use super::asking::Question;
use super::running::Running;
use crate::random;

/// How long answers are waited for. The call's own time goes on meanwhile.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
const MAX_PARKED: usize = 1_000;
const STATE: usize = 32;

/// What has to be the same when the answers come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Binding {
    pub(super) tenant: String,
    pub(super) key: Arc<str>,
    /// The method and its parameters, without the answers.
    pub(super) request: String,
}

pub(super) struct Waiting {
    pub(super) running: Running,
    pub(super) asked: Question,
}

impl Waiting {
    pub(super) fn questions(&self) -> &Questions {
        &self.asked.questions
    }
}

#[derive(Default)]
pub(super) struct Parked(Mutex<HashMap<String, Entry>>);

struct Entry {
    waiting: Waiting,
    binding: Binding,
    until: Instant,
}

impl Parked {
    /// Parks a call; the state by which it is found again.
    pub(super) fn put(&self, waiting: Waiting, binding: Binding) -> Result<String, ErrorData> {
        let state = random::text(STATE)
            .map_err(|error| ErrorData::internal_error(error.message().to_owned(), None))?;
        let mut parked = self.0.lock();
        let now = Instant::now();
        parked.retain(|_, entry| entry.until > now);
        if parked.len() >= MAX_PARKED {
            return Err(ErrorData::internal_error("too many calls wait for answers", None));
        }
        parked.insert(state.to_string(), Entry { waiting, binding, until: now + PATIENCE });
        Ok(state.to_string())
    }

    /// Takes a call out again, for whoever it waits for.
    pub(super) fn take(&self, state: &str, binding: &Binding) -> Result<Waiting, ErrorData> {
        let unknown = || {
            ErrorData::invalid_params(
                "the request state is unknown, was used, or has expired",
                None,
            )
        };
        let mut parked = self.0.lock();
        let entry = parked.get(state).ok_or_else(unknown)?;
        if entry.binding != *binding || entry.until <= Instant::now() {
            return Err(unknown());
        }
        parked.remove(state).map(|entry| entry.waiting).ok_or_else(unknown)
    }
}
