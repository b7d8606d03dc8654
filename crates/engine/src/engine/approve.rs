//! Approval stage, and completion of suspended calls.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;

use super::begin::outcome;
use super::{Deadline, Engine};
use crate::approval::{Decision, SuspendedCall, Verdict, fingerprint_of};
use crate::call::content::Output;
use crate::call::context::Context;
use crate::call::{Call, CallOptions, CallResult};
use crate::error::{Error, ErrorKind};
use crate::journal::OpenCall;
use crate::journal::record::CallRecord;
use crate::stage;
use crate::tool::Tool;
use crate::value::name::CallId;

/// How long a resumed call waits for its record to be flushed.
const LAST_FLUSH: Duration = Duration::from_secs(5);

impl Engine {
    /// Completes a suspended call: runs it, or ends it as refused, under the
    /// same id, in the same batch and for the same caller. It gets its one
    /// record now. Dropping the future does not stop it.
    ///
    /// A call that has already ended is not run again; its recorded outcome is
    /// returned. The same holds for a call that another process is running on a
    /// shared store: its outcome is awaited.
    pub async fn resume(&self, suspended: SuspendedCall, verdict: Verdict) -> CallResult {
        self.resume_with(suspended, verdict, |context| context).await
    }

    /// Like [`Engine::resume`], for tools that need what is not stored:
    /// `complete` puts objects and secrets back into the context. The caller
    /// stays the same.
    pub async fn resume_with(
        &self,
        suspended: SuspendedCall,
        verdict: Verdict,
        complete: impl FnOnce(Context) -> Context,
    ) -> CallResult {
        let kept = suspended.context();
        let mut context = complete(kept.clone());
        (context.caller, context.depth) = (kept.caller, kept.depth);
        self.end_suspended(suspended, Some(verdict), context).await
    }

    /// Ends a suspended call as cancelled. One that has already ended keeps its
    /// outcome, which is returned.
    pub async fn withdraw(&self, suspended: SuspendedCall) -> CallResult {
        let context = suspended.context();
        self.end_suspended(suspended, None, context).await
    }

    /// Completes a call as decided, or as cancelled without a verdict.
    async fn end_suspended(
        &self,
        suspended: SuspendedCall,
        verdict: Option<Verdict>,
        context: Context,
    ) -> CallResult {
        let lost = ended_before(&suspended, Err(Error::new(ErrorKind::Internal, "its task ended")));
        let engine = self.clone();
        let work = async move { engine.end_once(suspended, verdict, context).await };
        self.0.tasks.spawn(work).await.unwrap_or(lost)
    }

    async fn end_once(
        &self,
        suspended: SuspendedCall,
        verdict: Option<Verdict>,
        context: Context,
    ) -> CallResult {
        let Some(_claim) = ResumeClaim::new(&self.0.resuming, suspended.id) else {
            let why = format!("call {} is being resumed", suspended.id);
            return ended_before(&suspended, Err(Error::new(ErrorKind::Denied, why)));
        };
        let store = &*self.0.shared.journal.store;
        match store.get(&suspended.caller.tenant, suspended.id).await {
            Ok(None) => {}
            Ok(Some(record)) => return recorded(&suspended, record),
            Err(error) => return ended_before(&suspended, Err(error)),
        }
        let (mut open, request) = self.open(suspended.request(context));
        open.resumed(&suspended);
        if let Some(verdict) = &verdict {
            open.decided(verdict.clone());
        }
        let result = match may_run(&suspended, verdict.as_ref()) {
            Err(refused) => open.close(Err(refused)),
            Ok(()) => self.run_opened(move || (open, request)).await,
        };
        // A repeated resume finds its record.
        if tokio::time::timeout(LAST_FLUSH, store.flush()).await.is_err() {
            tracing::warn!(call = %result.id, "the record of a resumed call is not kept yet");
        }
        result
    }

    /// The approval stage: refuses a call that must not run, and suspends one
    /// that needs approval.
    pub(super) async fn approve(
        &self,
        request: &CallOptions,
        call: &Call,
        open: &mut OpenCall,
        until: &Deadline<'_>,
    ) -> Result<(), Error> {
        match self.decision(request, call) {
            None => Ok(()),
            Some(decision) => Box::pin(self.follow(decision, request, call, open, until)).await,
        }
    }

    /// The policy's decision; `None` if the call may simply run.
    fn decision(&self, request: &CallOptions, call: &Call) -> Option<Decision> {
        match request.approved() {
            Some(_) => Some(Decision::Allow),
            None => Some(self.decide(call)).filter(|said| !matches!(said, Decision::Allow)),
        }
    }

    /// `Ok` if the call may run now.
    async fn follow(
        &self,
        decision: Decision,
        request: &CallOptions,
        call: &Call,
        open: &mut OpenCall,
        until: &Deadline<'_>,
    ) -> Result<(), Error> {
        if let Some(approved) = request.approved() {
            return is_still(call, approved);
        }
        match decision {
            Decision::Allow => Ok(()),
            Decision::Deny(why) => Err(Error::new(ErrorKind::Denied, why)),
            Decision::Ask(_) if until.is_cancelled() => {
                Err(Error::new(ErrorKind::Cancelled, "the call was cancelled"))
            }
            Decision::Ask(reason) => Err(self.suspend(request, open, call, reason).await),
        }
    }

