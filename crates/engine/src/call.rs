//! The life of a call: [`CallRequest`] comes in, [`Call`] has been validated,
//! [`CallResult`] goes out.

pub(crate) mod cache;
pub(crate) mod content;
pub(crate) mod context;
pub(crate) mod credential;
pub(crate) mod grace;
mod result;

use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use result::{CallResult, ResultView};

use crate::agent::nested::Tools;
use crate::call::context::{Agent, Caller, Context, Objects};
use crate::call::grace::Grace;
use crate::engine::EngineInner;
use crate::error::{Error, ErrorKind};
use crate::journal::event::{CallInfo, Emitter};
use crate::journal::{Journal, OpenCall};
use crate::schedule::{
    Demand, Permit, RetryPolicy, Slot, SlotPool, TicketCell, UpstreamRef, Upstreams,
};
use crate::stage::{Checked, InjectedSecrets};
use crate::tool::Tool;
use crate::tool::registry::FoundTool;
use crate::value::name::CallId;
use crate::value::secret::{Secret, Veil};
use crate::value::trace::TraceContext;
use crate::value::usage::{CallUsage, Usage};

/// Upper bound for priorities: with a larger one, ageing would take longer than
/// calls have time.
const MAX_PRIORITY: i32 = 10;

/// A call as a model, a program or a person asks for it. Nothing in it has been
/// checked.
#[derive(Clone)]
pub struct CallRequest {
    pub(crate) tool: Arc<str>,
    /// Shared from the start: they go to the tool and to the record unmoved.
    pub(crate) arguments: Arc<Value>,
    pub(crate) context: Arc<Context>,
    pub(crate) call_ref: Option<Arc<str>>,
    pub(crate) options: CallOptions,
}

/// How a call is to run: what is left of its request once it is open.
#[derive(Clone, Default)]
pub(crate) struct CallOptions {
    pub(crate) timeout: Option<Duration>,
    pub(crate) cancel: Option<CancellationToken>,
    pub(crate) priority: i32,
    /// Rarely used options, boxed so that a request stays small and cheap to
    /// move.
    extras: Option<Box<RequestExtras>>,
}

#[derive(Clone, Default)]
pub(crate) struct RequestExtras {
    /// The id of the call, if it has to be known in advance.
    pub(crate) id: Option<CallId>,
    pub(crate) retry: Option<RetryPolicy>,
    pub(crate) attempts: Option<u32>,
    pub(crate) key: Option<Arc<str>>,
    pub(crate) credential: Option<Arc<str>>,
    /// Fingerprint of the call that a person has approved.
    pub(crate) approved: Option<Arc<str>>,
    /// Latest deadline, whatever the timeout.
    pub(crate) latest: Option<tokio::time::Instant>,
    /// Cancellation token of the parent call.
    pub(crate) parent: Option<CancellationToken>,
    /// Extensions of the deadline while the call runs.
    pub(crate) grace: Option<Grace>,
    /// Why the arguments could not be read, where a batch has tried.
    pub(crate) unreadable: Option<Error>,
    /// The tool itself, whatever the registry has under its name.
    pub(crate) pinned: Option<Arc<Tool>>,
    /// Maximum size of the result, whatever the tool's and the engine's.
    pub(crate) max_output_bytes: Option<usize>,
}

impl CallRequest {
    /// Requests a tool by its name (or its wire name). The arguments are an
    /// object, or a string of JSON that a model wrote.
    pub fn new(tool: impl Into<Arc<str>>, arguments: impl Into<Value>) -> Self {
        Self {
            tool: tool.into(),
            arguments: Arc::new(arguments.into()),
            context: Context::unnamed(),
            call_ref: None,
            options: CallOptions::default(),
        }
    }

    /// Requests this very tool, whether or not it is registered: one that an
    /// embedding program keeps for itself, or an earlier version of a tool. All
    /// checks but the search by name and group apply.
    pub fn pinned(tool: &Arc<Tool>, arguments: impl Into<Value>) -> Self {
        let mut request = Self::new(tool.name().shared(), arguments);
        request.extras().pinned = Some(Arc::clone(tool));
        request
    }

