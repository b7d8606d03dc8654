//! [`McpHandler`]: the engine as one client sees it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;
use rmcp::RoleServer;
use rmcp::model::{CompleteResult, ErrorCode, ErrorData};
use rmcp::service::RequestContext;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass::{Engine, Lang, TenantId, Tool};
use windlass_executors::mcp::{Server, Servers, Watching};

use super::catalogue::Catalogue;
use super::client::{ClientAuth, McpClient, ServedTools};
use super::fetching;
use super::reports::CallReports;
use crate::human::parked::ParkedCalls;
use crate::human::questions::CallQuestions;
use crate::prerequisites::Prerequisites;
use crate::state::identity::Permission;
use crate::telemetry::Tracer;

/// Default limit of listed tools.
pub(crate) const MAX_TOOLS: usize = 100;
/// How many resources a session may watch.
pub(super) const MAX_SUBSCRIPTIONS: usize = 1_000;

/// The shared state of all MCP clients.
pub(crate) struct McpState {
    pub(crate) engine: Engine,
    pub(crate) servers: Option<Arc<Servers>>,
    /// Which calls wait for answers.
    pub(super) questions: Arc<CallQuestions>,
    pub(crate) lang: Lang,
    /// More tools than this are behind a search.
    pub(crate) max_tools: usize,
    /// Which built-in tools cannot work yet.
    pub(super) prerequisites: Option<Prerequisites>,
    pub(super) parked: ParkedCalls,
    pub(super) reports: CallReports,
    /// The exporter of traces, if there is one.
    pub(super) tracer: Option<Arc<Tracer>>,
}

impl McpState {
    pub(crate) fn new(
        engine: Engine,
        servers: Option<Arc<Servers>>,
        questions: Arc<CallQuestions>,
        lang: Lang,
        max_tools: usize,
        prerequisites: Option<Prerequisites>,
        tracer: Option<Arc<Tracer>>,
    ) -> Arc<Self> {
        servers.iter().for_each(|servers| fetching::register(&engine, servers));
        let (parked, reports) = (ParkedCalls::default(), CallReports::default());
        Arc::new(Self {
            engine,
            servers,
            questions,
            lang,
            max_tools,
            prerequisites,
            parked,
            reports,
            tracer,
        })
    }
}

/// What is known of a client with a session from one request to the next. With
/// it ends what it watches.
#[derive(Default)]
pub(super) struct ClientSession {
    pub(super) tenant: Mutex<Option<TenantId>>,
    level: AtomicU8,
    /// The resources, each with its server's word where it is a server's.
    subscribed: Mutex<HashMap<String, Option<Watching>>>,
}

impl ClientSession {
    pub(super) fn level(&self) -> u8 {
        self.level.load(Ordering::Relaxed)
    }

    pub(super) fn set_level(&self, level: u8) {
        self.level.store(level, Ordering::Relaxed);
    }

    pub(super) fn is_subscribed(&self, uri: &str) -> bool {
        self.subscribed.lock().contains_key(uri)
    }

    pub(super) fn subscribe(
        &self,
        uri: String,
        watching: Option<Watching>,
    ) -> Result<(), ErrorData> {
        let mut subscribed = self.subscribed.lock();
        if subscribed.len() >= MAX_SUBSCRIPTIONS && !subscribed.contains_key(&uri) {
            return Err(ErrorData::invalid_request("too many subscriptions", None));
        }
        subscribed.insert(uri, watching);
        Ok(())
    }

    pub(super) fn unsubscribe(&self, uri: &str) {
        self.subscribed.lock().remove(uri);
    }
}

/// The engine, as one client sees it.
#[derive(Clone)]
pub(crate) struct McpHandler {
    pub(super) shared: Arc<McpState>,
    pub(super) who: ClientAuth,
    pub(super) view: ServedTools,
    pub(super) session: Arc<ClientSession>,
}

impl McpHandler {
    pub(crate) fn new(shared: &Arc<McpState>, who: ClientAuth, view: ServedTools) -> Self {
        Self { shared: Arc::clone(shared), who, view, session: Arc::default() }
    }

