//! Definitions of MCP servers: in a provider's file, in the `mcpServers` format
//! of Claude Desktop, Claude Code and Cursor, or in the `servers` format of VS
//! Code, whose `inputs` become credentials.
//!
//! Other programs have more keys, and names that no tool can have. In their
//! format that is only worth a note, and a faulty server does not affect the
//! others.
//!
//! Only the connection is described here; the tools are found by connecting.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::node::{MapEntry, Node, NodeValue};
use super::provider::{CredentialField, CredentialKind, ProviderSpec};
use super::reader::{self, FaultReport, MapFields};
use crate::value::name::ToolName;
use crate::value::text::Text;

/// An MCP server, and how far it is trusted.
#[derive(Clone, Debug, PartialEq)]
pub struct McpServer {
    /// The transport.
    pub transport: McpTransport,
    /// Whether its tool annotations, such as `readOnlyHint`, are trusted.
    pub trust_annotations: bool,
    /// Quarantine: whether a tool that changed since it was accepted is held
    /// back until an operator accepts the change.
    pub quarantine: bool,
    /// Timeout of calls of its tools.
    pub timeout: Option<Duration>,
    /// Timeout for starting it and listing its tools.
    pub start_timeout: Option<Duration>,
    /// Maximum size of a message from it, in bytes.
    pub max_message_bytes: Option<usize>,
    /// Maximum size of a result of its tools, in bytes.
    pub max_output_bytes: Option<usize>,
    /// What happens when it asks a person (elicitation).
    pub elicitation: Asking,
    /// What happens when it asks a model (sampling).
    pub sampling: Asking,
    /// The roots announced to it, as `file://` URLs.
    pub roots: Vec<String>,
    /// Which generation of the protocol is used.
    pub protocol: McpProtocol,
    /// Whether requests are sent one at a time, so that questions of the server
    /// can be attributed to a request.
    pub one_at_a_time: bool,
    /// Whether it is disabled.
    pub disabled: bool,
    /// The inputs that its settings refer to as `${input:NAME}`: fields of the
    /// credential of its provider.
    pub inputs: Vec<CredentialField>,
}

impl McpServer {
    /// The names of the inputs that its settings refer to, in order.
    fn wanted_inputs(&self) -> Vec<&str> {
        let texts: Vec<&String> = match &self.transport {
            McpTransport::Command { command, args, env, cwd } => {
                [command].into_iter().chain(args).chain(env.values()).chain(cwd).collect()
            }
            McpTransport::Url { url, headers } => {
                [url].into_iter().chain(headers.values()).collect()
            }
        };
        let parts = texts.into_iter().flat_map(|text| text.split("${input:").skip(1));
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in parts.filter_map(|part| part.split_once('}')) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

/// Transport of an MCP server.
#[derive(Clone, PartialEq)]
pub enum McpTransport {
    /// A child process; messages are lines on stdin and stdout.
    Command {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its environment variables, besides the few that every program needs.
        env: BTreeMap<String, String>,
        /// Its working directory.
        cwd: Option<String>,
    },
    /// An HTTP endpoint.
    Url {
        /// The URL.
        url: String,
        /// Headers of every request.
        headers: BTreeMap<String, String>,
    },
}

impl fmt::Debug for McpTransport {
    /// Omits values, which may hold keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command { command, args, env, cwd } => f
                .debug_struct("Command")
                .field("command", command)
                .field("args", &args.len())
                .field("env", &env.keys())
                .field("cwd", cwd)
                .finish(),
            Self::Url { url, headers } => {
                f.debug_struct("Url").field("url", url).field("headers", &headers.keys()).finish()
            }
        }
    }
}

/// What happens when a server asks a question during a call (elicitation or
/// sampling).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asking {
    /// The caller of the tool is asked, if it can be.
    #[default]
    Caller,
    /// The question is declined.
    Refuse,
}

/// Generation of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum McpProtocol {
    /// Detected when connecting.
    #[default]
    Auto,
    /// With an `initialize` handshake: all versions before 2026-07-28.
    Legacy,
    /// Without a handshake.
    Modern,
}

/// The format that a server is described in.
#[derive(Clone, Copy)]
pub(super) enum ServerForm {
    /// The format of a provider's file, where unknown keys are errors.
    Own,
    /// The shared `mcpServers` format, where every program has keys of its own.
    Shared,
}

