//! One run of an agent: from its first message to its answer.

mod turn;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass::{
    Agent as Named, Call, Context, Error, Exposure, Output, SearchScope, Tool, Tools, Usage,
};

use super::gate::Gate;
use super::log::{Entry, Stop};
use super::{Agent, History, RunScope, told};
use crate::model::text_of;

/// Hears what an agent does, and what the agents do that it calls: a context
/// object of its call.
#[derive(Clone)]
pub struct Listener(Arc<dyn Fn(&RunEvent<'_>) + Send + Sync>);

impl Listener {
    /// Calls back for everything. The callback runs on the agent's own task, so
    /// it should be short.
    pub fn new(hear: impl Fn(&RunEvent<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }
}

/// Something that an agent does.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunEvent<'e> {
    /// It asks its model.
    Turn {
        /// The agent.
        agent: &'e str,
        /// The run.
        run: &'e str,
        /// Which turn, from 1.
        turn: u32,
        /// How many it may take.
        max_turns: u32,
    },
    /// Its model writes.
    Text {
        /// The agent.
        agent: &'e str,
        /// The run.
        run: &'e str,
        /// What it writes next.
        text: &'e str,
    },
    /// It calls a tool.
    Call {
        /// The agent.
        agent: &'e str,
        /// The run.
        run: &'e str,
        /// The tool.
        tool: &'e str,
        /// What the model wrote.
        arguments: &'e Value,
    },
    /// A tool has ended.
    Result {
        /// The agent.
        agent: &'e str,
        /// The run.
        run: &'e str,
        /// The tool.
        tool: &'e str,
        /// Whether it gave a result.
        is_success: bool,
        /// How long it ran.
        run_time: Duration,
    },
    /// It has used this much so far, with the agents that it called.
    Used {
        /// The agent.
        agent: &'e str,
        /// The run.
        run: &'e str,
        /// How much.
        usage: Usage,
    },
}

/// Runs an agent.
pub(super) async fn run(agent: &Agent, call: &Call, tools: &Tools) -> Result<Output, Error> {
    let failed = |error| told::failed(&agent.name, error, agent.lang);
    let mut run = Run::open(agent, call, tools).await.map_err(failed)?;
    if let Some((stop, text)) = run.ended.take() {
        return Ok(run.output(stop, text));
    }
    let stop = match agent.spec.budget.time {
        None => run.turns().await,
        Some(time) => match tokio::time::timeout(time, run.turns()).await {
            Ok(stop) => stop,
            // What it gave up is given up by the engine, too.
            Err(_) => Ok(Stop::Time),
        },
    };
    let stop = stop.map_err(failed)?;
    let text = told::stopped(&agent.name, stop, agent.spec.max_turns, &run.last_text, agent.lang);
    run.keep(Entry::Ended { stop, text: text.clone() }).await.map_err(failed)?;
    if let (Some(history), Stop::Done) = (&run.history, stop) {
        history.0.lock().clone_from(&run.messages);
    }
    Ok(run.output(stop, text))
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
    listener: Option<Arc<Listener>>,
    began: Instant,
    messages: Vec<Value>,
    /// Where the conversation is kept for another run.
    history: Option<Arc<History>>,
    turn: u32,
    /// The number of the next entry of the log.
    entries: u32,
    /// A message whose calls have no results yet, from an earlier process.
    unanswered: Option<Value>,
    ended: Option<(Stop, String)>,
    last_text: String,
    usage: Usage,
    /// The tools that were called, in order.
    called: Vec<String>,
}

impl<'a> Run<'a> {
    /// Begins a run, or finds out how far it had come.
    async fn open(agent: &'a Agent, call: &'a Call, tools: &'a Tools) -> Result<Self, Error> {
        let scope = call.object::<RunScope>();
        let scope = scope.filter(|scope| scope.parent == call.caller().parent);
        let id = scope.map_or_else(|| call.id().to_string().into(), |scope| Arc::clone(&scope.run));
        let own = call.caller().conversation.clone();
        let conversation = own.unwrap_or_else(|| Arc::clone(&id));
        let named = Arc::new(Named::new(&*agent.name, &*agent.name));
        let context = call.context().in_name_of(named, Arc::clone(&conversation));
        let spec = agent.spec.clone();
        let scope = SearchScope::new(move |tool| spec.allows(tool));
        let context = Arc::new(context.object(scope));
        let gate = Gate::new(
            &agent.spec,
            Arc::clone(&id),
            call.id(),
            tools.clone(),
            Arc::clone(&context),
            agent.lang,
        );
        let first = agent.model.api().user(&agent.spec.first_message(call.arguments()));
        let history = call.object::<History>().filter(|_| call.caller().parent.is_none());
        let mut messages = history.as_ref().map(|own| own.0.lock().clone()).unwrap_or_default();
        messages.push(first);
        let mut run = Self {
            agent,
            call,
            tools,
            id,
            conversation,
            context,
            gate: Arc::new(Mutex::new(gate)),
            listener: call.object::<Listener>(),
            began: Instant::now(),
            messages,
            history,
            turn: 0,
            entries: 0,
            unanswered: None,
            ended: None,
            last_text: String::new(),
            usage: Usage::default(),
            called: Vec::new(),
        };
        if let Some(log) = &agent.log {
            let entries = log.read(&call.caller().tenant, &run.id).await?;
            match entries.is_empty() {
                true => run.keep(run.beginning()).await?,
                false => run.recall_all(entries),
            }
        }
        Ok(run)
    }

    fn beginning(&self) -> Entry {
        let caller = self.call.caller();
        Entry::Began {
            tool: self.call.tool().name().to_string(),
            input: self.call.arguments().clone(),
            conversation: caller.conversation.as_deref().map(str::to_owned),
            user: caller.user.as_deref().map(str::to_owned),
        }
    }

    /// Takes up what an earlier process has kept.
    fn recall_all(&mut self, entries: Vec<Entry>) {
        self.entries = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        let mut entries = entries.into_iter().peekable();
        while let Some(entry) = entries.next() {
            // Of a message that was kept as it grew, the last one counts.
            let is_again = matches!(entries.peek(), Some(Entry::Answered { .. }));
            if !(is_again && matches!(entry, Entry::Answered { .. })) {
                self.recall(entry);
            }
        }
    }

    fn recall(&mut self, entry: Entry) {
        match entry {
            Entry::Began { .. } => {}
            Entry::Answered { turn, message, usage } => {
                self.usage += usage;
                self.turn = turn;
                self.say(&message);
                self.unanswered = Some(message);
            }
            Entry::Results { messages, tools, usage } => {
                self.messages.extend(self.unanswered.take());
                self.messages.extend(messages);
                self.gate.lock().calls += tools.len() as u64;
                self.called.extend(tools);
                self.usage += usage;
            }
            Entry::Ended { stop, text } => self.ended = Some((stop, text)),
        }
    }

    /// Asks the model and runs what it asks for, until there is nothing more to
    /// do.
    async fn turns(&mut self) -> Result<Stop, Error> {
        if let Some(message) = self.unanswered.take()
            && self.answer_again(message).await?
        {
            return Ok(Stop::Done);
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
            if self.ask().await? {
                return Ok(Stop::Done);
            }
        }
    }

    /// Why the model is not asked again.
    fn must_stop(&self) -> Option<Stop> {
        let budget = &self.agent.spec.budget;
        let gate = self.gate.lock();
        match () {
            () if self.turn >= self.agent.spec.max_turns => Some(Stop::MaxTurns),
            () if gate.is_in_a_loop() => Some(Stop::Loop),
            () if gate.is_overdrawn() => Some(Stop::Calls),
            () if budget.tokens.is_some_and(|most| self.usage.total_tokens() >= most) => {
                Some(Stop::Tokens)
            }
            () if budget.cost.is_some_and(|most| self.usage.cost_usd >= most) => Some(Stop::Cost),
            () => None,
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
        tools.retain(|tool| match is_hidden(tool) {
            true => may_find,
            false => spec.allows(tool.spec()) && tool.name() != own,
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

    /// The result (S4.3's `agentMetadata`, S4.16).
    fn output(&self, stop: Stop, text: String) -> Output {
        let mut about = json!({
            "agentName": self.agent.name,
            "turnsUsed": self.turn,
            "tokensUsed": {"input": self.usage.input_tokens, "output": self.usage.output_tokens},
            "toolCallsMade": self.called,
            "durationMs": self.began.elapsed().as_millis() as u64,
            "estimatedCostUsd": self.usage.cost_usd,
            "model": self.agent.model.name,
            "runId": self.id,
            "stop": stop,
        });
        let facts = self.agent.extract.from(&text);
        if let Value::Object(about) = &mut about {
            about.extend(facts);
        }
        Output::text(text).with_metadata("agentMetadata", about)
    }
}
