//! Providers: who offers tools, and the credentials that they want (S3.7).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ImportRequest;
use super::located::{At, Data, Entry, Node};
use super::mcp_server::{self, Form, McpServer};
use super::reader::{self, Fields, Report};
use crate::value::text::Text;

/// A provider of tools, described. It holds no credentials, only what they
/// look like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProviderSpec {
    /// Its unique name; tools name it as their provider.
    pub name: String,
    /// Who wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Text>,
    /// What it offers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<Text>,
    /// An icon: an address, a file name or base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The credentials that its tools want.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<CredentialField>,
    /// The server that says which tools it has, where there is one. It may hold
    /// keys, so it is never written out.
    #[serde(skip)]
    pub mcp: Option<Box<McpServer>>,
    /// The call that shows whether it takes a credential (S3.19).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<CredentialCheck>,
}

/// A call that succeeds with a good credential, and fails with a bad one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CredentialCheck {
    /// A tool of the provider.
    pub tool: String,
    /// What it is called with.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub arguments: Map<String, Value>,
}

/// One field of a form that asks for credentials.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CredentialField {
    /// The name that tools know it by.
    pub name: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Text>,
    /// How the form asks for it.
    #[serde(rename = "type")]
    pub kind: CredentialKind,
    /// Whether the provider cannot do without it.
    #[serde(default)]
    pub required: bool,
    /// What it is where nobody says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// How to get one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<Text>,
    /// Where to get one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// What stands in the empty field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placeholder: Option<Text>,
    /// The choices of a [`CredentialKind::Select`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

/// How a form asks for a credential.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CredentialKind {
    /// A text that may be shown.
    #[default]
    TextInput,
    /// A text that is never shown again.
    SecretInput,
    /// A choice.
    Select,
    /// Yes or no.
    Boolean,
}

const CREDENTIALS: [&str; 2] = ["credentials_for_provider", "credentials_schema"];

/// Whether a document is a provider: it asks for credentials, names a server, or
/// has an identity and nothing that a tool has.
pub(super) fn is_provider(node: &Node) -> bool {
    node.has("mcp")
        || CREDENTIALS.iter().any(|key| node.has(key))
        || node.has("identity")
            && !["description", "parameters", "entry", "kind"].iter().any(|key| node.has(key))
}

/// Reads a provider.
pub(super) fn read(node: &Node, report: &mut Report<'_>) -> Option<ProviderSpec> {
    let mut fields = Fields::of(node, "a provider", report)?;
    // The tools of a provider are the files in its folder; other engines list
    // them again here, with their Python sources.
    fields.ignore(&["tools", "extra", "oauth_schema"]);
    // A server needs no more than a name.
    let mut provider = match (node.has("mcp"), fields.get("identity")) {
        (_, Some(node)) => {
            let mut identity = Fields::of(node, "`identity`", report)?;
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
    let mcp = fields.get("mcp").map(|node| mcp_server::read_server(node, Form::Own, report));
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
pub(super) fn read_import(node: &Node, report: &mut Report<'_>) -> Option<ImportRequest> {
    let mut fields = Fields::of(node, "a provider", report)?;
    let provider = fields.need("identity", report).and_then(|node| {
        let mut identity = Fields::of(node, "`identity`", report)?;
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
    let At { line, column } = document?.at;
    Some(ImportRequest { provider: provider?, document: text?, options, line, column })
}

fn read_check(node: &Node, report: &mut Report<'_>) -> Option<CredentialCheck> {
    let mut fields = Fields::of(node, "`credentials_check`", report)?;
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

fn read_identity(fields: &mut Fields<'_>, report: &mut Report<'_>) -> Option<ProviderSpec> {
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

/// Reads credentials: a mapping by name, or a list of fields with names.
fn read_fields(node: &Node, report: &mut Report<'_>) -> Vec<CredentialField> {
    let mut read: Vec<CredentialField> = Vec::new();
    match &node.data {
        Data::Map(entries) => {
            for Entry { key, value, .. } in entries {
                read.extend(read_field(value, Some(key), report));
            }
        }
        Data::List(items) => {
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

fn read_field(node: &Node, name: Option<&str>, report: &mut Report<'_>) -> Option<CredentialField> {
    const KINDS: [(&str, CredentialKind); 4] = [
        ("text-input", CredentialKind::TextInput),
        ("secret-input", CredentialKind::SecretInput),
        ("select", CredentialKind::Select),
        ("boolean", CredentialKind::Boolean),
    ];
    let mut fields = Fields::of(node, "a credential", report)?;
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

fn read_choices(node: &Node, report: &mut Report<'_>) -> Vec<String> {
    let Data::List(items) = &node.data else {
        report.add(node.at, format!("`options` is a list, found {}", node.kind_name()));
        return Vec::new();
    };
    let value = |item: &Node, report: &mut Report<'_>| {
        reader::text(item.get("value").unwrap_or(item), "options", report)
    };
    items.iter().filter_map(|item| value(item, report)).collect()
}
