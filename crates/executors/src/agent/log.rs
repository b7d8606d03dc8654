//! What is kept of a run, and by whom.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass::{BoxFuture, CallId, Error, ErrorKind, TenantId, Usage};

/// How many runs a log in memory keeps.
const MAX_RUNS: usize = 10_000;

/// Something that happened in a run. What happened last of a turn counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// It began.
    Began {
        /// The agent's tool.
        tool: String,
        /// Its arguments.
        input: Value,
        /// The call that began it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<CallId>,
        /// What was said before in its conversation.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        history: Vec<Value>,
        /// The conversation that it belongs to, where somebody named one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conversation: Option<String>,
        /// The person on whose behalf it runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<String>,
    },
    /// Another call goes on with it. Whoever drove it until then finds this at
    /// the place of its own next entry, and stops.
    Resumed {
        /// That call.
        call: CallId,
    },
    /// The model answered, or has begun to: nothing of it happens before this
    /// is kept.
    Answered {
        /// Which turn, from 1.
        turn: u32,
        /// Its message, as far as it was written.
        message: Value,
        /// Which of its calls, from 0, broke off before they were complete: in
        /// the message they look like any other.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        broken: Vec<usize>,
        /// What it took.
        usage: Usage,
    },
    /// The calls of a turn have their results.
    Results {
        /// The messages that the model is to read next.
        messages: Vec<Value>,
        /// The tools that were called.
        tools: Vec<String>,
        /// What agents among them took.
        usage: Usage,
    },
    /// It ended.
    Ended {
        /// Why.
        stop: Stop,
        /// What it said.
        text: String,
    },
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// The model had nothing more to call.
    Done,
    /// It has asked its model as often as it may.
    MaxTurns,
    /// Its tokens are used up.
    Tokens,
    /// Its money is used up.
    Cost,
    /// Its time is used up.
    Time,
    /// Its calls are used up.
    Calls,
    /// It kept repeating itself.
    Loop,
    /// Its last answer is as long as it may be, and not complete.
    MaxTokens,
    /// Its model does not want to answer.
    Refused,
}

impl Entry {
    /// The call that drives a run, or was the last to.
    pub fn last_call(entries: &[Self]) -> Option<CallId> {
        entries.iter().rev().find_map(|entry| match entry {
            Self::Began { call, .. } => *call,
            Self::Resumed { call } => Some(*call),
            _ => None,
        })
    }
}

/// The error of whoever drives a run that another call goes on with.
pub fn taken_over(run: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("another call goes on with the run {run}"))
}

/// Keeps runs. What was appended is kept for good once the future ends.
pub trait RunLog: Send + Sync + 'static {
    /// Keeps the entry of this number, from 0. Where there is one already,
    /// somebody else goes on with the run: [`taken_over`]. Nothing that changes
    /// something begins before its turn is kept, so a run has one driver.
    fn append<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
        number: u32,
        entry: &'a Entry,
    ) -> BoxFuture<'a, Result<(), Error>>;

    /// All entries of a run, in order; none where there is no such run.
    fn read<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Entry>, Error>>;
}

/// Keeps the newest runs in memory.
#[derive(Default)]
pub struct MemoryLog(Mutex<KeptRun>);

#[derive(Default)]
struct KeptRun {
    runs: HashMap<(TenantId, Arc<str>), Vec<Entry>>,
    oldest: VecDeque<(TenantId, Arc<str>)>,
}

impl RunLog for MemoryLog {
    fn append<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
        number: u32,
        entry: &'a Entry,
    ) -> BoxFuture<'a, Result<(), Error>> {
        let mut kept = self.0.lock();
        let id = (tenant.clone(), Arc::from(run));
        match kept.runs.get(&id).map(Vec::len) {
            Some(next) if next != number as usize => {
                return Box::pin(std::future::ready(Err(taken_over(run))));
            }
            // Its beginning had to go, so the rest is of no use.
            None if number > 0 => return Box::pin(std::future::ready(Ok(()))),
            _ => {}
        }
        if !kept.runs.contains_key(&id) {
            if kept.oldest.len() >= MAX_RUNS
                && let Some(oldest) = kept.oldest.pop_front()
            {
                kept.runs.remove(&oldest);
            }
            kept.oldest.push_back(id.clone());
        }
        kept.runs.entry(id).or_default().push(entry.clone());
        Box::pin(std::future::ready(Ok(())))
    }

    fn read<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Entry>, Error>> {
        let found = self.0.lock().runs.get(&(tenant.clone(), run.into())).cloned();
        Box::pin(std::future::ready(Ok(found.unwrap_or_default())))
    }
}
