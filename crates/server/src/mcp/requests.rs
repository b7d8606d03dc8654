//! The requests that take time: calls, prompts, resources.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ErrorCode, ErrorData,
    GetPromptRequestParams, ReadResourceRequestParams,
};
use rmcp::service::RequestContext;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use windlass::definition::PromptSpec;
use windlass::{CallId, CallRequest, CancellationToken, Context, Error, Kind, OutputPart, Tool};
use windlass_executors::mcp::{Asker, Server};

use super::asking;
use super::finder;
use super::library;
use super::parked::Binding;
use super::reply::{self, Reply};
use super::running::{Conversation, Running, Work, level_name};
use super::service::{Service, Session, read};
use super::who::{Client, View};

/// How long a call may take whose tool may ask a person, if nobody says
/// otherwise.
const ASKING: Duration = Duration::from_secs(300);
/// Where files that were kept are.
const FILES: &str = "windlass://files/";
/// The largest file that is read at once.
const MAX_FILE: u64 = 16 * 1024 * 1024;

impl Service {
    pub(super) fn failed(&self, error: &Error) -> ErrorData {
        reply::of_error(error, self.shared.lang)
    }

    /// Passes a request on to the server of a view.
    pub(super) async fn pass<T: DeserializeOwned>(
        &self,
        server: &Server,
        client: &Client,
        method: &str,
        params: Value,
    ) -> Result<T, ErrorData> {
        let answer = server.ask(method, &params, None).await;
        read(in_era_of(client, answer.map_err(|error| self.failed(&error))?))
    }