    /// Sets the caller and the context of the call.
    #[must_use]
    pub fn context(mut self, context: impl Into<Arc<Context>>) -> Self {
        self.context = context.into();
        self
    }

    /// Sets the id that the model gave the call (`tool_use_id`).
    #[must_use]
    pub fn call_ref(mut self, call_ref: impl Into<Arc<str>>) -> Self {
        self.call_ref = Some(call_ref.into());
        self
    }

    /// Sets the timeout, in place of the tool's and the engine's.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout.min(crate::value::duration::MAX));
        self
    }

    /// Allows the deadline to be extended while the call runs.
    #[must_use]
    pub fn grace(mut self, grace: Grace) -> Self {
        self.extras().grace = Some(grace);
        self
    }

    /// Sets the priority for the strategy `priority`, from -10 to 10; higher
    /// comes first. With the default ageing, a call of the lowest priority
    /// overtakes a new one of the highest after 20 seconds.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.options.priority = priority.clamp(-MAX_PRIORITY, MAX_PRIORITY);
        self
    }

    /// Sets the retry policy, in place of the tool's and the engine's. Setting
    /// it declares that the call may be repeated.
    #[must_use]
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.extras().retry = Some(retry);
        self
    }

    /// Sets the number of attempts, from 1 to [`RetryPolicy::MAX_ATTEMPTS`];
    /// the backoff stays that of the tool or the engine. Setting it declares
    /// that the call may be repeated.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.extras().attempts = Some(attempts.clamp(1, RetryPolicy::MAX_ATTEMPTS));
        self
    }

    /// Sets an idempotency key. A call with the same key and the same arguments
    /// does not run again: it gets the result of the first, and waits for it if
    /// necessary. With other arguments it is refused.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<Arc<str>>) -> Self {
        self.extras().key = Some(key.into());
        self
    }

    /// Sets the call's id, for callers that have to know it in advance. Each
    /// call needs an id of its own: [`CallId::at`].
    #[must_use]
    pub fn id(mut self, id: CallId) -> Self {
        self.extras().id = Some(id);
        self
    }

    /// Sets the size up to which the result stays whole, in place of the tool's
    /// and the engine's: for programs that take more than a model.
    #[must_use]
    pub fn max_output_bytes(mut self, bytes: usize) -> Self {
        self.extras().max_output_bytes = Some(bytes);
        self
    }

    /// Selects one of several credentials of the tool's provider.
    #[must_use]
    pub fn credential(mut self, name: impl Into<Arc<str>>) -> Self {
        self.extras().credential = Some(name.into());
        self
    }

    /// Sets the trace context of the call.
    #[must_use]
    pub fn trace(mut self, trace: TraceContext) -> Self {
        Arc::make_mut(&mut self.context).trace = Some(trace);
        self
    }

    /// Sets who initiated the call: [`Context::begun_by`].
    #[must_use]
    pub fn begun_by(mut self, who: impl Into<Arc<str>>) -> Self {
        Arc::make_mut(&mut self.context).begun_by = Some(who.into());
        self
    }

    /// Adds a context object, which the tool finds by its type.
    #[must_use]
    pub fn object<T: Send + Sync + 'static>(mut self, object: T) -> Self {
        Arc::make_mut(&mut self.context).objects.insert(object);
        self
    }

    /// Sets a token that cancels the call.
    #[must_use]
    pub fn cancel_token(mut self, token: CancellationToken) -> Self {
        self.options.cancel = Some(token);
        self
    }

    pub(crate) fn extras(&mut self) -> &mut RequestExtras {
        self.options.extras.get_or_insert_default()
    }

    /// The call's id; generated if it has none.
    pub(crate) fn known_id(&mut self) -> CallId {
        *self.extras().id.get_or_insert_with(|| CallId::at(Timestamp::now()))
    }
}

impl CallOptions {
    pub(crate) fn own_id(&self) -> Option<CallId> {
        self.extras.as_ref()?.id
    }

    pub(crate) fn own_retry(&self) -> Option<&RetryPolicy> {
        self.extras.as_ref()?.retry.as_ref()
    }

