//! The server's `initialize` result: its name, instructions and capabilities.
//!
//! `/mcp/PROVIDER` of an upstream server has that server's capabilities: a client
//! that is told of prompts asks for them, and would get an error from a server
//! without any.

use rmcp::model::{Implementation, ProtocolVersion, ServerCapabilities, ServerConfig};
use serde_json::{Value, json};

use super::client::McpClient;
use super::service::McpHandler;

impl McpHandler {
    /// Its own introduction, without an upstream server.
    pub(super) fn own_introduction() -> ServerConfig {
        let own = Implementation::new("windlass", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities())
            .with_server_info(own)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    /// What it says to a client. Of a server that cannot be asked it is not known
    /// what it has; all that it could have is promised then, so that a client finds
    /// it when the server is back.
    pub(super) async fn introduction(&self, client: &McpClient) -> ServerConfig {
        let own = Self::own_introduction();
        let Ok(Some(server)) = self.server(client).await else { return own };
        let mut said = match server.about().await {
            Ok(about) => passed_on(own, &about),
            Err(_) => own,
        };
        if !client.sees_all_of(server.name()) {
            let can = &mut said.capabilities;
            (can.prompts, can.resources, can.completions) = (None, None, None);
        }
        said
    }
}

fn capabilities() -> ServerCapabilities {
    serde_json::from_value(json!({
        "tools": {"listChanged": true},
        "prompts": {"listChanged": true},
        "resources": {"listChanged": true, "subscribe": true},
        "completions": {},
        "logging": {},
    }))
    .unwrap_or_default()
}

/// What another server says of itself, as far as it holds here, too.
fn passed_on(mut own: ServerConfig, about: &Value) -> ServerConfig {
    let said: Option<ServerCapabilities> =
        serde_json::from_value(about["capabilities"].clone()).ok();
    if let Some(mut said) = said {
        // Nobody here knows what they mean.
        (said.experimental, said.extensions) = (None, None);
        // Its tools are also told to have changed where it does not say so itself.
        if let Some(tools) = &mut said.tools {
            tools.list_changed = Some(true);
        }
        own.capabilities = said;
    }
    if let Ok(name) = serde_json::from_value(about["serverInfo"].clone()) {
        own.server_info = name;
    }
    own.instructions = about["instructions"].as_str().map(str::to_owned);
    own
}