/// Maximum length of a derived name.
const MAX_NAME: usize = 48;

/// Keys of other programs that mean nothing here.
const FOREIGN: [&str; 15] = [
    "alwaysAllow",
    "autoApprove",
    "autoStart",
    "description",
    "envFile",
    "gallery",
    "icon",
    "metadata",
    "name",
    "note",
    "oauth",
    "scope",
    "source",
    "transportType",
    "version",
];

/// Whether a document is in the `mcpServers` format, or in that of VS Code.
pub(super) fn is_list(node: &Node) -> bool {
    list_of(node).is_some()
}

/// The mapping of servers, its key, and what stands beside it. The settings of VS
/// Code have theirs under `mcp`.
fn list_of(node: &Node) -> Option<(&Node, &'static str, &Node)> {
    if let Some(servers) = node.get("mcpServers") {
        return Some((servers, "mcpServers", node));
    }
    let outer = node.get("mcp").filter(|_| !node.has("name")).unwrap_or(node);
    let servers = outer.get("servers")?;
    matches!(servers.data, NodeValue::Map(_)).then_some((servers, "servers", outer))
}

/// Reads the servers of a list: each becomes a provider of its name.
pub(super) fn read_list(node: &Node, report: &mut FaultReport<'_>) -> Vec<ProviderSpec> {
    let Some((servers, key, outer)) = list_of(node) else { return Vec::new() };
    let inputs = outer.get("inputs").map(|inputs| read_inputs(inputs, report)).unwrap_or_default();
    let Node { data: NodeValue::Map(entries), .. } = servers else {
        report.hinted(
            servers.at,
            format!("`{key}` is a mapping of names to servers"),
            format!("write {{\"{key}\": {{\"NAME\": {{\"command\": \"…\"}}}}}}"),
        );
        return Vec::new();
    };
    let mut read: Vec<ProviderSpec> = Vec::new();
    let mut left_out = Vec::new();
    for MapEntry { key, at, value } in entries {
        let mut own = report.apart();
        match read_server(value, ServerForm::Shared, &mut own) {
            Some(mut server) if own.is_empty() => {
                report.take_over(own);
                server.inputs = inputs_of(&server, &inputs);
                let name = fitting_name(key, entries, &read);
                if name != *key {
                    // The server's name is part of its tools' names
                    // (`server/tool`).
                    let what = format!("the server `{key}` is called `{name}` here");
                    report.note(*at, what, "use letters, digits and _ - . : in its name");
                }
                let credentials = server.inputs.clone();
                let mcp = Some(Box::new(server));
                read.push(ProviderSpec { name, mcp, credentials, ..ProviderSpec::default() });
            }
            _ => left_out.push((key, own)),
        }
    }
    for (key, own) in left_out {
        // An error if it is the file's only server; otherwise it is skipped.
        match read.is_empty() {
            true => report.take_over(own),
            false => report.take_over_as_notes(own, &format!("the server `{key}` is left out: ")),
        }
    }
    read
}

/// The inputs that a server refers to. One that is not declared is a secret.
fn inputs_of(server: &McpServer, declared: &[CredentialField]) -> Vec<CredentialField> {
    let of = |name: &str| {
        let known = declared.iter().find(|input| input.name == name).cloned();
        known.unwrap_or_else(|| CredentialField {
            name: name.to_owned(),
            kind: CredentialKind::SecretInput,
            required: true,
            ..CredentialField::default()
        })
    };
    server.wanted_inputs().into_iter().map(of).collect()
}

/// Reads the `inputs` of VS Code: `promptString`, `pickString`, and `command`, whose
/// value is prompted for, too, since the editor's commands are not here.
fn read_inputs(node: &Node, report: &mut FaultReport<'_>) -> Vec<CredentialField> {
    let NodeValue::List(items) = &node.data else {
        report.add(node.at, format!("`inputs` is a list, found {}", node.kind_name()));
        return Vec::new();
    };
    items.iter().filter_map(|item| read_input(item, report)).collect()
}