    pub(crate) fn own_attempts(&self) -> Option<u32> {
        self.extras.as_ref()?.attempts
    }

    pub(crate) fn key(&self) -> Option<&Arc<str>> {
        self.extras.as_ref()?.key.as_ref()
    }

    pub(crate) fn chosen_credential(&self) -> Option<&str> {
        self.extras.as_ref()?.credential.as_deref()
    }

    pub(crate) fn approved(&self) -> Option<&str> {
        self.extras.as_ref()?.approved.as_deref()
    }

    pub(crate) fn latest(&self) -> Option<tokio::time::Instant> {
        self.extras.as_ref()?.latest
    }

    pub(crate) fn parent(&self) -> Option<&CancellationToken> {
        self.extras.as_ref()?.parent.as_ref()
    }

    pub(crate) fn own_grace(&self) -> Option<&Grace> {
        self.extras.as_ref()?.grace.as_ref()
    }

    /// Maximum size of the result: the request's, else the tool's, else this.
    pub(crate) fn own_max_output(&self, call: &Call, most: usize) -> usize {
        let own = self.extras.as_ref().and_then(|extras| extras.max_output_bytes);
        own.or(call.tool.spec().max_output_bytes).unwrap_or(most)
    }

    pub(crate) fn own_tool(&self) -> Option<&Arc<Tool>> {
        self.extras.as_ref()?.pinned.as_ref()
    }

    pub(crate) fn unreadable(&self) -> Option<&Error> {
        self.extras.as_ref()?.unreadable.as_ref()
    }
}

/// A call with validated arguments. Only the engine makes one: no executor ever
/// sees unchecked arguments.
pub struct Call {
    pub(crate) id: CallId,
    pub(crate) tool: FoundTool,
    arguments: CallArguments,
    pub(crate) secrets: InjectedSecrets,
    pub(crate) context: Arc<Context>,
    pub(crate) deadline: Instant,
    pub(crate) call_ref: Option<Arc<str>>,
    pub(crate) shared: Arc<CallEnvironment>,
    /// The slot that it runs in, until a [`Slot`] takes over.
    pub(crate) ticket: TicketCell,
    extras: LazyCallExtras,
}

/// State that few calls need, allocated on first use: the others carry only a
/// pointer.
#[derive(Default)]
struct LazyCallExtras(OnceLock<Box<CallExtras>>);

#[derive(Default)]
struct CallExtras {
    /// The slot of a call that releases and reacquires it: between attempts, or
    /// while nested calls run.
    slot: OnceLock<Arc<Slot>>,
    /// Cancellation token of the nested calls.
    family: OnceLock<CancellationToken>,
    /// Created when there is something to redact.
    veil: OnceLock<Arc<Veil>>,
    /// Model usage of the call.
    bill: Mutex<Option<CallUsage>>,
}

impl LazyCallExtras {
    fn get(&self) -> Option<&CallExtras> {
        self.0.get().map(|needed| &**needed)
    }

    fn get_or_init(&self) -> &CallExtras {
        self.0.get_or_init(Box::default)
    }
}

/// The arguments, and their rewrites by hooks. Earlier versions stay alive for
/// whoever has borrowed them.
struct CallArguments {
    value: Checked,
    next: OnceLock<Box<CallArguments>>,
}

impl CallArguments {
    fn new(value: Checked) -> Self {
        Self { value, next: OnceLock::new() }
    }

    /// The current version.
    fn now(&self) -> &Arc<Value> {
        self.next.get().map_or(self.value.get(), |next| next.now())
    }

    fn rewrite(&self, value: Checked) {
        match self.next.get() {
            Some(next) => next.rewrite(value),
            None => drop(self.next.set(Box::new(Self::new(value)))),
        }
    }
}

/// What all calls of an engine share. There is one copy per shard, so that
/// threads do not contend for its reference count (false sharing).
#[derive(Clone)]
#[repr(align(128))]
pub(crate) struct CallEnvironment {
    pub(crate) journal: Journal,
    /// Context objects of the engine, available to every tool.
    pub(crate) toolkit: Objects,
    pub(crate) limits: Arc<SlotPool>,
    /// The engine, for tools that call tools.
    pub(crate) engine: Weak<EngineInner>,
}

