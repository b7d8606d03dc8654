//! Several calls of one turn: planned together, run together where that is
//! safe, answered in the order in which they were asked.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use jiff::Timestamp;
use tokio::time::Instant;

use super::{Engine, may_change};
use crate::call::{CallRequest, CallResult};
use crate::error::{Error, ErrorKind};
use crate::journal::OpenCall;
use crate::name::BatchId;
use crate::schedule::{Access, Listed, Plan};
use crate::stage;

/// Calls that are asked for together. A list of calls is one.
#[derive(Clone)]
pub struct Batch {
    pub(crate) id: BatchId,
    pub(crate) calls: Vec<CallRequest>,
    pub(crate) parallel: bool,
}

impl Batch {
    /// A batch of these calls.
    pub fn new(calls: impl IntoIterator<Item = CallRequest>) -> Self {
        Self {
            id: BatchId::at(Timestamp::now()),
            calls: calls.into_iter().collect(),
            parallel: true,
        }
    }

    /// The id, by which the batch can be cancelled.
    pub fn id(&self) -> BatchId {
        self.id
    }

    /// Whether calls may run together; if not, each waits for the one before
    /// it.
    #[must_use]
    pub fn parallel(mut self, parallel: bool) -> Self {
        self.parallel = parallel;
        self
    }
}

impl<I: IntoIterator<Item = CallRequest>> From<I> for Batch {
    fn from(calls: I) -> Self {
        Self::new(calls)
    }
}

/// A call of a batch that waits for its turn.
struct Waiting {
    request: CallRequest,
    open: OpenCall,
    listed: Listed,
}

impl Engine {
    /// Runs a batch. Calls that only look run together; a call that changes
    /// something runs alone, or beside those that write something else. There
    /// is one result for each call, in the order of the calls; a failure
    /// touches no other call.
    pub async fn call_batch(&self, batch: impl Into<Batch>) -> Vec<CallResult> {
        let Batch { id, mut calls, parallel } = batch.into();
        let Some(first) = calls.first() else { return Vec::new() };
        let caller = Arc::clone(&first.context.caller);
        let max = self.0.settings.max_batch;
        let refused = calls.split_off(calls.len().min(max));
        let accesses: Vec<Access> = calls
            .iter_mut()
            .map(|call| if parallel { self.access(call) } else { Access::Exclusive })
            .collect();
        let mut plan = Plan::new(&accesses);
        let mut results: Vec<Option<CallResult>> = calls.iter().map(|_| None).collect();
        let mut ready: BinaryHeap<Reverse<usize>> = plan.first().map(Reverse).collect();
        let mut waiting = self.open_all(id, calls);
        let beyond = self.refuse(id, max, refused);
        let mut running = FuturesUnordered::new();
        let window = self.0.settings.max_parallel.max(1);
        loop {
            while running.len() < window
                && let Some(Reverse(at)) = ready.pop()
            {
                if let Some(call) = waiting[at].take() {
                    running.push(self.run_planned(at, call));
                }
            }
            let Some((at, result)) = running.next().await else { break };
            results[at] = Some(result);
            ready.extend(plan.done(at).into_iter().map(Reverse));
        }
        let results: Vec<CallResult> = results.into_iter().flatten().chain(beyond).collect();
        self.0.shared.journal.drained(id, &caller, results.len());
        results
    }

    /// Answers the calls that are too many. They are not even planned.
    fn refuse(&self, id: BatchId, max: usize, calls: Vec<CallRequest>) -> Vec<CallResult> {
        let refuse = |(at, mut request): (usize, CallRequest)| {
            let mut open = self.open(&mut request);
            let position = max + at;
            open.queued(id, position);
            let why = format!("a batch has at most {max} calls, and this is call {}", position + 1);
            open.close(Err(Error::new(ErrorKind::BatchLimit, why)))
        };
        calls.into_iter().enumerate().map(refuse).collect()
    }

    /// Opens all calls before the first begins: a batch that is dropped leaves
    /// a record of every call, and one that waits can be cancelled.
    fn open_all(&self, id: BatchId, calls: Vec<CallRequest>) -> Vec<Option<Waiting>> {
        let open = |(position, mut request): (usize, CallRequest)| {
            let mut open = self.open(&mut request);
            open.batch = Some(id);
            open.queued(id, position);
            let caller = &request.context.caller;
            let listed = self.0.running.list(open.id, caller, Some(id), request.cancel.as_ref());
            request.cancel = Some(listed.cancel.clone());
            Some(Waiting { request, open, listed })
        };
        calls.into_iter().enumerate().map(open).collect()
    }

    async fn run_planned(&self, at: usize, call: Waiting) -> (usize, CallResult) {
        let Waiting { request, mut open, listed: _listed } = call;
        // Its time begins now: what it waited for were other calls' times.
        open.began = Instant::now();
        let tool = self.resolve(&request);
        let result = match may_change(&tool) {
            true => self.run_durably(request, open, tool).await,
            false => self.run_to_end(&request, &mut open, tool).await,
        };
        (at, result)
    }

    /// What a call does to the world. A call that will be refused does
    /// nothing, so it holds nobody up.
    fn access(&self, call: &mut CallRequest) -> Access {
        let tenant = &call.context.caller.tenant;
        let Some(tool) = self.0.registry.find(tenant, &call.tool) else { return Access::Shared };
        match stage::parse(&mut call.arguments) {
            Ok(()) => Access::of(&tool, &call.arguments, &call.context),
            Err(_) => Access::Shared,
        }
    }
}
