//! One turn of a run: asks the model and runs the calls that it makes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use windlass::{Error, ErrorKind, ModelCall, OpenTurn, Turn, TurnAnswer, Usage, definition};

use super::super::gate::Gate;
use super::super::log::{RunEntry, Stop};
use super::super::told;
use super::{Run, RunEvent, Writing};
use crate::model::{Again, Finish, Payer, Prompt, Refused, Reply, Watch, says_nothing, text_of};

/// The end marker of a stream of OpenAI's API.
const DONE: &[u8] = b"data: [DONE]\n\n";
/// How long to wait for the usage after a complete answer.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How long to wait for the end of the stream after that.
const FAREWELL: Duration = Duration::from_millis(50);

impl Run<'_> {
    /// Asks the model. Returns why the run stops, if the model made no call.
    pub(super) async fn ask(&mut self) -> Result<Option<Stop>, Error> {
        let agent = self.agent;
        let declared = self.declared();
        let format = agent.model.api().turn_format();
        let tools = definition::export(declared.iter().map(|tool| &**tool), format, agent.lang);
        let allowed = declared.iter().map(|tool| tool.wire_name().to_owned()).collect();
        self.gate.lock().begin(self.turn, allowed);
        let fallback = agent.spec.fallback.as_deref();
        let mut asking = agent.models.asking(&agent.model, Payer::of(self.call), fallback);
        loop {
            let prompt = Prompt {
                system: agent.spec.system.get(agent.lang),
                messages: &self.messages,
                tools: &tools,
                max_tokens: agent.spec.max_tokens,
                temperature: agent.spec.temperature,
                stream: agent.spec.stream,
            };
            let mut watch = Watch::begin(&agent.models, self.call, &agent.model, &prompt);
            let reply = watch.checked(asking.ask(&prompt).await)?;
            watch.answered_by(&reply.model);
            self.writing = Some(Writing::at(agent.models.price(&reply.model)));
            let mut open = watch.checked(self.open_turn())?;
            let broken = watch.checked(self.read(reply, &mut open).await)?;
            open.end();
            let Some(writing) = self.writing.take() else { return Ok(None) };
            let finish = writing.tally.finish.clone();
            let broken = broken.or_else(|| unfinished(&open, &finish));
            let calls_nothing = open.calls().is_empty() && open.held().next().is_none();
            let broken = broken.or_else(|| {
                let said = open.message().unwrap_or_default();
                let is_empty = text_of(agent.model.api(), &said).trim().is_empty();
                (finish == Finish::Usual && calls_nothing && is_empty)
                    .then(|| Refused::broken(says_nothing()))
            });
            let error = broken.as_ref().map(|broken| broken.error.kind());
            watch.end(&writing.tally, calls_nothing, error);
            let Some(broken) = broken else {
                let usage = self.pay(&writing);
                return self.answer(open, usage, finish).await;
            };
            let usage = self.pay_so_far(&writing);
            if !calls_nothing {
                return self.answer(open, usage, finish).await;
            }
            asking.again(broken).await?;
            if !writing.text.is_empty() {
                let text = &writing.text;
                self.tell(|agent, run| RunEvent::Restart { agent, run, text });
            }
        }
    }

    /// Runs the calls of a message from the log.
    pub(super) async fn answer_again(
        &mut self,
        message: Value,
        broken: &[usize],
    ) -> Result<Option<Stop>, Error> {
        let turn = Turn::read_as(self.agent.model.api().turn_format(), message)?;
        let turn = turn.broken_off(broken);
        // Deferred tools that it had found before are no longer active, but it may call
        // them.
        let found = turn.calls().iter().filter_map(|call| self.tools.find(&call.name));
        let found = found.filter(|tool| self.agent.spec.allows(tool.spec()));
        let allowed =
            self.declared().into_iter().chain(found).map(|tool| tool.wire_name().to_owned());
        self.gate.lock().begin(self.turn, allowed.collect());
        let mut open = self.open_turn()?;
        open.read(turn);
        open.release();
        let is_done = open.calls().is_empty();
        self.results(open).await?;
        Ok(is_done.then_some(Stop::Done))
    }

    fn open_turn(&self) -> Result<OpenTurn, Error> {
        let format = self.agent.model.api().turn_format();
        let turn = self.tools.open_turn(format, Arc::clone(&self.context), self.agent.lang)?;
        let gate = Arc::clone(&self.gate);
        Ok(turn.hold().prepare(move |call, request| Gate::judge(&mut gate.lock(), call, request)))
    }

    /// Reads the stream. Calls start as soon as they are complete; those with possible
    /// side effects wait until the log has the message with the call. Returns why the
    /// stream broke off, if it did; errors after the end of the message are ignored.
    async fn read(
        &mut self,
        mut reply: Reply,
        open: &mut OpenTurn,
    ) -> Result<Option<Refused>, Error> {
        let api = self.agent.model.api();
        if !reply.is_stream {
            let whole = match reply.events.next().await {
                Ok(Some(whole)) => whole,
                Ok(None) => return Ok(None),
                Err(refused) => return Ok(Some(refused)),
            };
            self.hear(&whole);
            match Turn::read_as(api.turn_format(), whole) {
                Ok(turn) => open.read(turn),
                // A refused prompt has no message.
                Err(_) if self.is_refused() => return Ok(None),
                Err(why) => {
                    let error = Error::new(ErrorKind::UpstreamFailed, why.message());
                    return Ok(Some(Refused::broken(error)));
                }
            }
            let text = open.message().map(|message| text_of(api, &message)).unwrap_or_default();
            self.tell(|agent, run| RunEvent::Text { agent, run, text: &text });
            return Ok(None);
        }
        let mut whole_at = None;
        loop {
            let next = match whole_at {
                None => reply.events.next().await,
                Some(at) => {
                    let until = at + self.patience();
                    timeout_at(until, reply.events.next()).await.unwrap_or(Ok(None))
                }
            };
            let event = match next {
                Ok(Some(event)) => event,
                Ok(None) => {
                    // Some servers mark the end only in this way.
                    if reply.events.is_done() {
                        let _ = open.feed(DONE);
                    }
                    return Ok(None);
                }
                Err(_) if whole_at.is_some() => return Ok(None),
                Err(refused) => return Ok(Some(refused)),
            };
            self.hear(&event);
            match open.feed_event(event) {
                Err(_) if whole_at.is_some() => return Ok(None),
                Err(error) => {
                    let error = Error::new(ErrorKind::UpstreamFailed, error.message());
                    return Ok(Some(Refused::broken(error)));
                }
                Ok(()) => {}
            }
            if open.is_whole() {
                whole_at.get_or_insert_with(Instant::now);
            }
            if open.held().next().is_some() {
                if open.held().any(|call| self.may_change(call)) {
                    let usage = self.writing.as_ref().map(Writing::usage).unwrap_or_default();
                    let answered = self.answered(open, usage);
                    self.keep(answered).await?;
                }
                self.release(open);
            }
        }
    }

    /// How long to read on after a complete answer: some APIs send the usage last.
    fn patience(&self) -> Duration {
        let is_told = self.writing.as_ref().is_some_and(|it| !it.tally.usage.is_zero());
        if is_told { FAREWELL } else { LAST_WORDS }
    }

    fn is_refused(&self) -> bool {
        let finish = self.writing.as_ref().map(|writing| &writing.tally.finish);
        matches!(finish, Some(Finish::Refused(_)))
    }

    /// Counts the usage in an event, and emits its text.
    fn hear(&mut self, event: &Value) {
        let api = self.agent.model.api();
        let Some(writing) = &mut self.writing else { return };
        let texts = writing.tally.hear(api, event);
        texts.iter().for_each(|text| writing.text.push_str(text));
        for text in texts.into_iter().filter(|text| !text.is_empty()) {
            self.tell(|agent, run| RunEvent::Text { agent, run, text });
        }
    }

    fn may_change(&self, call: &ModelCall) -> bool {
        self.tools.find(&call.name).is_some_and(|tool| !tool.spec().behaviour.read_only)
    }

    /// Starts the calls that are complete.
    fn release(&self, open: &mut OpenTurn) {
        for call in open.held() {
            let (tool, arguments) = (&*call.name, &call.arguments);
            self.tell(|agent, run| RunEvent::Call { agent, run, tool, arguments });
        }
        open.release();
    }

    /// The log entry of an answer.
    fn answered(&self, open: &OpenTurn, usage: Usage) -> RunEntry {
        let message = self.spoken(open.message().unwrap_or_default());
        let calls = open.calls().iter().chain(open.held()).enumerate();
        let broken = calls.filter(|(_, call)| call.is_broken()).map(|(at, _)| at).collect();
        RunEntry::Answered { turn: self.turn, message, broken, usage }
    }

    /// A message in a form that its API accepts as input.
    fn spoken(&self, mut message: Value) -> Value {
        self.agent.model.api().fill(&mut message, told::nothing(self.agent.lang));
        message
    }

    /// Logs the complete answer, then waits for its calls.
    async fn answer(
        &mut self,
        mut open: OpenTurn,
        usage: Usage,
        finish: Finish,
    ) -> Result<Option<Stop>, Error> {
        let said = open.message().unwrap_or_default();
        let says_nothing = text_of(self.agent.model.api(), &said).trim().is_empty();
        self.say(&said);
        let answered = self.answered(&open, usage);
        self.keep(answered).await?;
        self.release(&mut open);
        let is_done = open.calls().is_empty();
        self.results(open).await?;
        if !is_done {
            return Ok(None);
        }
        let stop = match finish {
            Finish::Length => Stop::MaxTokens,
            Finish::Refused(word) => {
                if says_nothing {
                    self.last_text = told::refused(&word, self.agent.lang);
                }
                Stop::Refused
            }
            Finish::Usual | Finish::Unreadable(_) => Stop::Done,
        };
        if self.last_text.trim().is_empty() {
            self.last_text = told::nothing(self.agent.lang).to_owned();
        }
        Ok(Some(stop))
    }

    async fn results(&mut self, open: OpenTurn) -> Result<(), Error> {
        let calls = open.calls().to_vec();
        let TurnAnswer { messages, assistant, results, .. } = open.finish().await;
        self.gate.lock().heed(&calls, &results);
        // A placeholder for an empty message is not shown as the agent's text.
        if let Some(message) = assistant {
            self.messages.push(self.spoken(message));
        }
        let mut nested = Usage::default();
        let mut tools = Vec::with_capacity(results.len());
        for result in &results {
            nested += result.usage.as_deref().copied().unwrap_or_default();
            tools.push(result.tool_name.to_string());
            self.was_cut |= result.output().is_some_and(|output| output.truncated.is_some());
            let (tool, is_success) = (&*result.tool_name, result.is_success());
            let run_time = result.run_time;
            self.tell(|agent, run| RunEvent::Result { agent, run, tool, is_success, run_time });
        }
        self.spend_below(nested);
        self.called.extend(tools.iter().cloned());
        self.messages.extend(messages.iter().cloned());
        if !calls.is_empty() {
            self.keep(RunEntry::Results { messages, tools, usage: nested }).await?;
        }
        let usage = self.usage;
        self.tell(|agent, run| RunEvent::Used { agent, run, usage });
        Ok(())
    }
}

/// What is wrong with an answer that has ended, if anything.
fn unfinished(open: &OpenTurn, finish: &Finish) -> Option<Refused> {
    match finish {
        Finish::Unreadable(word) => {
            let why = format!("the model wrote what its API cannot read ({word})");
            let error = Error::new(ErrorKind::UpstreamFailed, why);
            Some(Refused { error, again: Again::AtOnce })
        }
        // A refusal need not have an end marker.
        Finish::Refused(_) => None,
        _ if open.is_whole() => None,
        _ => {
            let error = Error::new(ErrorKind::Network, "the model's answer broke off");
            Some(Refused::broken(error))
        }
    }
}
