//! Begins a run, or resumes it from the log after its process ended.

use windlass::{CallId, CallRecord, Error, Usage};

use super::Run;
use crate::agent::log::RunEntry;

/// What a previous driver has logged.
struct Driven {
    call: Option<CallId>,
    own: Usage,
    /// The usage of agents that it called.
    nested: Usage,
}

impl Run<'_> {
    /// Logs the start of a new run; or replays the log and, before it continues, logs
    /// that this call is now the driver.
    pub(super) async fn begin_or_resume(&mut self) -> Result<(), Error> {
        let Some(log) = &self.agent.log else { return Ok(()) };
        let entries = log.read(&self.call.caller().tenant, &self.id).await?;
        if entries.is_empty() {
            return self.keep(self.beginning()).await;
        }
        let driven = self.recall_all(entries);
        if self.ended.is_some() {
            return Ok(());
        }
        self.keep(RunEntry::Resumed { call: self.call.id() }).await?;
        self.pay_for(driven).await
    }

    fn beginning(&self) -> RunEntry {
        let caller = self.call.caller();
        let before = self.messages.len().saturating_sub(1);
        RunEntry::Began {
            tool: self.call.tool().name().to_string(),
            input: self.call.arguments().clone(),
            call: Some(self.call.id()),
            history: self.messages[..before].to_vec(),
            conversation: caller.conversation.as_deref().map(str::to_owned),
            user: caller.user.as_deref().map(str::to_owned),
        }
    }

    /// Replays the log. Returns the usage of each previous driver, which it has paid for
    /// unless it was killed first.
    fn recall_all(&mut self, entries: Vec<RunEntry>) -> Vec<Driven> {
        self.entries = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        let mut driven: Vec<Driven> = Vec::new();
        let mut entries = entries.into_iter().peekable();
        while let Some(entry) = entries.next() {
            // Of several partial versions of a message, the last one counts.
            let is_again = matches!(entries.peek(), Some(RunEntry::Answered { .. }));
            if is_again && matches!(entry, RunEntry::Answered { .. }) {
                continue;
            }
            match (&entry, driven.last_mut()) {
                (RunEntry::Answered { usage, .. }, Some(last)) => last.own += *usage,
                (RunEntry::Results { usage, .. }, Some(last)) => last.nested += *usage,
                (RunEntry::Began { call, .. }, _) => driven.push(Driven::by(*call)),
                (RunEntry::Resumed { call }, _) => driven.push(Driven::by(Some(*call))),
                _ => {}
            }
            self.recall(entry);
        }
        driven
    }

    fn recall(&mut self, entry: RunEntry) {
        match entry {
            RunEntry::Began { history, .. } => {
                let before = self.messages.len().saturating_sub(1);
                self.messages.splice(..before, history);
            }
            RunEntry::Resumed { .. } => {}
            RunEntry::Answered { turn, message, broken, usage } => {
                self.recall_usage(usage);
                self.turn = turn;
                self.say(&message);
                self.unanswered = Some((message, broken));
            }
            RunEntry::Results { messages, tools, usage } => {
                self.messages.extend(self.unanswered.take().map(|(message, _)| message));
                self.messages.extend(messages);
                self.shared_budget.take_calls(tools.len() as u64);
                self.called.extend(tools);
                self.recall_usage(usage);
            }
            RunEntry::Ended { stop, text } => self.ended = Some((stop, text)),
        }
    }

    fn recall_usage(&mut self, usage: Usage) {
        self.usage += usage;
        self.shared_budget.recall(usage);
    }

    /// Charges this call for usage that nobody has paid for: the record of a killed call
    /// has none. A driver that has paid has paid for all before it, too; one without a
    /// record may still be running.
    async fn pay_for(&self, driven: Vec<Driven>) -> Result<(), Error> {
        for Driven { call, own, nested } in driven.into_iter().rev() {
            let Some(call) = call else { break };
            match self.tools.record(call).await? {
                Some(record) if !has_paid(&record) => {
                    self.call.charge(own);
                    self.call.charge_nested(nested);
                }
                _ => break,
            }
        }
        Ok(())
    }
}

impl Driven {
    fn by(call: Option<CallId>) -> Self {
        Self { call, own: Usage::default(), nested: Usage::default() }
    }
}

fn has_paid(record: &CallRecord) -> bool {
    let details = record.details.as_ref();
    details.is_some_and(|details| details.usage.is_some() || details.total_usage.is_some())
}
