//! [`Plan`]: a definition that is ready to run.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use windlass::definition::ValueSchema;
use windlass::{Error, ErrorKind, SettingFlaw, ToolSpec, Usage};

use crate::graph::Graph;
use crate::limits::RunLimits;
use crate::native::Formula;
use crate::run::Frame;

/// A definition that is ready to run.
pub struct Plan {
    /// The tool.
    pub name: Arc<str>,
    /// Identifies the definition: runs that wait keep to theirs.
    pub digest: Arc<str>,
    /// The definition, from which the plan can be made again.
    pub spec: ToolSpec,
    /// The steps.
    pub graph: Graph,
    /// What the run returns.
    pub returns: Returns,
    /// What it may use.
    pub limits: RunLimits,
    /// What its calls may cost.
    pub budget: RunBudget,
    /// How long it may run, without waiting.
    pub timeout: Duration,
    /// Whether the definition says that it changes nothing.
    pub read_only: bool,
    /// What it has to return.
    pub(crate) output: Option<ValueSchema>,
}

/// What a run returns.
pub enum Returns {
    /// The value of the last step.
    Last,
    /// This value, of the names of the outermost steps.
    Value(Formula),
}

/// What the calls of a run may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunBudget {
    /// The cost of its models, in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// The tokens of its models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The number of its calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
}

impl RunBudget {
    /// What is spent, if anything is.
    pub(crate) fn exceeded(&self, usage: Usage, calls: u64) -> Option<String> {
        if let Some(most) = self.cost.filter(|most| usage.cost_usd >= *most) {
            return Some(format!("${:.4} of ${most}", usage.cost_usd));
        }
        if let Some(most) = self.tokens.filter(|most| usage.total_tokens() >= *most) {
            return Some(format!("{} of {most} tokens", usage.total_tokens()));
        }
        let most = self.calls.filter(|most| calls > *most)?;
        Some(format!("{most} calls"))
    }
}

impl Plan {
    /// The plan of a definition with this graph.
    pub(crate) fn new(
        spec: &ToolSpec,
        graph: Graph,
        returns: Returns,
        limits: RunLimits,
        budget: RunBudget,
    ) -> Result<Self, Error> {
        let output = match &spec.output {
            Some(schema) => Some(ValueSchema::compile(schema).map_err(|error| {
                Error::invalid_definition(vec![SettingFlaw {
                    key: "output_schema".into(),
                    message: error.message().to_owned(),
                    hint: String::new(),
                }])
            })?),
            None => None,
        };
        Ok(Self {
            name: spec.name.shared(),
            digest: digest_of(spec),
            spec: spec.clone(),
            graph,
            returns,
            limits,
            budget,
            timeout: spec.timeout.unwrap_or(Duration::from_secs(3600)),
            read_only: spec.behaviour.read_only,
            output,
        })
    }

    /// The value of a run whose steps have ended.
    pub(crate) fn returned(&self, frame: &Frame, last: Arc<Value>) -> Result<Arc<Value>, Error> {
        match &self.returns {
            Returns::Last => Ok(last),
            Returns::Value(formula) => formula.value(frame, &self.limits).map(Arc::new),
        }
    }
}

impl Plan {
    /// Checks what a run returns.
    pub(crate) fn check(&self, value: &Value) -> Result<(), Error> {
        let violations = self.output.iter().flat_map(|schema| schema.violations(value));
        let told: Vec<String> = violations.map(|violation| violation.to_string()).collect();
        if told.is_empty() {
            return Ok(());
        }
        let why = format!("what the workflow returns does not fit its schema: {}", told.join("; "));
        Err(Error::new(ErrorKind::InvalidOutput, why))
    }
}

/// Identifies a definition by its content.
pub(crate) fn digest_of(spec: &ToolSpec) -> Arc<str> {
    let text = serde_json::to_vec(spec).unwrap_or_default();
    let hash = Sha256::digest(&text);
    hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect::<String>().into()
}
