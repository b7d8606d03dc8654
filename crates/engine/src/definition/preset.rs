//! `presets`: parameters that are not filled by the model.

use serde_json::Value;

use super::check;
use super::node::{MapEntry, Node, NodeValue};
use super::reader::{self, FaultReport, MapFields};
use crate::tool::{FilledBy, Preset, ToolSpec};

/// Reads `presets: {parameter: value}`. A mapping with `value` or `variable` is
/// the long form; any other mapping is a literal value.
pub(super) fn read(
    node: &Node,
    spec: &ToolSpec,
    report: &mut FaultReport<'_>,
) -> Vec<(String, Preset)> {
    let NodeValue::Map(entries) = &node.data else {
        report.add(node.at, format!("`presets` is a mapping, found {}", node.kind_name()));
        return Vec::new();
    };
    let properties = spec.input.get("properties").and_then(Value::as_object);
    let mut presets = Vec::new();
    for MapEntry { key, at, value } in entries {
        match properties.and_then(|properties| properties.get(key)) {
            Some(schema) => {
                let preset = read_one(key, value, schema, spec, report);
                presets.extend(preset.map(|preset| (key.clone(), preset)));
            }
            None if report.is_full() => break,
            None => {
                let known: Vec<&str> =
                    properties.into_iter().flat_map(|all| all.keys()).map(String::as_str).collect();
                let what = format!("parameter `{key}` in `presets`");
                if known.is_empty() {
                    report.add(*at, format!("unknown {what}; the tool has none"));
                } else {
                    reader::unknown(*at, &what, key, &known, report);
                }
            }
        }
    }
    presets
}

fn read_one(
    name: &str,
    node: &Node,
    schema: &Value,
    spec: &ToolSpec,
    report: &mut FaultReport<'_>,
) -> Option<Preset> {
    let secret = spec.parameters.get(name).is_some_and(|known| known.filled_by == FilledBy::Secret);
    let constant = |value: &Node, report: &mut FaultReport<'_>| match &value.data {
        // Secrets are not validated further, because no message may show them.
        NodeValue::Text(text) if secret => Some(Preset::secret(text.as_str())),
        _ if secret => {
            report.add(value.at, format!("the preset of `{name}` is a secret, and must be a text"));
            None
        }
        _ => {
            check_fit(name, value, schema, report);
            Some(Preset::value(value.to_json()))
        }
    };
    if !node.has("value") && !node.has("variable") {
        return constant(node, report);
    }
    let mut fields = MapFields::of(node, "a preset", report)?;
    let value = fields.written("value");
    let variable = fields.get("variable");
    let overridable =
        fields.get("overridable").and_then(|node| reader::flag(node, "overridable", report));
    fields.finish(report);
    let preset = match (value, variable) {
        (Some(_), Some(variable)) => {
            report.add(variable.at, "a preset has either `value` or `variable`");
            return None;
        }
        (Some(value), None) => constant(value, report)?,
        (None, variable) => Preset::variable(reader::text(variable?, "variable", report)?),
    };
    Some(if overridable == Some(true) { preset.overridable() } else { preset })
}

/// Reports a preset that does not match its schema. The value is not shown:
/// people also preset what they should have declared a secret.
fn check_fit(name: &str, value: &Node, schema: &Value, report: &mut FaultReport<'_>) {
    if let Some(misfit) = check::misfit(schema, value, report) {
        let message = format!("the preset of `{name}` {}", misfit.place);
        report.hinted(value.at, message, misfit.expected);
    }
}