    pub(super) fn catalogue<'c>(&'c self, client: &'c McpClient) -> Catalogue<'c> {
        let McpState { engine, lang, .. } = &*self.shared;
        Catalogue { engine, view: &self.view, client, lang: *lang }
    }

    /// The tool that a client means. Right after a start a server may not have said
    /// yet what it has, so that a tool which nobody knows is waited for.
    pub(super) async fn tool(&self, client: &McpClient, name: &str) -> Option<Arc<Tool>> {
        if let Some(known) = self.catalogue(client).find(name) {
            return Some(known);
        }
        // One that cannot be asked has no such tool, as far as anybody knows.
        let _ = self.settled(client).await;
        self.catalogue(client).find(name)
    }

    /// Waits until it is known which tools a client sees; fails where that is up
    /// to a server which cannot be asked.
    pub(super) async fn settled(&self, client: &McpClient) -> Result<(), ErrorData> {
        if let Some(server) = self.server(client).await? {
            server.listed().await.map_err(|error| self.failed(&error))?;
        } else if let Some(servers) = &self.shared.servers {
            servers.settled_for(client.tenant()).await;
        }
        Ok(())
    }

    /// The server that a view is about.
    pub(super) async fn server(
        &self,
        client: &McpClient,
    ) -> Result<Option<Arc<Server>>, ErrorData> {
        let ServedTools::Provider(name) = &self.view else { return Ok(None) };
        let servers = self.shared.servers.as_ref();
        let server = servers.and_then(|servers| servers.get_for(client.tenant(), name));
        match server {
            // As whoever asks is logged in to it.
            Some(server) => {
                let own = server.of(&client.caller()).await;
                own.map(Some).map_err(|error| self.failed(&error))
            }
            None => Ok(None),
        }
    }

    /// The same for its prompts and resources, which not every key shows.
    pub(super) async fn library(
        &self,
        client: &McpClient,
    ) -> Result<Option<Arc<Server>>, ErrorData> {
        let server = self.server(client).await?;
        match &server {
            Some(own) if !client.sees_all_of(own.name()) => {
                let why = format!("this key shows tools of `{}` and nothing else", own.name());
                Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, why, None))
            }
            _ => Ok(server),
        }
    }

    /// Watches a resource, if it is one of a server.
    pub(super) async fn watch(
        &self,
        client: &McpClient,
        uri: &str,
    ) -> Result<Option<Watching>, ErrorData> {
        let server = match self.library(client).await? {
            Some(server) => Some(server),
            None => self.of_resource(client, uri).await,
        };
        match server {
            Some(server) => server.watch(uri).await.map(Some).map_err(|error| self.failed(&error)),
            None => Ok(None),
        }
    }

    /// Values for what a client types: of a server's prompt or template, or of a
    /// definition's.
    pub(super) async fn completed(
        &self,
        client: &McpClient,
        mut request: Value,
    ) -> Result<CompleteResult, ErrorData> {
        let wanted = &request["ref"];
        let name = wanted["name"].as_str().unwrap_or_default().to_owned();
        let uri = wanted["uri"].as_str().unwrap_or_default().to_owned();
        let server = match wanted["type"].as_str() {
            Some("ref/prompt") => match self.of_prompt(client, &name).await {
                Some((server, own)) => {
                    request["ref"]["name"] = own.into();
                    Some(server)
                }
                None => None,
            },
            Some("ref/resource") => self.of_resource(client, &uri).await,
            _ => None,
        };
        match server {
            Some(server) => self.pass(&server, client, "completion/complete", request).await,
            None => read(self.completion(client, &request)),
        }
    }

    pub(super) fn reader(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<McpClient, ErrorData> {
        let client = self.who.client(context)?;
        client.must(Permission::ReadTools)?;
        Ok(client)
    }
}

/// Reads what an answer of another server, or of a definition, should be.
pub(super) fn read<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|error| {
        ErrorData::internal_error(format!("an answer does not fit: {error}"), None)
    })
}
