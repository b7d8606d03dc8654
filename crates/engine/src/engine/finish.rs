//! Work that goes on when its caller goes away.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use crate::call::CallResult;
use crate::executor::BoxFuture;

/// A call that may change something. If its caller drops it after it began to
/// take effect, a task of the engine finishes and records it; before that, it
/// is simply cancelled.
pub(super) struct Finishing {
    work: Option<BoxFuture<'static, CallResult>>,
    effect: Arc<AtomicBool>,
    tasks: TaskTracker,
    /// Where it goes on; whoever drops it may be outside of every runtime.
    runtime: Option<Handle>,
}

impl Finishing {
    /// `effect` is set when the work begins to take effect.
    pub(super) fn new(
        work: impl Future<Output = CallResult> + Send + 'static,
        effect: Arc<AtomicBool>,
        tasks: &TaskTracker,
    ) -> Self {
        let runtime = Handle::try_current().ok();
        Self { work: Some(Box::pin(work)), effect, tasks: tasks.clone(), runtime }
    }
}

impl Future for Finishing {
    type Output = CallResult;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CallResult> {
        let Some(work) = self.work.as_mut() else { return Poll::Pending };
        let done = work.as_mut().poll(cx);
        if done.is_ready() {
            self.work = None;
        }
        done
    }
}

impl Drop for Finishing {
    fn drop(&mut self) {
        if let Some(work) = self.work.take()
            && self.effect.load(Ordering::Relaxed)
            && let Some(runtime) = &self.runtime
        {
            self.tasks.spawn_on(work, runtime);
        }
    }
}
