//! [`Service`]: the engine as a server of the protocol.

#![expect(deprecated, reason = "clients of the older era set levels and subscribe to resources")]

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, ErrorData,
    GetPromptRequestParams, GetPromptResponse, Implementation, InitializeRequestParams,
    InitializeResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionFilter, Tool as Declared, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Map, Value, json};
use windlass::{Engine, Lang, TenantId};
use windlass_executors::mcp::{Server, Servers};

use super::catalogue::Catalogue;
use super::changes;
use super::finder;
use super::gathered::Listed;
use super::parked::Parked;
use super::reports::Reports;
use super::running::rank;
use super::who::{Client, VERSIONS, View, Who};
use crate::identity::Action;

/// How many tools, prompts or resources one page holds.
const PAGE: usize = 200;
/// How many tools a client is told of at once, if nobody says otherwise.
pub(crate) const MAX_TOOLS: usize = 100;
/// How many resources a session may watch.
const MAX_SUBSCRIPTIONS: usize = 1_000;

/// What all clients share.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) servers: Option<Arc<Servers>>,
    pub(crate) lang: Lang,
    /// More tools than this are behind a search.
    pub(crate) max_tools: usize,
    pub(super) parked: Parked,
    pub(super) reports: Reports,
}

impl Shared {
    pub(crate) fn new(
        engine: Engine,
        servers: Option<Arc<Servers>>,
        lang: Lang,
        max_tools: usize,
    ) -> Arc<Self> {
        let (parked, reports) = (Parked::default(), Reports::default());
        Arc::new(Self { engine, servers, lang, max_tools, parked, reports })
    }
}

/// What is known of a client of the older era from one request to the next.
#[derive(Default)]
pub(super) struct Session {
    tenant: Mutex<Option<TenantId>>,
    level: AtomicU8,
    subscribed: Mutex<HashSet<String>>,
}

impl Session {
    pub(super) fn level(&self) -> u8 {
        self.level.load(Ordering::Relaxed)
    }

    pub(super) fn is_subscribed(&self, uri: &str) -> bool {
        self.subscribed.lock().contains(uri)
    }
}

/// The engine, as one client sees it.
#[derive(Clone)]
pub(crate) struct Service {
    pub(super) shared: Arc<Shared>,
    pub(super) who: Who,
    pub(super) view: View,
    pub(super) session: Arc<Session>,
}

impl Service {
    pub(crate) fn new(shared: &Arc<Shared>, who: Who, view: View) -> Self {
        Self { shared: Arc::clone(shared), who, view, session: Arc::default() }
    }

    pub(super) fn catalogue<'c>(&'c self, client: &'c Client) -> Catalogue<'c> {
        let Shared { engine, lang, .. } = &*self.shared;
        Catalogue { engine, view: &self.view, client, lang: *lang }
    }

    /// The server that a view is about.
    pub(super) async fn server(&self, client: &Client) -> Result<Option<Arc<Server>>, ErrorData> {
        let View::Provider(name) = &self.view else { return Ok(None) };
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

    /// The server that has a resource, if one has.
    async fn watched(&self, client: &Client, uri: &str) -> Result<Option<Arc<Server>>, ErrorData> {
        match self.server(client).await? {
            Some(server) => Ok(Some(server)),
            None => Ok(self.of_resource(client, uri).await),
        }
    }

    /// Values for what a client types: of a server's prompt or template, or of a
    /// definition's.
    async fn completed(
        &self,
        client: &Client,
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

    fn reader(&self, context: &RequestContext<RoleServer>) -> Result<Client, ErrorData> {
        let client = self.who.client(context)?;
        client.must(Action::ReadTools)?;
        Ok(client)
    }

    /// What this server can do. One that stands for another can do what that
    /// one can, and nothing that it cannot.
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
}

/// Whether a schema has arguments that clients also send as headers.
fn has_headers(schema: &Map<String, Value>) -> bool {
    let properties = schema.get("properties").and_then(Value::as_object);
    schema.contains_key("x-mcp-header")
        || (properties.into_iter().flat_map(Map::values))
            .filter_map(Value::as_object)
            .any(has_headers)
}

/// The page of a list that a request asks for, and where the next one begins.
fn page<T>(
    items: Vec<T>,
    request: Option<&PaginatedRequestParams>,
) -> Result<(Vec<T>, Option<String>), ErrorData> {
    let cursor = request.and_then(|request| request.cursor.as_deref());
    let start: usize = match cursor {
        Some(cursor) => {
            cursor.parse().map_err(|_| ErrorData::invalid_params("unknown cursor", None))?
        }
        None => 0,
    };
    let more = items.len() > start.saturating_add(PAGE);
    let shown = items.into_iter().skip(start).take(PAGE).collect();
    Ok((shown, more.then(|| (start + PAGE).to_string())))
}

/// Reads what an answer of another server, or of a definition, should be.
pub(super) fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|error| {
        ErrorData::internal_error(format!("an answer does not fit: {error}"), None)
    })
}

fn to_json(params: &impl serde::Serialize) -> Value {
    serde_json::to_value(params).unwrap_or_default()
}

