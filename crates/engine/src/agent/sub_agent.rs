//! Sub-agents: who makes calls for an agent, and what came of them (S0.8).
//!
//! A conversation's agent hands a piece of work to a sub-agent. All its calls
//! go through the engine like any others, under the sub-agent's name, and it
//! keeps a history of its own: what one sub-agent does, no other one sees.
//! The history has neither arguments nor results; those are in the records,
//! redacted, under the same call ids.

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
use history::History;

type OnResult = Arc<dyn Fn(&CallResult) + Send + Sync>;

/// Makes calls in its own name and keeps a history of them. Clones are the
/// same sub-agent: they share the history, also across tasks.
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
    history: Arc<Mutex<History>>,
}

impl SubAgent {
    /// A sub-agent with this id. Its calls are recorded with the id as
    /// `caller_id` and with the `caller_type` `conversation_agent`.
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

    /// Names the agent that this one works for; the summary tells it.
    #[must_use]
    pub fn parent(mut self, id: impl Into<Arc<str>>) -> Self {
        self.parent = Some(id.into());
        self
    }

    /// Puts the calls into a conversation.
    #[must_use]
    pub fn conversation(mut self, conversation: impl Into<Arc<str>>) -> Self {
        let context = Arc::make_mut(&mut self.context);
        Arc::make_mut(&mut context.caller).conversation = Some(conversation.into());
        self
    }

    /// Sets what all calls carry: tenant, user, variables, secrets, objects.
    /// The caller's id and type stay the sub-agent's own. A conversation that
    /// was set before stays, unless the context has one.
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

    /// Calls back with every result, after the history has it (S0.11). The
    /// callback runs on the task that made the call, so it should be short; one
    /// that panics is logged and harms nobody.
    #[must_use]
    pub fn on_result(mut self, callback: impl Fn(&CallResult) + Send + Sync + 'static) -> Self {
        self.on_result = Some(Arc::new(callback));
        self
    }

    /// Sets how many calls the history lists: the newest, 1,000 if nothing is
    /// said. The figures count all calls, whatever the list holds.
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

    /// Runs tools as one batch: one result for each, in the order asked for.
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

    /// Runs a call that says more than a tool and arguments: a timeout, the
    /// model's id, a cancel token. Its context is the sub-agent's, in place of
    /// any it brings.
    ///
    /// A call whose future is dropped is recorded as cancelled, but is not in
    /// the history: nobody got a result.
    pub async fn call(&self, request: CallRequest) -> CallResult {
        let result = self.engine.call(self.own(request)).await;
        self.keep(&result);
        result
    }

    /// Runs a batch of such calls. When all are done, the history has their
    /// results in the order of the calls.
    pub async fn call_batch(
        &self,
        calls: impl IntoIterator<Item = CallRequest>,
    ) -> Vec<CallResult> {
        // A list, and no adapter with a closure in it: the future has to be
        // `Send` for every caller.
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

    /// The newest calls, oldest first.
    pub fn history(&self) -> Vec<CallDetail> {
        self.history.lock().details()
    }

    /// What the sub-agent has done so far (S0.9).
    pub fn summary(&self) -> ExecutionSummary {
        self.history.lock().summary(Arc::clone(&self.id), self.parent.clone())
    }

    /// The same in a few figures, for a final answer or a front end (S0.20).
    pub fn brief_summary(&self) -> BriefSummary {
        self.history.lock().brief()
    }

    fn own(&self, request: CallRequest) -> CallRequest {
        request.context(Arc::clone(&self.context))
    }

    /// Takes a result into the history, then tells the callback. No lock is
    /// held while it runs: it may ask for the summary.
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
