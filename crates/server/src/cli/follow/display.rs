//! Shows progress on stderr. Errors of writing are ignored: they do not matter to
//! the calls.

use std::collections::HashSet;
use std::io::{self, IsTerminal, Write};

use tokio::time::Instant;
use windlass::{CallId, CallInfo, Event, EventBody, EventSubject};

use crate::cli::output::{self, Screen};

const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
/// Room for the tool's own words beside the spinner.
const MAX_WORDS: usize = 60;

/// What is shown while calls run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgressWatch {
    Nothing,
    /// A line that moves.
    Spinner,
    /// Every event on a line.
    Events,
    /// Every event as a line of JSON.
    JsonEvents,
    /// Every event as a front end that shows a model's turn wants it, as a
    /// line of JSON.
    QueueEvents,
}

impl ProgressWatch {
    /// What suits a person or a program; `json` is what the latter gets.
    pub(crate) fn choose(progress: bool, screen: &Screen, json: Self) -> Self {
        match (progress, screen.json) {
            (true, true) => json,
            (true, false) => Self::Events,
            (false, _) if !screen.quiet && io::stderr().is_terminal() => Self::Spinner,
            (false, _) => Self::Nothing,
        }
    }
}

/// What was shown so far.
pub(super) struct Display {
    watch: ProgressWatch,
    began: Instant,
    shown: usize,
    name: String,
    words: String,
    /// How many calls a batch has, and which of them have not ended.
    total: usize,
    waiting: HashSet<CallId>,
}

impl Display {
    pub(super) fn new(watch: ProgressWatch) -> Self {
        let (name, words, waiting) = Default::default();
        Self { watch, began: Instant::now(), shown: 0, name, words, total: 0, waiting }
    }

    pub(super) fn event(&mut self, event: &Event) {
        match self.watch {
            ProgressWatch::Nothing => {}
            ProgressWatch::Spinner => self.remember(event),
            ProgressWatch::Events => {
                let at = self.began.elapsed().as_secs_f64();
                let words = output::one_line(&describe(&event.body));
                let _ = writeln!(io::stderr(), "{at:>8.3}s {} {words}", event.body.name());
            }
            ProgressWatch::JsonEvents => {
                if let Ok(line) = serde_json::to_string(event) {
                    let _ = writeln!(io::stderr(), "{line}");
                }
            }
            ProgressWatch::QueueEvents => {
                for event in event.to_queue_events() {
                    if let Ok(line) = serde_json::to_string(&event) {
                        let _ = writeln!(io::stderr(), "{line}");
                    }
                }
            }
        }
    }

    fn remember(&mut self, event: &Event) {
        if let Some(call) = event.body.call() {
            self.name = output::one_line(&call.tool_name);
        }
        match event.body.subject() {
            EventSubject::QueuedCall(call, _) => {
                self.total += 1;
                self.waiting.insert(call.call_id);
            }
            EventSubject::EndedCall(call) => {
                self.waiting.remove(&call.call_id);
            }
            EventSubject::Progress(_, progress) => {
                let words = output::one_line(&progress.to_text());
                self.words = words.chars().take(MAX_WORDS).collect();
            }
            EventSubject::Call(_)
            | EventSubject::EndedBatch(..)
            | EventSubject::Tools(_)
            | EventSubject::Definitions(_)
            | EventSubject::Missed(_) => {}
        }
    }

    pub(super) fn frame(&mut self) {
        let frame = FRAMES[self.shown % FRAMES.len()];
        self.shown += 1;
        let seconds = self.began.elapsed().as_secs_f64();
        let of = match self.total {
            0 => String::new(),
            total => format!("{} of {total} calls done, ", total - self.waiting.len()),
        };
        let mut err = io::stderr().lock();
        let _ = write!(err, "\r{frame} {of}{} {seconds:.1} s  {}\x1b[K", self.name, self.words);
        let _ = err.flush();
    }

    pub(super) fn clear(&self) {
        if self.watch == ProgressWatch::Spinner && self.shown > 0 {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// An event in words: which call it is about, and what is new.
fn describe(body: &EventBody) -> String {
    let news = body.news();
    match body.call() {
        Some(CallInfo { tool_name, call_ref: Some(call_ref), .. }) => {
            format!("{tool_name} ({call_ref}) {news}")
        }
        Some(CallInfo { tool_name, call_ref: None, .. }) => format!("{tool_name} {news}"),
        None => news,
    }
}