impl Call {
    /// The call that a request has become, once its arguments are checked.
    pub(crate) fn new(
        tool: FoundTool,
        arguments: Checked,
        secrets: InjectedSecrets,
        open: &OpenCall,
        deadline: tokio::time::Instant,
    ) -> Self {
        Self {
            id: open.id,
            call_ref: open.call_ref().cloned(),
            tool,
            arguments: CallArguments::new(arguments),
            secrets,
            context: Arc::clone(open.context()),
            shared: Arc::clone(open.shared()),
            deadline: deadline.into_std(),
            ticket: TicketCell::default(),
            extras: LazyCallExtras::default(),
        }
    }

    /// The call's id.
    pub fn id(&self) -> CallId {
        self.id
    }

    /// The id that the model gave the call.
    pub fn call_ref(&self) -> Option<&Arc<str>> {
        self.call_ref.as_ref()
    }

    /// Adds model usage of this call. It is recorded with the call, however
    /// that ends.
    pub fn charge(&self, usage: Usage) {
        self.bill(|bill| bill.add_own(usage));
    }

    /// Adds the usage of a nested call.
    pub fn charge_nested(&self, usage: Usage) {
        self.bill(|bill| bill.total += usage);
    }

    fn bill(&self, charge: impl FnOnce(&mut CallUsage)) {
        charge(self.extras.get_or_init().bill.lock().get_or_insert_default());
    }

    /// Model usage of the call, if a model was asked.
    pub(crate) fn charged(&self) -> Option<CallUsage> {
        *self.extras.get()?.bill.lock()
    }

    /// The context, for nested calls.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The tool that is called.
    pub fn tool(&self) -> &Tool {
        &self.tool
    }

    /// The arguments: validated, with defaults and presets filled in. Always an
    /// object.
    pub fn arguments(&self) -> &Value {
        self.arguments.now()
    }

    /// The arguments, to be kept.
    pub(crate) fn shared_arguments(&self) -> &Arc<Value> {
        self.arguments.now()
    }

    /// Puts other arguments in place of those that it has.
    pub(crate) fn rewrite(&self, arguments: Checked) {
        self.arguments.rewrite(arguments);
    }

