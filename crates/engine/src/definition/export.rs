//! Exports tools in the formats of model APIs and protocols.

use std::borrow::Cow;
use std::collections::HashMap;
use std::str::FromStr;

use serde_json::{Map, Value, json};

use crate::tool::{Behaviour, Tool, ToolSpec, object_schema};
use crate::turn::TurnFormat;
use crate::value::text::Lang;

/// Export format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// That of a model API.
    Turn(TurnFormat),
    /// The Model Context Protocol's `tools/list`.
    Mcp,
}

impl From<TurnFormat> for Format {
    fn from(format: TurnFormat) -> Self {
        Self::Turn(format)
    }
}

impl Format {
    /// All formats.
    pub fn all() -> impl Iterator<Item = Self> {
        TurnFormat::ALL.into_iter().map(Self::Turn).chain([Self::Mcp])
    }

    /// The name, as used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Turn(format) => format.name(),
            Self::Mcp => "mcp",
        }
    }
}

impl FromStr for Format {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::all().find(|format| format.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| {
            let known: Vec<&str> = Self::all().map(Self::name).collect();
            format!("unknown format `{name}`; use {}", known.join(", "))
        })
    }
}

/// Exports the declarations of tools, sorted by name so that prompts stay
/// stable and prompt caches effective.
///
/// Returns an array; for Gemini it belongs into `functionDeclarations`.
pub fn export<'t>(
    tools: impl IntoIterator<Item = &'t Tool>,
    format: impl Into<Format>,
    lang: Lang,
) -> Value {
    declarations(tools, format, lang).collect()
}

/// The same one by one, for those who write many.
pub fn declarations<'t>(
    tools: impl IntoIterator<Item = &'t Tool>,
    format: impl Into<Format>,
    lang: Lang,
) -> impl Iterator<Item = Value> {
    let format = format.into();
    let mut tools: Vec<&Tool> = tools.into_iter().collect();
    tools.sort_by(|a, b| a.name().cmp(b.name()));
    // The tool of a tenant may have the wire name of a shared one.
    let mut names = HashMap::<&str, usize>::new();
    tools.iter().for_each(|tool| *names.entry(tool.wire_name()).or_default() += 1);
    tools.into_iter().map(move |tool| {
        let shared = names[tool.wire_name()] > 1 && tool.owner().is_none();
        let name = if shared { tool.name().hashed() } else { tool.wire_name().to_owned() };
        declare_as(&name, tool.spec(), tool.model_schema(), format, lang)
    })
}

/// Exports one tool. `schema` is the model's view of its arguments:
/// [`Tool::model_schema`], or the whole input.
pub fn declare(spec: &ToolSpec, schema: &Value, format: impl Into<Format>, lang: Lang) -> Value {
    declare_as(&spec.name.wire(), spec, schema, format.into(), lang)
}

fn declare_as(name: &str, spec: &ToolSpec, schema: &Value, format: Format, lang: Lang) -> Value {
    let description = spec.description.get(lang);
    let schema = &in_language(spec, schema, lang);
    match format {
        Format::Turn(format) => format.declare(name, description, schema),
        Format::Mcp => mcp(spec, name, schema, lang),
    }
}

/// The schema with parameter descriptions in a language. The schema itself has
/// the English ones; descriptions for the model alone exist in one language
/// only.
fn in_language<'s>(spec: &ToolSpec, schema: &'s Value, lang: Lang) -> Cow<'s, Value> {
    let mut schema = Cow::Borrowed(schema);
    for (name, help) in
        spec.parameters.iter().filter_map(|(name, own)| Some((name, own.help.as_ref()?)))
    {
        let written = schema["properties"][name]["description"].as_str();
        if help.get(lang) != help.get(Lang::En) && written == Some(help.get(Lang::En)) {
            schema.to_mut()["properties"][name]["description"] = help.get(lang).into();
        }
    }
    schema
}

fn mcp(spec: &ToolSpec, name: &str, schema: &Value, lang: Lang) -> Value {
    let mut tool = Map::new();
    tool.insert("name".to_owned(), name.into());
    if let Some(label) = spec.label.as_ref().filter(|label| !label.is_empty()) {
        tool.insert("title".to_owned(), label.get(lang).into());
    }
    tool.insert("description".to_owned(), spec.description.get(lang).into());
    tool.insert("inputSchema".to_owned(), object_schema(schema));
    // The protocol accepts only objects as results.
    if let Some(output) = spec.output.as_ref().filter(|output| output["type"] == "object") {
        tool.insert("outputSchema".to_owned(), output.clone());
    }
    // No annotations where no behaviour was declared.
    if spec.behaviour != Behaviour::default() {
        let annotations = json!({
            "readOnlyHint": spec.behaviour.read_only,
            "destructiveHint": spec.behaviour.destructive,
            "idempotentHint": spec.behaviour.idempotent,
        });
        tool.insert("annotations".to_owned(), annotations);
    }
    Value::Object(tool)
}
