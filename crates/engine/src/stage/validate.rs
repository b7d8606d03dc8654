//! Validates arguments against the tool's schema.
//!
//! Defaults are filled in if the tool counts on them (see
//! [`crate::tool::Kind::counts_on_defaults`]), a rejected value is repaired
//! where its meaning is unambiguous (see [`super::repair`]), and all remaining
//! violations are reported at once. Valid values are never changed.

use std::sync::Arc;

use serde_json::Value;

use super::repair::repair;
use crate::error::{Error, Violation, phrase};
use crate::journal::OpenCall;
use crate::tool::{Schema, Tool};
use crate::value::pointer;

/// Longer keys are not compared for similarity.
const MAX_KEY: usize = 128;

/// Validated arguments. Only this module creates them, and a `Call` cannot be
/// built without them: so no executor ever sees unchecked arguments.
pub(crate) struct Checked(Arc<Value>);

impl Checked {
    pub(crate) fn get(&self) -> &Arc<Value> {
        &self.0
    }
}

/// Validates, completes and repairs the arguments of a call. `strict` disables
/// repair and refuses unknown keys.
pub(crate) fn validate(tool: &Tool, open: &mut OpenCall, strict: bool) -> Result<Checked, Error> {
    check(tool, open.arguments(), strict)?;
    Ok(Checked(Arc::clone(open.arguments())))
}

/// Validates arguments that a hook has rewritten.
pub(crate) fn validate_rewritten(
    tool: &Tool,
    arguments: Value,
    strict: bool,
) -> Result<Checked, Error> {
    let mut arguments = Arc::new(arguments);
    check(tool, &mut arguments, strict)?;
    Ok(Checked(arguments))
}

fn check(tool: &Tool, arguments: &mut Arc<Value>, strict: bool) -> Result<(), Error> {
    let schema = tool.input()?;
    fill_defaults(&schema, arguments);
    let unknown = if strict { unknown_keys(tool, arguments) } else { Vec::new() };
    let fits = schema.accepts(arguments)
        || (!strict && repair(&schema, Arc::make_mut(arguments)) && {
            // Repaired objects may lack defaults.
            fill_defaults(&schema, arguments);
            schema.accepts(arguments)
        });
    if fits && unknown.is_empty() {
        return Ok(());
    }
    let mut violations = unknown;
    violations.extend(schema.violations(arguments));
    name_misspelt(tool, arguments, &mut violations);
    Err(Error::invalid_arguments(mask_hidden(tool, violations)))
}

fn fill_defaults(schema: &Schema, arguments: &mut Arc<Value>) {
    if schema.has_defaults() {
        schema.fill_defaults(Arc::make_mut(arguments));
    }
}

/// Unknown keys, where the schema does not say whether they are allowed.
fn unknown_keys(tool: &Tool, arguments: &Value) -> Vec<Violation> {
    let input = &tool.spec().input;
    let open = ["additionalProperties", "patternProperties", "allOf", "anyOf", "oneOf", "$ref"];
    let (Some(arguments), Some(properties)) =
        (arguments.as_object(), crate::tool::object(input, "properties"))
    else {
        return Vec::new();
    };
    if open.iter().any(|keyword| input.get(keyword).is_some()) {
        return Vec::new();
    }
    arguments
        .keys()
        .filter(|key| !properties.contains_key(*key))
        .map(|key| Violation {
            path: format!("/{}", pointer::escape(key)),
            expected: phrase::NO_SUCH_KEY.text(),
            got: phrase::UNKNOWN_PARAMETER.text(),
        })
        .collect()
}

/// Adds a hint to violations: which key was probably meant.
fn name_misspelt(tool: &Tool, arguments: &Value, violations: &mut [Violation]) {
    const ENOUGH: f64 = 0.8;
    let (Some(arguments), Some(properties)) =
        (arguments.as_object(), crate::tool::object(tool.model_schema(), "properties"))
    else {
        return;
    };
    let missing_value = phrase::MISSING.text();
    for violation in violations.iter_mut().filter(|violation| violation.got == missing_value) {
        let missing = violation.path.trim_start_matches('/').to_owned();
        let meant = arguments
            .keys()
            .filter(|key| !properties.contains_key(*key) && key.len() <= MAX_KEY)
            .map(|key| (strsim::jaro_winkler(key, &missing), key))
            .filter(|(likeness, _)| *likeness >= ENOUGH)
            .max_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((_, key)) = meant {
            let why = format!("{key}{}{missing}", phrase::NO_PARAMETER);
            violation.got = phrase::MISSPELT.with(why);
        }
    }
}

/// Masks values of hidden parameters in what the model reads.
fn mask_hidden(tool: &Tool, mut violations: Vec<Violation>) -> Vec<Violation> {
    let hidden: Vec<&str> = tool
        .hidden()
        .iter()
        .filter(|parameter| !parameter.overridable)
        .map(|parameter| parameter.name.as_str())
        .collect();
    for violation in &mut violations {
        let top = violation.path.trim_start_matches('/').split('/').next().unwrap_or_default();
        let top = pointer::unescape(top);
        // A violation of the root would show all values, including hidden ones.
        if hidden.contains(&top.as_str()) || (violation.path.is_empty() && !hidden.is_empty()) {
            violation.got = phrase::HIDDEN.text();
        }
    }
    violations
}
