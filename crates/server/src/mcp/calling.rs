//! `tools/call`.

use rmcp::RoleServer;
use rmcp::model::{CallToolRequestParams, CallToolResult, ContentBlock, ErrorData};
use rmcp::service::RequestContext;
use serde_json::{Map, Value, json};
use windlass::{CallRequest, CallResult};

use super::catalogue::declares_output;
use super::client::{McpClient, ServedTools};
use super::finder;
use super::reply::{self, McpReply};
use super::requests::{ClientInput, RequestStart, can_be_asked};
use super::service::McpHandler;
use crate::telemetry::McpTarget;

impl McpHandler {
    /// Calls a tool.
    pub(super) async fn call(
        &self,
        request: CallToolRequestParams,
        client: &McpClient,
        context: &RequestContext<RoleServer>,
    ) -> Result<McpReply, ErrorData> {
        let CallToolRequestParams { name, arguments, input_responses, request_state, .. } = request;
        let arguments = arguments.unwrap_or_default();
        if name == finder::FIND && self.catalogue(client).find(&name).is_none() {
            return Ok(McpReply::Tool(self.found(&arguments, client).await));
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
        let given = ClientInput { answers: input_responses, state: request_state };
        let begin = self.begin_call(name, arguments, client, context);
        self.answer(client, context, asked, given, begin).await
    }

    async fn begin_call(
        &self,
        name: String,
        arguments: Map<String, Value>,
        client: &McpClient,
        context: &RequestContext<RoleServer>,
    ) -> Result<RequestStart, ErrorData> {
        let tool = self.tool(client, &name).await;
        // A name that nobody has is still a call, with a record and a good answer.
        let called = tool.as_ref().map_or(name.as_str(), |tool| tool.name().as_str());
        if tool.is_none() && (self.view != ServedTools::All || client.identity.tools.is_some()) {
            return Err(ErrorData::invalid_params(format!("Unknown tool: {name}"), None));
        }
        let promised = tool.as_ref().is_some_and(|tool| declares_output(tool));
        let lang = self.shared.lang;
        let finish =
            move |result: CallResult| reply::of_call(&result, promised, lang).map(McpReply::Tool);
        let request = CallRequest::new(called, Value::Object(arguments));
        let target = McpTarget::Tool(tool.as_ref().map(|tool| tool.name().as_str().to_owned()));
        let tool = tool.as_deref();
        Ok(RequestStart::Running(self.begin(target, request, tool, client, context, finish)))
    }

    /// What `find_tools` finds.
    async fn found(&self, arguments: &Map<String, Value>, client: &McpClient) -> CallToolResult {
        let query = arguments.get("query").and_then(Value::as_str).unwrap_or_default();
        let found = finder::find(&self.catalogue(client), query).await;
        let mut result = CallToolResult::default();
        result.content = vec![ContentBlock::text(found.to_string())];
        result.structured_content = Some(found);
        result
    }
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
