//! Dify's files as workflows.
//!
//! ```yaml
//! name: support_desk
//! kind: workflow
//! description: Answers questions of customers.
//! parameters: [{name: query, type: string, required: true}]
//! dify:
//!   source: |                       # the file, as Dify exported it
//!     app: {mode: workflow, …}
//!   models: {"tongyi/qwen-max": openai/gpt-5}
//!   tools: {"tavily/tavily_search": web_search}
//!   datasets: {"6084ed3f-…": search_handbook}
//!   replace: {"1711526421923": lookup, code: run_code}
//! ```
//!
//! The graph is run by [`windlass_dify::run::Machine`], which has Dify's rules; this
//! module does the jobs that it hands out. What reaches out is a step with a place of its
//! own in the log (`1711526421923`, `pages[3].lookup`), so that it is not repeated after a
//! crash. All else is computed again: it follows from the answers.

mod answer;
mod import;
mod job;
mod reach;
mod shape;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use windlass::{BoxFuture, Error, ErrorKind, SettingFlaw, ToolSpec, Tools};
use windlass_dify::document::Mode;
use windlass_dify::node::NodeKind;
use windlass_dify::pool::Pool;
use windlass_dify::run::{self, Event, Job, Machine};
use windlass_dify::step::{self, Failure, Outcome, Work};
use windlass_dify::value::{Object, Value as DifyValue};
use windlass_dify::{Document, Fault};

pub(crate) use import::dry_run;
pub use import::{Import, import};

use crate::graph::{Graph, Node, Order, Policy};
use crate::limits::RunLimits;
use crate::log::{Entry, StepEnd};
use crate::native::{PromptMaker, read_limits};
use crate::plan::{Plan, Returns, RunBudget};
use crate::run::{Acting, At, StepValue};
use crate::step::{Done, Halt, Step};
use job::Reached;

/// The step that is the whole file.
const WHOLE: &str = "dify";

/// The key `dify` of a definition.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    /// The file, as Dify exported it.
    source: String,
    /// Models by the names that they have in the file.
    models: BTreeMap<String, String>,
    /// Tools by the names that they have in the file.
    tools: BTreeMap<String, String>,
    /// Tools that search, by the ids of datasets.
    datasets: BTreeMap<String, String>,
    /// Tools that take the place of nodes: by the id of a node, or by a type.
    replace: BTreeMap<String, String>,
}

/// A file, with what its nodes reach.
pub(crate) struct Dify {
    document: Document,
    settings: Settings,
    prompts: Option<PromptMaker>,
}

/// Reads a definition with the key `dify`.
pub(crate) fn read(
    spec: &ToolSpec,
    most: &RunLimits,
    prompts: Option<&PromptMaker>,
) -> Result<Plan, Error> {
    let config = &spec.entry.config;
    let flaw = |key: &str, message: String, hint: &str| {
        let (key, hint) = (key.to_owned().into(), hint.to_owned());
        Error::invalid_definition(vec![SettingFlaw { key, message, hint }])
    };
    let limits = match config.get("limits") {
        None => most.clone(),
        Some(own) => read_limits(own, most)?,
    };
    let budget = match config.get("budget") {
        None => RunBudget::default(),
        Some(budget) => serde_json::from_value(budget.clone()).map_err(|error| {
            flaw("budget", error.to_string(), "write `budget: {cost: 0.5, calls: 20}`")
        })?,
    };
    let settings: Settings = match config.get("dify") {
        Some(Value::String(source)) => Settings { source: source.clone(), ..Settings::default() },
        other => serde_json::from_value(other.cloned().unwrap_or_default()).map_err(|error| {
            flaw("dify", error.to_string(), "write `dify: {source: …}` with the file's text")
        })?,
    };
    let document = Document::read("source", &settings.source)
        .map_err(|faults| Error::invalid_definition(faults.into_iter().map(flaw_of).collect()))?;
    let count = document.graph.nodes().len();
    if count > limits.steps {
        let most = limits.steps;
        let message = format!("the file has {count} nodes, and {most} are allowed");
        return Err(flaw("dify/source", message, "split the workflow"));
    }
    let dify = Arc::new(Dify { document, settings, prompts: prompts.cloned() });
    let shape = shape::graph(&dify);
    let whole = Node {
        id: WHOLE.into(),
        step: Box::new(Whole { dify, shape }),
        needs: Vec::new(),
        policy: Policy::default(),
        key: WHOLE.into(),
    };
    Plan::new(spec, Graph::new(vec![whole], Order::Edges), Returns::Last, limits, budget)
}

fn flaw_of(fault: Fault) -> SettingFlaw {
    let place = fault.at;
    SettingFlaw {
        key: "dify/source".into(),
        message: format!("line {}, column {}: {}", place.line, place.column, fault.message),
        hint: fault.hint,
    }
}

/// A whole file as one step; its nodes have places of their own.
struct Whole {
    dify: Arc<Dify>,
    /// The nodes, for pictures and checks.
    shape: Graph,
}

