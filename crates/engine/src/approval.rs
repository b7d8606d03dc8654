//! Calls that wait for a person.
//!
//! Whether a call may run is decided when its arguments have been checked and
//! before it takes a slot. A call that needs a person's word is written down
//! whole, its caller hears at once that a person has been asked, and
//! [`Engine::resume`](crate::Engine::resume) ends it later, in this process or
//! another.

mod rules;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use rules::{ApprovalRule, ApprovalRules, ArgumentRule, ArgumentTest, BehaviourTest};

use crate::call::context::{Agent, Caller, Context};
use crate::call::{Call, CallRequest};
use crate::error::Error;
use crate::schedule::RetryPolicy;
use crate::tool::executor::BoxFuture;
use crate::value::fingerprint::Fingerprint;
use crate::value::name::{BatchId, CallId};

/// Whether a call may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may.
    Allow,
    /// It may not, and this is why; a model reads it.
    Deny(String),
    /// A person has to say so, and this is why.
    Ask(String),
}

/// Decides which calls may run, and keeps those that wait for a person.
pub trait Approvals: Send + Sync + 'static {
    /// Whether a call may run. It is asked for every call but those that a
    /// person has approved, so it should be quick; secrets of a store are not
    /// in the call yet.
    fn decide(&self, call: &Call) -> Decision;

    /// Keeps a call for good; whoever resumes it needs all of it. On an error
    /// the call fails with it. It is finished even if the caller goes away.
    fn suspend(&self, call: SuspendedCall) -> BoxFuture<'_, Result<(), Error>>;
}

/// A call that waits for a person: all that is needed to run it later, but for
/// objects and secrets that it carried. Secrets of a
/// [`CredentialSource`](crate::CredentialSource) are asked for when it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SuspendedCall {
    /// The call's id, which it keeps.
    pub id: CallId,
    /// The id that the model gave the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_ref: Option<Arc<str>>,
    /// The tool's name.
    pub tool_name: Arc<str>,
    /// The arguments, checked, without hidden parameters.
    pub arguments: Value,
    /// Stands for the tool, the arguments and the person on whose behalf it is
    /// called: hexadecimal, the same for the same call.
    pub fingerprint: String,
    /// Who calls.
    pub caller: Caller,
    /// The agent in whose name the call is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<SuspendedAgent>,
    /// The variables of its context.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub variables: Map<String, Value>,
    /// How many calls it is nested in.
    #[serde(default)]
    pub depth: u32,
    /// The credential that it chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<Arc<str>>,
    /// How long it may take, once it runs.
    #[serde(
        default,
        with = "crate::value::duration::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub timeout: Option<Duration>,
    /// Its priority.
    #[serde(default)]
    pub priority: i32,
    /// The caller's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<Arc<str>>,
    /// How often it is tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// The batch that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_id: Option<BatchId>,
    /// Who began it: [`Context::begun_by`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_by: Option<Arc<str>>,
    /// When the call came.
    pub created_at: Timestamp,
    /// Why a person is asked.
    pub reason: String,
}

/// What is kept of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspendedAgent {
    /// The agent's id.
    pub id: String,
    /// The agent's name.
    pub name: String,
}

/// What a person said about a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Whether the call may run.
    pub approved: bool,
    /// Who said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The key with which they said it, where there are keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// What they wrote about themselves; nobody has checked it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What the model should know of it.
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

    /// The same with the key with which it was said.
    #[must_use]
    pub fn key_id(mut self, key_id: impl Into<String>) -> Self {
        self.key_id = Some(key_id.into());
        self
    }

    /// The same with what they wrote about themselves.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// The same with a comment, which the model reads where the call is
    /// refused.
    #[must_use]
    pub fn comment(mut self, comment: impl Into<String>) -> Self {
        self.comment = Some(comment.into());
        self
    }
}

impl SuspendedCall {
    pub(crate) fn new(
        request: &CallRequest,
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

    /// Whether the arguments are those that the fingerprint stands for.
    pub fn is_genuine(&self) -> bool {
        self.fingerprint == fingerprint(&self.tool_name, &self.arguments, &self.caller)
    }

    /// The context that the call carries when it runs.
    pub(crate) fn context(&self) -> Context {
        let mut context = Context::new(self.caller.clone());
        context.agent = self.agent.as_ref().map(|it| Arc::new(Agent::new(&*it.id, &*it.name)));
        context.variables = self.variables.clone();
        context.depth = self.depth;
        context.begun_by.clone_from(&self.begun_by);
        context
    }

    /// The call as it was asked for, approved.
    pub(crate) fn request(&self, context: Context) -> CallRequest {
        let mut request =
            CallRequest::new(Arc::clone(&self.tool_name), self.arguments.clone()).context(context);
        request.call_ref.clone_from(&self.call_ref);
        request.timeout = self.timeout;
        request.priority = self.priority;
        let rare = request.rare();
        rare.credential.clone_from(&self.credential);
        rare.key.clone_from(&self.idempotency_key);
        rare.retry = self.retry;
        rare.approved = Some(self.fingerprint.as_str().into());
        request
    }
}

/// Stands for what a call asks for, without what is hidden from the model.
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

/// The arguments without those that the model may not see.
fn visible(call: &Call) -> Value {
    let mut arguments = call.arguments().clone();
    if let Value::Object(map) = &mut arguments {
        let hidden = call.tool.hidden().iter().filter(|parameter| !parameter.overridable);
        hidden.for_each(|parameter| drop(map.shift_remove(&parameter.name)));
    }
    arguments
}
