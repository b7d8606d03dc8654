//! The agent loop: one run, from its first message to its final answer.

mod recall;
mod turn;
mod writing;

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass::{Agent, Call, Context, Error, Exposure, Output, SearchScope, Tool, Tools, Usage};

use super::gate::Gate;
use super::listener::{Listener, RunEvent};
use super::log::{RunEntry, Stop};
use super::shared_budget::SharedBudget;
use super::{AgentExecutor, History, RunScope, told};
use crate::model::text_of;
use writing::Writing;

/// The tool with which a model reads the rest of a truncated result.
const READ_OUTPUT: &str = "read_output";

/// Runs an agent.
pub(super) async fn run(
    agent: &AgentExecutor,
    call: &Call,
    tools: &Tools,
) -> Result<Output, Error> {
    let failed = |error, about| {
        told::failed(&agent.name, error, agent.lang).with_metadata("agentMetadata", about)
    };
    let mut run = Run::open(agent, call, tools)
        .await
        .map_err(|error| failed(error, json!({"agentName": agent.name, "turnsUsed": 0})))?;
    match run.drive().await {
        Ok((stop, text)) => Ok(run.output(stop, text)),
        Err(error) => {
            run.break_off();
            Err(failed(error, run.about()))
        }
    }
}

struct Run<'a> {
    agent: &'a AgentExecutor,
    call: &'a Call,
    tools: &'a Tools,
    id: Arc<str>,
    conversation: Arc<str>,
    /// The context of its tool calls.
    context: Arc<Context>,
    gate: Arc<Mutex<Gate>>,
    shared_budget: SharedBudget,
    listener: Option<Arc<Listener>>,
    began: Instant,
    messages: Vec<Value>,
    /// The conversation to which the messages are added.
    history: Option<Arc<History>>,
    turn: u32,
    /// Number of the next log entry.
    entries: u32,
    /// From the log: a message whose calls have no results yet, and the indices of its
    /// incomplete calls.
    unanswered: Option<(Value, Vec<usize>)>,
    ended: Option<(Stop, String)>,
    /// The answer that is being streamed.
    writing: Option<Writing>,
    last_text: String,
    /// Whether a result was truncated, so that `read_output` is needed.
    was_cut: bool,
    usage: Usage,
    /// The tools that were called, in order.
    called: Vec<String>,
}

/// If the run is dropped, what the model has written so far is still paid for.
impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.break_off();
    }
}

impl<'a> Run<'a> {
    /// Begins a run, or resumes it from the log.
    async fn open(
        agent: &'a AgentExecutor,
        call: &'a Call,
        tools: &'a Tools,
    ) -> Result<Self, Error> {
        let scope = call.object::<RunScope>();
        let scope = scope.filter(|scope| scope.parent == call.caller().parent);
        let id = scope.map_or_else(|| call.id().to_string().into(), |scope| Arc::clone(&scope.run));
        let own = call.caller().conversation.clone();
        let conversation = own.unwrap_or_else(|| Arc::clone(&id));
        let above = call.object::<SharedBudget>().map(|above| SharedBudget::clone(&above));
        let shared_budget = SharedBudget::new(&agent.spec.budget, above);
        let named = Arc::new(Agent::new(&*agent.name, &*agent.name));
        let context = call.context().in_name_of(named, Arc::clone(&conversation));
        let spec = agent.spec.clone();
        let scope = SearchScope::new(move |tool| spec.allows(tool));
        let context = Arc::new(context.object(scope).object(shared_budget.clone()));
        let gate = Gate::new(
            &agent.spec,
            Arc::clone(&id),
            call.id(),
            tools.clone(),
            Arc::clone(&context),
            shared_budget.clone(),
            agent.lang,
        );
        let first = agent.model.api().user(&agent.spec.first_message(call.arguments()));
        let history = call.object::<History>().filter(|_| call.caller().parent.is_none());
        let mut messages = history.as_ref().map(|own| own.messages()).unwrap_or_default();
        messages.push(first);
        let mut run = Self {
            agent,
            call,
            tools,
            id,
            conversation,
            context,
            gate: Arc::new(Mutex::new(gate)),
            shared_budget,
            listener: call.object::<Listener>(),
            began: Instant::now(),
            messages,
            history,
            turn: 0,
            entries: 0,
            unanswered: None,
            ended: None,
            writing: None,
            last_text: String::new(),
            was_cut: false,
            usage: Usage::default(),
            called: Vec::new(),
        };
        run.begin_or_resume().await?;
        // A result that was truncated earlier can still be read.
        run.was_cut = run.messages.iter().any(|said| said.to_string().contains(READ_OUTPUT));
        Ok(run)
    }