impl Step for Whole {
    fn kind(&self) -> &'static str {
        "dify"
    }

    fn blocks(&self) -> Vec<&Graph> {
        vec![&self.shape]
    }

    fn may_change(&self, tools: &Tools) -> bool {
        self.shape.nodes().iter().any(|node| node.step.may_change(tools))
    }

    fn run<'a>(&'a self, at: &'a At<'a>) -> BoxFuture<'a, Result<Done, Halt>> {
        Box::pin(self.dify.run(at))
    }
}

/// A job that was done.
struct Finished {
    job: Job,
    /// The variables that it saw.
    pool: Pool,
    end: Result<Reached, Halt>,
}

impl Dify {
    async fn run(self: &Arc<Self>, at: &At<'_>) -> Result<Done, Halt> {
        let pool = self.pool(at)?;
        let limits = run::Limits {
            steps: at.limits().steps_run,
            rounds: at.limits().map_items.max(at.limits().rounds),
        };
        let mut machine = Machine::new(&self.document.graph, pool, limits);
        let mut running = FuturesUnordered::new();
        let mut acting: Vec<Acting> = Vec::new();
        // The errors of failures, which know more than their messages.
        let mut errors: Vec<Error> = Vec::new();
        // Places whose steps speak for themselves.
        let mut reached: HashSet<String> = HashSet::new();
        loop {
            while let Some(job) = machine.next_job() {
                let pool = machine.pool(&job).clone();
                let node = self.document.graph.node(job.node);
                let work = match self.replacement(node) {
                    Some(tool) => Ok(job::Todo::Replaced { tool, given: self.seen(node, &pool) }),
                    None => step::begin(node, &pool).map(job::Todo::Work),
                };
                match work {
                    Ok(job::Todo::Work(Work::Done(outcome))) => machine.end(&job, Ok(outcome)),
                    Err(failure) => machine.end(&job, Err(failure)),
                    Ok(todo) => {
                        reached.insert(job.path.clone());
                        let own = Acting::within(&at.acting);
                        acting.push(own.clone());
                        running.push(async move {
                            let end = self.reach(at, &job, todo, own).await;
                            Finished { job, pool, end }
                        });
                    }
                }
                self.tell(at, &mut machine, &reached);
            }
            let is_over = machine.has_failed();
            // Of calls that may be changing something, the end is awaited.
            if is_over && !acting.iter().any(Acting::is_acting) {
                break;
            }
            let Some(Finished { job, pool, end }) = running.next().await else { break };
            let node = self.document.graph.node(job.node);
            let mut was_error = false;
            let end = match end {
                Ok(Reached::Answer(answer)) => step::finish(node, &pool, answer),
                Ok(Reached::Outcome(outcome)) => Ok(outcome),
                Ok(Reached::Failure(failure)) => Err(failure),
                Err(Halt::Failed(error)) if !at.drive.is_taken_over(&error) => {
                    let failure = failure_of(&error);
                    errors.push(error);
                    was_error = true;
                    Err(failure)
                }
                Err(halt) => return Err(halt),
            };
            self.stream(&mut machine, &job, &end);
            machine.end(&job, end);
            if was_error && !machine.has_failed() {
                // A round failed, and its container goes on.
                at.drive.handled();
            }
            self.tell(at, &mut machine, &reached);
        }
        let ended = machine.ended();
        self.tell(at, &mut machine, &reached);
        match ended.failure {
            Some((place, failure)) => {
                let id = &self.document.graph.node(place).id;
                let known = errors.into_iter().rfind(|error| error.message() == failure.message);
                let error = known.unwrap_or_else(|| {
                    Error::new(ErrorKind::ToolError, failure.message)
                        .with_metadata("step", id.as_str())
                });
                let step = error.metadata().get("step").and_then(Value::as_str).unwrap_or(id);
                at.drive.failed_at(&step.into());
                Err(Halt::Failed(error))
            }
            None => {
                let outputs = ended.outputs.iter();
                let outputs: Map<String, Value> =
                    outputs.map(|(name, value)| (name.clone(), value.to_json())).collect();
                Ok(Done::new(outputs))
            }
        }
    }

