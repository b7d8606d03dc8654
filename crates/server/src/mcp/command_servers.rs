//! [`CommandServers`]: the MCP servers that a command of the CLI starts for the tools
//! it needs.

use std::sync::Arc;
use std::time::Duration;

use windlass::{Engine, TenantId};
use windlass_executors::mcp::{Server, Servers, Start};

use crate::cli::exit::Failure;
use crate::cli::output::Screen;
use crate::installation::Installation;

/// How long a list of tools waits for a server that is not connected yet.
const PATIENCE: Duration = Duration::from_secs(30);

/// The MCP servers of a command; none if no provider has one.
pub(crate) struct CommandServers(Option<Servers>);

impl CommandServers {
    /// Those that these tools need. Others are not started.
    pub(crate) async fn of_tools(
        installation: &Installation<'_>,
        engine: &Engine,
        tools: impl Iterator<Item = &str>,
    ) -> Result<Self, Failure> {
        let screen = installation.screen;
        let upstream = Self::start(installation, engine, Start::Needed).await?;
        let Some(servers) = &upstream.0 else { return Ok(upstream) };
        for tool in tools {
            if engine.registry().get(tool).is_some() {
                continue;
            }
            let named = tool.split_once('/').map(|(server, _)| server);
            let server = named.and_then(|name| servers.get_for(&TenantId::default(), name));
            let known = match server {
                Some(server) => {
                    let mut known = server.listed().await;
                    // What was remembered may be older than the tool.
                    if known.is_ok() && engine.registry().get(tool).is_none() {
                        known = server.listed_anew().await;
                    }
                    told(&server, screen);
                    known.err().into_iter().collect()
                }
                // Perhaps the wire name of a tool that is not known yet.
                None => servers.listed(PATIENCE).await,
            };
            known.iter().for_each(|error| screen.warn(error));
        }
        Ok(upstream)
    }

    /// All of them, with their tools known.
    pub(crate) async fn all(
        installation: &Installation<'_>,
        engine: &Engine,
    ) -> Result<Self, Failure> {
        let screen = installation.screen;
        let upstream = Self::start(installation, engine, Start::Unknown).await?;
        if let Some(servers) = &upstream.0 {
            servers.listed(PATIENCE).await.iter().for_each(|error| screen.warn(error));
            servers.list_for(&TenantId::default()).iter().for_each(|server| told(server, screen));
        }
        Ok(upstream)
    }

    async fn start(
        installation: &Installation<'_>,
        engine: &Engine,
        start: Start,
    ) -> Result<Self, Failure> {
        if !engine.providers().all().iter().any(|(_, provider)| provider.mcp.is_some()) {
            return Ok(Self(None));
        }
        Ok(Self(Some(installation.servers(engine, start).await?)))
    }

    /// The server of this name.
    pub(crate) fn server(&self, name: &str) -> Option<Arc<Server>> {
        self.0.as_ref()?.get_for(&TenantId::default(), name)
    }

    /// The servers, none of them started.
    pub(crate) async fn none_started(
        installation: &Installation<'_>,
        engine: &Engine,
    ) -> Result<Self, Failure> {
        Self::start(installation, engine, Start::Needed).await
    }

    /// Ends them.
    pub(crate) async fn stop(self) {
        if let Some(servers) = self.0 {
            servers.stop().await;
        }
    }
}

/// Says what was left out of a server's list.
fn told(server: &Server, screen: Screen) {
    server.odd().iter().for_each(|odd| screen.warn(format_args!("{}: {odd}", server.name())));
}
