//! Guard for an agent's tool calls: only its own tools, a limit per turn, and loop
//! detection.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde_json::Value;
use windlass::{
    CallId, CallRequest, CallResult, Context, Error, ErrorKind, IdempotencyKey, Kind, Lang,
    ModelCall, Tools,
};

use super::shared_budget::SharedBudget;
use super::{AgentSpec, RunScope, told};

/// After this many turns with a warning, a looping run is stopped.
const WARNINGS: usize = 2;

/// Checks the calls of a run.
pub(super) struct Gate {
    pub(super) run: Arc<str>,
    /// The agent's own call.
    pub(super) call: CallId,
    pub(super) tools: Tools,
    pub(super) context: Arc<Context>,
    pub(super) lang: Lang,
    pub(super) max_per_turn: usize,
    pub(super) max_repeats: u32,
    pub(super) shared_budget: SharedBudget,
    /// Wire names of the tools that the model was given.
    pub(super) allowed: HashSet<String>,
    pub(super) turn: u32,
    /// Position of the next call in its turn.
    pub(super) place: usize,
    seen: HashMap<u64, Seen>,
    /// Turns with a loop warning; a model reads warnings only between turns.
    warned: HashSet<u32>,
    /// Turns in which the model exceeded its budget of calls.
    overdrawn: HashSet<u32>,
}

/// A call that was made before.
#[derive(Default)]
struct Seen {
    result: u64,
    /// How many times in a row it gave that result.
    times: u32,
}

impl Gate {
    pub(super) fn new(
        spec: &AgentSpec,
        run: Arc<str>,
        call: CallId,
        tools: Tools,
        context: Arc<Context>,
        shared_budget: SharedBudget,
        lang: Lang,
    ) -> Self {
        Self {
            run,
            call,
            tools,
            context,
            lang,
            max_per_turn: spec.max_calls_per_turn,
            max_repeats: spec.max_repeats,
            shared_budget,
            allowed: HashSet::new(),
            turn: 0,
            place: 0,
            seen: HashMap::new(),
            warned: HashSet::new(),
            overdrawn: HashSet::new(),
        }
    }

    /// Begins the next turn.
    pub(super) fn begin(&mut self, turn: u32, allowed: HashSet<String>) {
        (self.turn, self.place, self.allowed) = (turn, 0, allowed);
    }

    /// Allows a call and gives it an idempotency key, or refuses it and says why.
    pub(super) fn judge(
        &mut self,
        call: &ModelCall,
        request: CallRequest,
    ) -> Result<CallRequest, Error> {
        let place = self.place;
        self.place += 1;
        if place >= self.max_per_turn {
            let why = told::too_many(self.max_per_turn, self.lang);
            return Err(refusal(ErrorKind::BatchLimit, why));
        }
        let tool = self.tools.find(&call.name);
        let tool = tool.filter(|tool| self.allowed.contains(tool.wire_name()));
        let Some(tool) = tool else {
            let mut known: Vec<&str> = self.allowed.iter().map(String::as_str).collect();
            known.sort_unstable();
            let why = format!("{}; there are: {}", call.name, known.join(", "));
            return Err(Error::new(ErrorKind::ToolNotFound, why));
        };
        if let Some(seen) = self.seen.get(&fingerprint(&call.name, &call.arguments))
            && self.max_repeats > 0
            && seen.times >= self.max_repeats
        {
            self.warned.insert(self.turn);
            let why = told::repeats(&call.name, seen.times, self.lang);
            return Err(refusal(ErrorKind::Denied, why));
        }
        if !self.shared_budget.take_call() {
            self.overdrawn.insert(self.turn);
            return Err(refusal(ErrorKind::RateLimited, told::no_calls_left(self.lang)));
        }
        let id = format!("{}.{}.{place}", self.run, self.turn);
        // A nested agent has a run log of its own, from which it resumes: it needs no key.
        Ok(match tool.spec() {
            spec if spec.kind == Kind::Agent => {
                let scope = RunScope { parent: Some(self.call), run: id.into() };
                request.context(Context::clone(&self.context).object(scope))
            }
            spec if spec.behaviour.read_only => request,
            _ => request.idempotency_key(format!("{}{id}", IdempotencyKey::OF_RUNS)),
        })
    }

    /// Remembers the results of calls.
    pub(super) fn heed(&mut self, calls: &[ModelCall], results: &[CallResult]) {
        for (call, result) in calls.iter().zip(results) {
            let seen = self.seen.entry(fingerprint(&call.name, &call.arguments)).or_default();
            if result.error().is_some_and(|error| error.kind() == ErrorKind::Denied) {
                continue;
            }
            let mut hasher = DefaultHasher::new();
            result.to_text(self.lang).hash(&mut hasher);
            match (hasher.finish(), &mut *seen) {
                (same, seen) if same == seen.result => seen.times += 1,
                (other, seen) => *seen = Seen { result: other, times: 1 },
            }
        }
    }

    /// Whether it was warned often enough about repeating itself.
    pub(super) fn is_in_a_loop(&self) -> bool {
        self.warned.len() > WARNINGS
    }

    /// Whether it still calls tools after it was told that its budget of calls is spent.
    pub(super) fn is_overdrawn(&self) -> bool {
        self.overdrawn.len() > 1
    }
}

fn refusal(kind: ErrorKind, feedback: impl Into<String>) -> Error {
    let feedback = feedback.into();
    Error::new(kind, feedback.clone()).with_feedback(feedback)
}

/// A hash of tool and arguments that is independent of how the arguments are written.
fn fingerprint(name: &str, arguments: &Value) -> u64 {
    let arguments = match arguments {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| arguments.clone()),
        value => value.clone(),
    };
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    sorted(arguments).to_string().hash(&mut hasher);
    hasher.finish()
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.into_iter().collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(entries.into_iter().map(|(key, value)| (key, sorted(value))).collect())
        }
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        value => value,
    }
}
