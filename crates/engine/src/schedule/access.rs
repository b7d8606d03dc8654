//! Classifies the access of a call: by its tool, its arguments and, if nothing
//! is declared, its name.

use serde_json::Value;

use super::plan::Access;
use crate::call::context::Context;
use crate::tool::{Tool, ToolSpec};

/// Prefixes of names that suggest a read-only tool. Only used for tools that
/// declare nothing.
const SAFE_PREFIXES: [&str; 4] = ["invoke_", "search_", "get_", "check_"];
const SAFE_NAMES: [&str; 1] = ["web_search"];

impl Access {
    /// Classifies a call by, in this order: its arguments, the tool's declared
    /// behaviour, the resources it writes, its name. Anything not known to be
    /// safe is exclusive.
    pub(crate) fn of(tool: &Tool, arguments: &Value, context: &Context) -> Self {
        let spec = tool.spec();
        let declared = match spec.safe_when.is_empty() {
            false => Some(is_safe_input(spec, arguments)),
            true => spec.behaviour.concurrency_safe,
        };
        match declared {
            Some(true) => Self::Shared,
            _ if !spec.writes.is_empty() => resources(spec, arguments, context),
            Some(false) => Self::Exclusive,
            None if spec.behaviour.read_only || is_safe_name(tool.name().as_str()) => Self::Shared,
            None => Self::Exclusive,
        }
    }
}

fn is_safe_input(spec: &ToolSpec, arguments: &Value) -> bool {
    spec.safe_when.iter().all(|(parameter, values)| {
        arguments.get(parameter).is_some_and(|value| values.contains(value))
    })
}

fn is_safe_name(name: &str) -> bool {
    SAFE_NAMES.contains(&name) || SAFE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The resources that a call writes; exclusive if one cannot be named.
fn resources(spec: &ToolSpec, arguments: &Value, context: &Context) -> Access {
    let named: Option<Vec<String>> =
        spec.writes.iter().map(|template| fill(template, arguments, context)).collect();
    named.map_or(Access::Exclusive, Access::Writes)
}

/// Expands a template such as `memory:{user_id}` with arguments, variables and
/// the caller's user.
pub(super) fn fill(template: &str, arguments: &Value, context: &Context) -> Option<String> {
    let mut filled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, tail) = after.split_once('}')?;
        filled.push_str(before);
        let value = arguments.get(name).or_else(|| context.variables.get(name));
        match value {
            Some(Value::String(text)) => filled.push_str(text),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => filled += &value.to_string(),
            None if name == "user_id" => filled.push_str(context.caller.user.as_deref()?),
            _ => return None,
        }
        rest = tail;
    }
    filled.push_str(rest);
    Some(filled)
}
