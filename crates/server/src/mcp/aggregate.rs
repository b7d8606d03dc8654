//! Prompts and resources of all upstream MCP servers, merged into one list.
//!
//! A prompt is named like a tool, `server__prompt`. A resource keeps its URI; if two
//! servers have the same one, the first wins. Only servers with prompts or resources
//! are asked, and an unreachable one delays nobody.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;
use tokio::time::timeout;
use windlass_executors::mcp::{Server, State};

use super::client::McpClient;
use super::library;
use super::service::McpHandler;

/// How long a server may take to say what it has.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between the names of a server and of its prompt.
const BETWEEN: &str = "__";

/// The list methods.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ListMethod {
    Prompts,
    Resources,
    Templates,
}

impl ListMethod {
    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
        }
    }

    pub(super) fn items(self) -> &'static str {
        match self {
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// What no two of them may share.
    fn key(self) -> &'static str {
        match self {
            Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }

    fn is_offered_by(self, server: &Server) -> bool {
        let offers = server.offers();
        match self {
            Self::Prompts => offers.prompts,
            Self::Resources | Self::Templates => offers.resources,
        }
    }
}

impl McpHandler {
    /// What definitions and servers list together.
    pub(super) async fn all(&self, client: &McpClient, what: ListMethod) -> Vec<Value> {
        let mut all = match what {
            ListMethod::Prompts => self.prompts(client),
            ListMethod::Resources => self.resources(client, false),
            ListMethod::Templates => self.resources(client, true),
        };
        for (server, mut item) in self.gathered(client, what).await {
            if what == ListMethod::Prompts {
                let name = item["name"].as_str().unwrap_or_default();
                item["name"] = format!("{}{BETWEEN}{name}", server.name()).into();
            }
            all.push(item);
        }
        let mut seen = HashSet::new();
        all.retain(|item| seen.insert(item[what.key()].to_string()));
        all
    }

    /// The server that a prompt is of, and what it calls it.
    pub(super) async fn of_prompt(
        &self,
        client: &McpClient,
        name: &str,
    ) -> Option<(Arc<Server>, String)> {
        let (server, prompt) = name.split_once(BETWEEN)?;
        if !client.sees_all_of(server) {
            return None;
        }
        let server = self.shared.servers.as_ref()?.get_for(client.tenant(), server)?;
        let server = server.of(&client.caller()).await.ok()?;
        Some((server, prompt.to_owned()))
    }

    /// The server that a resource is of: one that lists it, else one with a
    /// template that fits.
    pub(super) async fn of_resource(&self, client: &McpClient, uri: &str) -> Option<Arc<Server>> {
        let listed = self.gathered(client, ListMethod::Resources).await;
        if let Some((server, _)) = listed.into_iter().find(|(_, item)| item["uri"] == uri) {
            return Some(server);
        }
        let templates = self.gathered(client, ListMethod::Templates).await;
        let fits = |item: &Value| {
            let template = item["uriTemplate"].as_str().unwrap_or_default();
            template == uri || library::matched(template, uri).is_some()
        };
        templates.into_iter().find(|(_, item)| fits(item)).map(|(server, _)| server)
    }

    /// What the servers of a client list, each with its server.
    async fn gathered(&self, client: &McpClient, what: ListMethod) -> Vec<(Arc<Server>, Value)> {
        let Some(servers) = &self.shared.servers else { return Vec::new() };
        let caller = client.caller();
        let asked = servers.list_for(client.tenant()).into_iter().filter(|server| {
            client.sees_all_of(server.name())
                && what.is_offered_by(server)
                && !matches!(server.state(), State::Down(_))
        });
        let asked = asked.map(|server| {
            let caller = &caller;
            async move {
                let listing = async {
                    let server = server.of(caller).await?;
                    let items = server.list(what.method(), what.items()).await?;
                    Ok::<_, windlass::Error>((server, items))
                };
                match timeout(PATIENCE, listing).await {
                    Ok(Ok((server, items))) => {
                        items.into_iter().map(|item| (Arc::clone(&server), item)).collect()
                    }
                    // Its calls say what is wrong with it.
                    _ => Vec::new(),
                }
            }
        });
        join_all(asked).await.into_iter().flatten().collect()
    }
}
