//! Servers that speak the Model Context Protocol, as definitions name them: in
//! a provider's file, or in the `mcpServers` of Claude Desktop, Claude Code and
//! Cursor, unchanged.
//!
//! Other programs know more keys than there are here, and names that no tool can
//! have. In their form that is worth a note, and no server is lost for another.
//!
//! Only how to reach a server is read here. Which tools it has is found out by
//! whoever connects to it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::located::{Data, Entry, Node};
use super::provider::ProviderSpec;
use super::reader::{self, Fields, Report};
use crate::value::name::ToolName;

/// A server of tools, and how far it is trusted.
#[derive(Clone, Debug, PartialEq)]
pub struct McpServer {
    /// How it is reached.
    pub transport: McpTransport,
    /// Whether what it says of its tools, such as that one only reads, is
    /// believed.
    pub trust_annotations: bool,
    /// Whether a tool that has changed since it was accepted is held back until
    /// an operator accepts the difference.
    pub quarantine: bool,
    /// How long a call of its tools may take.
    pub timeout: Option<Duration>,
    /// How long it may take to start and to say which tools it has.
    pub start_timeout: Option<Duration>,
    /// The largest message that is taken from it, in bytes.
    pub max_message_bytes: Option<usize>,
    /// The largest result of its tools that a caller gets, in bytes.
    pub max_output_bytes: Option<usize>,
    /// What it gets when it asks a person for something.
    pub elicitation: Asking,
    /// What it gets when it asks a model for something.
    pub sampling: Asking,
    /// The folders that it is told of, as `file://` addresses.
    pub roots: Vec<String>,
    /// Which era of the protocol it is spoken to in.
    pub protocol: McpProtocol,
    /// Whether it gets a request only when it has answered the last one: what it
    /// asks is about that one then.
    pub one_at_a_time: bool,
    /// Whether it is left alone.
    pub disabled: bool,
}

/// How a server is reached.
#[derive(Clone, PartialEq)]
pub enum McpTransport {
    /// A process; messages are lines of its standard input and output.
    Command {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its environment, besides the few variables that every program needs.
        env: BTreeMap<String, String>,
        /// The folder that it runs in.
        cwd: Option<String>,
    },
    /// An address; messages are HTTP requests.
    Url {
        /// The address.
        url: String,
        /// Headers of every request.
        headers: BTreeMap<String, String>,
    },
}

impl fmt::Debug for McpTransport {
    /// Leaves values out: people write keys into them.
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

/// What a server gets when it asks for something in the middle of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asking {
    /// Whoever made the call is asked, where they can be.
    #[default]
    Caller,
    /// Nobody is asked; the server hears no.
    Refuse,
}

/// Which era of the protocol a server is spoken to in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum McpProtocol {
    /// The one that it turns out to speak.
    #[default]
    Auto,
    /// With `initialize`: all versions before 2026-07-28.
    Legacy,
    /// Without.
    Modern,
}

/// Whose form a server is written in.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// The one of a provider's file, where an unknown key is a mistake.
    Own,
    /// The one that programs share, each with keys of its own.
    Shared,
}

/// The longest name that is made of one that does not fit.
const MAX_NAME: usize = 48;

/// Keys of the programs that share this form, which mean nothing here.
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

/// Whether a document is a list of servers in the form of other programs.
pub(super) fn is_list(node: &Node) -> bool {
    node.has("mcpServers")
}

/// Reads `mcpServers`: each server is a provider of its name.
pub(super) fn read_list(node: &Node, report: &mut Report<'_>) -> Vec<ProviderSpec> {
    let servers = node.get("mcpServers");
    let Some(Node { data: Data::Map(entries), .. }) = servers else {
        let at = servers.map_or(node.at, |servers| servers.at);
        report.hinted(
            at,
            "`mcpServers` is a mapping of names to servers",
            "write {\"mcpServers\": {\"NAME\": {\"command\": \"…\"}}}",
        );
        return Vec::new();
    };
    let mut read: Vec<ProviderSpec> = Vec::new();
    let mut left_out = Vec::new();
    for Entry { key, at, value } in entries {
        let mut own = report.apart();
        match read_server(value, Form::Shared, &mut own) {
            Some(server) if own.is_empty() => {
                report.take_over(own);
                let name = fitting_name(key, entries, &read);
                if name != *key {
                    // Tools are called `server/tool`, so a server's name is part of theirs.
                    let what = format!("the server `{key}` is called `{name}` here");
                    report.note(*at, what, "use letters, digits and _ - . : in its name");
                }
                let mcp = Some(Box::new(server));
                read.push(ProviderSpec { name, mcp, ..ProviderSpec::default() });
            }
            _ => left_out.push((key, own)),
        }
    }
    for (key, own) in left_out {
        // A file of nothing else is wrong; a server among others is left out.
        match read.is_empty() {
            true => report.take_over(own),
            false => report.take_over_as_notes(own, &format!("the server `{key}` is left out: ")),
        }
    }
    read
}

/// The name of a server: its own where that can be part of a tool's name, else
/// one made of it that no other server has.
fn fitting_name(key: &str, entries: &[Entry], read: &[ProviderSpec]) -> String {
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
pub(super) fn read_server(node: &Node, form: Form, report: &mut Report<'_>) -> Option<McpServer> {
    let mut fields = Fields::of(node, "a server", report)?;
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
        Form::Own => fields.finish(report),
        Form::Shared => fields.finish_with_notes(report),
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
    })
}

fn read_transport(fields: &mut Fields<'_>, report: &mut Report<'_>) -> Option<McpTransport> {
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
            url: reader::text(url, "url", report)?,
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

/// A time span of ours, or milliseconds in the form of other programs: nobody
/// means a thousand seconds and more.
fn read_timeout(node: &Node, report: &mut Report<'_>) -> Option<Duration> {
    if let Data::Number(number, _) = &node.data
        && let Some(millis) = number.as_u64().filter(|number| *number >= 1_000)
    {
        return Some(Duration::from_millis(millis));
    }
    reader::span(node, "timeout", report).filter(|timeout| !timeout.is_zero())
}

fn read_pairs(node: &Node, what: &str, report: &mut Report<'_>) -> BTreeMap<String, String> {
    let Data::Map(entries) = &node.data else {
        report.add(node.at, format!("`{what}` is a mapping, found {}", node.kind_name()));
        return BTreeMap::new();
    };
    let pair = |entry: &Entry, report: &mut Report<'_>| {
        Some((entry.key.clone(), reader::text(&entry.value, what, report)?))
    };
    entries.iter().filter_map(|entry| pair(entry, report)).collect()
}