    /// The variables that a run starts with.
    fn pool(&self, at: &At<'_>) -> Result<Pool, Error> {
        let input = match at.get("input") {
            Some(StepValue::Value(input)) => Value::clone(&input),
            _ => Value::Null,
        };
        let Value::Object(mut input) = input else {
            return Err(Error::new(ErrorKind::InvalidArguments, "the arguments are no object"));
        };
        let mut system = Object::new();
        let caller = at.drive.context.caller();
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                system.insert(name.to_owned(), DifyValue::from_json(value));
            }
        };
        let root = self.document.graph.root().map(|root| self.document.graph.node(root));
        let asks = |name: &str| match root.map(|root| &root.kind) {
            Some(NodeKind::Start(start)) => start.inputs.iter().any(|input| input.name == name),
            _ => false,
        };
        let mut take = |name: &str| if asks(name) { None } else { input.remove(name) };
        let (query, files) = (take("query"), take("files"));
        if self.document.mode == Mode::Chat {
            set("query", Some(query.unwrap_or_else(|| "".into())));
            set("conversation_id", Some(caller.conversation.as_deref().unwrap_or_default().into()));
            set("dialogue_count", Some(1.into()));
        }
        set("files", Some(files.unwrap_or_else(|| json!([]))));
        set("user_id", Some(caller.user.as_deref().unwrap_or_default().into()));
        set("app_id", Some(at.drive.plan.name.as_ref().into()));
        set("workflow_id", Some(at.drive.plan.name.as_ref().into()));
        set("workflow_run_id", Some(at.drive.run.as_ref().into()));
        if let Some(StepValue::Value(run)) = at.get("run") {
            let started = run["started"].as_str().and_then(|at| at.parse::<jiff::Timestamp>().ok());
            set("timestamp", started.map(|started| started.as_second().into()));
        }
        let mut pool = run::pool(&self.document, &system);
        let given: Object =
            input.into_iter().map(|(name, value)| (name, DifyValue::from_json(value))).collect();
        if let Some(root) = root {
            step::start(root, &given, &mut pool);
        }
        Ok(pool)
    }

    /// What a tool sees that takes the place of a node: the variables that its settings
    /// name.
    fn seen(&self, node: &windlass_dify::node::Node, pool: &Pool) -> Value {
        let mut variables = Map::new();
        for reference in node.references() {
            if let Some(segment) = pool.get(&reference.selector) {
                variables.insert(reference.selector.join("."), segment.value.to_json());
            }
        }
        json!({"node": node.id, "type": node.kind.name(), "variables": variables})
    }

    /// The tool that takes the place of a node.
    fn replacement(&self, node: &windlass_dify::node::Node) -> Option<Arc<str>> {
        let replace = &self.settings.replace;
        let tool = replace.get(&node.id).or_else(|| replace.get(node.kind.name()))?;
        Some(tool.as_str().into())
    }

    /// Text that came at once is streamed as one piece.
    fn stream(&self, machine: &mut Machine<'_>, job: &Job, end: &Result<Outcome, Failure>) {
        let kind = &self.document.graph.node(job.node).kind;
        if let (NodeKind::Llm(_), Ok(outcome)) = (kind, end)
            && let Some(text) = outcome.outputs.get("text")
        {
            machine.text(job, "text", &text.text(), false);
            machine.text(job, "text", "", true);
        }
    }

    /// Tells those who follow the run what happened in it, and keeps the ends of nodes that
    /// reached for nothing: a run that goes on computes them again, but people look at them.
    fn tell(&self, at: &At<'_>, machine: &mut Machine<'_>, reached: &HashSet<String>) {
        let graph = &self.document.graph;
        let kind = |node: usize| json!({"kind": graph.node(node).kind.name()});
        for event in machine.events() {
            match event {
                Event::Text(chunk) if !chunk.text.is_empty() => {
                    let id = &graph.node(chunk.response).id;
                    at.drive.tell("text", id, || json!({"text": chunk.text}));
                }
                Event::NodeStarted { node, path } if !reached.contains(&path) => {
                    at.drive.tell("step_started", &path, || kind(node));
                }
                Event::NodeSucceeded { node, path, outputs } if !reached.contains(&path) => {
                    let outputs = outputs.iter();
                    let value: Map<String, Value> = outputs
                        .map(|(name, segment)| (name.clone(), segment.value.to_json()))
                        .collect();
                    let value = Arc::new(Value::Object(value));
                    self.keep(at, &path, StepEnd::Succeeded { value, handle: None, handled: None });
                    at.drive.tell("step_completed", &path, || kind(node));
                }
                Event::NodeExcepted { path, failure, .. } if !reached.contains(&path) => {
                    let error = crate::log::Failure::of(&error_of(&failure));
                    let value = Arc::new(Value::Null);
                    let end = StepEnd::Succeeded { value, handle: None, handled: Some(error) };
                    self.keep(at, &path, end);
                    at.drive.handled();
                }
                Event::NodeFailed { path, failure, .. } if !reached.contains(&path) => {
                    let error = crate::log::Failure::of(&error_of(&failure));
                    self.keep(at, &path, StepEnd::Failed { error });
                    at.drive.failed_at(&path.into());
                }
                Event::NodeSkipped { path, .. } => {
                    self.keep(at, &path, StepEnd::Skipped { handled: None });
                    at.drive.tell("step_skipped", &path, || json!({}));
                }
                Event::RoundNext { node, round } => {
                    at.drive.tell("map_progress", &graph.node(node).id, || json!({"done": round}));
                }
                _ => {}
            }
        }
    }

    fn keep(&self, at: &At<'_>, place: &str, end: StepEnd) {
        if at.drive.ended(place).is_none() {
            let (place, usage) = (place.into(), windlass::Usage::default());
            at.drive.writer.add(Entry::Ended { place, end, asked: None, usage });
        }
    }
}

fn error_of(failure: &Failure) -> Error {
    Error::new(ErrorKind::ToolError, failure.message.as_str())
}

/// A failure of Dify's, from an error of ours.
fn failure_of(error: &Error) -> Failure {
    Failure::new(error.kind().name(), error.message())
}
