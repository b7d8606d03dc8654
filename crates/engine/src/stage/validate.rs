//! Checks the arguments against the tool's schema.
//!
//! Defaults are filled, a value that the schema rejects is repaired where its
//! meaning is plain (see [`super::repair`]), and whatever is wrong after that
//! is reported at once. A value that the schema accepts is never touched.

use serde_json::Value;

use super::repair::repair;
use crate::error::{Error, Violation};
use crate::tool::Tool;

/// Checks, fills and repairs the arguments. `strict` turns repair off and
/// refuses unknown keys.
pub(crate) fn validate(tool: &Tool, arguments: &mut Value, strict: bool) -> Result<(), Error> {
    let schema = tool.input();
    schema.fill_defaults(arguments);
    let unknown = if strict { unknown_keys(tool, arguments) } else { Vec::new() };
    let fits = schema.accepts(arguments) || (!strict && repair(schema, arguments));
    if fits && unknown.is_empty() {
        return Ok(());
    }
    let mut violations = unknown;
    violations.extend(schema.violations(arguments));
    Err(Error::invalid_arguments(mask_hidden(tool, violations)))
}

/// Keys that the schema does not name, where it says nothing about others.
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
            path: format!("/{key}"),
            expected: "no such key".to_owned(),
            got: "an unknown parameter".to_owned(),
        })
        .collect()
}

/// Takes the values of hidden parameters out of what the model reads.
fn mask_hidden(tool: &Tool, mut violations: Vec<Violation>) -> Vec<Violation> {
    for violation in &mut violations {
        let top = violation.path.trim_start_matches('/').split('/').next().unwrap_or_default();
        if tool.hidden().iter().any(|parameter| parameter.name == top) {
            violation.got = "hidden".to_owned();
        }
        // A violation of the whole shows all values, hidden ones too.
        if violation.path.is_empty() && !tool.hidden().is_empty() {
            violation.got = "hidden".to_owned();
        }
    }
    violations
}
