//! One tool in full.

use std::io;

use serde_json::Value;
use windlass::{Behaviour, FilledBy, Lang, Tool, ToolSpec, duration};

use super::example::example;
use crate::cli::output::{BOLD, DIM, Grid, Screen, cell, strong, visible};

/// Prints a tool for people.
pub(super) fn show(tool: &Tool, lang: Lang, screen: Screen) -> io::Result<()> {
    let spec = tool.spec();
    let label = spec.label.as_ref().map(|label| label.get(lang)).unwrap_or_default();
    let label = if label.is_empty() { String::new() } else { format!("  {DIM}{label}{DIM:#}") };
    screen.line(format_args!("{BOLD}{}{BOLD:#}{label}\n", spec.name))?;
    screen.paragraph(spec.description.get(lang).trim())?;
    screen.line("")?;
    for (name, value) in facts(tool) {
        screen.line(format_args!("{BOLD}{name:<10}{BOLD:#} {}", visible(&value)))?;
    }
    screen.line("")?;
    match spec.input.get("properties").and_then(Value::as_object) {
        Some(properties) if !properties.is_empty() => {
            let mut table = Grid::new(&["!PARAMETER", "!TYPE", "", "DEFAULT", "DESCRIPTION"]);
            for (name, schema) in properties {
                let default = schema.get("default").map(plain).unwrap_or_default();
                table.row([
                    strong(name),
                    cell(type_name(schema)),
                    cell(filled(spec, name)),
                    cell(default),
                    cell(description(spec, name, schema, lang)),
                ]);
            }
            screen.table(&table)?;
        }
        _ => screen.line("It takes no parameters.")?,
    }
    screen.line(format_args!("\n{BOLD}Example{BOLD:#}\n  {}", visible(&example(tool))))
}

fn facts(tool: &Tool) -> Vec<(&'static str, String)> {
    let spec = tool.spec();
    let mut facts = vec![
        ("kind", format!("{}, handler {}", spec.kind, spec.entry.handler)),
        ("category", spec.category.to_string()),
    ];
    let mut add = |name, value: Option<String>| facts.extend(value.map(|value| (name, value)));
    add("tags", Some(spec.tags.join(", ")).filter(|tags| !tags.is_empty()));
    add("provider", spec.provider.clone());
    add("version", spec.version.clone());
    add("author", spec.author.clone());
    add("group", spec.group.clone());
    add("behaviour", Some(behaviour(&spec.behaviour)));
    add("timeout", spec.timeout.map(duration::format));
    add("usually", spec.estimated_duration.map(duration::format));
    add("unchecked", tool.unchecked().map(str::to_owned));
    add("source", Some(tool.source().to_string()));
    facts
}

fn behaviour(behaviour: &Behaviour) -> String {
    let words: Vec<&str> = [
        (behaviour.read_only, "read-only"),
        (behaviour.concurrency_safe == Some(true), "runs beside other calls"),
        (behaviour.concurrency_safe == Some(false), "runs alone"),
        (behaviour.idempotent, "may be repeated"),
        (behaviour.destructive, "destructive"),
    ]
    .into_iter()
    .filter_map(|(holds, word)| holds.then_some(word))
    .collect();
    if words.is_empty() { "not declared".to_owned() } else { words.join(", ") }
}

/// Who gives the parameter its value.
fn filled(spec: &ToolSpec, name: &str) -> String {
    let known = spec.parameters.get(name);
    let required = known.is_some_and(|known| known.required)
        || spec.input["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
    let how = match known.map_or(FilledBy::Model, |known| known.filled_by) {
        FilledBy::Model => "",
        FilledBy::Form => "by --var",
        FilledBy::Secret => "by --secret",
    };
    let required = if required { "required" } else { "" };
    [required, how].join(" ").trim().to_owned()
}

fn description(spec: &ToolSpec, name: &str, schema: &Value, lang: Lang) -> String {
    // A schema speaks English, to the model; help has people's languages.
    let help = spec.parameters.get(name).and_then(|known| known.help.as_ref());
    let plain_text = schema["description"].as_str();
    let text = match (lang, help, plain_text) {
        (Lang::Zh, Some(help), _) | (Lang::En, Some(help), None) => help.get(lang),
        (_, _, text) => text.unwrap_or_default(),
    };
    let limits = limits(schema, lang);
    match (limits.is_empty(), lang) {
        (true, _) => text.to_owned(),
        (false, Lang::En) => format!("{text} ({limits})"),
        (false, Lang::Zh) => format!("{text}（{limits}）"),
    }
}

/// What the value may be, in words.
fn limits(schema: &Value, lang: Lang) -> String {
    let mut words = Vec::new();
    if let Some(choices) = schema["enum"].as_array() {
        let choices: Vec<String> = choices.iter().map(plain).collect();
        let choices = choices.join(", ");
        words.push(match lang {
            Lang::En => format!("one of: {choices}"),
            Lang::Zh => format!("可选值: {choices}"),
        });
    }
    for (least, most, noun, noun_zh) in [
        ("minimum", "maximum", "", ""),
        ("minLength", "maxLength", " characters", " 个字符"),
        ("minItems", "maxItems", " items", " 项"),
    ] {
        words.extend(match (schema.get(least), schema.get(most), lang) {
            (Some(least), Some(most), Lang::En) => Some(format!("{least} to {most}{noun}")),
            (Some(least), None, Lang::En) => Some(format!("from {least}{noun}")),
            (None, Some(most), Lang::En) => Some(format!("up to {most}{noun}")),
            (Some(least), Some(most), Lang::Zh) => Some(format!("{least} 到 {most}{noun_zh}")),
            (Some(least), None, Lang::Zh) => Some(format!("至少 {least}{noun_zh}")),
            (None, Some(most), Lang::Zh) => Some(format!("至多 {most}{noun_zh}")),
            (None, None, _) => None,
        });
    }
    words.extend(schema["pattern"].as_str().map(|pattern| match lang {
        Lang::En => format!("like {pattern}"),
        Lang::Zh => format!("匹配 {pattern}"),
    }));
    words.join("; ")
}

fn type_name(schema: &Value) -> String {
    match &schema["type"] {
        Value::String(name) if name == "array" => match &schema["items"] {
            items if items.is_object() => format!("array of {}", type_name(items)),
            _ => "array".to_owned(),
        },
        Value::String(name) => name.clone(),
        Value::Array(names) => names.iter().map(plain).collect::<Vec<_>>().join(" or "),
        _ => "any".to_owned(),
    }
}

/// A value as a word: text without its quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
