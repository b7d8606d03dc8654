//! Several calls of one turn: planned together, run together where that is
//! safe, answered in the order in which they were asked.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use super::Engine;
use crate::call::{CallRequest, CallResult};
use crate::error::{Error, ErrorKind};
use crate::journal::OpenCall;
use crate::schedule::{Access, Plan};
use crate::stage;

impl Engine {
    /// Runs a batch. Calls that only look run together; a call that changes
    /// something runs alone, or beside those that write something else. There
    /// is one result for each call, in the order of the calls; a failure
    /// touches no other call.
    pub async fn call_batch(
        &self,
        calls: impl IntoIterator<Item = CallRequest>,
    ) -> Vec<CallResult> {
        let mut calls: Vec<CallRequest> = calls.into_iter().collect();
        if calls.is_empty() {
            return Vec::new();
        }
        let accesses: Vec<Access> = calls.iter_mut().map(|call| self.access(call)).collect();
        // All are opened before the first begins: a batch that is dropped
        // leaves a record of every call.
        let mut open: Vec<Option<OpenCall<'_>>> = calls
            .iter_mut()
            .enumerate()
            .map(|(position, call)| {
                let open = self.0.journal.open(call);
                open.queued(position);
                Some(open)
            })
            .collect();
        let mut plan = Plan::new(&accesses);
        let mut results: Vec<Option<CallResult>> = calls.iter().map(|_| None).collect();
        let mut ready: BinaryHeap<Reverse<usize>> = plan.first().map(Reverse).collect();
        let mut running = FuturesUnordered::new();
        let window = self.0.settings.max_parallel.max(1);
        loop {
            while running.len() < window
                && let Some(Reverse(at)) = ready.pop()
            {
                if let Some(open) = open[at].take() {
                    running.push(self.run_planned(at, &calls[at], open));
                }
            }
            let Some((at, result)) = running.next().await else { break };
            results[at] = Some(result);
            ready.extend(plan.done(at).into_iter().map(Reverse));
        }
        drop(running);
        self.0.journal.drained(results.len());
        results.into_iter().flatten().collect()
    }

    async fn run_planned<'a>(
        &'a self,
        at: usize,
        call: &'a CallRequest,
        mut open: OpenCall<'a>,
    ) -> (usize, CallResult) {
        let max = self.0.settings.max_batch;
        if at >= max {
            let why = format!("a batch has at most {max} calls, and this is call {}", at + 1);
            return (at, open.close(Err(Error::new(ErrorKind::BatchLimit, why))));
        }
        // Its time begins now: what it waited for were other calls' times.
        open.began = Instant::now();
        (at, self.run_open(call, &mut open).await)
    }

    /// What a call does to the world. A call that will be refused does
    /// nothing, so it holds nobody up.
    fn access(&self, call: &mut CallRequest) -> Access {
        let Some(tool) = self.0.registry.get(&call.tool) else { return Access::Shared };
        match stage::parse(&mut call.arguments) {
            Ok(()) => Access::of(&tool, &call.arguments, &call.context),
            Err(_) => Access::Shared,
        }
    }
}
