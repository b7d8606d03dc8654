//! Prompts and resources of upstream MCP servers, fetched as calls.
//!
//! Two internal tools fetch them, which no model sees. So these requests have what
//! every call has: rate limits, approvals, records, a deadline.

use std::sync::{Arc, Weak};

use rmcp::RoleServer;
use rmcp::model::ErrorData;
use rmcp::service::RequestContext;
use serde_json::{Value, json};
use windlass::{
    Behaviour, BoxFuture, Call, CallRequest, CallResult, Engine, Error, ErrorKind, Executor,
    Exposure, Output, Text, ToolBuilder,
};
use windlass_executors::mcp::{Asker, Servers};

use super::client::McpClient;
use super::reply::{self, McpReply};
use super::running::RunningRequest;
use super::service::McpHandler;
use crate::telemetry::McpTarget;

/// What a server sends at most; its own limit is lower, if it has one.
const MAX_FETCHED: usize = 64 * 1024 * 1024;

/// What can be fetched.
#[derive(Clone, Copy)]
pub(super) enum Fetched {
    Prompt,
    Resource,
}

impl Fetched {
    /// The tool that fetches it.
    fn tool(self) -> &'static str {
        match self {
            Self::Prompt => "mcp_prompt",
            Self::Resource => "mcp_resource",
        }
    }

    fn method(self) -> &'static str {
        match self {
            Self::Prompt => "prompts/get",
            Self::Resource => "resources/read",
        }
    }

    fn about(self) -> Text {
        let about = match self {
            Self::Prompt => [
                ("en_US", "Gets a prompt of an MCP server."),
                ("zh_Hans", "获取 MCP 服务的提示词。"),
            ],
            Self::Resource => [
                ("en_US", "Reads a resource of an MCP server."),
                ("zh_Hans", "读取 MCP 服务的资源。"),
            ],
        };
        Text::Many(about.map(|(lang, text)| (lang.to_owned(), text.to_owned())).into())
    }

    fn schema(self) -> Value {
        let text = json!({"type": "string"});
        match self {
            Self::Prompt => json!({
                "type": "object",
                "properties": {"server": text, "name": text, "arguments": {"type": "object"}},
                "required": ["server", "name"],
            }),
            Self::Resource => json!({
                "type": "object",
                "properties": {"server": text, "uri": text},
                "required": ["server", "uri"],
            }),
        }
    }
}

/// Adds the tools to an engine.
pub(super) fn register(engine: &Engine, servers: &Arc<Servers>) {
    for what in [Fetched::Prompt, Fetched::Resource] {
        let fetch = Arc::new(Fetch { what, servers: Arc::downgrade(servers) });
        let tool = ToolBuilder::native(what.tool(), what.schema(), fetch)
            .description(what.about())
            .behaviour(Behaviour::READ_ONLY)
            // Its failures are those of the server's tools.
            .upstream("{server}")
            .with(|spec| {
                spec.exposure = Exposure::Hidden;
                spec.max_output_bytes = Some(MAX_FETCHED);
            });
        if let Err(error) = engine.registry().register(tool) {
            tracing::warn!(%error, "prompts or resources of servers cannot be fetched");
        }
    }
}

struct Fetch {
    what: Fetched,
    /// Not kept alive: they know the engine that has this tool.
    servers: Weak<Servers>,
}

impl Executor for Fetch {
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        Box::pin(async move {
            let mut params = call.arguments().clone();
            let name = params.as_object_mut().and_then(|params| params.remove("server"));
            let name = name.as_ref().and_then(Value::as_str).unwrap_or_default();
            let servers = self.servers.upgrade();
            let server = servers.and_then(|all| all.get_for(&call.caller().tenant, name));
            let server = server.ok_or_else(|| {
                Error::new(ErrorKind::NotFound, format!("no server is called `{name}`"))
            })?;
            let server = server.of(call.caller()).await?;
            let asker = call.object::<Asker>();
            let answer = server.ask(self.what.method(), &params, asker, call.trace()).await?;
            Ok(Output { structured: Some(Box::new(answer)), ..Output::default() })
        })
    }
}

impl McpHandler {
    /// Begins to fetch something of the `server` that `params` name, which may ask
    /// back about it.
    pub(super) fn begin_fetch(
        &self,
        what: Fetched,
        target: McpTarget,
        params: Value,
        client: &McpClient,
        context: &RequestContext<RoleServer>,
        finish: impl FnOnce(Value) -> Result<McpReply, ErrorData> + Send + 'static,
    ) -> RunningRequest {
        let lang = self.shared.lang;
        let request = CallRequest::new(what.tool(), params);
        let finish = move |result: CallResult| match &result.outcome {
            Ok(output) => finish(output.value().cloned().unwrap_or_default()),
            Err(error) => Err(reply::of_error(error, lang)),
        };
        self.begin(target, request, None, client, context, finish)
    }
}
