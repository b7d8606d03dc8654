//! [`RunLog`]: append-only log of agent runs, from which they are resumed.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass::{BoxFuture, CallId, Error, ErrorKind, TenantId, Usage};

/// Maximum number of runs kept by the log in memory.
const MAX_RUNS: usize = 10_000;

/// An entry of the log. Of several for the same turn, the last one counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEntry {
    /// The run began.
    Began {
        /// The agent's tool.
        tool: String,
        /// Its arguments.
        input: Value,
        /// The call that began the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<CallId>,
        /// Earlier messages of the conversation.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        history: Vec<Value>,
        /// The conversation, if it was given a name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conversation: Option<String>,
        /// The user on whose behalf it runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<String>,
    },
    /// Another call resumes the run. The previous driver finds this entry at the number
    /// of its own next one, and stops (optimistic locking).
    Resumed {
        /// The resuming call.
        call: CallId,
    },
    /// The model's answer, complete or partial. No tool call with side effects starts
    /// before its entry is stored.
    Answered {
        /// The turn, from 1.
        turn: u32,
        /// The message, as far as it was received.
        message: Value,
        /// Indices of calls that were cut off: in the message they look like complete
        /// ones.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        broken: Vec<usize>,
        /// The usage of the request.
        usage: Usage,
    },
    /// The results of a turn's calls.
    Results {
        /// The messages that answer the calls.
        messages: Vec<Value>,
        /// The tools that were called.
        tools: Vec<String>,
        /// The usage of agents among them.
        usage: Usage,
    },
    /// The run ended.
    Ended {
        /// The reason.
        stop: Stop,
        /// The final text.
        text: String,
    },
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// The model made no more calls.
    Done,
    /// The maximum number of turns is reached.
    MaxTurns,
    /// The token budget is spent.
    Tokens,
    /// The cost budget is spent.
    Cost,
    /// The time budget is spent.
    Time,
    /// The budget of calls is spent.
    Calls,
    /// Loop detection stopped it.
    Loop,
    /// The last answer was cut off at the maximum number of tokens.
    MaxTokens,
    /// The model refused to answer.
    Refused,
}

impl RunEntry {
    /// The call that drives the run, or drove it last.
    pub fn last_call(entries: &[Self]) -> Option<CallId> {
        entries.iter().rev().find_map(|entry| match entry {
            Self::Began { call, .. } => *call,
            Self::Resumed { call } => Some(*call),
            _ => None,
        })
    }
}

/// The error of a driver whose run was resumed by another call.
pub fn taken_over(run: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("another call goes on with the run {run}"))
}

/// A store for runs. An entry is durable once the future of its `append` is ready.
pub trait RunLog: Send + Sync + 'static {
    /// Appends the entry with this number, from 0. If there is one already, another
    /// driver has taken over: [`taken_over`]. Since side effects wait for their entry, a
    /// run has only one driver.
    fn append<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
        number: u32,
        entry: &'a RunEntry,
    ) -> BoxFuture<'a, Result<(), Error>>;

    /// All entries of a run in order; none if there is no such run.
    fn read<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
    ) -> BoxFuture<'a, Result<Vec<RunEntry>, Error>>;
}

/// A log in memory, which keeps the newest runs.
#[derive(Default)]
pub struct MemoryLog(Mutex<KeptRun>);

#[derive(Default)]
struct KeptRun {
    runs: HashMap<(TenantId, Arc<str>), Vec<RunEntry>>,
    oldest: VecDeque<(TenantId, Arc<str>)>,
}

impl RunLog for MemoryLog {
    fn append<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
        number: u32,
        entry: &'a RunEntry,
    ) -> BoxFuture<'a, Result<(), Error>> {
        let mut kept = self.0.lock();
        let id = (tenant.clone(), Arc::from(run));
        match kept.runs.get(&id).map(Vec::len) {
            Some(next) if next != number as usize => {
                return Box::pin(std::future::ready(Err(taken_over(run))));
            }
            // The run's first entries were evicted, so the rest is useless.
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
    ) -> BoxFuture<'a, Result<Vec<RunEntry>, Error>> {
        let found = self.0.lock().runs.get(&(tenant.clone(), run.into())).cloned();
        Box::pin(std::future::ready(Ok(found.unwrap_or_default())))
    }
}
