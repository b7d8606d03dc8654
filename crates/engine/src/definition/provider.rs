//! Definitions of providers and of their credentials.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ImportRequest;
use super::mcp_server::{self, McpServer, ServerForm};
use super::node::{MapEntry, Node, NodeValue, Position};
use super::reader::{self, FaultReport, MapFields};
use crate::value::text::Text;

/// Description of a provider. It holds no credentials, only their form.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProviderSpec {
    /// Unique name, to which tools refer.
    pub name: String,
    /// Who wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Text>,
    /// Description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<Text>,
    /// Icon: a URL, a file name or base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
    /// Search terms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Credentials that its tools need.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<CredentialField>,
    /// MCP server that provides its tools. It may contain keys, so it is never
    /// serialised.
    #[serde(skip)]
    pub mcp: Option<Box<McpServer>>,
    /// A call that verifies a credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<CredentialCheck>,
}

/// A call that succeeds with a valid credential and fails with an invalid one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CredentialCheck {
    /// A tool of the provider.
    pub tool: String,
    /// Arguments of the call.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub arguments: Map<String, Value>,
}

/// A field of a credential form.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CredentialField {
    /// Name under which tools read it.
    pub name: String,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Text>,
    /// Input type.
    #[serde(rename = "type")]
    pub kind: CredentialKind,
    /// Whether it is required.
    #[serde(default)]
    pub required: bool,
    /// Default value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Instructions for obtaining one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<Text>,
    /// URL for obtaining one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Placeholder of the empty field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placeholder: Option<Text>,
    /// The choices of a [`CredentialKind::Select`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

/// Input type of a credential field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CredentialKind {
    /// A visible text.
    #[default]
    TextInput,
    /// A secret, never shown again.
    SecretInput,
    /// A choice.
    Select,
    /// Yes or no.
    Boolean,
}

const CREDENTIALS: [&str; 2] = ["credentials_for_provider", "credentials_schema"];

/// Whether a document is a provider: it asks for credentials, names a server,
/// or has an identity without anything that a tool has.
pub(super) fn is_provider(node: &Node) -> bool {
    node.has("mcp")
        || CREDENTIALS.iter().any(|key| node.has(key))
        || node.has("identity")
            && !["description", "parameters", "entry", "kind"].iter().any(|key| node.has(key))
}

/// Reads a provider.
pub(super) fn read(node: &Node, report: &mut FaultReport<'_>) -> Option<ProviderSpec> {
    let mut fields = MapFields::of(node, "a provider", report)?;
    // The tools of a provider are the files in its folder; other engines list
    // them again here, with their Python sources.
    fields.ignore(&["tools", "extra", "oauth_schema"]);
    // A server needs only a name.
    let mut provider = match (node.has("mcp"), fields.get("identity")) {
        (_, Some(node)) => {
            let mut identity = MapFields::of(node, "`identity`", report)?;
            let read = read_identity(&mut identity, report);
            identity.finish(report);
            read
        }
        (true, None) => read_identity(&mut fields, report),
        (false, None) => {
            fields.need("identity", report);
            None
        }
    };
    let mcp = fields.get("mcp").map(|node| mcp_server::read_server(node, ServerForm::Own, report));
    if let (Some(provider), Some(mcp)) = (&mut provider, mcp) {
        provider.mcp = mcp.map(Box::new);
    }
    let credentials = fields.get_any(&CREDENTIALS, report).map(|node| read_fields(node, report));
    let check = fields.get("credentials_check").and_then(|node| read_check(node, report));
    if let Some(provider) = &mut provider {
        provider.credentials = credentials.unwrap_or_default();
        provider.check = check;
    }
    fields.finish(report);
    provider
}

/// Reads a provider whose tools are described by an API document.
pub(super) fn read_import(node: &Node, report: &mut FaultReport<'_>) -> Option<ImportRequest> {
    let mut fields = MapFields::of(node, "a provider", report)?;
    let provider = fields.need("identity", report).and_then(|node| {
        let mut identity = MapFields::of(node, "`identity`", report)?;
        let read = read_identity(&mut identity, report);
        identity.finish(report);
        read
    });
    let document = fields.need("openapi", report);
    let text = document.and_then(|node| reader::text(node, "openapi", report));
    let options = match fields.get("options").map(|node| (node.at, node.to_json())) {
        None => Map::new(),
        Some((_, Value::Object(options))) => options,
        Some((at, _)) => {
            report.add(at, "`options` is a mapping");
            Map::new()
        }
    };
    fields.finish(report);
    let Position { line, column } = document?.at;
    Some(ImportRequest { provider: provider?, document: text?, options, line, column })
}

