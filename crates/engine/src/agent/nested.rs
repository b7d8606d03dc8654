//! Nested calls: tools that call other tools.

use std::sync::{Arc, Weak};
use std::time::Instant;

use crate::call::context::{Caller, Context};
use crate::call::{Call, CallRequest, CallResult};
use crate::engine::{Batch, Engine, EngineInner};
use crate::error::{Error, ErrorKind};
use crate::journal::record::CallRecord;
use crate::schedule::Slot;
use crate::tool::groups::Session;
use crate::tool::{Exposure, Tool, ToolSpec};
use crate::turn::{OpenTurn, TurnFormat};
use crate::value::name::CallId;
use crate::value::text::Lang;
use tokio_util::sync::CancellationToken;

/// Handle with which a running tool calls other tools. While the tool waits for
/// them it gives its slot back, so nested calls cannot deadlock on the
/// concurrency limit.
///
/// Nested calls have the caller and the context of the tool's own call, record
/// it as their parent, and inherit its deadline and cancellation.
#[derive(Clone)]
pub struct Tools {
    engine: Weak<EngineInner>,
    context: Arc<Context>,
    parent: CallId,
    deadline: Instant,
    /// Cancelled together with the call itself.
    family: CancellationToken,
    slot: Arc<Slot>,
}

impl Tools {
    pub(crate) fn new(call: &Call) -> Self {
        Self {
            engine: Weak::clone(&call.shared.engine),
            context: Arc::clone(&call.context),
            parent: call.id,
            deadline: call.deadline,
            family: call.family().clone(),
            slot: Arc::clone(call.slot()),
        }
    }

    /// Calls a tool.
    ///
    /// # Errors
    ///
    /// Only if the engine has been dropped. A failure of the call itself is in
    /// its result.
    pub async fn call(&self, request: CallRequest) -> Result<CallResult, Error> {
        let engine = self.engine()?;
        let request = self.nested(request);
        Ok(self.slot.without(Box::pin(engine.call(request))).await)
    }

    /// Calls several tools, as [`Engine::call_batch`] does.
    ///
    /// # Errors
    ///
    /// Only if the engine has been dropped.
    pub async fn call_batch(&self, batch: impl Into<Batch>) -> Result<Vec<CallResult>, Error> {
        let engine = self.engine()?;
        let mut batch = batch.into();
        for request in &mut batch.calls {
            let own = std::mem::replace(request, CallRequest::new("", serde_json::Value::Null));
            *request = self.nested(own);
        }
        Ok(self.slot.without(Box::pin(engine.call_batch(batch))).await)
    }

    /// Starts a model's turn within this call, as [`Engine::open_turn`] does.
    ///
    /// # Errors
    ///
    /// Only if the engine has been dropped.
    pub fn open_turn(
        &self,
        format: TurnFormat,
        context: impl Into<Arc<Context>>,
        lang: Lang,
    ) -> Result<OpenTurn, Error> {
        let turn = self.engine()?.open_turn(Some(format), context, lang);
        Ok(turn.within(self.clone()))
    }

    /// Gives the tool's slot back for good and awaits a future: for tools that
    /// do nothing but wait.
    pub async fn aside<T>(&self, wait: impl Future<Output = T>) -> T {
        let away = self.slot.leave();
        let done = wait.await;
        away.stay_away();
        done
    }

    /// The tools that a model sees in a conversation of the call's tenant.
    pub fn active_in(&self, conversation: &str) -> Vec<Arc<Tool>> {
        let session = Session::new(self.context.caller.tenant.clone(), conversation);
        self.engine().map(|engine| engine.active_tools(Some(&session))).unwrap_or_default()
    }

    /// Whether the caller has a deferred tool that meets the condition.
    pub fn defers(&self, is_so: impl Fn(&ToolSpec) -> bool) -> bool {
        let Ok(engine) = self.engine() else { return false };
        let tools = engine.registry().list_for(&self.context.caller.tenant);
        let mut specs = tools.iter().map(|tool| tool.spec());
        specs.any(|spec| spec.exposure == Exposure::Deferred && is_so(spec))
    }

    /// A tool that the caller can see, by name.
    pub fn find(&self, name: &str) -> Option<Arc<Tool>> {
        let engine = self.engine().ok()?;
        engine.registry().get_for(&self.context.caller.tenant, name)
    }

    /// The record of a call of the same tenant; `None` while that call runs.
    pub async fn record(&self, id: CallId) -> Result<Option<CallRecord>, Error> {
        self.engine()?.records().get(&self.context.caller.tenant, id).await
    }

    pub(crate) fn engine(&self) -> Result<Engine, Error> {
        let gone = || Error::new(ErrorKind::Internal, "the engine is gone");
        self.engine.upgrade().map(Engine::of).ok_or_else(gone)
    }

    /// Turns a request into a nested one. What it says about its caller stays,
    /// except for the tenant.
    pub(crate) fn nested(&self, mut request: CallRequest) -> CallRequest {
        let own = &*self.context;
        let mut context = if Arc::ptr_eq(&request.context, &Context::unnamed()) {
            own.clone()
        } else {
            Context::clone(&request.context)
        };
        context.caller = Arc::new(Caller {
            tenant: own.caller.tenant.clone(),
            parent: Some(self.parent),
            ..Caller::clone(&context.caller)
        });
        context.depth = own.depth + 1;
        context.trace = context.trace.or_else(|| own.trace.clone());
        context.begun_by.clone_from(&own.begun_by);
        request.context = Arc::new(context);
        request.extras().parent = Some(self.family.clone());
        request.extras().latest = Some(tokio::time::Instant::from_std(self.deadline));
        request
    }
}
