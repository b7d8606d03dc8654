//! The methods of the protocol.

#![expect(deprecated, reason = "clients with a session set levels and subscribe to resources")]

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, CustomRequest,
    CustomResult, DiscoverResult, ErrorCode, ErrorData, GetPromptRequestParams, GetPromptResponse,
    InitializeRequestParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, ServerConfig, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionFilter, Tool as Declared, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::aggregate::ListMethod;
use super::changes::{self, ChangeWatcher};
use super::client::{ServedTools, VERSIONS};
use super::finder;
use super::malformed;
use super::running::rank;
use super::service::{MAX_SUBSCRIPTIONS, McpHandler, read};
use crate::state::identity::Permission;

/// How many tools, prompts or resources one page holds.
const PAGE: usize = 200;

impl ServerHandler for McpHandler {
    fn get_info(&self) -> ServerConfig {
        Self::own_introduction()
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
        let version = self.negotiate_initialize(&request)?.protocol_version;
        Ok(self.introduction(&client).await.with_protocol_version(version))
    }

    async fn discover(
        &self,
        context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        let said = self.introduction(&self.reader(&context)?).await;
        Ok(DiscoverResult::from_server_info(VERSIONS.to_vec(), said))
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let tenant = self.session.tenant.lock().clone();
        if let Some(tenant) = tenant {
            let (shared, view) = (Arc::clone(&self.shared), self.view.clone());
            // Not kept alive: what it watches ends with it.
            let session = Arc::downgrade(&self.session);
            tokio::spawn(changes::tell_session(shared, view, tenant, context.peer, session));
        }
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let client = self.reader(&context)?;
        self.settled(&client).await?;
        let catalogue = self.catalogue(&client);
        let mut tools = catalogue.tools();
        // Where that cannot be told, all are shown.
        let missing = match &self.shared.prerequisites {
            Some(own) => {
                own.missing(&self.shared.engine, client.tenant()).await.unwrap_or_default()
            }
            None => BTreeMap::new(),
        };
        let missing: HashSet<String> = missing.into_values().flatten().collect();
        tools.retain(|(_, tool)| !missing.contains(tool.name().as_str()));
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
            ServedTools::Provider(provider) => format!("{provider}/{name}"),
            ServedTools::All => name.to_owned(),
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
        client.must(Permission::CallTools)?;
        self.call(request, &client, &context).await?.into_tool()
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.list(ListMethod::Prompts, request, &context).await
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
        self.list(ListMethod::Resources, request, &context).await
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.list(ListMethod::Templates, request, &context).await
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
        match self.library(&client).await? {
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
        self.session.set_level(rank(&to_json(&request.level)));
        Ok(())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let client = self.reader(&context)?;
        let watching = self.watch(&client, &request.uri).await?;
        self.session.subscribe(request.uri, watching)
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.reader(&context)?;
        self.session.unsubscribe(&request.uri);
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
        let changes = ChangeWatcher::new(&self.shared, &self.view, client.tenant().clone());
        let watching = async {
            let wanted = context.accepted().resource_subscriptions.iter().flatten();
            let mut watched = Vec::new();
            for uri in wanted.take(MAX_SUBSCRIPTIONS) {
                // What cannot be watched does not change, as far as anybody knows.
                watched.extend(self.watch(&client, uri).await.ok().flatten());
            }
            // They are watched for as long as somebody listens.
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = changes::tell_listener(changes, context.sink()) => {}
            () = watching => {}
            () = context.cancelled() => {}
        }
        Ok(())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let CustomRequest { method, params, .. } = request;
        let is_modern = self.who.client(&context)?.is_modern;
        Err(match malformed::fault(&method, params, is_modern) {
            Some(why) => ErrorData::invalid_params(why, None),
            None => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None),
        })
    }
}

impl McpHandler {
    /// A page of a list: of the one server that is asked here, or of what all of
    /// them have.
    async fn list<T: DeserializeOwned>(
        &self,
        what: ListMethod,
        request: Option<PaginatedRequestParams>,
        context: &RequestContext<RoleServer>,
    ) -> Result<T, ErrorData> {
        let client = self.reader(context)?;
        if let Some(server) = self.library(&client).await? {
            let params = to_json(&request.unwrap_or_default());
            return self.pass(&server, &client, what.method(), params).await;
        }
        let (shown, next) = page(self.all(&client, what).await, request.as_ref())?;
        let mut result = json!({"resultType": "complete", what.items(): shown});
        if let Some(next) = next {
            result["nextCursor"] = next.into();
        }
        read(result)
    }
}

/// Whether a schema has arguments that clients also send as headers.
pub(super) fn has_headers(schema: &Map<String, Value>) -> bool {
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

fn to_json(params: &impl serde::Serialize) -> Value {
    serde_json::to_value(params).unwrap_or_default()
}
