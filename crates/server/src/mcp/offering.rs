//! `prompts/*` and `resources/*`: of definitions, upstream servers and stored files.

use rmcp::RoleServer;
use rmcp::model::{ErrorCode, ErrorData, GetPromptRequestParams, ReadResourceRequestParams};
use rmcp::service::RequestContext;
use serde_json::{Map, Value, json};
use windlass::definition::{PromptSpec, ResourceSpec};
use windlass::{CallId, CallRequest, CallResult, OutputPart};

use super::client::McpClient;
use super::fetching::Fetched;
use super::library;
use super::reply::McpReply;
use super::requests::{ClientInput, RequestStart, for_protocol};
use super::service::{McpHandler, read};
use crate::state::identity::Permission;
use crate::telemetry::McpTarget;

/// Where files that were kept are.
const FILES: &str = "windlass://files/";
/// The largest file that is read at once.
const MAX_FILE: u64 = 16 * 1024 * 1024;

impl McpHandler {
    /// Gets a prompt.
    pub(super) async fn prompt(
        &self,
        request: GetPromptRequestParams,
        client: &McpClient,
        context: &RequestContext<RoleServer>,
    ) -> Result<McpReply, ErrorData> {
        let GetPromptRequestParams { name, arguments, input_responses, request_state, .. } =
            request;
        let asked = json!(["prompts/get", name, arguments]).to_string();
        let given = ClientInput { answers: input_responses, state: request_state };
        let begin = self.begin_prompt(name, arguments, client, context);
        self.answer(client, context, asked, given, begin).await
    }

    async fn begin_prompt(
        &self,
        name: String,
        arguments: Option<Map<String, Value>>,
        client: &McpClient,
        context: &RequestContext<RoleServer>,
    ) -> Result<RequestStart, ErrorData> {
        let own = match self.library(client).await? {
            Some(server) => Some((server, name.clone())),
            None => self.of_prompt(client, &name).await,
        };
        if let Some((server, own_name)) = own {
            let mut params = json!({"server": server.name(), "name": own_name});
            if let Some(arguments) = arguments {
                params["arguments"] = Value::Object(arguments);
            }
            let is_modern = client.is_modern;
            let finish = move |answer| Ok(McpReply::Prompt(read(for_protocol(is_modern, answer))?));
            let target = McpTarget::Prompt(name);
            let fetched = Fetched::Prompt;
            let running = self.begin_fetch(fetched, target, params, client, context, finish);
            return Ok(RequestStart::Running(running));
        }
        let known = self.known_prompts(client).into_iter().find(|prompt| prompt.name == name);
        let unknown = || ErrorData::invalid_params(format!("Unknown prompt: {name}"), None);
        let prompt = known.ok_or_else(unknown)?;
        let given = library::arguments(&prompt, arguments.as_ref())?;
        let Some(tool) = &prompt.tool else {
            let filled = library::fill(&prompt, &given, self.shared.lang);
            return filled.map(|prompt| RequestStart::Done(McpReply::Prompt(prompt)));
        };
        // A tool makes the messages: one that the client could call itself.
        client.must(Permission::CallTools)?;
        let tool = self.tool(client, tool).await.ok_or_else(unknown)?;
        let request = CallRequest::new(tool.name().as_str(), json!(given));
        let lang = self.shared.lang;
        let finish = move |result: CallResult| {
            library::made_by_tool(&prompt, &result, lang).map(McpReply::Prompt)
        };
        let target = McpTarget::Prompt(name);
        Ok(RequestStart::Running(self.begin(target, request, Some(&tool), client, context, finish)))
    }

    /// Reads a resource.
    pub(super) async fn resource(
        &self,
        request: ReadResourceRequestParams,
        client: &McpClient,
        context: &RequestContext<RoleServer>,
    ) -> Result<McpReply, ErrorData> {
        let ReadResourceRequestParams { uri, input_responses, request_state, .. } = request;
        let asked = json!(["resources/read", uri]).to_string();
        let given = ClientInput { answers: input_responses, state: request_state };
        let begin = self.begin_resource(uri, client, context);
        let done = self.answer(client, context, asked, given, begin).await;
        done.map_err(|error| if client.is_modern { error } else { for_session_protocol(error) })
    }

