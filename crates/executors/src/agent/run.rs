//! One run of an agent: from its first message to its answer.

mod recall;
mod turn;
mod writing;

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass::{
    Agent as Named, Call, Context, Error, Exposure, Output, SearchScope, Tool, Tools, Usage,
};

use super::gate::Gate;
use super::listener::{Listener, RunEvent};
use super::log::{Entry, Stop};
use super::shared_budget::SharedBudget;
use super::{Agent, History, RunScope, told};
use crate::model::text_of;
use writing::Writing;

/// The tool by which a model reads on in a result that was cut.
const READ_OUTPUT: &str = "read_output";

/// Runs an agent.
pub(super) async fn run(agent: &Agent, call: &Call, tools: &Tools) -> Result<Output, Error> {
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
    agent: &'a Agent,
    call: &'a Call,
    tools: &'a Tools,
    id: Arc<str>,
    conversation: Arc<str>,
    /// What its calls carry.
    context: Arc<Context>,
    gate: Arc<Mutex<Gate>>,
    shared_budget: SharedBudget,
    listener: Option<Arc<Listener>>,
    began: Instant,
    messages: Vec<Value>,
    /// Where the conversation is kept for another run.
    history: Option<Arc<History>>,
    turn: u32,
    /// The number of the next entry of the log.
    entries: u32,
    /// A message whose calls have no results yet, from an earlier process, and
    /// which of them are not complete.
    unanswered: Option<(Value, Vec<usize>)>,
    ended: Option<(Stop, String)>,
    /// The answer that the model is writing.
    writing: Option<Writing>,
    last_text: String,
    /// Whether a result was cut, so that there is something to read on in.
    was_cut: bool,
    usage: Usage,
    /// The tools that were called, in order.
    called: Vec<String>,
}

/// Whoever gives a run up pays for what its model has written by then.
impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.break_off();
    }
}

impl<'a> Run<'a> {
    /// Begins a run, or finds out how far it had come.
    async fn open(agent: &'a Agent, call: &'a Call, tools: &'a Tools) -> Result<Self, Error> {
        let scope = call.object::<RunScope>();
        let scope = scope.filter(|scope| scope.parent == call.caller().parent);
        let id = scope.map_or_else(|| call.id().to_string().into(), |scope| Arc::clone(&scope.run));
        let own = call.caller().conversation.clone();
        let conversation = own.unwrap_or_else(|| Arc::clone(&id));
        let above = call.object::<SharedBudget>().map(|above| SharedBudget::clone(&above));
        let shared_budget = SharedBudget::new(&agent.spec.budget, above);
        let named = Arc::new(Named::new(&*agent.name, &*agent.name));
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
        // What was cut before can be read on in.
        run.was_cut = run.messages.iter().any(|said| said.to_string().contains(READ_OUTPUT));
        Ok(run)
    }

    /// Lets it go on until it stops, and keeps that it did.
    async fn drive(&mut self) -> Result<(Stop, String), Error> {
        if let Some(ended) = self.ended.take() {
            return Ok(ended);
        }
        let agent = self.agent;
        let stop = match agent.spec.budget.time {
            None => self.turns().await?,
            Some(time) => match tokio::time::timeout(time, self.turns()).await {
                Ok(stop) => stop?,
                // What it gave up is given up by the engine, too.
                Err(_) => {
                    self.break_off();
                    Stop::Time
                }
            },
        };
        let text = told::stopped(&agent.name, stop, &agent.spec, &self.last_text, agent.lang);
        self.keep(Entry::Ended { stop, text: text.clone() }).await?;
        if let Some(history) = &self.history {
            let mut messages = self.messages.clone();
            // Where the model has not had the last word, this is what was said.
            if !matches!(stop, Stop::Done | Stop::MaxTokens | Stop::Refused) {
                messages.push(agent.model.api().assistant(&text));
            }
            *history.0.lock() = messages;
        }
        Ok((stop, text))
    }

    /// Asks the model and runs what it asks for, until there is nothing more to
    /// do.
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

    /// Why the model is not asked again.
    fn must_stop(&self) -> Option<Stop> {
        let gate = self.gate.lock();
        match () {
            () if self.turn >= self.agent.spec.max_turns => Some(Stop::MaxTurns),
            () if gate.is_in_a_loop() => Some(Stop::Loop),
            () if gate.is_overdrawn() => Some(Stop::Calls),
            () => self.shared_budget.is_empty(),
        }
    }

    /// The tools that the model is told of. What the agent names itself may be
    /// hidden from everybody else.
    fn declared(&self) -> Vec<Arc<Tool>> {
        let spec = &self.agent.spec;
        let own = self.call.tool().name();
        let mut tools = self.tools.active_in(&self.conversation);
        // Where tools are deferred, the one that finds them is shown as well.
        let is_hidden = |tool: &Tool| tool.spec().exposure == Exposure::Hidden;
        let may_find = self.tools.defers(|tool| spec.allows(tool));
        // So is the one that reads on, once there is something to read.
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

    /// Remembers the last thing that the model said.
    fn say(&mut self, message: &Value) {
        let text = text_of(self.agent.model.api(), message);
        if !text.trim().is_empty() {
            self.last_text = text;
        }
    }

    async fn keep(&mut self, entry: Entry) -> Result<(), Error> {
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

    /// How it went (S4.3's `agentMetadata`, S4.16).
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

    /// The result.
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
