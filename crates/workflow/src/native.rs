//! The native form: `kind: workflow` with `steps`.
//!
//! A step is a mapping with one key that says what it does (`call`, `map`,
//! `ask` …), and others that say when and how. Steps run when what they name
//! has ended; those that may change something run in the order of the file.
//! Everything is checked when the definition is loaded.

mod blocks;
mod calls;
mod formula;
mod reader;
mod values;
mod waits;

use std::sync::Arc;

use serde_json::Value;
use windlass::{Error, SettingFlaw, Tool, ToolSpec};

pub use formula::Formula;

use crate::limits::RunLimits;
use crate::plan::{Plan, Returns, RunBudget};
use reader::{Names, Reading};

/// Makes the tool of a `prompt` step: it takes `{message}` and answers with a
/// text, or with JSON of the schema.
pub type PromptMaker = Arc<dyn Fn(&Prompt) -> Result<Arc<Tool>, Error> + Send + Sync>;

/// How a `prompt` step asks a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prompt {
    /// Name of the tool, for records.
    pub name: String,
    /// The model; the operator's, if the step names none.
    pub model: Option<String>,
    /// The system prompt.
    pub system: Option<String>,
    /// Schema of the answer; without one it is text.
    pub schema: Option<Value>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Maximum number of tokens of the answer.
    pub max_tokens: Option<u64>,
}

/// Reads a definition.
pub(crate) fn read(
    spec: &ToolSpec,
    most: &RunLimits,
    prompts: Option<&PromptMaker>,
) -> Result<Plan, Error> {
    let config = &spec.entry.config;
    if config.contains_key("dify") {
        return crate::dify::read(spec, most, prompts);
    }
    let limits = match config.get("limits") {
        None => most.clone(),
        Some(own) => read_limits(own, most)?,
    };
    let mut reading = Reading::new(&limits, prompts, &spec.input);
    let budget = match config.get("budget") {
        None => RunBudget::default(),
        Some(budget) => RunBudget::deserialize_or(budget, &mut reading),
    };
    let names = Names::of_run();
    let graph = match config.get("steps") {
        Some(steps) => reading.block(steps, "steps", &names, 0),
        None => {
            let hint = "write `steps:` with a mapping of step names, such as \
                `steps: {page: {call: webscraper, with: {url: \"${input.url}\"}}}`";
            reading.flaw("steps", "a workflow needs `steps`", hint);
            None
        }
    };
    let returns = match config.get("output") {
        None => Returns::Last,
        Some(output) => {
            let known = graph.as_ref().map_or(names.clone(), |(_, known)| known.clone());
            match reading.formula(output, "output", &known) {
                Some(formula) => Returns::Value(formula),
                None => Returns::Last,
            }
        }
    };
    let flaws = reading.into_flaws();
    match graph {
        Some((graph, _)) if flaws.is_empty() => Plan::new(spec, graph, returns, limits, budget),
        _ => Err(Error::invalid_definition(flaws)),
    }
}

pub(crate) fn read_limits(own: &Value, most: &RunLimits) -> Result<RunLimits, Error> {
    let mut whole = serde_json::to_value(most).unwrap_or_default();
    if let (Value::Object(whole), Value::Object(own)) = (&mut whole, own) {
        whole.extend(own.clone());
    }
    let read: Result<RunLimits, _> = serde_json::from_value(whole);
    let read = read.map_err(|error| {
        Error::invalid_definition(vec![SettingFlaw {
            key: "limits".into(),
            message: error.to_string(),
            hint: "write numbers, such as `limits: {steps_run: 500, map_items: 100}`".to_owned(),
        }])
    })?;
    Ok(read.at_most(most))
}

impl RunBudget {
    fn deserialize_or(budget: &Value, reading: &mut Reading<'_>) -> Self {
        serde_json::from_value(budget.clone()).unwrap_or_else(|error| {
            let hint = "write `budget: {cost: 0.5, tokens: 50000, calls: 20}`";
            reading.flaw("budget", error.to_string(), hint);
            Self::default()
        })
    }
}
