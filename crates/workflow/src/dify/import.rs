//! Import of a file: the definition that it becomes, and what is missing for it.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use windlass_dify::document::Mode;
use windlass_dify::dry_run::{DryRun, Surroundings};
use windlass_dify::node::NodeKind;
use windlass_dify::node::flow::{Input, InputKind};
use windlass_dify::node::model::Model;
use windlass_dify::node::reach::Tool;
use windlass_dify::{Document, Fault};

use super::{Dify, Settings};
use crate::native::{Prompt, PromptMaker};

/// A file that was read.
pub struct Import {
    /// The definition, with the file in it.
    pub definition: Value,
    /// What is worth knowing about the file.
    pub notes: Vec<Fault>,
    /// The file.
    pub document: Document,
}

/// Reads a file of Dify as the definition of a workflow.
///
/// # Errors
///
/// What is wrong with it, each with its line and column.
pub fn import(file: &str, text: &str) -> Result<Import, Vec<Fault>> {
    let document = Document::read(file, text)?;
    let mut parameters = Vec::new();
    let root = document.graph.root().map(|root| document.graph.node(root));
    if let Some(NodeKind::Start(start)) = root.map(|root| &root.kind) {
        parameters.extend(start.inputs.iter().map(parameter));
    }
    let has = |parameters: &[Value], name: &str| parameters.iter().any(|p| p["name"] == name);
    if document.mode == Mode::Chat && !has(&parameters, "query") {
        let query = json!({"name": "query", "type": "string", "required": true, "description": "What the person says."});
        parameters.insert(0, query);
    }
    let title = match document.name.as_str() {
        "" => file.rsplit('/').next().unwrap_or(file).split('.').next().unwrap_or(file),
        name => name,
    };
    let description = match document.description.trim() {
        "" => title.to_owned(),
        description => description.to_owned(),
    };
    let definition = json!({
        "name": slug(title),
        "kind": "workflow",
        "description": description,
        "parameters": parameters,
        "dify": {"source": text},
    });
    Ok(Import { definition, notes: document.notes.clone(), document })
}

fn parameter(input: &Input) -> Value {
    let mut parameter = Map::new();
    let kind = match input.kind {
        InputKind::Text | InputKind::Paragraph => "string",
        InputKind::Select if input.options.is_empty() => "string",
        InputKind::Select => "select",
        InputKind::Number => "number",
        InputKind::Checkbox => "boolean",
        InputKind::File | InputKind::Object => "object",
        InputKind::Files => "array",
    };
    parameter.insert("name".into(), input.name.clone().into());
    parameter.insert("type".into(), kind.into());
    parameter.insert("description".into(), input.label.clone().into());
    if input.required && matches!(input.default, windlass_dify::value::Value::Null) {
        parameter.insert("required".into(), true.into());
    }
    if kind == "select" {
        parameter.insert("options".into(), input.options.clone().into());
    }
    if let Some(most) = input.max_length.filter(|_| kind == "string") {
        parameter.insert("max_length".into(), most.into());
    }
    Value::Object(parameter)
}

/// What of a definition's file can run here, and what is missing: node by node.
///
/// # Errors
///
/// What is wrong with the file.
pub(crate) fn dry_run(
    definition: &Value,
    has_tool: &dyn Fn(&str) -> bool,
    prompts: Option<&PromptMaker>,
) -> Result<DryRun, Vec<Fault>> {
    let settings: Settings = match &definition["dify"] {
        Value::String(source) => Settings { source: source.clone(), ..Settings::default() },
        other => serde_json::from_value(other.clone()).unwrap_or_default(),
    };
    let document = Document::read("source", &settings.source)?;
    let dify = Dify { document, settings, prompts: prompts.cloned() };
    let around = Around { dify: &dify, has_tool };
    Ok(DryRun::of(&dify.document, &around))
}

struct Around<'a> {
    dify: &'a Dify,
    has_tool: &'a dyn Fn(&str) -> bool,
}

impl Surroundings for Around<'_> {
    fn tool(&self, tool: &Tool) -> Option<String> {
        Some(self.dify.tool_name(tool)).filter(|name| (self.has_tool)(name))
    }

    fn model(&self, model: &Model) -> Option<String> {
        let make: &Arc<_> = self.dify.prompts.as_ref()?;
        let names = self.dify.model_names(model);
        let asks = |name: &String| {
            let prompt = Prompt {
                name: "dry_run".to_owned(),
                model: Some(name.clone()),
                ..Prompt::default()
            };
            make(&prompt).is_ok()
        };
        names.into_iter().find(asks)
    }

    fn dataset(&self, id: &str) -> Option<String> {
        self.dify.settings.datasets.get(id).filter(|name| (self.has_tool)(name)).cloned()
    }

    fn runs_code(&self, _: &str) -> bool {
        false
    }

    fn has_secret(&self, _: &str) -> bool {
        false
    }

    fn replacement(&self, node: &str) -> Option<String> {
        let node = self.dify.document.graph.place(node)?;
        let tool = self.dify.replacement(self.dify.document.graph.node(node))?;
        Some(tool.to_string())
    }
}

/// A name that a tool can have. What cannot be written in one is told apart by a hash.
fn slug(title: &str) -> String {
    let mut name = String::new();
    for c in title.chars() {
        match c {
            c if c.is_ascii_alphanumeric() => name.push(c.to_ascii_lowercase()),
            _ if !name.is_empty() && !name.ends_with('_') => name.push('_'),
            _ => {}
        }
    }
    let name: String = name.chars().take(48).collect();
    let mut name = name.trim_matches('_').to_owned();
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        name = format!("workflow_{name}");
    }
    if title.chars().any(|c| !c.is_ascii() && c.is_alphanumeric()) {
        let hash = Sha256::digest(title.as_bytes());
        let hash: String = hash.iter().take(3).map(|byte| format!("{byte:02x}")).collect();
        name = format!("{}_{hash}", name.trim_end_matches('_'));
    }
    name.trim_end_matches('_').to_owned()
}