    async fn begin_resource(
        &self,
        uri: String,
        client: &McpClient,
        context: &RequestContext<RoleServer>,
    ) -> Result<RequestStart, ErrorData> {
        // Results of this engine are read here, whoever's tool gave them.
        if let Some(file) = self.file(&uri, client).await? {
            return Ok(RequestStart::Done(file));
        }
        let resources = self.known_resources(client);
        let server = match self.library(client).await? {
            Some(server) => Some(server),
            None if library::find(&resources, &uri).is_some() => None,
            None => self.of_resource(client, &uri).await,
        };
        if let Some(server) = server {
            let is_modern = client.is_modern;
            let finish =
                move |answer| Ok(McpReply::Resource(read(for_protocol(is_modern, answer))?));
            let params = json!({"server": server.name(), "uri": uri});
            let target = McpTarget::Resource(uri);
            let fetched = Fetched::Resource;
            let running = self.begin_fetch(fetched, target, params, client, context, finish);
            return Ok(RequestStart::Running(running));
        }
        let (resource, names) = library::find(&resources, &uri).ok_or_else(|| unknown(&uri))?;
        let read = library::read(&client.identity.tenant, resource, &uri, &names).await?;
        Ok(RequestStart::Done(McpReply::Resource(read)))
    }

    /// Reads a file that was kept, if there is one at this address: what clients
    /// sent, or a result that was cut.
    async fn file(&self, uri: &str, client: &McpClient) -> Result<Option<McpReply>, ErrorData> {
        let id: Option<CallId> = uri.strip_prefix(FILES).and_then(|id| id.parse().ok());
        let Some(id) = id else { return Ok(None) };
        let records = self.shared.engine.records();
        if let Some(scope) = client.outputs() {
            let shown = scope.shows(records, &client.caller(), id).await;
            if !shown.map_err(|error| self.failed(&error))? {
                return Ok(None);
            }
        }
        let kept = records.read_output(client.tenant(), id, 0, MAX_FILE).await;
        let part: Option<OutputPart> = kept.map_err(|error| self.failed(&error))?;
        let Some(part) = part else { return Ok(None) };
        let mut contents = json!({"uri": uri});
        library::put_bytes(&mut contents, part.bytes);
        library::to_resource(&contents).map(|file| Some(McpReply::Resource(file)))
    }

    /// The prompts of definitions that a client sees. One that a tool makes is seen
    /// by whoever sees the tool.
    fn known_prompts(&self, client: &McpClient) -> Vec<PromptSpec> {
        let (engine, catalogue) = (&self.shared.engine, self.catalogue(client));
        let mut prompts = engine.library().prompts_for(client.tenant());
        prompts.retain(|prompt| {
            let tool = prompt.tool.as_deref();
            let tool = tool.and_then(|name| engine.registry().get_for(client.tenant(), name));
            client.sees(&prompt.name) && tool.is_none_or(|tool| catalogue.shows(&tool))
        });
        prompts
    }

    fn known_resources(&self, client: &McpClient) -> Vec<ResourceSpec> {
        let mut resources = self.shared.engine.library().resources_for(client.tenant());
        resources.retain(|resource| client.sees(&resource.uri));
        resources
    }

    pub(super) fn prompts(&self, client: &McpClient) -> Vec<Value> {
        let prompts = self.known_prompts(client);
        prompts.iter().map(|prompt| library::list_prompt(prompt, self.shared.lang)).collect()
    }

    pub(super) fn resources(&self, client: &McpClient, templates: bool) -> Vec<Value> {
        let resources = self.known_resources(client);
        let wanted = resources.iter().filter(|resource| resource.is_template == templates);
        wanted.map(|resource| library::list_resource(resource, self.shared.lang)).collect()
    }

    /// Values for an argument of a prompt, or for a name of a template.
    pub(super) fn completion(&self, client: &McpClient, request: &Value) -> Value {
        let typed = request["argument"]["value"].as_str().unwrap_or_default();
        let argument = request["argument"]["name"].as_str().unwrap_or_default();
        let wanted = &request["ref"];
        let values: Vec<String> = match wanted["type"].as_str() {
            Some("ref/prompt") => (self.known_prompts(client).into_iter())
                .filter(|prompt| wanted["name"] == prompt.name.as_str())
                .flat_map(|prompt| prompt.arguments)
                .filter(|own| own.name == argument)
                .flat_map(|own| own.values)
                .collect(),
            Some("ref/resource") => (self.known_resources(client).into_iter())
                .filter(|resource| wanted["uri"] == resource.uri.as_str())
                .flat_map(|mut resource| resource.values.remove(argument).unwrap_or_default())
                .collect(),
            _ => Vec::new(),
        };
        library::complete(&values, typed)
    }
}

/// The refusal of a resource that is not there, which has a code of its own in the
/// session-based protocol.
fn for_session_protocol(mut error: ErrorData) -> ErrorData {
    let names_uri = error.data.as_ref().is_some_and(|data| data.get("uri").is_some());
    if error.code == ErrorCode::INVALID_PARAMS && names_uri {
        error.code = ErrorCode::RESOURCE_NOT_FOUND;
    }
    error
}

fn unknown(uri: &str) -> ErrorData {
    ErrorData::resource_not_found(format!("Resource not found: {uri}"), Some(json!({"uri": uri})))
}