fn read_check(node: &Node, report: &mut FaultReport<'_>) -> Option<CredentialCheck> {
    let mut fields = MapFields::of(node, "`credentials_check`", report)?;
    let tool = fields.need("tool", report).and_then(|node| reader::text(node, "tool", report));
    let arguments = match fields.get("arguments").map(|node| (node.at, node.to_json())) {
        None => Map::new(),
        Some((_, Value::Object(arguments))) => arguments,
        Some((at, _)) => {
            report.add(at, "`arguments` is a mapping");
            Map::new()
        }
    };
    fields.finish(report);
    Some(CredentialCheck { tool: tool?, arguments })
}

fn read_identity(fields: &mut MapFields<'_>, report: &mut FaultReport<'_>) -> Option<ProviderSpec> {
    let name = fields.need("name", report).and_then(|node| reader::text(node, "name", report));
    let mut text = |key| fields.get(key).and_then(|node| reader::text(node, key, report));
    let (author, icon) = (text("author"), text("icon"));
    let mut i18n = |key| fields.get(key).and_then(|node| reader::i18n(node, key, report));
    let (label, description) = (i18n("label"), i18n("description"));
    let tags = fields.get("tags").and_then(|node| reader::texts(node, "tags", report));
    Some(ProviderSpec {
        name: name?,
        author,
        label,
        description,
        icon,
        tags: tags.unwrap_or_default(),
        credentials: Vec::new(),
        mcp: None,
        check: None,
    })
}

/// Reads credential fields: a mapping by name, or a list of fields with names.
fn read_fields(node: &Node, report: &mut FaultReport<'_>) -> Vec<CredentialField> {
    let mut read: Vec<CredentialField> = Vec::new();
    match &node.data {
        NodeValue::Map(entries) => {
            for MapEntry { key, value, .. } in entries {
                read.extend(read_field(value, Some(key), report));
            }
        }
        NodeValue::List(items) => {
            for item in items {
                let Some(field) = read_field(item, None, report) else { continue };
                if read.iter().any(|known| known.name == field.name) {
                    report.add(item.at, format!("duplicate credential `{}`", field.name));
                }
                read.push(field);
            }
        }
        _ => report.add(
            node.at,
            format!("credentials are a mapping or a list, found {}", node.kind_name()),
        ),
    }
    read
}

fn read_field(
    node: &Node,
    name: Option<&str>,
    report: &mut FaultReport<'_>,
) -> Option<CredentialField> {
    const KINDS: [(&str, CredentialKind); 4] = [
        ("text-input", CredentialKind::TextInput),
        ("secret-input", CredentialKind::SecretInput),
        ("select", CredentialKind::Select),
        ("boolean", CredentialKind::Boolean),
    ];
    let mut fields = MapFields::of(node, "a credential", report)?;
    let name = match name {
        Some(name) => Some(name.to_owned()),
        None => fields.need("name", report).and_then(|node| reader::text(node, "name", report)),
    };
    let kind = fields
        .need("type", report)
        .and_then(|node| reader::choice(node, "credential type", &KINDS, report));
    let mut i18n = |key| fields.get(key).and_then(|node| reader::i18n(node, key, report));
    let (label, help, placeholder) = (i18n("label"), i18n("help"), i18n("placeholder"));
    let required = fields.get("required").and_then(|node| reader::flag(node, "required", report));
    let url = fields.get("url").and_then(|node| reader::text(node, "url", report));
    let default = fields.get("default");
    let options = fields.get("options").map(|node| read_choices(node, report)).unwrap_or_default();
    fields.finish(report);
    let kind = kind?;
    if kind == CredentialKind::SecretInput
        && let Some(default) = default
    {
        report.hinted(default.at, "a secret has no default", "store it as a credential");
    }
    if kind == CredentialKind::Select && options.is_empty() {
        report.hinted(node.at, "a `select` needs `options`", "write `options: [a, b]`");
    }
    Some(CredentialField {
        name: name?,
        label,
        kind,
        required: required.unwrap_or_default(),
        default: default.map(Node::to_json),
        help,
        url,
        placeholder,
        options,
    })
}

fn read_choices(node: &Node, report: &mut FaultReport<'_>) -> Vec<String> {
    let NodeValue::List(items) = &node.data else {
        report.add(node.at, format!("`options` is a list, found {}", node.kind_name()));
        return Vec::new();
    };
    let value = |item: &Node, report: &mut FaultReport<'_>| {
        reader::text(item.get("value").unwrap_or(item), "options", report)
    };
    items.iter().filter_map(|item| value(item, report)).collect()
}