impl ServerHandler for Service {
    fn get_info(&self) -> ServerConfig {
        let own = Implementation::new("windlass", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(Self::capabilities())
            .with_server_info(own)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    fn supported_protocol_versions(&self) -> std::borrow::Cow<'static, [ProtocolVersion]> {
        VERSIONS.into()
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let client = self.reader(&context)?;
        *self.session.tenant.lock() = Some(client.tenant().clone());
        context.peer.set_peer_info(request.clone());
        let mut result = self.negotiate_initialize(&request)?;
        if let Some(server) = self.server(&client).await? {
            let about = server.about().await.map_err(|error| self.failed(&error))?;
            if let Some(instructions) = about["instructions"].as_str() {
                result.instructions = Some(instructions.to_owned());
            }
        }
        Ok(result)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let tenant = self.session.tenant.lock().clone();
        if let Some(tenant) = tenant {
            let (shared, view) = (Arc::clone(&self.shared), self.view.clone());
            let session = Arc::clone(&self.session);
            tokio::spawn(changes::tell_session(shared, view, tenant, context.peer, session));
        }
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let client = self.reader(&context)?;
        if let Some(server) = self.server(&client).await? {
            server.listed().await.map_err(|error| self.failed(&error))?;
        } else if let Some(servers) = &self.shared.servers {
            servers.settled_for(client.tenant()).await;
        }
        let catalogue = self.catalogue(&client);
        let mut tools = catalogue.tools();
        let too_many = tools.len() > self.shared.max_tools;
        tools.truncate(self.shared.max_tools);
        let declare = |(name, tool): &(String, Arc<windlass::Tool>)| catalogue.declare(name, tool);
        let mut declared: Vec<Declared> = tools.iter().filter_map(declare).collect();
        if too_many || !catalogue.deferred().is_empty() {
            declared.extend(finder::declarations(self.shared.lang));
        }
        let (shown, next) = page(declared, request.as_ref())?;
        let mut result = ListToolsResult::with_all_items(shown);
        result.next_cursor = next;
        Ok(result)
    }

    fn get_tool(&self, name: &str) -> Option<Declared> {
        // Asked without saying for whom, so only everybody's can be shown.
        let name = match &self.view {
            View::Provider(provider) => format!("{provider}/{name}"),
            View::All => name.to_owned(),
        };
        let tool = self.shared.engine.registry().get(&name)?;
        let schema = tool.model_schema().as_object()?;
        // It is asked for every call, and only about arguments that are headers, too.
        has_headers(schema).then(|| Declared::new(name, "", schema.clone()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let client = self.who.client(&context)?;
        client.must(Action::CallTools)?;
        self.call(request, &client, &context).await?.into_tool()
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let client = self.reader(&context)?;
        if let Some(server) = self.server(&client).await? {
            return self
                .pass(&server, &client, "prompts/list", to_json(&request.unwrap_or_default()))
                .await;
        }
        let (shown, next) = page(self.all(&client, Listed::Prompts).await, request.as_ref())?;
        let mut result = ListPromptsResult::with_all_items(read(shown.into())?);
        result.next_cursor = next;
        Ok(result)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let client = self.reader(&context)?;
        self.prompt(request, &client, &context).await?.into_prompt()
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let client = self.reader(&context)?;
        if let Some(server) = self.server(&client).await? {
            let params = to_json(&request.unwrap_or_default());
            return self.pass(&server, &client, "resources/list", params).await;
        }
        let (shown, next) = page(self.all(&client, Listed::Resources).await, request.as_ref())?;
        let mut result = ListResourcesResult::with_all_items(read(shown.into())?);
        result.next_cursor = next;
        Ok(result)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let client = self.reader(&context)?;
        if let Some(server) = self.server(&client).await? {
            let params = to_json(&request.unwrap_or_default());
            return self.pass(&server, &client, "resources/templates/list", params).await;
        }
        let (shown, next) = page(self.all(&client, Listed::Templates).await, request.as_ref())?;
        let mut result = ListResourceTemplatesResult::with_all_items(read(shown.into())?);
        result.next_cursor = next;
        Ok(result)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let client = self.reader(&context)?;
        self.resource(request, &client, &context).await?.into_resource()
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let client = self.reader(&context)?;
        match self.server(&client).await? {
            Some(server) => {
                self.pass(&server, &client, "completion/complete", to_json(&request)).await
            }
            None => self.completed(&client, to_json(&request)).await,
        }
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.reader(&context)?;
        self.session.level.store(rank(&to_json(&request.level)), Ordering::Relaxed);
        Ok(())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let client = self.reader(&context)?;
        if let Some(server) = self.watched(&client, &request.uri).await? {
            server.watch(&request.uri).await.map_err(|error| self.failed(&error))?;
        }
        let mut subscribed = self.session.subscribed.lock();
        if subscribed.len() >= MAX_SUBSCRIPTIONS {
            return Err(ErrorData::invalid_request("too many subscriptions", None));
        }
        subscribed.insert(request.uri);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let client = self.reader(&context)?;
        if let Some(server) = self.watched(&client, &request.uri).await? {
            server.unwatch(&request.uri).await.map_err(|error| self.failed(&error))?;
        }
        self.session.subscribed.lock().remove(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let client = self.reader(context.request_context())?;
        let tenant = client.tenant().clone();
        let told = changes::tell_listener(&self.shared, self.view.clone(), tenant, context.sink());
        tokio::select! {
            () = told => {}
            () = context.cancelled() => {}
        }
        Ok(())
    }
}
