//! The base of the figures: a server of `rmcp` with one tool, which says what it
//! was told.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use axum::Router;
use axum::serve::ListenerExt;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, JsonObject,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::BARE;
use crate::http::first_line;

/// Such a server in a process of its own.
pub(crate) struct Bare {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Bare {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let mut child =
            Command::new(std::env::current_exe()?).arg(BARE).stdout(Stdio::piped()).spawn()?;
        let address = first_line(&mut child)?.parse()?;
        Ok(Self { child, address })
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Is such a server over HTTP, until it is killed.
pub(crate) fn over_http() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        println!("{}", listener.local_addr()?);
        let listener = listener.tap_io(|stream| {
            let _ = stream.set_nodelay(true);
        });
        let sessions = Arc::new(LocalSessionManager::default());
        let config = StreamableHttpServerConfig::default().with_json_response(true);
        let service = StreamableHttpService::new(|| Ok(Echo), sessions, config);
        Ok(axum::serve(listener, Router::new().route_service("/mcp", service)).await?)
    })
}

/// Is such a server over standard input and output, until they end.
pub(crate) fn over_stdio() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let running = rmcp::serve_server(Echo, rmcp::transport::stdio()).await?;
        running.waiting().await?;
        Ok(())
    })
}

struct Echo;

#[derive(Deserialize)]
struct Arguments {
    message: String,
}

fn schema() -> JsonObject {
    let schema = json!({
        "type": "object",
        "properties": {"message": {"type": "string"}},
        "required": ["message"],
    });
    match schema {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    }
}

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut echo = Tool::new("echo", "Says what it was told.", schema());
        echo.annotations = Some(ToolAnnotations::new().read_only(true));
        Ok(ListToolsResult::with_all_items(vec![echo]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let Arguments { message } = serde_json::from_value(arguments)
            .map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        Ok(CallToolResult::success(vec![ContentBlock::text(message)]).into())
    }
}
