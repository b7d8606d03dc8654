//! The end of calls: resources are released, and the call is closed. Also work
//! that outlives its caller, and calls that ended with their process.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use jiff::Timestamp;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::{Engine, StopReason};
use crate::call::content::Output;
use crate::call::{CallRequest, CallResult};
use crate::error::{Error, ErrorKind};
use crate::journal::OpenCall;
use crate::stage::{self, Attempts, Outcome};
use crate::tool::executor::BoxFuture;

impl Engine {
    /// Releases what a call held while it ran: its slot, its cost, and the
    /// arguments that hooks changed.
    pub(super) async fn settle(
        &self,
        attempts: &mut Attempts<'_, '_>,
        ran: Result<Result<Outcome, Error>, StopReason>,
    ) -> Result<Outcome, Error> {
        let Attempts { call, open, .. } = attempts;
        call.leave_slot();
        if let Some(bill) = call.charged() {
            open.used(bill);
            self.spend_quota(call, &bill.own);
        }
        let hooks = &self.0.hooks;
        if !hooks.is_empty() {
            open.rewritten(call.shared_arguments());
        }
        match ran {
            Ok(answer) => answer,
            Err(stop) => Box::pin(stage::stopped(attempts, hooks, stop)).await,
        }
    }

    /// Closes a call, unless somebody else does: one record, one finished
    /// event, one result.
    pub(super) async fn close(
        &self,
        open: &mut OpenCall,
        outcome: Result<Arc<Output>, Error>,
    ) -> CallResult {
        if open.is_closed() {
            return open.answer(outcome, Duration::ZERO);
        }
        let result = match open.intended {
            true => Box::pin(open.close_durably(outcome)).await,
            false => open.close(outcome),
        };
        if !result.run_time.is_zero() {
            self.0.shared.limits.finished(result.run_time);
        }
        result
    }

    /// Records a call as interrupted that another process accepted and left
    /// without an intent; `request` is the original request, under the call's
    /// id. A call that has a record keeps it.
    ///
    /// # Errors
    ///
    /// If the store cannot be reached, or has not stored the record yet.
    pub async fn give_up(&self, request: CallRequest, created_at: Timestamp) -> Result<(), Error> {
        let store = &*self.0.shared.journal.store;
        let tenant = &request.context.caller.tenant;
        if let Some(id) = request.options.own_id()
            && store.get(tenant, id).await?.is_some()
        {
            return Ok(());
        }
        let (mut open, _) = self.open(request);
        open.came_at(created_at);
        if let Ok(tool) = self.resolve(&open) {
            open.resolved(&tool);
        }
        let why = "the process ended before the call did";
        open.close(Err(Error::new(ErrorKind::Interrupted, why)));
        store.flush().await
    }
}

/// A call that may change something. If its caller drops it after it began to
/// take effect, a background task completes and records it; before that, it is
/// simply cancelled.
pub(super) struct DurableCall<'e> {
    work: Option<BoxFuture<'static, CallResult>>,
    effect: Arc<AtomicBool>,
    tasks: &'e TaskTracker,
    /// The runtime on which it continues, once it has had to wait: the caller
    /// may drop it outside of any runtime.
    runtime: Option<Handle>,
}

impl<'e> DurableCall<'e> {
    /// `effect` is set when the call begins to take effect.
    pub(super) fn new(
        work: BoxFuture<'static, CallResult>,
        effect: Arc<AtomicBool>,
        tasks: &'e TaskTracker,
    ) -> Self {
        Self { work: Some(work), effect, tasks, runtime: None }
    }
}

impl Future for DurableCall<'_> {
    type Output = CallResult;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CallResult> {
        let Some(work) = self.work.as_mut() else { return Poll::Pending };
        let done = work.as_mut().poll(cx);
        if done.is_ready() {
            self.work = None;
        } else if self.runtime.is_none() {
            self.runtime = Handle::try_current().ok();
        }
        done
    }
}

impl Drop for DurableCall<'_> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take()
            && self.effect.load(Ordering::Relaxed)
            && let Some(runtime) = &self.runtime
        {
            self.tasks.spawn_on(work, runtime);
        }
    }
}
