//! Tools that call tools.

use std::sync::{Arc, Weak};
use std::time::Instant;

use crate::call::context::{Caller, Context};
use crate::call::{Call, CallRequest, CallResult};
use crate::engine::{Batch, Engine, Parts};
use crate::error::{Error, ErrorKind};
use crate::journal::record::CallRecord;
use crate::schedule::Slot;
use crate::tool::groups::Session;
use crate::tool::{Exposure, Tool, ToolSpec};
use crate::turn::{OpenTurn, TurnFormat};
use crate::value::name::CallId;
use crate::value::text::Lang;
use tokio_util::sync::CancellationToken;

/// Lets a running tool call other tools. While it waits for them, the tool has
/// no slot, so it cannot take those that they need.
///
/// The calls are made in the name of the tool's own caller, carry what its call
/// carries, name it as their parent, and end no later than it does.
#[derive(Clone)]
pub struct Tools {
    engine: Weak<Parts>,
    context: Arc<Context>,
    parent: CallId,
    deadline: Instant,
    /// Cancelled with the call itself.
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
    /// Only where the engine is gone; whatever becomes of the call is in its
    /// result.
    pub async fn call(&self, request: CallRequest) -> Result<CallResult, Error> {
        let engine = self.engine()?;
        let request = self.nested(request);
        Ok(self.slot.without(Box::pin(engine.call(request))).await)
    }

    /// Calls several tools, as [`Engine::call_batch`] does.
    ///
    /// # Errors
    ///
    /// Only where the engine is gone.
    pub async fn call_batch(&self, batch: impl Into<Batch>) -> Result<Vec<CallResult>, Error> {
        let engine = self.engine()?;
        let mut batch = batch.into();
        for request in &mut batch.calls {
            let own = std::mem::replace(request, CallRequest::new("", serde_json::Value::Null));
            *request = self.nested(own);
        }
        Ok(self.slot.without(Box::pin(engine.call_batch(batch))).await)
    }

    /// Begins a model's turn within this call, as [`Engine::open_turn`] does.
    ///
    /// # Errors
    ///
    /// Only where the engine is gone.
    pub fn open_turn(
        &self,
        format: TurnFormat,
        context: impl Into<Arc<Context>>,
        lang: Lang,
    ) -> Result<OpenTurn, Error> {
        let turn = self.engine()?.open_turn(Some(format), context, lang);
        Ok(turn.within(self.clone()))
    }

    /// Waits for something without the tool's slot, and does not want it back:
    /// for a tool that does nothing but wait.
    pub async fn aside<T>(&self, wait: impl Future<Output = T>) -> T {
        let away = self.slot.leave();
        let done = wait.await;
        away.stay_away();
        done
    }

    /// The tools that a model of its caller sees in a conversation.
    pub fn active_in(&self, conversation: &str) -> Vec<Arc<Tool>> {
        let session = Session::new(self.context.caller.tenant.clone(), conversation);
        self.engine().map(|engine| engine.active_tools(Some(&session))).unwrap_or_default()
    }

    /// Whether one of its caller's tools that are so is deferred.
    pub fn defers(&self, is_so: impl Fn(&ToolSpec) -> bool) -> bool {
        let Ok(engine) = self.engine() else { return false };
        let tools = engine.registry().list_for(&self.context.caller.tenant);
        let mut specs = tools.iter().map(|tool| tool.spec());
        specs.any(|spec| spec.exposure == Exposure::Deferred && is_so(spec))
    }

    /// A tool that its caller has, by name.
    pub fn find(&self, name: &str) -> Option<Arc<Tool>> {
        let engine = self.engine().ok()?;
        engine.registry().get_for(&self.context.caller.tenant, name)
    }

    /// The record of a call of its caller's tenant; none while it runs.
    pub async fn record(&self, id: CallId) -> Result<Option<CallRecord>, Error> {
        self.engine()?.records().get(&self.context.caller.tenant, id).await
    }

    pub(crate) fn engine(&self) -> Result<Engine, Error> {
        let gone = || Error::new(ErrorKind::Internal, "the engine is gone");
        self.engine.upgrade().map(Engine::of).ok_or_else(gone)
    }

    /// A request for a call within this one. What the request says about its
    /// caller stays, but for the tenant.
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
        request.rare().parent = Some(self.family.clone());
        request.rare().latest = Some(tokio::time::Instant::from_std(self.deadline));
        request
    }
}