    fn conversation<'c>(
        &'c self,
        client: &'c Client,
        context: &'c RequestContext<RoleServer>,
        request: String,
    ) -> Conversation<'c> {
        let binding = Binding {
            tenant: client.tenant().to_string(),
            key: client.identity.key_id.clone(),
            request,
        };
        let (session, parked) = (&self.session, &self.shared.parked);
        Conversation { context, client, session, parked, binding }
    }

    /// Calls a tool.
    pub(super) async fn call(
        &self,
        request: CallToolRequestParams,
        client: &Client,
        context: &RequestContext<RoleServer>,
    ) -> Result<Reply, ErrorData> {
        let CallToolRequestParams { name, arguments, input_responses, request_state, .. } = request;
        let arguments = arguments.unwrap_or_default();
        if name == finder::FIND && self.catalogue(client).find(&name).is_none() {
            let query = arguments.get("query").and_then(Value::as_str).unwrap_or_default();
            let mut result = CallToolResult::default();
            let found = finder::find(&self.catalogue(client), query);
            result.content = vec![rmcp::model::ContentBlock::text(found.to_string())];
            result.structured_content = Some(found);
            return Ok(Reply::Tool(result));
        }
        let (name, arguments) = match &*name {
            finder::CALL if self.catalogue(client).find(&name).is_none() => inner(arguments)?,
            _ => (name.into_owned(), arguments),
        };
        // Who cannot be asked does not come back with answers.
        let can_answer = request_state.is_some() || can_be_asked(context);
        let asked = match can_answer {
            true => json!(["tools/call", name, arguments]).to_string(),
            false => String::new(),
        };
        let conversation = self.conversation(client, context, asked);
        if let Some(state) = request_state {
            return conversation.resume(&state, input_responses.as_ref()).await;
        }
        let tool = self.catalogue(client).find(&name);
        // A name that nobody has is still a call, with a record and a good answer.
        let called = tool.as_ref().map_or(name.as_str(), |tool| tool.name().as_str());
        if tool.is_none() && (self.view != View::All || client.identity.tools.is_some()) {
            return Err(ErrorData::invalid_params(format!("Unknown tool: {name}"), None));
        }
        let running =
            self.begin(called, Value::Object(arguments), tool.as_deref(), client, context);
        conversation.run(running, input_responses.as_ref()).await
    }

    /// Begins a call; it does not run before it is waited for.
    fn begin(
        &self,
        name: &str,
        arguments: Value,
        tool: Option<&Tool>,
        client: &Client,
        context: &RequestContext<RoleServer>,
    ) -> Running {
        let lang = self.shared.lang;
        let finish =
            move |result: windlass::CallResult| reply::of_call(&result, lang).map(Reply::Tool);
        self.begin_as(name, arguments, tool, client, context, finish)
    }

    fn begin_as(
        &self,
        name: &str,
        arguments: Value,
        tool: Option<&Tool>,
        client: &Client,
        context: &RequestContext<RoleServer>,
        finish: impl FnOnce(windlass::CallResult) -> Result<Reply, ErrorData> + Send + 'static,
    ) -> Running {
        let capabilities = context.client_capabilities();
        let capabilities = serde_json::to_value(capabilities.unwrap_or_default());
        let (mut asker, questions) = asking::channel(capabilities.unwrap_or_default());
        if let Some(level) = log_level(client, context, &self.session) {
            asker = asker.with_log_level(level);
        }
        let can_ask = asker.capabilities().as_object().is_some_and(|all| !all.is_empty());
        let id = CallId::at(Timestamp::now());
        let stop = CancellationToken::new();
        let mut request = CallRequest::new(name, arguments)
            .id(id)
            .call_ref(context.id.to_string())
            .context(Context::new(client.caller()).object(asker))
            .begun_by(client.identity.key_id.as_str())
            .cancel_token(stop.clone());
        let is_remote =
            tool.is_some_and(|tool| tool.spec().kind == Kind::Mcp && tool.spec().timeout.is_none());
        if can_ask && is_remote {
            request = request.timeout(ASKING.max(self.shared.engine.settings().default_timeout));
        }
        // Clients of the newer era say which reports they want.
        let is_followed = context.meta.get_progress_token().is_some()
            || context.meta.log_level().is_some()
            || !client.is_modern;
        let following = is_followed.then(|| self.shared.reports.follow(&self.shared.engine, id));
        let engine = self.shared.engine.clone();
        let work: Work = Box::pin(async move { finish(engine.call(request).await) });
        Running { work, stop, questions, following }
    }

    /// Asks the server of a view for something that it may ask back about.
    fn begin_ask(
        &self,
        server: Arc<Server>,
        method: &'static str,
        params: Value,
        context: &RequestContext<RoleServer>,
        finish: impl FnOnce(Value) -> Result<Reply, ErrorData> + Send + 'static,
    ) -> Running {
        let capabilities = serde_json::to_value(context.client_capabilities().unwrap_or_default());
        let (asker, questions) = asking::channel(capabilities.unwrap_or_default());
        let (stop, lang) = (CancellationToken::new(), self.shared.lang);
        let stopped = stop.clone();
        let work: Work = Box::pin(async move {
            let asker: Arc<Asker> = Arc::new(asker);
            tokio::select! {
                answer = server.ask(method, &params, Some(asker)) => match answer {
                    Ok(answer) => finish(answer),
                    Err(error) => Err(reply::of_error(&error, lang)),
                },
                () = stopped.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
            }
        });
        Running { work, stop, questions, following: None }
    }

    /// Gets a prompt.
    pub(super) async fn prompt(
        &self,
        request: GetPromptRequestParams,
        client: &Client,
        context: &RequestContext<RoleServer>,
    ) -> Result<Reply, ErrorData> {
        let GetPromptRequestParams { name, arguments, input_responses, request_state, .. } =
            request;
        let asked = json!(["prompts/get", name, arguments]).to_string();
        let conversation = self.conversation(client, context, asked);
        if let Some(state) = request_state {
            return conversation.resume(&state, input_responses.as_ref()).await;
        }
        let own = match self.server(client).await? {
            Some(server) => Some((server, name.clone())),
            None => self.of_prompt(client, &name).await,
        };
        if let Some((server, name)) = own {
            let mut params = json!({"name": name});
            if let Some(arguments) = arguments {
                params["arguments"] = Value::Object(arguments);
            }
            let finish = |answer| Ok(Reply::Prompt(read(answer)?));
            let running = self.begin_ask(server, "prompts/get", params, context, finish);
            return conversation.run(running, input_responses.as_ref()).await;
        }
        let prompts = self.shared.engine.library().prompts_for(client.tenant());
        let Some(prompt) = prompts.into_iter().find(|prompt| prompt.name == name) else {
            return Err(ErrorData::invalid_params(format!("Unknown prompt: {name}"), None));
        };
        let given = library::arguments(&prompt, arguments.as_ref())?;
        match prompt.tool.clone() {
            None => library::fill(&prompt, &given, self.shared.lang).map(Reply::Prompt),
            Some(tool) => {
                client.must(crate::identity::Action::CallTools)?;
                let running = self.begin_prompt(prompt, &tool, json!(given), client, context);
                conversation.run(running, input_responses.as_ref()).await
            }
        }
    }

    /// Has a tool make the messages of a prompt.
    fn begin_prompt(
        &self,
        prompt: PromptSpec,
        tool: &str,
        arguments: Value,
        client: &Client,
        context: &RequestContext<RoleServer>,
    ) -> Running {
        let lang = self.shared.lang;
        let finish = move |result: windlass::CallResult| {
            library::made_by_tool(&prompt, &result, lang).map(Reply::Prompt)
        };
        self.begin_as(tool, arguments, None, client, context, finish)
    }

    /// Reads a resource.
    pub(super) async fn resource(
        &self,
        request: ReadResourceRequestParams,
        client: &Client,
        context: &RequestContext<RoleServer>,
    ) -> Result<Reply, ErrorData> {
        let ReadResourceRequestParams { uri, input_responses, request_state, .. } = request;
        let conversation =
            self.conversation(client, context, json!(["resources/read", uri]).to_string());
        if let Some(state) = request_state {
            return conversation.resume(&state, input_responses.as_ref()).await;
        }
        let server = match self.server(client).await? {
            Some(server) => Some(server),
            None if self.has_resource(client, &uri) => None,
            None => self.of_resource(client, &uri).await,
        };
        if let Some(server) = server {
            let is_modern = client.is_modern;
            let finish = move |answer| {
                let answer = if is_modern { answer } else { without_hints(answer) };
                Ok(Reply::Resource(read(answer)?))
            };
            let params = json!({"uri": uri});
            let running = self.begin_ask(server, "resources/read", params, context, finish);
            let done = conversation.run(running, input_responses.as_ref()).await;
            return done.map_err(|error| if is_modern { error } else { in_older_words(error) });
        }
        if let Some(file) = uri.strip_prefix(FILES) {
            return self.file(&uri, file, client).await;
        }
        let resources = self.shared.engine.library().resources_for(client.tenant());
        match library::find(&resources, &uri) {
            Some((resource, names)) => {
                library::read(resource, &uri, &names).await.map(Reply::Resource)
            }
            None => Err(unknown(&uri)),
        }
    }

    /// Whether a resource is a file that was kept, or of a definition.
    fn has_resource(&self, client: &Client, uri: &str) -> bool {
        let resources = self.shared.engine.library().resources_for(client.tenant());
        uri.starts_with(FILES) || library::find(&resources, uri).is_some()
    }

    /// Reads a file that was kept: what clients sent, or a result that was cut.
    async fn file(&self, uri: &str, id: &str, client: &Client) -> Result<Reply, ErrorData> {
        let id: CallId = id.parse().map_err(|_| unknown(uri))?;
        let records = self.shared.engine.records();
        let kept = records.read_output(client.tenant(), id, 0, MAX_FILE).await;
        let part: Option<OutputPart> = kept.map_err(|error| self.failed(&error))?;
        let part = part.ok_or_else(|| unknown(uri))?;
        let mut contents = json!({"uri": uri});
        library::put_bytes(&mut contents, part.bytes);
        library::to_resource(&contents).map(Reply::Resource)
    }

    pub(super) fn prompts(&self, client: &Client) -> Vec<Value> {
        let prompts = self.shared.engine.library().prompts_for(client.tenant());
        prompts.iter().map(|prompt| library::list_prompt(prompt, self.shared.lang)).collect()
    }

    pub(super) fn resources(&self, client: &Client, templates: bool) -> Vec<Value> {
        let resources = self.shared.engine.library().resources_for(client.tenant());
        let wanted = resources.iter().filter(|resource| resource.is_template == templates);
        wanted.map(|resource| library::list_resource(resource, self.shared.lang)).collect()
    }

    /// Values for an argument of a prompt, or for a name of a template.
    pub(super) fn completion(&self, client: &Client, request: &Value) -> Value {
        let engine_library = self.shared.engine.library();
        let typed = request["argument"]["value"].as_str().unwrap_or_default();
        let argument = request["argument"]["name"].as_str().unwrap_or_default();
        let wanted = &request["ref"];
        let values: Vec<String> = match wanted["type"].as_str() {
            Some("ref/prompt") => (engine_library.prompts_for(client.tenant()).into_iter())
                .filter(|prompt| wanted["name"] == prompt.name.as_str())
                .flat_map(|prompt| prompt.arguments)
                .filter(|own| own.name == argument)
                .flat_map(|own| own.values)
                .collect(),
            Some("ref/resource") => (engine_library.resources_for(client.tenant()).into_iter())
                .filter(|resource| wanted["uri"] == resource.uri.as_str())
                .flat_map(|mut resource| resource.values.remove(argument).unwrap_or_default())
                .collect(),
            _ => Vec::new(),
        };
        library::complete(&values, typed)
    }
}

