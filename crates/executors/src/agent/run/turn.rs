//! One turn of a run: the model is asked, and what it asks for happens.

use std::sync::Arc;

use serde_json::Value;
use windlass::{Error, ErrorKind, ModelCall, OpenTurn, Turn, TurnAnswer, Usage, definition};

use super::super::gate::Gate;
use super::super::log::Entry;
use super::super::told;
use super::{Run, RunEvent};
use crate::model::{Prompt, Reply, Tally, text_of};

/// How often a model is asked again whose answer broke off before anything was
/// done about it.
const BROKEN_OFF: u32 = 1;

/// How OpenAI's API ends a stream.
const DONE: &[u8] = b"data: [DONE]\n\n";

impl Run<'_> {
    /// Asks the model. True if it called nothing, so that the run is done.
    pub(super) async fn ask(&mut self) -> Result<bool, Error> {
        let agent = self.agent;
        let declared = self.declared();
        let format = agent.model.api().tool_format();
        let tools = definition::export(declared.iter().map(|tool| &**tool), format, agent.lang);
        let allowed = declared.iter().map(|tool| tool.name().wire()).collect();
        self.gate.lock().begin(self.turn, allowed);
        let mut broken_off = 0;
        loop {
            let prompt = Prompt {
                system: agent.spec.system.get(agent.lang),
                messages: &self.messages,
                tools: &tools,
                max_tokens: agent.spec.max_tokens,
                temperature: agent.spec.temperature,
                stream: agent.spec.stream,
            };
            let key = self.call.secret("api_key");
            let fallback = agent.spec.fallback.as_deref();
            let reply = agent.models.ask(&agent.model, &prompt, key, fallback).await?;
            let model = reply.model.name.clone();
            let mut open = self.open_turn()?;
            let mut tally = Tally::default();
            let broken = self.read(reply, &mut open, &mut tally).await?;
            open.end();
            let usage = agent.models.price(&model).of(tally.usage);
            self.spend(usage);
            let calls_nothing = open.calls().is_empty() && open.held().next().is_none();
            let whole = open.is_whole() && broken.is_none();
            if calls_nothing && !whole {
                if broken_off < BROKEN_OFF {
                    broken_off += 1;
                    continue;
                }
                let why = "the model's answer broke off";
                return Err(broken.unwrap_or_else(|| Error::new(ErrorKind::Network, why)));
            }
            return self.answer(open, usage).await;
        }
    }

    /// Runs the calls of a message that an earlier process has kept.
    pub(super) async fn answer_again(&mut self, message: Value) -> Result<bool, Error> {
        let turn = Turn::read_as(self.agent.model.api().turn_format(), message)?;
        // What it had found before is forgotten; what it may call is not.
        let found = turn.calls().iter().filter_map(|call| self.tools.find(&call.name));
        let found = found.filter(|tool| self.agent.spec.allows(tool.spec()));
        let allowed = self.declared().into_iter().chain(found).map(|tool| tool.name().wire());
        self.gate.lock().begin(self.turn, allowed.collect());
        let mut open = self.open_turn()?;
        open.read(turn);
        open.release();
        let is_done = open.calls().is_empty();
        self.results(open).await?;
        Ok(is_done)
    }

    fn open_turn(&self) -> Result<OpenTurn, Error> {
        let format = self.agent.model.api().turn_format();
        let turn = self.tools.open_turn(format, Arc::clone(&self.context), self.agent.lang)?;
        let gate = Arc::clone(&self.gate);
        Ok(turn.hold().prepare(move |call, request| Gate::judge(&mut gate.lock(), call, request)))
    }

    /// Reads the answer as it comes. Calls begin as soon as they are complete;
    /// those that may change something only once it is kept that the model asked
    /// for them. Returns why the answer broke off, if it did.
    async fn read(
        &mut self,
        mut reply: Reply,
        open: &mut OpenTurn,
        tally: &mut Tally,
    ) -> Result<Option<Error>, Error> {
        let api = self.agent.model.api();
        if !reply.is_stream {
            let Some(whole) = reply.events.next().await? else { return Ok(None) };
            tally.hear(api, &whole);
            let turn = Turn::read_as(api.turn_format(), whole)
                .map_err(|why| Error::new(ErrorKind::UpstreamFailed, why.message()))?;
            open.read(turn);
            let text = open.message().map(|message| text_of(api, &message)).unwrap_or_default();
            self.tell(|agent, run| RunEvent::Text { agent, run, text: &text });
            return Ok(None);
        }
        loop {
            let event = match reply.events.next().await {
                Ok(Some(event)) => event,
                Ok(None) => {
                    // Some servers say no more than this about the end.
                    if reply.events.is_done() {
                        let _ = open.feed(DONE);
                    }
                    return Ok(None);
                }
                Err(broken) => return Ok(Some(broken)),
            };
            for text in tally.hear(api, &event).into_iter().filter(|text| !text.is_empty()) {
                self.tell(|agent, run| RunEvent::Text { agent, run, text });
            }
            if let Err(error) = open.feed_event(event) {
                return Ok(Some(Error::new(ErrorKind::UpstreamFailed, error.message())));
            }
            if open.held().next().is_some() {
                if open.held().any(|call| self.may_change(call)) {
                    let answered = self.answered(open, tally.usage);
                    self.keep(answered).await?;
                }
                self.release(open);
            }
        }
    }

    fn may_change(&self, call: &ModelCall) -> bool {
        self.tools.find(&call.name).is_some_and(|tool| !tool.spec().behaviour.read_only)
    }

    /// Lets the calls begin that are complete.
    fn release(&self, open: &mut OpenTurn) {
        for call in open.held() {
            let (tool, arguments) = (&*call.name, &call.arguments);
            self.tell(|agent, run| RunEvent::Call { agent, run, tool, arguments });
        }
        open.release();
    }

    /// What is kept of an answer.
    fn answered(&self, open: &OpenTurn, usage: Usage) -> Entry {
        Entry::Answered { turn: self.turn, message: open.message().unwrap_or_default(), usage }
    }

    /// Keeps the whole answer, then waits for its calls.
    async fn answer(&mut self, mut open: OpenTurn, usage: Usage) -> Result<bool, Error> {
        let answered = self.answered(&open, usage);
        if let Entry::Answered { message, .. } = &answered {
            self.say(message);
        }
        self.keep(answered).await?;
        self.release(&mut open);
        let is_done = open.calls().is_empty();
        self.results(open).await?;
        if is_done && self.last_text.trim().is_empty() {
            self.last_text = told::nothing(self.agent.lang).to_owned();
        }
        Ok(is_done)
    }

    async fn results(&mut self, open: OpenTurn) -> Result<(), Error> {
        let calls = open.calls().to_vec();
        let TurnAnswer { messages, assistant, results, .. } = open.finish().await;
        self.gate.lock().heed(&calls, &results);
        if let Some(message) = assistant {
            self.say(&message);
            self.messages.push(message);
        }
        let mut nested = Usage::default();
        let mut tools = Vec::with_capacity(results.len());
        for result in &results {
            nested += result.usage.as_deref().copied().unwrap_or_default();
            tools.push(result.tool_name.to_string());
            let (tool, is_success) = (&*result.tool_name, result.is_success());
            let run_time = result.run_time;
            self.tell(|agent, run| RunEvent::Result { agent, run, tool, is_success, run_time });
        }
        if !nested.is_zero() {
            self.call.charge_nested(nested);
            self.usage += nested;
        }
        self.called.extend(tools.iter().cloned());
        self.messages.extend(messages.iter().cloned());
        if !calls.is_empty() {
            self.keep(Entry::Results { messages, tools, usage: nested }).await?;
        }
        let usage = self.usage;
        self.tell(|agent, run| RunEvent::Used { agent, run, usage });
        Ok(())
    }

    fn spend(&mut self, usage: Usage) {
        self.call.charge(usage);
        self.usage += usage;
    }
}
