//! Long-running requests, which may ask the client before they are done
//! (elicitation).

use std::future::Future;
use std::sync::Arc;

use axum::http::request::Parts;
use jiff::Timestamp;
use rmcp::RoleServer;
use rmcp::model::{ClientCapabilities, ErrorData, InputResponses};
use rmcp::service::RequestContext;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass::{
    CallId, CallRequest, CallResult, CancellationToken, Error, ErrorKind, Grace, Tool, TraceContext,
};
use windlass_executors::mcp::{Asker, Server};

use super::client::McpClient;
use super::mailbox::{self, Mailbox, Pause};
use super::reply::{self, McpReply};
use super::running::{ClientExchange, RequestWork, RunningRequest, level_name};
use super::service::{ClientSession, McpHandler, read};
use super::shares::ShareOwner;
use crate::human::parked::RequestBinding;
use crate::telemetry::{self, McpFailure, McpRequest, McpSpan, McpTarget};

/// What a request brings of the rounds before it: answers, and what they belong to.
pub(super) struct ClientInput {
    pub(super) answers: Option<InputResponses>,
    pub(super) state: Option<String>,
}

/// How a request starts: done at once, or running.
pub(super) enum RequestStart {
    Done(McpReply),
    Running(RunningRequest),
}

impl McpHandler {
    pub(super) fn failed(&self, error: &Error) -> ErrorData {
        reply::of_error(error, self.shared.lang)
    }

    /// Passes a request on to the server of a view.
    pub(super) async fn pass<T: DeserializeOwned>(
        &self,
        server: &Server,
        client: &McpClient,
        method: &str,
        params: Value,
    ) -> Result<T, ErrorData> {
        let limit = self.shared.engine.settings().default_timeout;
        let answer = tokio::time::timeout(limit, server.ask(method, &params, None, None)).await;
        let answer = answer.unwrap_or_else(|_| Err(late(server, method)));
        read(for_protocol(client.is_modern, answer.map_err(|error| self.failed(&error))?))
    }

    /// Answers a request: goes on with the one that waited for these answers, or
    /// begins it. `asked` is what has to be the same when they come.
    pub(super) async fn answer(
        &self,
        client: &McpClient,
        context: &RequestContext<RoleServer>,
        asked: String,
        given: ClientInput,
        begin: impl Future<Output = Result<RequestStart, ErrorData>>,
    ) -> Result<McpReply, ErrorData> {
        let binding = RequestBinding {
            owner: ShareOwner {
                tenant: client.tenant().clone(),
                key: client.identity.key_id.clone(),
            },
            request: asked,
        };
        let (session, parked) = (&self.session, &self.shared.parked);
        let conversation = ClientExchange { context, client, session, parked, binding };
        let answers = given.answers.as_ref();
        if let Some(state) = given.state {
            return conversation.resume(&state, answers).await;
        }
        match begin.await? {
            RequestStart::Done(reply) => Ok(reply),
            RequestStart::Running(running) => conversation.run(running, answers).await,
        }
    }

    /// Begins a call; it does not run before it is waited for.
    pub(super) fn begin(
        &self,
        target: McpTarget,
        request: CallRequest,
        tool: Option<&Tool>,
        client: &McpClient,
        context: &RequestContext<RoleServer>,
        finish: impl FnOnce(CallResult) -> Result<McpReply, ErrorData> + Send + 'static,
    ) -> RunningRequest {
        let id = CallId::at(Timestamp::now());
        let mut pause = Pause::default();
        if can_be_asked(context) {
            let is_timed = tool.is_some_and(|tool| tool.spec().timeout.is_some());
            pause.grace = (!is_timed).then(Grace::default);
            pause.call = Some((Arc::clone(&self.shared.questions), client.tenant().clone(), id));
        }
        let grace = pause.grace.clone();
        let (mut asker, questions) = channel(context, pause);
        if let Some(level) = log_level(client, context, &self.session) {
            asker = asker.with_log_level(level);
        }
        let stop = CancellationToken::new();
        let mut request = request
            .id(id)
            .call_ref(context.id.to_string())
            .context(client.context().object(asker))
            .begun_by(client.identity.key_id.clone())
            .cancel_token(stop.clone());
        if let Some(grace) = grace {
            request = request.grace(grace);
        }
        let (span, trace) = self.trace(target, client, context);
        if let Some(trace) = trace {
            request = request.trace(trace);
        }
        // Clients of the stateless protocol say which reports they want.
        let is_followed = context.meta.get_progress_token().is_some()
            || context.meta.log_level().is_some()
            || !client.is_modern;
        let following = is_followed.then(|| self.shared.reports.follow(&self.shared.engine, id));
        let engine = self.shared.engine.clone();
        let tracer = self.shared.tracer.clone();
        let work: RequestWork = Box::pin(async move {
            let answer = finish(engine.call(request).await);
            if let (Some(tracer), Some(span)) = (tracer, span) {
                tracer.mcp(span.end(failure(&answer)));
            }
            answer
        });
        RunningRequest { work, stop, questions, following }
    }