/// Whether a client has said that it answers questions.
fn can_be_asked(context: &RequestContext<RoleServer>) -> bool {
    context.client_capabilities().is_some_and(|can| can != ClientCapabilities::default())
}

/// The call that `call_tool` asks for.
fn inner(mut arguments: Map<String, Value>) -> Result<(String, Map<String, Value>), ErrorData> {
    let Some(Value::String(name)) = arguments.remove("name") else {
        return Err(ErrorData::invalid_params("call_tool needs the `name` of a tool", None));
    };
    match arguments.remove("arguments") {
        Some(Value::Object(inner)) => Ok((name, inner)),
        None | Some(Value::Null) => Ok((name, Map::new())),
        Some(_) => Err(ErrorData::invalid_params("`arguments` is an object", None)),
    }
}

/// An answer as a client of its era may read it, whichever era the server is of
/// that gave it.
fn in_era_of(client: &Client, answer: Value) -> Value {
    if client.is_modern { answer } else { without_hints(answer) }
}

/// An answer without what the older era does not know: how long it stays good,
/// and for whom.
fn without_hints(mut answer: Value) -> Value {
    if let Value::Object(answer) = &mut answer {
        answer.remove("ttlMs");
        answer.remove("cacheScope");
    }
    answer
}

/// The refusal of a resource that is not there, which has a code of its own in the
/// older era.
fn in_older_words(mut error: ErrorData) -> ErrorData {
    let names_uri = error.data.as_ref().is_some_and(|data| data.get("uri").is_some());
    if error.code == ErrorCode::INVALID_PARAMS && names_uri {
        error.code = ErrorCode::RESOURCE_NOT_FOUND;
    }
    error
}

fn unknown(uri: &str) -> ErrorData {
    ErrorData::resource_not_found(format!("Resource not found: {uri}"), Some(json!({"uri": uri})))
}

/// The least of the messages that a client reads: one of the newer era says so
/// with the request, one of the older has said so before.
fn log_level(
    client: &Client,
    context: &RequestContext<RoleServer>,
    session: &Session,
) -> Option<String> {
    if !client.is_modern {
        return Some(level_name(session.level()).to_owned());
    }
    serde_json::to_value(context.meta.log_level()?).ok()?.as_str().map(str::to_owned)
}
