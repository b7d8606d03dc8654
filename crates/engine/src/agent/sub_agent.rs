//! Sub-agents: a caller with an identity and a call history of its own.
//!
//! The agent of a conversation delegates work to a sub-agent. Its calls go
//! through the engine like any others, under the sub-agent's id, and it keeps a
//! separate history. The history holds neither arguments nor results; those are
//! in the records, redacted, under the same call ids.

mod history;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

pub use history::{CallDetail, ExecutionSummary};

use crate::call::context::{Agent, Caller, CallerType, Context};
use crate::call::{CallRequest, CallResult};
use crate::engine::Engine;
use crate::journal::record::BriefSummary;
use history::CallHistory;

type OnResult = Arc<dyn Fn(&CallResult) + Send + Sync>;

/// Makes calls under its own id and keeps a history of them. Clones share the
/// history, also across tasks.
///
/// ```
/// use serde_json::{Value, json};
/// use windlass::{Engine, SubAgent, ToolBuilder};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass::Error> {
/// let engine = Engine::builder()
///     .tool(ToolBuilder::from_fn("get_stock", |_: Value| async { 7 }))
///     .build()?;
/// let agent = SubAgent::new(&engine, "stock-keeper")
///     .parent("shop-assistant")
///     .conversation("conversation-1")
///     .on_result(|result| println!("{} is done", result.tool_name));
///
/// agent.execute("get_stock", json!({"item": "tea"})).await;
/// agent.execute_batch([("get_stock", json!({})), ("get_stok", json!({}))]).await;
///
/// let summary = agent.summary();
/// assert_eq!((summary.total_calls, summary.successful_calls), (3, 2));
/// assert!(agent.brief_summary().has_errors);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SubAgent {
    engine: Engine,
    id: Arc<str>,
    parent: Option<Arc<str>>,
    context: Arc<Context>,
    on_result: Option<OnResult>,
    history: Arc<Mutex<CallHistory>>,
}

impl SubAgent {
    /// Creates a sub-agent. Its calls are recorded with this id as `caller_id`,
    /// and with the `caller_type` `conversation_agent`.
    pub fn new(engine: &Engine, id: impl Into<Arc<str>>) -> Self {
        let id = id.into();
        Self {
            engine: engine.clone(),
            context: Arc::new(owned_by(&id, Context::default())),
            id,
            parent: None,
            on_result: None,
            history: Arc::default(),
        }
    }

    /// Sets the agent that this one works for; the summary names it.
    #[must_use]
    pub fn parent(mut self, id: impl Into<Arc<str>>) -> Self {
        self.parent = Some(id.into());
        self
    }

    /// Sets the conversation of the calls.
    #[must_use]
    pub fn conversation(mut self, conversation: impl Into<Arc<str>>) -> Self {
        let context = Arc::make_mut(&mut self.context);
        Arc::make_mut(&mut context.caller).conversation = Some(conversation.into());
        self
    }

    /// Sets the context of all calls: tenant, user, variables, secrets,
    /// objects. The caller's id and type stay those of the sub-agent. A
    /// conversation that was set before stays, unless the context has one.
    #[must_use]
    pub fn context(mut self, context: Context) -> Self {
        let mut context = owned_by(&self.id, context);
        let caller = Arc::make_mut(&mut context.caller);
        if caller.conversation.is_none() {
            caller.conversation.clone_from(&self.context.caller.conversation);
        }
        self.context = Arc::new(context);
        self
    }

    /// Registers a callback for every result, which runs after the history was
    /// updated. It runs on the task that made the call, so it should be short;
    /// a panic in it is logged and has no other effect.
    #[must_use]
    pub fn on_result(mut self, callback: impl Fn(&CallResult) + Send + Sync + 'static) -> Self {
        self.on_result = Some(Arc::new(callback));
        self
    }

    /// Sets how many calls the history lists (the newest ones; 1,000 by
    /// default). The counters include all calls.
    #[must_use]
    pub fn max_history(self, calls: usize) -> Self {
        self.history.lock().limit(calls);
        self
    }

    /// Runs a tool.
    pub async fn execute(
        &self,
        tool: impl Into<Arc<str>>,
        arguments: impl Into<Value>,
    ) -> CallResult {
        self.call(CallRequest::new(tool, arguments)).await
    }

    /// Runs tools as one batch; returns one result per call, in call order.
    pub async fn execute_batch<T, A>(
        &self,
        calls: impl IntoIterator<Item = (T, A)>,
    ) -> Vec<CallResult>
    where
        T: Into<Arc<str>>,
        A: Into<Value>,
    {
        let mut requests = Vec::new();
        for (tool, arguments) in calls {
            requests.push(CallRequest::new(tool, arguments));
        }
        self.call_batch(requests).await
    }

    /// Runs a call with more than a tool and arguments: a timeout, the model's
    /// call id, a cancellation token. Its context is replaced by that of the
    /// sub-agent.
    ///
    /// A call whose future is dropped is recorded as cancelled but is not in
    /// the history, because nobody received a result.
    pub async fn call(&self, request: CallRequest) -> CallResult {
        let result = self.engine.call(self.own(request)).await;
        self.keep(&result);
        result
    }

    /// Runs several such calls as one batch. Afterwards the history has their
    /// results in call order.
    pub async fn call_batch(
        &self,
        calls: impl IntoIterator<Item = CallRequest>,
    ) -> Vec<CallResult> {
        // Collected first: an adapter that holds the closure would make the
        // future not `Send` for every caller.
        let calls: Vec<CallRequest> = calls.into_iter().map(|call| self.own(call)).collect();
        let results = self.engine.call_batch(calls).await;
        for result in &results {
            self.keep(result);
        }
        results
    }

    /// The sub-agent's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The agent that this one works for.
    pub fn parent_id(&self) -> Option<&str> {
        self.parent.as_deref()
    }

    /// The most recent calls, oldest first.
    pub fn history(&self) -> Vec<CallDetail> {
        self.history.lock().details()
    }

    /// Summary of all calls so far.
    pub fn summary(&self) -> ExecutionSummary {
        self.history.lock().summary(Arc::clone(&self.id), self.parent.clone())
    }

    /// Short form of the summary, for a final answer or a front end.
    pub fn brief_summary(&self) -> BriefSummary {
        self.history.lock().brief()
    }

    fn own(&self, request: CallRequest) -> CallRequest {
        request.context(Arc::clone(&self.context))
    }

    /// Adds a result to the history, then runs the callback. No lock is held
    /// meanwhile, so the callback may ask for the summary.
    fn keep(&self, result: &CallResult) {
        self.history.lock().push(result);
        let Some(on_result) = &self.on_result else { return };
        let told = std::panic::catch_unwind(AssertUnwindSafe(|| on_result(result)));
        if told.is_err() {
            tracing::warn!(
                agent = &*self.id,
                call = %result.id,
                tool = &*result.tool_name,
                "a result callback panicked"
            );
        }
    }
}

/// The context with the sub-agent as its caller. Tools that ask for the agent
/// get the sub-agent, unless the context names another one.
fn owned_by(id: &Arc<str>, mut context: Context) -> Context {
    let caller = Caller {
        caller_id: Some(Arc::clone(id)),
        caller_type: CallerType::ConversationAgent,
        ..Caller::clone(&context.caller)
    };
    context.caller = Arc::new(caller);
    context.agent.get_or_insert_with(|| Arc::new(Agent::new(&**id, &**id)));
    context
}