    /// Drives the run until it stops, and logs the end.
    async fn drive(&mut self) -> Result<(Stop, String), Error> {
        if let Some(ended) = self.ended.take() {
            return Ok(ended);
        }
        let agent = self.agent;
        let stop = match agent.spec.budget.time {
            None => self.turns().await?,
            Some(time) => match tokio::time::timeout(time, self.turns()).await {
                Ok(stop) => stop?,
                // Calls that were dropped with the turn are cancelled by the engine.
                Err(_) => {
                    self.break_off();
                    Stop::Time
                }
            },
        };
        let text = told::stopped(&agent.name, stop, &agent.spec, &self.last_text, agent.lang);
        self.keep(RunEntry::Ended { stop, text: text.clone() }).await?;
        if let Some(history) = &self.history {
            let mut messages = self.messages.clone();
            // If the run was stopped by a limit, the text says so.
            if !matches!(stop, Stop::Done | Stop::MaxTokens | Stop::Refused) {
                messages.push(agent.model.api().assistant(&text));
            }
            *history.0.lock() = messages;
        }
        Ok((stop, text))
    }

    /// The loop: asks the model and runs its calls until it makes none or a limit is
    /// reached.
    async fn turns(&mut self) -> Result<Stop, Error> {
        if let Some((message, broken)) = self.unanswered.take()
            && let Some(stop) = self.answer_again(message, &broken).await?
        {
            return Ok(stop);
        }
        loop {
            if let Some(stop) = self.must_stop() {
                return Ok(stop);
            }
            self.turn += 1;
            let (turn, max_turns) = (self.turn, self.agent.spec.max_turns);
            self.call
                .emitter()
                .emit(windlass::Content::json(json!({"turn": turn, "maxTurns": max_turns})));
            self.tell(|agent, run| RunEvent::Turn { agent, run, turn, max_turns });
            if let Some(stop) = self.ask().await? {
                return Ok(stop);
            }
        }
    }

    /// The limit that is reached, if any.
    fn must_stop(&self) -> Option<Stop> {
        let gate = self.gate.lock();
        match () {
            () if self.turn >= self.agent.spec.max_turns => Some(Stop::MaxTurns),
            () if gate.is_in_a_loop() => Some(Stop::Loop),
            () if gate.is_overdrawn() => Some(Stop::Calls),
            () => self.shared_budget.is_empty(),
        }
    }

    /// The tools that the model is given. Those that the agent names itself may be hidden
    /// from everybody else.
    fn declared(&self) -> Vec<Arc<Tool>> {
        let spec = &self.agent.spec;
        let own = self.call.tool().name();
        let mut tools = self.tools.active_in(&self.conversation);
        // If tools are deferred, `tool_search` is given as well.
        let is_hidden = |tool: &Tool| tool.spec().exposure == Exposure::Hidden;
        let may_find = self.tools.defers(|tool| spec.allows(tool));
        // `read_output` is given once a result was truncated.
        let reads_on = |tool: &Tool| self.was_cut && tool.name().as_str() == READ_OUTPUT;
        tools.retain(|tool| match is_hidden(tool) {
            true => may_find,
            false => (spec.allows(tool.spec()) || reads_on(tool)) && tool.name() != own,
        });
        let hidden = spec.tools.iter().filter_map(|name| self.tools.find(name));
        tools.extend(hidden.filter(|tool| is_hidden(tool) && tool.name() != own));
        tools.sort_by(|a, b| a.name().cmp(b.name()));
        tools.dedup_by(|a, b| a.name() == b.name());
        tools
    }

    /// Remembers the model's last text.
    fn say(&mut self, message: &Value) {
        let text = text_of(self.agent.model.api(), message);
        if !text.trim().is_empty() {
            self.last_text = text;
        }
    }

    async fn keep(&mut self, entry: RunEntry) -> Result<(), Error> {
        let Some(log) = &self.agent.log else { return Ok(()) };
        log.append(&self.call.caller().tenant, &self.id, self.entries, &entry).await?;
        self.entries += 1;
        Ok(())
    }

    fn tell<'e>(&'e self, event: impl FnOnce(&'e str, &'e str) -> RunEvent<'e>) {
        if let Some(listener) = &self.listener {
            (listener.0)(&event(&self.agent.name, &self.id));
        }
    }

    /// Metadata of the run: turns, tools, usage and cost.
    fn about(&self) -> Value {
        json!({
            "agentName": self.agent.name,
            "turnsUsed": self.turn,
            "tokensUsed": {"input": self.usage.input_tokens, "output": self.usage.output_tokens},
            "toolCallsMade": self.called,
            "durationMs": self.began.elapsed().as_millis() as u64,
            "estimatedCostUsd": self.usage.cost_usd,
            "model": self.agent.model.name,
            "runId": self.id,
        })
    }

    /// The result of the run.
    fn output(&self, stop: Stop, text: String) -> Output {
        let mut about = self.about();
        about["stop"] = json!(stop);
        let facts = self.agent.extract.from(&text);
        if let Value::Object(about) = &mut about {
            about.extend(facts);
        }
        Output::text(text).with_metadata("agentMetadata", about)
    }
}
