//! Tools that call tools.

use std::sync::{Arc, Weak};
use std::time::Instant;

use crate::call::{Call, CallRequest, CallResult};
use crate::context::{Caller, Context};
use crate::engine::{Batch, Engine, Parts};
use crate::error::{Error, ErrorKind};
use crate::name::CallId;
use crate::schedule::Slot;
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
            family: call.held.family.get_or_init(CancellationToken::new).clone(),
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

    fn engine(&self) -> Result<Engine, Error> {
        let gone = || Error::new(ErrorKind::Internal, "the engine is gone");
        self.engine.upgrade().map(Engine::of).ok_or_else(gone)
    }

    /// A request for a call within this one. What the request says about its
    /// caller stays, but for the tenant.
    fn nested(&self, mut request: CallRequest) -> CallRequest {
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
        request.context = Arc::new(context);
        request.rare().parent = Some(self.family.clone());
        request.rare().latest = Some(tokio::time::Instant::from_std(self.deadline));
        request
    }
}
