//! Calls that wait for their client's answers.
//!
//! A client of the newer era gets a tool's questions as the answer to its
//! request, with a state that it sends back with the answers. The state is a
//! random name of what waits here, good once, and only for whoever made the
//! request and for the same request. So it lives on one server and not for
//! ever; who comes too late is told so. Keys and tenants have shares of the room,
//! so that none of them takes all of it.

use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::ErrorData;
use tokio::time::Instant;
use windlass_executors::mcp::Questions;

use crate::mcp::asking::Question;
use crate::mcp::running::Running;
use crate::mcp::shares::{Bounds, Owner, Shares};
use crate::random;

/// How long answers are waited for. The call's own time goes on meanwhile.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
const MAX_PARKED: usize = 1_000;
const STATE: usize = 32;

/// What has to be the same when the answers come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    pub(crate) owner: Owner,
    /// The method and its parameters, without the answers.
    pub(crate) request: String,
}

pub(crate) struct Waiting {
    pub(crate) running: Running,
    pub(crate) asked: Question,
}

impl Waiting {
    pub(crate) fn questions(&self) -> &Questions {
        &self.asked.questions
    }
}

pub(crate) struct Parked(Mutex<Shares<Entry>>);

impl Default for Parked {
    fn default() -> Self {
        Self(Mutex::new(Shares::new(Bounds::of(MAX_PARKED))))
    }
}

struct Entry {
    waiting: Waiting,
    request: String,
    until: Instant,
}

impl Parked {
    /// Parks a call; the state by which it is found again.
    pub(crate) fn put(&self, waiting: Waiting, binding: Binding) -> Result<String, ErrorData> {
        let state = random::text(STATE)
            .map_err(|error| ErrorData::internal_error(error.message().to_owned(), None))?;
        let Binding { owner, request } = binding;
        let now = Instant::now();
        let mut parked = self.0.lock();
        let late = parked.take_if(None, |entry| entry.until <= now);
        let entry = Entry { waiting, request, until: now + PATIENCE };
        let put = parked.insert(&owner, state.to_string(), entry);
        if put.is_ok() {
            // Whoever waits for an answer needs the call; it gives way to others only.
            parked.begin_use(&owner, &state);
        }
        drop(parked);
        // Calls end when they are dropped, which takes its time.
        drop(late);
        match put {
            Ok(_evicted) => Ok(state.to_string()),
            Err(_full) => {
                Err(ErrorData::internal_error("too many calls wait for your answers", None))
            }
        }
    }

    /// Takes a call out again, for whoever it waits for.
    pub(crate) fn take(&self, state: &str, binding: &Binding) -> Result<Waiting, ErrorData> {
        let unknown = || {
            ErrorData::invalid_params(
                "the request state is unknown, was used, or has expired",
                None,
            )
        };
        let mut parked = self.0.lock();
        let entry = parked.touch(&binding.owner, state).ok_or_else(unknown)?;
        if entry.request != binding.request || entry.until <= Instant::now() {
            return Err(unknown());
        }
        parked.remove(&binding.owner, state).map(|entry| entry.waiting).ok_or_else(unknown)
    }
}
