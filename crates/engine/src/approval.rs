//! Human approval of calls.
//!
//! The decision is made after the arguments were validated and before the call
//! takes a slot. A call that needs approval is suspended: it is stored whole,
//! its caller is told at once that a person has been asked, and
//! [`Engine::resume`](crate::Engine::resume) completes it later, in this
//! process or another one.

mod rules;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use rules::{ApprovalRule, ApprovalRules, ArgumentRule, ArgumentTest, BehaviourTest};

use crate::call::context::{Agent, Caller, Context};
use crate::call::{Call, CallOptions, CallRequest};
use crate::error::Error;
use crate::schedule::RetryPolicy;
use crate::tool::executor::BoxFuture;
use crate::value::fingerprint::Fingerprint;
use crate::value::name::{BatchId, CallId};

/// Whether a call may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may run.
    Allow,
    /// It must not run; the reason is shown to the model.
    Deny(String),
    /// A person has to approve it; the reason is shown to them.
    Ask(String),
}

/// Approval policy: decides which calls may run, and stores suspended calls.
pub trait Approvals: Send + Sync + 'static {
    /// Decides about a call. Asked for every call except approved ones, so it
    /// should be fast. Secrets of a
    /// [`CredentialSource`](crate::CredentialSource) are not in the call yet.
    fn decide(&self, call: &Call) -> Decision;

    /// Stores a suspended call durably, with everything needed to resume it. An
    /// error fails the call. Runs to completion even if the caller goes away.
    fn suspend(&self, call: SuspendedCall) -> BoxFuture<'_, Result<(), Error>>;
}

/// A suspended call: all that is needed to run it later, except for the objects
/// and secrets that it carried. Secrets of a
/// [`CredentialSource`](crate::CredentialSource) are requested again when it
/// runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SuspendedCall {
    /// The call's id; it keeps it when it is resumed.
    pub id: CallId,
    /// The id that the model gave the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_ref: Option<Arc<str>>,
    /// The tool's name.
    pub tool_name: Arc<str>,
    /// The validated arguments, without hidden parameters.
    pub arguments: Value,
    /// Fingerprint (hexadecimal) of the tool, the arguments and the person on
    /// whose behalf it is called: equal for equal calls.
    pub fingerprint: String,
    /// Who calls.
    pub caller: Caller,
    /// The agent on whose behalf the call is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<SuspendedAgent>,
    /// The variables of its context.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub variables: Map<String, Value>,
    /// Nesting depth of the call.
    #[serde(default)]
    pub depth: u32,
    /// The credential that the call selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<Arc<str>>,
    /// Timeout, counted from when it runs.
    #[serde(
        default,
        with = "crate::value::duration::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub timeout: Option<Duration>,
    /// Its priority.
    #[serde(default)]
    pub priority: i32,
    /// The caller's idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<Arc<str>>,
    /// Retry policy of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// The batch that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_id: Option<BatchId>,
    /// Who initiated it: [`Context::begun_by`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_by: Option<Arc<str>>,
    /// When the call was received.
    pub created_at: Timestamp,
    /// Why approval is needed.
    pub reason: String,
}

/// The part of an [`Agent`] that is stored with a suspended call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspendedAgent {
    /// The agent's id.
    pub id: String,
    /// The agent's name.
    pub name: String,
}

/// A person's decision about a suspended call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Whether the call may run.
    pub approved: bool,
    /// Who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Id of the API key with which they decided, where there are keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// What they wrote about themselves; unverified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Comment for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

impl Verdict {
    /// The call may run.
    pub fn approve(by: impl Into<String>) -> Self {
        Self { approved: true, by: Some(by.into()), ..Self::default() }
    }

    /// The call must not run.
    pub fn refuse(by: impl Into<String>) -> Self {
        Self { approved: false, by: Some(by.into()), ..Self::default() }
    }

    /// Sets the id of the API key with which the decision was made.
    #[must_use]
    pub fn key_id(mut self, key_id: impl Into<String>) -> Self {
        self.key_id = Some(key_id.into());
        self
    }

    /// Sets what they wrote about themselves.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Sets a comment, which the model reads if the call is refused.
    #[must_use]
    pub fn comment(mut self, comment: impl Into<String>) -> Self {
        self.comment = Some(comment.into());
        self
    }
}

impl SuspendedCall {
    pub(crate) fn new(
        request: &CallOptions,
        call: &Call,
        batch_id: Option<BatchId>,
        created_at: Timestamp,
        reason: String,
    ) -> Self {
        let context = &*call.context;
        let agent = context.agent.as_ref();
        Self {
            id: call.id,
            call_ref: call.call_ref.clone(),
            tool_name: call.tool.name().shared(),
            arguments: visible(call),
            fingerprint: fingerprint_of(call),
            caller: Caller::clone(&context.caller),
            agent: agent.map(|it| SuspendedAgent { id: it.id.clone(), name: it.name.clone() }),
            variables: context.variables.clone(),
            depth: context.depth,
            credential: request.chosen_credential().map(Into::into),
            timeout: request.timeout,
            priority: request.priority,
            idempotency_key: request.key().cloned(),
            retry: request.own_retry().copied(),
            batch_id,
            begun_by: context.begun_by.clone(),
            created_at,
            reason,
        }
    }

    /// Whether the arguments still match the fingerprint.
    pub fn is_genuine(&self) -> bool {
        self.fingerprint == fingerprint(&self.tool_name, &self.arguments, &self.caller)
    }

    /// Rebuilds the context of the call.
    pub(crate) fn context(&self) -> Context {
        let mut context = Context::new(self.caller.clone());
        context.agent = self.agent.as_ref().map(|it| Arc::new(Agent::new(&*it.id, &*it.name)));
        context.variables = self.variables.clone();
        context.depth = self.depth;
        context.begun_by.clone_from(&self.begun_by);
        context
    }

    /// The original request, marked as approved.
    pub(crate) fn request(&self, context: Context) -> CallRequest {
        let mut request =
            CallRequest::new(Arc::clone(&self.tool_name), self.arguments.clone()).context(context);
        request.call_ref.clone_from(&self.call_ref);
        request.options.timeout = self.timeout;
        request.options.priority = self.priority;
        let extras = request.extras();
        extras.credential.clone_from(&self.credential);
        extras.key.clone_from(&self.idempotency_key);
        extras.retry = self.retry;
        extras.approved = Some(self.fingerprint.as_str().into());
        request
    }
}

/// Fingerprint of a call, without what is hidden from the model.
pub(crate) fn fingerprint_of(call: &Call) -> String {
    fingerprint(call.tool.name().as_str(), &visible(call), call.caller())
}

fn fingerprint(tool: &str, arguments: &Value, caller: &Caller) -> String {
    let mut fingerprint = Fingerprint::default();
    fingerprint.text(tool);
    fingerprint.text(caller.tenant.as_str());
    fingerprint.optional(caller.user.as_deref());
    fingerprint.value(arguments);
    fingerprint.finish().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The arguments without hidden parameters.
fn visible(call: &Call) -> Value {
    let mut arguments = call.arguments().clone();
    if let Value::Object(map) = &mut arguments {
        let hidden = call.tool.hidden().iter().filter(|parameter| !parameter.overridable);
        hidden.for_each(|parameter| drop(map.shift_remove(&parameter.name)));
    }
    arguments
}