fn read_input(node: &Node, report: &mut FaultReport<'_>) -> Option<CredentialField> {
    let mut fields = MapFields::of(node, "an input", report)?;
    fields.ignore(&["command", "args"]);
    let name = reader::text(fields.need("id", report)?, "id", report)?;
    let kind = fields.get("type").and_then(|node| reader::text(node, "type", report));
    let description =
        fields.get("description").and_then(|node| reader::text(node, "description", report));
    let is_secret = fields.get("password").and_then(|node| reader::flag(node, "password", report));
    let default = fields.get("default").map(Node::to_json).filter(|default| !default.is_null());
    let options: Vec<String> = match fields.get("options").map(|node| &node.data) {
        Some(NodeValue::List(items)) => {
            let value = |item: &Node| item.get("value").unwrap_or(item).to_json();
            let text = |value: serde_json::Value| value.as_str().map(str::to_owned);
            items.iter().filter_map(|item| text(value(item))).collect()
        }
        _ => Vec::new(),
    };
    fields.finish_with_notes(report);
    let kind = match (kind.as_deref(), options.is_empty()) {
        (Some("pickString"), false) => CredentialKind::Select,
        (Some("pickString"), true) => CredentialKind::TextInput,
        _ if is_secret == Some(false) => CredentialKind::TextInput,
        (Some("promptString"), _) if is_secret.is_none() => CredentialKind::TextInput,
        _ => CredentialKind::SecretInput,
    };
    Some(CredentialField {
        name,
        label: description.map(Text::from),
        kind,
        required: default.is_none(),
        default,
        options,
        ..CredentialField::default()
    })
}

/// The name of a server: its own if it can be part of a tool's name, else a
/// unique name derived from it.
fn fitting_name(key: &str, entries: &[MapEntry], read: &[ProviderSpec]) -> String {
    let fits = |c: char| c.is_alphanumeric() || "_-.:".contains(c);
    if !key.is_empty() && key.chars().all(fits) && ToolName::new(key).is_ok() {
        return key.to_owned();
    }
    let made: String = key.chars().map(|c| if fits(c) { c } else { '_' }).take(MAX_NAME).collect();
    let made = if made.is_empty() { "server".to_owned() } else { made };
    let is_taken = |name: &String| {
        entries.iter().any(|entry| entry.key == *name)
            || read.iter().any(|provider| provider.name == *name)
    };
    let marked = (2..).map(|mark| format!("{made}_{mark}"));
    std::iter::once(made.clone()).chain(marked).find(|name| !is_taken(name)).unwrap_or(made)
}

/// Reads one server.
pub(super) fn read_server(
    node: &Node,
    form: ServerForm,
    report: &mut FaultReport<'_>,
) -> Option<McpServer> {
    let mut fields = MapFields::of(node, "a server", report)?;
    fields.ignore(&FOREIGN);
    let transport = read_transport(&mut fields, report);
    let mut flag = |key| fields.get(key).and_then(|node| reader::flag(node, key, report));
    let (trust, quarantine) = (flag("trust_annotations"), flag("quarantine"));
    let (disabled, enabled) = (flag("disabled"), flag("enabled"));
    let one_at_a_time = flag("one_at_a_time");
    let mut bytes = |key| {
        let bytes = fields.get(key).and_then(|node| reader::count(node, key, report))?;
        usize::try_from(bytes).ok().filter(|bytes| *bytes > 0)
    };
    let (max_message_bytes, max_output_bytes) =
        (bytes("max_message_bytes"), bytes("max_output_bytes"));
    let timeout = fields.get("timeout").and_then(|node| read_timeout(node, report));
    let start_timeout = fields
        .get("start_timeout")
        .and_then(|node| reader::span(node, "start_timeout", report))
        .filter(|timeout| !timeout.is_zero());
    const ASKING: [(&str, Asking); 2] = [("ask", Asking::Caller), ("refuse", Asking::Refuse)];
    let mut asking = |key| {
        let said = fields.get(key).and_then(|node| reader::choice(node, key, &ASKING, report));
        said.unwrap_or_default()
    };
    let (elicitation, sampling) = (asking("elicitation"), asking("sampling"));
    let roots = fields.get("roots").and_then(|node| reader::texts(node, "roots", report));
    const PROTOCOLS: [(&str, McpProtocol); 3] = [
        ("auto", McpProtocol::Auto),
        ("legacy", McpProtocol::Legacy),
        ("modern", McpProtocol::Modern),
    ];
    let protocol = fields
        .get("protocol")
        .and_then(|node| reader::choice(node, "protocol", &PROTOCOLS, report));
    match form {
        ServerForm::Own => fields.finish(report),
        ServerForm::Shared => fields.finish_with_notes(report),
    }
    Some(McpServer {
        transport: transport?,
        trust_annotations: trust.unwrap_or_default(),
        quarantine: quarantine.unwrap_or_default(),
        timeout,
        start_timeout,
        max_message_bytes,
        max_output_bytes,
        elicitation,
        sampling,
        roots: roots.unwrap_or_default(),
        protocol: protocol.unwrap_or_default(),
        one_at_a_time: one_at_a_time.unwrap_or_default(),
        disabled: disabled.unwrap_or_default() || enabled == Some(false),
        inputs: Vec::new(),
    })
}