    /// The embedder's decision; without an embedder's policy, the tool's own
    /// setting.
    fn decide(&self, call: &Call) -> Decision {
        let tool = call.tool();
        match (&self.0.approvals, tool.spec().approval) {
            (Some(approvals), _) => approvals.decide(call),
            (None, Some(own)) => own.because(format!("the tool `{}` asks for it", tool.name())),
            (None, None) => Decision::Allow,
        }
    }

    /// Suspends a call: hands it to the approval store. Returns what the caller
    /// is told.
    ///
    /// Runs as a task of its own: if it were dropped half-way together with its
    /// caller, the call could be recorded as cancelled and still be run later.
    async fn suspend(
        &self,
        request: &CallOptions,
        open: &mut OpenCall,
        call: &Call,
        reason: String,
    ) -> Error {
        let Some(approvals) = self.0.approvals.clone() else {
            let why = format!(
                "`{}` needs a person's approval, and nobody can be asked",
                call.tool.name()
            );
            return Error::new(ErrorKind::Denied, why);
        };
        let error = Error::new(ErrorKind::ApprovalRequired, reason.as_str());
        let suspended =
            SuspendedCall::new(request, call, open.batch, open.created_at(), reason.clone());
        let mut own = open.take_over();
        let deadline = tokio::time::Instant::from_std(call.deadline);
        let keep = async move {
            let asked = AssertUnwindSafe(async { approvals.suspend(suspended).await });
            let kept = match tokio::time::timeout_at(deadline, asked.catch_unwind()).await {
                Ok(Ok(kept)) => kept,
                Ok(Err(panic)) => Err(stage::panicked(&*panic)),
                Err(_) => Err(not_kept()),
            };
            if kept.is_ok() {
                own.suspended(reason);
            }
            (own, kept)
        };
        match self.0.tasks.spawn(keep).await {
            Ok((own, kept)) => {
                *open = own;
                kept.err().unwrap_or(error)
            }
            // The runtime is shutting down, and has closed the call with the
            // task.
            Err(_) => Error::new(ErrorKind::Cancelled, "the program ends"),
        }
    }
}

/// Whether the verdict allows this very call.
fn may_run(suspended: &SuspendedCall, verdict: Option<&Verdict>) -> Result<(), Error> {
    let Some(verdict) = verdict else {
        return Err(Error::new(ErrorKind::Cancelled, "the call was cancelled"));
    };
    if !suspended.is_genuine() {
        let why = "the arguments are not those that a person was asked about";
        return Err(Error::new(ErrorKind::Denied, why));
    }
    if verdict.approved {
        return Ok(());
    }
    let comment = verdict.comment.as_deref().map(str::trim).filter(|it| !it.is_empty());
    let why = match comment {
        Some(comment) => format!("a person refused it: {comment}"),
        None => "a person refused it".to_owned(),
    };
    Err(Error::new(ErrorKind::Denied, why))
}

/// Refuses a call that differs from the approved one because its tool now fills
/// in other values.
fn is_still(call: &Call, approved: &str) -> Result<(), Error> {
    if fingerprint_of(call) == approved {
        return Ok(());
    }
    let why = "its arguments would not be those that were approved; ask for the call again";
    Err(changed(call.tool.name().as_str(), why))
}

/// The error of invalid arguments; for an approved call, that its tool now
/// accepts other arguments, because they were valid when it was approved.
pub(super) fn unfit(request: &CallOptions, tool: &Tool, error: Error) -> Error {
    match request.approved() {
        Some(_) => changed(tool.name().as_str(), error.message()),
        None => error,
    }
}

fn changed(tool: &str, why: &str) -> Error {
    let why = format!("the tool `{tool}` has changed since the call was approved: {why}");
    Error::new(ErrorKind::InvalidArguments, why)
}

fn not_kept() -> Error {
    let why = "the call could not be kept for approval in time; it may have been kept after all";
    Error::new(ErrorKind::Timeout, why)
}

/// The result of a call that has already ended.
fn recorded(suspended: &SuspendedCall, record: CallRecord) -> CallResult {
    let (attempts, run_time) = (record.attempts, record.run_time);
    let same_as = record.details.as_ref().and_then(|details| details.same_as);
    CallResult { attempts, run_time, same_as, ..ended_before(suspended, outcome(record)) }
}

/// The result of a call that ended elsewhere, or cannot be completed now.
fn ended_before(suspended: &SuspendedCall, outcome: Result<Arc<Output>, Error>) -> CallResult {
    CallResult {
        id: suspended.id,
        call_ref: suspended.call_ref.clone(),
        tool_name: Arc::clone(&suspended.tool_name),
        outcome,
        attempts: 0,
        same_as: None,
        queue_wait: Duration::ZERO,
        run_time: Duration::ZERO,
        created_at: suspended.created_at,
        usage: None,
    }
}

/// Guard: only one task at a time resumes a call.
struct ResumeClaim {
    resuming: Arc<Mutex<HashSet<CallId>>>,
    id: CallId,
}

impl ResumeClaim {
    fn new(resuming: &Arc<Mutex<HashSet<CallId>>>, id: CallId) -> Option<Self> {
        let resuming = Arc::clone(resuming);
        let is_first = resuming.lock().insert(id);
        is_first.then_some(Self { resuming, id })
    }
}

impl Drop for ResumeClaim {
    fn drop(&mut self) {
        self.resuming.lock().remove(&self.id);
    }
}
