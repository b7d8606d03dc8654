//! Definitions of prompts and resources, which are offered to people and
//! programs besides tools.
//!
//! ```yaml
//! prompts:
//!   - name: review
//!     description: Reviews a piece of code.
//!     arguments:
//!       - {name: code, required: true}
//!       - {name: style, values: [strict, friendly]}
//!     messages:
//!       - {role: user, text: "Review this, {{style}}: {{code}}"}
//! resources:
//!   - {uri: "docs://style", name: style, mime_type: text/markdown, file: STYLE.md}
//!   - {uri_template: "docs://{topic}", name: topic, text: "About {topic}."}
//! ```
//!
//! Arguments are inserted literally, without further expansion. A prompt whose
//! messages are generated names a tool that makes them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::node::{MapEntry, Node, NodeValue};
use super::reader::{self, FaultReport, MapFields};
use crate::value::text::Text;

/// A prompt that a person can choose.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PromptSpec {
    /// Its unique name.
    pub name: String,
    /// Display name.
    pub title: Option<Text>,
    /// Description.
    pub description: Option<Text>,
    /// Arguments.
    pub arguments: Vec<PromptArgument>,
    /// Messages: `role` and `content`, with `{{argument}}` placeholders in
    /// their texts.
    pub messages: Vec<Value>,
    /// The tool that generates the messages, in place of fixed ones.
    pub tool: Option<String>,
}

/// An argument of a prompt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// Description.
    pub description: Option<Text>,
    /// Whether it is required.
    pub required: bool,
    /// Suggested values, for completion.
    pub values: Vec<String>,
}

/// A resource that clients can read.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceSpec {
    /// URI, or a URI template with names in braces.
    pub uri: String,
    /// Whether the URI is a template.
    pub is_template: bool,
    /// Its name.
    pub name: String,
    /// Display name.
    pub title: Option<Text>,
    /// What is in it.
    pub description: Option<Text>,
    /// Media type, such as `text/markdown`.
    pub mime_type: Option<String>,
    /// Content, or where it is.
    pub body: ResourceBody,
    /// Suggested values for the names of a template, for completion.
    pub values: BTreeMap<String, Vec<String>>,
    /// Line of the content, from 1.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
}

/// The content of a resource.
#[derive(Clone, Debug, PartialEq)]
pub enum ResourceBody {
    /// A text. In a template, `{name}` is replaced by the matching part of the
    /// URI.
    Text(String),
    /// Bytes, in base64.
    Blob(String),
    /// A file, read on request.
    File(String),
}

/// Prompts and resources of a document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LibrarySpec {
    /// The prompts.
    pub prompts: Vec<PromptSpec>,
    /// The resources.
    pub resources: Vec<ResourceSpec>,
}

impl LibrarySpec {
    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.prompts.is_empty() && self.resources.is_empty()
    }

    pub(super) fn extend(&mut self, more: Self) {
        self.prompts.extend(more.prompts);
        self.resources.extend(more.resources);
    }
}

/// Whether a document has this form.
pub(super) fn is_library(node: &Node) -> bool {
    !node.has("name") && (node.has("prompts") || node.has("resources"))
}

/// Reads a document.
pub(super) fn read(node: &Node, report: &mut FaultReport<'_>) -> LibrarySpec {
    let Some(mut fields) = MapFields::of(node, "a library", report) else {
        return LibrarySpec::default();
    };
    let (prompts, resources) = (fields.get("prompts"), fields.get("resources"));
    fields.finish(report);
    LibrarySpec {
        prompts: list(prompts, "prompts", read_prompt, report),
        resources: list(resources, "resources", read_resource, report),
    }
}

