//! Parked calls: MCP requests that wait for their client's answers (elicitation).
//!
//! A client of the stateless protocol gets a tool's questions as the answer to its
//! request, together with a state that it sends back with the answers. The state is
//! a random, single-use name of the parked call, and is bound to the caller and to
//! the request. So a parked call lives on one server, expires, and whoever comes
//! too late gets an error that says so. Each key and each tenant has a share of the
//! capacity, so that none of them takes all of it.

use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::ErrorData;
use tokio::time::Instant;
use windlass_executors::mcp::Questions;

use crate::mcp::mailbox::MailboxQuestion;
use crate::mcp::running::RunningRequest;
use crate::mcp::shares::{FairShares, ShareBounds, ShareOwner};
use crate::random;

/// TTL of a parked call. The call's own timeout goes on meanwhile.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
const MAX_PARKED: usize = 1_000;
const STATE: usize = 32;

/// What the answers must match: the caller and the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestBinding {
    pub(crate) owner: ShareOwner,
    /// The method and its parameters, without the answers.
    pub(crate) request: String,
}

pub(crate) struct ParkedCall {
    pub(crate) running: RunningRequest,
    pub(crate) asked: MailboxQuestion,
}

impl ParkedCall {
    pub(crate) fn questions(&self) -> &Questions {
        &self.asked.questions
    }
}

pub(crate) struct ParkedCalls(Mutex<FairShares<ParkedEntry>>);

impl Default for ParkedCalls {
    fn default() -> Self {
        Self(Mutex::new(FairShares::new(ShareBounds::of(MAX_PARKED))))
    }
}

struct ParkedEntry {
    waiting: ParkedCall,
    request: String,
    until: Instant,
}

impl ParkedCalls {
    /// Parks a call; the state by which it is found again.
    pub(crate) fn put(
        &self,
        waiting: ParkedCall,
        binding: RequestBinding,
    ) -> Result<String, ErrorData> {
        let state = random::text(STATE)
            .map_err(|error| ErrorData::internal_error(error.message().to_owned(), None))?;
        let RequestBinding { owner, request } = binding;
        let now = Instant::now();
        let mut parked = self.0.lock();
        let late = parked.take_if(None, |entry| entry.until <= now);
        let entry = ParkedEntry { waiting, request, until: now + PATIENCE };
        let put = parked.insert(&owner, state.to_string(), entry);
        if put.is_ok() {
            // Calls that a client still waits for are evicted last.
            parked.begin_use(&owner, &state);
        }
        drop(parked);
        // Dropped outside of the lock: dropping a call cancels it, which takes time.
        drop(late);
        match put {
            Ok(_evicted) => Ok(state.to_string()),
            Err(_full) => {
                Err(ErrorData::internal_error("too many calls wait for your answers", None))
            }
        }
    }

    /// Takes a parked call, if the caller matches.
    pub(crate) fn take(
        &self,
        state: &str,
        binding: &RequestBinding,
    ) -> Result<ParkedCall, ErrorData> {
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