    /// The other side: its tool's, or one that its arguments name.
    pub(crate) fn upstream(&self, upstreams: &Upstreams) -> UpstreamRef<'_> {
        self.tool.upstream(upstreams, self.arguments(), &self.context)
    }

    /// Deserialises the arguments.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        T::deserialize(self.arguments()).or_else(|error| {
            // JSON Schema accepts 5.0 as an integer, Rust's integer types do
            // not.
            T::deserialize(whole_numbers(self.arguments())).map_err(|_| {
                // The message of the error quotes values, also hidden ones.
                let why = match self.tool.hidden() {
                    [] => format!("the arguments do not fit: {error}"),
                    _ => "the arguments do not fit".to_owned(),
                };
                Error::new(ErrorKind::InvalidArguments, why)
            })
        })
    }

    /// One argument.
    pub fn argument(&self, name: &str) -> Option<&Value> {
        self.arguments().get(name)
    }

    /// A secret that the tool's definition declares, or that the call or its
    /// agent carries.
    pub fn secret(&self, name: &str) -> Option<&Secret> {
        self.secrets
            .iter()
            .find(|(own, _)| own == name)
            .map(|(_, secret)| secret)
            .or_else(|| self.context.secrets.get(name))
            .or_else(|| self.context.agent.as_ref().and_then(|agent| agent.secrets.get(name)))
    }

    /// A context object by its type: the call's, else the agent's, else the
    /// engine's.
    pub fn object<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.context
            .objects
            .get()
            .or_else(|| self.context.agent.as_ref().and_then(|agent| agent.objects.get()))
            .or_else(|| self.shared.toolkit.get())
    }

    /// The caller.
    pub fn caller(&self) -> &Caller {
        &self.context.caller
    }

    /// The agent on whose behalf the call is made.
    pub fn agent(&self) -> Option<&Arc<Agent>> {
        self.context.agent.as_ref()
    }

    /// A variable of the context.
    pub fn variable(&self, name: &str) -> Option<&Value> {
        self.context.variables.get(name)
    }

    /// The trace context for requests that the call makes.
    pub fn trace(&self) -> Option<TraceContext> {
        self.context.trace.as_ref().map(|trace| trace.of_call(self.id))
    }

    /// The deadline.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Handle for nested calls.
    pub fn tools(&self) -> Tools {
        Tools::new(self)
    }

    /// Every secret that the tool could read, by name, in a fixed order.
    pub(crate) fn all_secrets(&self) -> Vec<(&str, &Secret)> {
        let agents = self.context.agent.as_ref().map(|agent| &agent.secrets);
        let mut all: Vec<(&str, &Secret)> = self
            .secrets
            .iter()
            .map(|(name, secret)| (name.as_str(), secret))
            .chain(self.context.secrets.iter().map(|(name, secret)| (name.as_str(), secret)))
            .chain(agents.into_iter().flatten().map(|(name, secret)| (name.as_str(), secret)))
            .collect();
        all.sort_by_key(|(name, _)| *name);
        all
    }

    /// Redacts the call's secrets in what its tool says; `None` if it has no
    /// secrets.
    pub(crate) fn veil(&self) -> Option<&Arc<Veil>> {
        let agent = self.context.agent.as_ref();
        let none = self.secrets.is_empty()
            && self.context.secrets.is_empty()
            && agent.is_none_or(|agent| agent.secrets.is_empty());
        if none {
            return None;
        }
        let secrets = || self.all_secrets().into_iter().map(|(_, secret)| secret);
        Some(self.extras.get_or_init().veil.get_or_init(|| Arc::new(Veil::new(secrets()))))
    }

    /// What the call's slot counts against.
    pub(crate) fn demand(&self) -> Demand<'_> {
        Demand { tool: &self.tool, caller: &self.context.caller }
    }

    /// Hands the slot to the call.
    pub(crate) fn hold(&self, permit: Permit<'_>) {
        if let Some(ticket) = permit.into_ticket() {
            self.ticket.put(ticket);
        }
    }

    /// The slot, to be released and reacquired.
    pub(crate) fn slot(&self) -> &Arc<Slot> {
        self.extras.get_or_init().slot.get_or_init(|| {
            Arc::new(Slot::new(self.ticket.take(), &self.shared.limits, self.demand()))
        })
    }

    /// Cancels the nested calls; those that have begun to change something
    /// outlive it.
    pub(crate) fn cancel_family(&self) {
        let family = self.extras.get().and_then(|needed| needed.family.get());
        family.into_iter().for_each(CancellationToken::cancel);
    }

    /// Cancellation token of the nested calls.
    pub(crate) fn family(&self) -> &CancellationToken {
        self.extras.get_or_init().family.get_or_init(CancellationToken::new)
    }

    /// Releases the slot for good.
    pub(crate) fn leave_slot(&self) {
        if let Some(ticket) = self.ticket.take() {
            self.shared.limits.give_back(ticket, self.demand());
        }
        if let Some(slot) = self.extras.get().and_then(|needed| needed.slot.get()) {
            slot.end();
        }
    }

    /// Reports progress of the running call.
    pub fn emitter(&self) -> Emitter {
        Emitter {
            bus: Arc::clone(&self.shared.journal.bus),
            veil: self.veil().map(Arc::downgrade),
            call: CallInfo {
                call_id: self.id,
                call_ref: self.call_ref.clone(),
                tool_name: self.tool.name().shared(),
                kind: Some(self.tool.spec().kind),
                caller: Arc::clone(&self.context.caller),
            },
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.leave_slot();
    }
}

/// Turns floats that are whole numbers into integers.
fn whole_numbers(value: &Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9e15 => {
                Value::from(float as i64)
            }
            _ => value.clone(),
        },
        Value::Array(items) => items.iter().map(whole_numbers).collect(),
        Value::Object(map) => {
            map.iter().map(|(key, item)| (key.clone(), whole_numbers(item))).collect()
        }
        _ => value.clone(),
    }
}
