//! Progress of an agent's run on a terminal: streamed text, tool calls and cost.

use std::io::{self, Write};
use std::sync::Arc;

use anstyle::{AnsiColor, Style};
use parking_lot::Mutex;
use serde_json::Value;
use windlass::{CallResult, ErrorKind, Lang, Usage};
use windlass_executors::agent::{Listener, RunEvent};

use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{Screen, beginning, one_line, spent, visible};

const AGENT: Style = AnsiColor::Cyan.on_default();
const QUIET: Style = Style::new().dimmed();
/// How much of a call's arguments is shown.
const MAX_ARGUMENTS: usize = 100;

/// Tells what an agent does.
pub(crate) struct RunDisplay {
    agent: String,
    screen: Screen,
    state: Arc<Mutex<RunDisplayState>>,
}

#[derive(Default)]
struct RunDisplayState {
    /// Whether the last thing that was written did not end its line.
    in_line: bool,
    /// What the agent has said itself.
    said: String,
    /// Its run, once that has begun.
    run: Option<String>,
}

impl RunDisplay {
    pub(crate) fn new(agent: &str, screen: Screen) -> Self {
        Self { agent: agent.to_owned(), screen, state: Arc::default() }
    }

    /// Hears the run.
    pub(crate) fn listener(&self) -> Listener {
        let (own, screen, state) = (self.agent.clone(), self.screen, Arc::clone(&self.state));
        Listener::new(move |event| tell(&own, screen, &mut state.lock(), event))
    }

    /// Shows what came of it.
    pub(crate) fn end(&self, result: &CallResult, lang: Lang) -> Result<Exit, Failure> {
        if self.screen.json {
            self.screen.document(&result.to_json(lang))?;
        }
        let mut state = self.state.lock();
        let exit = match &result.outcome {
            Ok(output) => {
                let text = output.to_text();
                // A run that was stopped says more than its model did.
                if !self.screen.json && words(&text) != words(&state.said) {
                    end_line(&mut state);
                    self.screen.line(visible(&text))?;
                }
                Exit::Success
            }
            Err(error) => {
                end_line(&mut state);
                self.screen.error(error.message());
                // What was kept of it is not lost.
                if let Some(run) = state.run.as_deref().filter(|_| can_go_on(error.kind())) {
                    self.screen.note(format_args!("to go on: windlass agent resume {run}"));
                }
                Exit::of(error.kind())
            }
        };
        end_line(&mut state);
        if !self.screen.json {
            let run = state.run.clone().unwrap_or_else(|| run_of(result));
            let usage = result.usage.as_deref().copied().unwrap_or_default();
            self.screen.note(cost(usage, result, &run));
        }
        state.said.clear();
        Ok(exit)
    }
}

/// A text without what stands between its words: blocks that came one after
/// another are lines of the result.
fn words(text: &str) -> String {
    text.split_whitespace().collect()
}

/// What a run took, in a line.
fn cost(usage: Usage, result: &CallResult, run: &str) -> String {
    format!(
        "{} tokens in, {} out, ${:.4}, {}; run {run}",
        usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens,
        usage.output_tokens,
        usage.cost_usd,
        spent(result.run_time),
    )
}

/// The id by which the run can go on.
fn run_of(result: &CallResult) -> String {
    let known = result.metadata().and_then(|facts| facts.get("agentMetadata"));
    let known = known.and_then(|about| about["runId"].as_str().map(str::to_owned));
    known.unwrap_or_else(|| result.id.to_string())
}

/// Whether a run that failed so has something to go on with.
fn can_go_on(kind: ErrorKind) -> bool {
    !matches!(kind, ErrorKind::Conflict)
}

fn tell(own: &str, screen: Screen, state: &mut RunDisplayState, event: &RunEvent<'_>) {
    if let RunEvent::Turn { agent, run, .. } | RunEvent::Call { agent, run, .. } = event
        && *agent == own
    {
        state.run.get_or_insert_with(|| (*run).to_owned());
    }
    match event {
        RunEvent::Restart { agent, text, .. } if *agent == own => {
            if let Some(kept) = state.said.strip_suffix(*text).map(str::len) {
                state.said.truncate(kept);
            }
            end_line(state);
            screen.note("the answer broke off, and is asked for again");
        }
        // Only the agent's own words are the answer; those of others are work.
        RunEvent::Text { agent, text, .. } if *agent == own => {
            state.said.push_str(text);
            if !screen.json {
                let _ = write!(anstream::stdout(), "{}", visible(text));
                let _ = io::stdout().flush();
                state.in_line = !text.ends_with('\n');
            }
        }
        RunEvent::Call { agent, tool, arguments, .. } if !screen.quiet && !screen.json => {
            end_line(state);
            // What was said before a call is not the answer.
            if *agent == own {
                state.said.clear();
            }
            let arguments = match arguments {
                Value::String(written) => one_line(written),
                value => one_line(&value.to_string()),
            };
            let arguments = beginning(&arguments, MAX_ARGUMENTS);
            anstream::eprintln!(
                "{AGENT}{agent}{AGENT:#} {QUIET}calls{QUIET:#} {tool} {QUIET}{arguments}{QUIET:#}"
            );
        }
        RunEvent::Call { agent, .. } if *agent == own => state.said.clear(),
        RunEvent::Result { agent, tool, is_success, run_time, .. }
            if !screen.quiet && !screen.json =>
        {
            end_line(state);
            let how = if *is_success { "done" } else { "failed" };
            let took = spent(*run_time);
            anstream::eprintln!("{AGENT}{agent}{AGENT:#} {QUIET}{tool} {how}, {took}{QUIET:#}");
        }
        _ => {}
    }
}

fn end_line(state: &mut RunDisplayState) {
    if std::mem::take(&mut state.in_line) {
        println!();
    }
}