fn list<T>(
    node: Option<&Node>,
    what: &str,
    read: fn(&Node, &mut FaultReport<'_>) -> Option<T>,
    report: &mut FaultReport<'_>,
) -> Vec<T> {
    match node.map(|node| (node, &node.data)) {
        Some((_, NodeValue::List(items))) => {
            items.iter().filter_map(|item| read(item, report)).collect()
        }
        Some((node, _)) => {
            report.add(node.at, format!("`{what}` is a list, found {}", node.kind_name()));
            Vec::new()
        }
        None => Vec::new(),
    }
}

fn read_prompt(node: &Node, report: &mut FaultReport<'_>) -> Option<PromptSpec> {
    let mut fields = MapFields::of(node, "a prompt", report)?;
    let name = fields.need("name", report).and_then(|node| reader::text(node, "name", report));
    let mut i18n = |key| fields.get(key).and_then(|node| reader::i18n(node, key, report));
    let (title, description) = (i18n("title"), i18n("description"));
    let arguments = list(fields.get("arguments"), "arguments", read_argument, report);
    let tool = fields.get("tool").and_then(|node| reader::text(node, "tool", report));
    let written = fields.get("messages");
    let messages = list(written, "messages", read_message, report);
    fields.finish(report);
    if tool.is_some() == written.is_some() {
        report.hinted(node.at, "a prompt has `messages` or a `tool`", "write one of them");
    }
    Some(PromptSpec { name: name?, title, description, arguments, messages, tool })
}

fn read_argument(node: &Node, report: &mut FaultReport<'_>) -> Option<PromptArgument> {
    let mut fields = MapFields::of(node, "an argument", report)?;
    let name = fields.need("name", report).and_then(|node| reader::text(node, "name", report));
    let description =
        fields.get("description").and_then(|node| reader::i18n(node, "description", report));
    let required = fields.get("required").and_then(|node| reader::flag(node, "required", report));
    let values = fields.get("values").and_then(|node| reader::texts(node, "values", report));
    fields.finish(report);
    Some(PromptArgument {
        name: name?,
        description,
        required: required.unwrap_or_default(),
        values: values.unwrap_or_default(),
    })
}

/// A message: a role with a text, or with a block of content.
fn read_message(node: &Node, report: &mut FaultReport<'_>) -> Option<Value> {
    const ROLES: [(&str, &str); 2] = [("user", "user"), ("assistant", "assistant")];
    let mut fields = MapFields::of(node, "a message", report)?;
    let role = fields.get("role").and_then(|node| reader::choice(node, "role", &ROLES, report));
    let text = fields.get("text").and_then(|node| reader::text(node, "text", report));
    let content = fields.get("content").map(|node| match &node.data {
        NodeValue::Text(text) => json!({"type": "text", "text": text}),
        _ => node.to_json(),
    });
    fields.finish(report);
    let content = content.or_else(|| Some(json!({"type": "text", "text": text?})));
    if content.is_none() {
        report.add(node.at, "a message needs a `text` or a `content`");
    }
    Some(json!({"role": role.unwrap_or("user"), "content": content?}))
}

fn read_resource(node: &Node, report: &mut FaultReport<'_>) -> Option<ResourceSpec> {
    let mut fields = MapFields::of(node, "a resource", report)?;
    let template = fields.get_any(&["uri_template", "uriTemplate"], report);
    let uri = fields.get("uri").or(template);
    let uri_text = uri.and_then(|node| reader::text(node, "uri", report));
    let name = fields.get("name").and_then(|node| reader::text(node, "name", report));
    let mut i18n = |key| fields.get(key).and_then(|node| reader::i18n(node, key, report));
    let (title, description) = (i18n("title"), i18n("description"));
    let mime_type = fields
        .get_any(&["mime_type", "mimeType"], report)
        .and_then(|node| reader::text(node, "mime_type", report));
    let mut at = node.at;
    let mut text = |key| {
        let node = fields.get(key)?;
        at = node.at;
        reader::text(node, key, report)
    };
    let body = match (text("text"), text("blob"), text("file")) {
        (Some(text), None, None) => Some(ResourceBody::Text(text)),
        (None, Some(blob), None) => Some(ResourceBody::Blob(blob)),
        (None, None, Some(file)) => Some(ResourceBody::File(file)),
        _ => None,
    };
    let values = fields.get("values").map(|node| read_values(node, report)).unwrap_or_default();
    fields.finish(report);
    if uri.is_none() {
        report.add(node.at, "a resource needs a `uri` or a `uri_template`");
    }
    if body.is_none() {
        report.hinted(
            node.at,
            "a resource has a `text`, a `blob` or a `file`",
            "write one of them",
        );
    }
    let uri = uri_text?;
    Some(ResourceSpec {
        name: name.unwrap_or_else(|| uri.clone()),
        uri,
        is_template: template.is_some(),
        title,
        description,
        mime_type,
        body: body?,
        values,
        line: at.line,
        column: at.column,
    })
}

fn read_values(node: &Node, report: &mut FaultReport<'_>) -> BTreeMap<String, Vec<String>> {
    let NodeValue::Map(entries) = &node.data else {
        report.add(node.at, format!("`values` is a mapping, found {}", node.kind_name()));
        return BTreeMap::new();
    };
    let read = |MapEntry { key, value, .. }: &MapEntry, report: &mut FaultReport<'_>| {
        Some((key.clone(), reader::texts(value, "values", report)?))
    };
    entries.iter().filter_map(|entry| read(entry, report)).collect()
}