    /// The span of a request, where spans are told to somebody, and where in a
    /// trace its call belongs. What a request says of itself comes before what the
    /// HTTP request says that brought it.
    fn trace(
        &self,
        target: McpTarget,
        client: &McpClient,
        context: &RequestContext<RoleServer>,
    ) -> (Option<McpSpan>, Option<TraceContext>) {
        let named = telemetry::from_meta(&context.meta);
        let headers = context.extensions.get::<Parts>().map(|parts| &parts.headers);
        let around = headers.and_then(telemetry::from_headers);
        let Some(tracer) = &self.shared.tracer else { return (None, named.or(around)) };
        let about = McpRequest {
            target,
            id: context.id.to_string(),
            session: client.session.clone(),
            version: context.protocol_version().map(|version| version.to_string()),
        };
        let span = tracer.begin_mcp(named.as_ref(), around, about);
        let within = span.as_ref().map(McpSpan::within);
        (span, within)
    }
}

/// How an answer tells of a failure, if it does.
fn failure(answer: &Result<McpReply, ErrorData>) -> Option<McpFailure> {
    match answer {
        Err(error) => Some(McpFailure::Protocol(error.code.0)),
        Ok(McpReply::Tool(result)) if result.is_error == Some(true) => Some(McpFailure::Tool),
        Ok(_) => None,
    }
}

/// An asker for the client of a request, and the mailbox of its questions.
fn channel(context: &RequestContext<RoleServer>, pause: Pause) -> (Asker, Arc<Mailbox>) {
    let capabilities = serde_json::to_value(context.client_capabilities().unwrap_or_default());
    mailbox::channel(capabilities.unwrap_or_default(), pause)
}

fn late(server: &Server, method: &str) -> Error {
    let why = format!("`{}` did not answer {method} in time", server.name());
    Error::new(ErrorKind::Timeout, why)
}

/// Whether a client supports elicitation.
pub(super) fn can_be_asked(context: &RequestContext<RoleServer>) -> bool {
    context.client_capabilities().is_some_and(|can| can != ClientCapabilities::default())
}

/// An answer as the protocol of its client has it, whichever the server is of that
/// gave it. The newer one wants to be told that a result is complete; the older
/// one knows neither that nor how long a result stays good, and for whom.
pub(super) fn for_protocol(is_modern: bool, mut answer: Value) -> Value {
    if let Value::Object(answer) = &mut answer {
        if is_modern {
            answer.entry("resultType").or_insert_with(|| "complete".into());
        } else {
            answer.remove("ttlMs");
            answer.remove("cacheScope");
        }
    }
    answer
}

/// The least of the messages that a client reads: one without a session says so
/// with the request, one of the older has said so before.
fn log_level(
    client: &McpClient,
    context: &RequestContext<RoleServer>,
    session: &ClientSession,
) -> Option<String> {
    if !client.is_modern {
        return Some(level_name(session.level()).to_owned());
    }
    serde_json::to_value(context.meta.log_level()?).ok()?.as_str().map(str::to_owned)
}
