//! Lints for hand-written REST entries, each naming the setting. Without them, the first
//! call would report the mistake.

use serde_json::Value;
use windlass::{SettingFlaw, ToolSpec};

use super::document::{names_in, pairs_in};
use super::entry::{self, Shape};
use super::import::METHODS;
use super::plan::Plan;
use super::schema::brief;

/// All mistakes in a tool's entry. An entry that cannot be parsed is reported when it is
/// bound.
pub fn flaws(spec: &ToolSpec) -> Vec<SettingFlaw> {
    let (plan, open) = match entry::read(spec) {
        Ok(Shape::Planned(plan)) => (plan, false),
        Ok(Shape::Open(plan)) => (plan, true),
        Err(_) => return Vec::new(),
    };
    let mut flaws = Vec::new();
    flaws.extend(method(&plan));
    flaws.extend(address(spec, &plan));
    if !open {
        flaws.extend(unfilled(spec, &plan));
    }
    flaws
}

fn method(plan: &Plan) -> Option<SettingFlaw> {
    let known = METHODS.contains(&plan.method.as_str());
    (!known).then(|| SettingFlaw {
        key: "method".into(),
        message: format!("`{}` is no method of HTTP", brief(&plan.method, 40)),
        hint: format!("write one of {}", METHODS.join(", ")),
    })
}

fn address(spec: &ToolSpec, plan: &Plan) -> Option<SettingFlaw> {
    let url = plan.base_url.trim();
    let whole = ["http://", "https://"].iter().any(|scheme| url.starts_with(scheme));
    if whole || url.starts_with('{') {
        return None;
    }
    let keys = ["base_url", "baseUrl", "url"];
    let key = keys.into_iter().find(|key| spec.entry.config.contains_key(*key));
    let hint = match url.contains("://") {
        true => "only http and https are spoken".to_owned(),
        false => format!("write `https://{}`", brief(url.trim_start_matches('/'), 80)),
    };
    let message =
        format!("the address `{}` does not begin with https:// or http://", brief(url, 80));
    Some(SettingFlaw { key: key.unwrap_or("base_url").into(), message, hint })
}

/// Names in the path that no parameter fills.
fn unfilled(spec: &ToolSpec, plan: &Plan) -> Vec<SettingFlaw> {
    let properties = spec.input.get("properties").and_then(Value::as_object);
    let is_filled = |name: &str| {
        let placed = plan.parameters.iter().find(|place| place.name == name);
        let argument = placed.map_or(name, |place| place.argument());
        properties.is_some_and(|all| all.contains_key(argument))
            || spec.parameters.contains_key(argument)
    };
    let in_query = pairs_in(&plan.path).into_iter().map(|(_, name)| name);
    let names = names_in(&plan.path).into_iter().chain(in_query);
    names
        .filter(|name| !is_filled(name))
        .map(|name| SettingFlaw {
            key: "path".into(),
            message: format!("nothing fills `{{{name}}}` of the path"),
            hint: format!("add a parameter `{name}`, or take it out of the path"),
        })
        .collect()
}
