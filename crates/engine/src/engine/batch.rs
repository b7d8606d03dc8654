//! Batches: calls of one turn, planned together, run concurrently where that is
//! safe, with results in call order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use jiff::Timestamp;
use tokio::time::Instant;

use super::Engine;
use crate::call::context::Caller;
use crate::call::{CallOptions, CallRequest, CallResult};
use crate::error::{Error, ErrorKind};
use crate::journal::OpenCall;
use crate::schedule::{Access, BatchPlan, ListedCall};
use crate::stage;
use crate::tool::executor::BoxFuture;
use crate::value::name::{BatchId, CallId};

/// Calls that are requested together. Any list of requests converts into a
/// batch.
#[derive(Clone)]
pub struct Batch {
    pub(crate) id: BatchId,
    pub(crate) calls: Vec<CallRequest>,
    pub(crate) parallel: bool,
    /// Calls that must not run, by position, with the reason.
    pub(crate) refused: Vec<(usize, Error)>,
}

impl Batch {
    /// A batch of these calls.
    pub fn new(calls: impl IntoIterator<Item = CallRequest>) -> Self {
        Self {
            id: BatchId::at(Timestamp::now()),
            calls: calls.into_iter().collect(),
            parallel: true,
            refused: Vec::new(),
        }
    }

    /// The batch's id, with which it can be cancelled.
    pub fn id(&self) -> BatchId {
        self.id
    }

    /// Assigns and returns the ids of its calls, in order, for callers that
    /// need them in advance.
    pub fn call_ids(&mut self) -> Vec<CallId> {
        self.calls.iter_mut().map(CallRequest::known_id).collect()
    }

    /// Whether calls may run concurrently; if not, each waits for its
    /// predecessor.
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
struct PlannedCall {
    request: CallOptions,
    open: OpenCall,
    listed: ListedCall,
}

impl Engine {
    /// Runs a batch. Read-only calls run concurrently; a call that changes
    /// something runs alone, or beside calls that write other resources.
    /// Returns one result per call, in call order; a failure does not affect
    /// other calls.
    pub async fn call_batch(&self, batch: impl Into<Batch>) -> Vec<CallResult> {
        let Batch { id, calls, parallel, refused } = batch.into();
        let mut growing = GrowingBatch::new(self, id, parallel);
        // All calls are opened before the first starts: so a dropped batch
        // leaves a record of every call, and pending calls can be cancelled.
        let mut refused = refused.into_iter().peekable();
        for (at, call) in calls.into_iter().enumerate() {
            match refused.next_if(|(place, _)| *place == at) {
                Some((_, why)) => growing.refuse(call, why),
                None => growing.add(call),
            }
        }
        while growing.step().await {}
        growing.finish()
    }

    fn run_planned(
        &self,
        at: usize,
        call: PlannedCall,
    ) -> impl Future<Output = (usize, CallResult)> + Send {
        let PlannedCall { request, mut open, listed } = call;
        // Its timeout starts now: waiting for other calls is not counted.
        open.began = Instant::now();
        let run = self.run_opened(move || (open, request));
        // It can be cancelled until it has its result.
        run.map(move |result| {
            drop(listed);
            (at, result)
        })
    }

    /// The access of a call. A call that will be refused has no effect, so it
    /// blocks no other call.
    ///
    /// The tool is looked up for the plan only: a call before this one may bring,
    /// replace or take away what this one runs.
    fn access(&self, call: &mut CallRequest) -> Access {
        let tenant = &call.context.caller.tenant;
        let Some(tool) = self.0.registry.find(tenant, &call.tool) else { return Access::Shared };
        match stage::read_arguments(&mut call.arguments) {
            Ok(()) => Access::of(&tool, &call.arguments, &call.context),
            Err(why) => {
                call.extras().unreadable = Some(why);
                Access::Shared
            }
        }
    }
}

/// A batch to which calls are added while it runs.
pub(crate) struct GrowingBatch<'e> {
    engine: &'e Engine,
    id: BatchId,
    parallel: bool,
    plan: BatchPlan,
    waiting: Vec<Option<PlannedCall>>,
    results: Vec<Option<CallResult>>,
    /// Calls that are ready to run, in call order.
    ready: BinaryHeap<Reverse<usize>>,
    running: FuturesUnordered<BoxFuture<'e, (usize, CallResult)>>,
    caller: Option<Arc<Caller>>,
}

impl<'e> GrowingBatch<'e> {
    pub(crate) fn new(engine: &'e Engine, id: BatchId, parallel: bool) -> Self {
        Self {
            engine,
            id,
            parallel,
            plan: BatchPlan::default(),
            waiting: Vec::new(),
            results: Vec::new(),
            ready: BinaryHeap::new(),
            running: FuturesUnordered::new(),
            caller: None,
        }
    }

    /// Appends a call. Beyond the maximum batch size it is refused at once.
    pub(crate) fn add(&mut self, mut request: CallRequest) {
        let max = self.engine.0.settings.max_batch;
        let position = self.results.len();
        if position >= max {
            let why = format!("a batch has at most {max} calls, and this is call {}", position + 1);
            return self.refuse(request, Error::new(ErrorKind::BatchLimit, why));
        }
        let access = match self.parallel {
            true => self.engine.access(&mut request),
            false => Access::Exclusive,
        };
        let (mut open, mut request) = self.open(request, position);
        open.batch = Some(self.id);
        let running = &self.engine.0.running;
        let listed = running.list(open.id, open.context(), Some(self.id), request.cancel.as_ref());
        request.cancel = Some(listed.cancel.clone());
        if self.plan.add(access) {
            self.ready.push(Reverse(position));
        }
        self.waiting.push(Some(PlannedCall { request, open, listed }));
        self.results.push(None);
    }

    /// Appends a call that must not run, with the reason as its result.
    pub(crate) fn refuse(&mut self, request: CallRequest, why: Error) {
        let position = self.results.len();
        let (mut open, _) = self.open(request, position);
        self.results.push(Some(open.close(Err(why))));
        self.waiting.push(None);
        // Blocks no other call.
        self.plan.add(Access::Shared);
        self.plan.done(position);
    }

    fn open(&mut self, request: CallRequest, position: usize) -> (OpenCall, CallOptions) {
        self.caller.get_or_insert_with(|| Arc::clone(&request.context.caller));
        let (open, request) = self.engine.open(request);
        open.queued(self.id, position);
        (open, request)
    }

    /// Whether any call is running or ready.
    pub(crate) fn is_busy(&self) -> bool {
        !self.running.is_empty() || !self.ready.is_empty()
    }

    /// Starts all calls that are ready and waits for one to end; `false` if
    /// none is running. Cancel-safe.
    pub(crate) async fn step(&mut self) -> bool {
        let window = self.engine.0.settings.max_parallel.max(1);
        while self.running.len() < window
            && let Some(Reverse(at)) = self.ready.pop()
        {
            if let Some(call) = self.waiting[at].take() {
                self.running.push(Box::pin(self.engine.run_planned(at, call)));
            }
        }
        let Some((at, result)) = self.running.next().await else { return false };
        self.results[at] = Some(result);
        self.ready.extend(self.plan.done(at).into_iter().map(Reverse));
        true
    }

    /// The results, in call order.
    pub(crate) fn finish(self) -> Vec<CallResult> {
        let results: Vec<CallResult> = self.results.into_iter().flatten().collect();
        if let Some(caller) = &self.caller {
            self.engine.0.shared.journal.drained(self.id, caller, results.len());
        }
        results
    }
}