fn read_transport(
    fields: &mut MapFields<'_>,
    report: &mut FaultReport<'_>,
) -> Option<McpTransport> {
    let (at, kind) = match fields.get("type").or_else(|| fields.get("transport")) {
        Some(node) => (node.at, reader::text(node, "type", report)),
        None => (fields.at, None),
    };
    let command = fields.get("command");
    let url =
        fields.get("url").or_else(|| fields.get("serverUrl")).or_else(|| fields.get("httpUrl"));
    let args = fields.get("args").and_then(|node| reader::texts(node, "args", report));
    let env = fields.get("env").map(|node| read_pairs(node, "env", report));
    let cwd = fields.get("cwd").and_then(|node| reader::text(node, "cwd", report));
    let headers = fields.get("headers").map(|node| read_pairs(node, "headers", report));
    if kind.as_deref() == Some("sse") {
        report.hinted(
            at,
            "the transport `sse` of 2024 is not spoken here",
            "use the server's streamable HTTP address, with `type: http`",
        );
        return None;
    }
    match (command, url) {
        (Some(command), None) => Some(McpTransport::Command {
            command: reader::text(command, "command", report)?,
            args: args.unwrap_or_default(),
            env: env.unwrap_or_default(),
            cwd,
        }),
        (None, Some(url)) => Some(McpTransport::Url {
            url: read_url(url, report)?,
            headers: headers.unwrap_or_default(),
        }),
        (None, None) => {
            report.hinted(fields.at, "a server needs a `command` or a `url`", "write one of them");
            None
        }
        (Some(_), Some(url)) => {
            report.add(url.at, "a server has a `command` or a `url`, not both");
            None
        }
    }
}

/// Reads the address of a server. One that begins with a variable is known only where
/// the server is reached.
fn read_url(node: &Node, report: &mut FaultReport<'_>) -> Option<String> {
    let url = reader::text(node, "url", report)?;
    let begins =
        |start: &str| url.get(..start.len()).is_some_and(|own| own.eq_ignore_ascii_case(start));
    if ["https://", "http://", "${"].iter().any(|start| begins(start)) {
        return Some(url);
    }
    let shown: String = url.chars().take(80).collect();
    let message =
        format!("the address `{shown}` of a server does not begin with https:// or http://");
    match shown.contains("://") {
        true => report.add(node.at, message),
        false => report.hinted(node.at, message, format!("write `https://{shown}`")),
    }
    None
}

/// Reads a duration, or milliseconds as other programs write them: nobody means
/// a thousand seconds and more.
fn read_timeout(node: &Node, report: &mut FaultReport<'_>) -> Option<Duration> {
    if let NodeValue::Number(number, _) = &node.data
        && let Some(millis) = number.as_u64().filter(|number| *number >= 1_000)
    {
        return Some(Duration::from_millis(millis));
    }
    reader::span(node, "timeout", report).filter(|timeout| !timeout.is_zero())
}

fn read_pairs(node: &Node, what: &str, report: &mut FaultReport<'_>) -> BTreeMap<String, String> {
    let NodeValue::Map(entries) = &node.data else {
        report.add(node.at, format!("`{what}` is a mapping, found {}", node.kind_name()));
        return BTreeMap::new();
    };
    let pair = |entry: &MapEntry, report: &mut FaultReport<'_>| {
        Some((entry.key.clone(), reader::text(&entry.value, what, report)?))
    };
    entries.iter().filter_map(|entry| pair(entry, report)).collect()
}
