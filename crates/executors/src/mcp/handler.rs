//! Answers requests that a server sends during a call: elicitation, sampling and roots.
//!
//! They are forwarded to whoever made the call, if the operator lets the server ask and
//! the caller can answer. Otherwise the server is refused at once; it never waits for
//! somebody who is not there.

#![expect(deprecated, reason = "servers of the older era still sample and list roots")]

use std::sync::Arc;

use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
    ElicitRequestParams, ElicitResult, ElicitationAction, ErrorCode, ErrorData, Implementation,
    ListRootsResult, RequestId, Root,
};
use rmcp::service::{InboundStreamOrigin, RequestContext};
use rmcp::{ClientHandler, RoleClient};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass::definition::{Asking, McpServer};

use super::ask::Questions;
use super::failure::ProtocolError;
use super::in_flight::{InFlightRequests, Unclear};

/// The key of the only question in a request to the asker.
const QUESTION: &str = "question";

/// What a server is told if its request could belong to several callers. It usually
/// passes this text on to a model.
const UNCLEAR: &str = "nobody was asked: several calls are under way, and which of them this \
                       question is about cannot be told; call the tool again when it is alone";

pub(super) struct Handler {
    pub(super) settings: Arc<McpServer>,
    pub(super) in_flight: Arc<InFlightRequests>,
}

/// Our `initialize` parameters: name, version and client capabilities.
pub(super) fn introduction(settings: &McpServer) -> ClientConfig {
    let mut capabilities = json!({});
    if settings.elicitation == Asking::Caller {
        capabilities["elicitation"] = json!({"form": {}, "url": {}});
    }
    if settings.sampling == Asking::Caller {
        capabilities["sampling"] = json!({});
    }
    capabilities["roots"] = json!({"listChanged": false});
    let capabilities: ClientCapabilities = serde_json::from_value(capabilities).unwrap_or_default();
    let own = Implementation::new("windlass", env!("CARGO_PKG_VERSION"));
    ClientConfig::new(capabilities, own)
}

impl Handler {
    /// Asks whoever made the call; `None` if that caller cannot be asked. If the call
    /// cannot be determined, the server gets an error rather than a "declined" that
    /// nobody said.
    async fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Serialize,
        context: &RequestContext<RoleClient>,
    ) -> Option<Result<T, ErrorData>> {
        let flight = match self.in_flight.asked_by(origin(context).as_ref()) {
            Ok(flight) => flight?,
            Err(Unclear) => {
                tracing::warn!(method, "a server's question may be about one of several calls");
                return Some(Err(ErrorData::internal_error(UNCLEAR, None)));
            }
        };
        let asker = flight.asker.clone()?;
        let capability = method.split('/').next().unwrap_or_default();
        asker.capabilities().get(capability)?;
        let params = serde_json::to_value(params).unwrap_or_default();
        let question = json!({"method": method, "params": params});
        let answers = asker.ask(Questions::from([(QUESTION.to_owned(), question)])).await;
        Some(match answers {
            Ok(mut answers) => {
                let answer = answers.remove(QUESTION).unwrap_or(Value::Null);
                serde_json::from_value(answer).map_err(|error| {
                    ErrorData::internal_error(format!("the answer does not fit: {error}"), None)
                })
            }
            Err(error) => Err(match ProtocolError::of(&error) {
                Some(refused) => ErrorData::new(
                    ErrorCode(refused.code),
                    refused.message.clone(),
                    refused.data.clone(),
                ),
                None => ErrorData::internal_error(error.message().to_owned(), None),
            }),
        })
    }
}

/// The request on whose stream a server's request arrived, if the transport knows.
fn origin(context: &RequestContext<RoleClient>) -> Option<RequestId> {
    match context.extensions.get::<InboundStreamOrigin>()? {
        InboundStreamOrigin::OutboundRequest(id) => Some(id.clone()),
        InboundStreamOrigin::Unassociated => None,
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        introduction(&self.settings)
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        if self.settings.sampling == Asking::Caller
            && let Some(answer) = self.ask("sampling/createMessage", &params, &context).await
        {
            return answer;
        }
        let why = "no model can be asked here";
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, why, None))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        if self.settings.elicitation == Asking::Caller
            && let Some(answer) = self.ask("elicitation/create", &request, &context).await
        {
            return answer;
        }
        Ok(ElicitResult::new(ElicitationAction::Decline))
    }

    async fn list_roots(
        &self,
        context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        if self.settings.roots.is_empty()
            && let Some(answer) = self.ask("roots/list", json!({}), &context).await
        {
            return answer;
        }
        Ok(ListRootsResult::new(self.settings.roots.iter().map(Root::new).collect()))
    }
}
