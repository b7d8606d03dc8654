//! The requests that take time, and may ask back before they are done.

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

use super::asking::{self, Mailbox, Pause};
use super::reply::{self, Reply};
use super::running::{Conversation, Running, Work, level_name};
use super::service::{Service, Session, read};
use super::shares::Owner;
use super::who::Client;
use crate::human::parked::Binding;
use crate::telemetry::{self, McpFailure, McpRequest, McpSpan, McpTarget};

/// What a request brings of the rounds before it: answers, and what they belong to.
pub(super) struct Given {
    pub(super) answers: Option<InputResponses>,
    pub(super) state: Option<String>,
}

/// How a request begins: with its end, or with work.
pub(super) enum Begun {
    Done(Reply),
    Running(Running),
}

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
        let limit = self.shared.engine.settings().default_timeout;
        let answer = tokio::time::timeout(limit, server.ask(method, &params, None, None)).await;
        let answer = answer.unwrap_or_else(|_| Err(late(server, method)));
        read(in_era(client.is_modern, answer.map_err(|error| self.failed(&error))?))
    }

    /// Answers a request: goes on with the one that waited for these answers, or
    /// begins it. `asked` is what has to be the same when they come.
    pub(super) async fn answer(
        &self,
        client: &Client,
        context: &RequestContext<RoleServer>,
        asked: String,
        given: Given,
        begin: impl Future<Output = Result<Begun, ErrorData>>,
    ) -> Result<Reply, ErrorData> {
        let binding = Binding {
            owner: Owner { tenant: client.tenant().clone(), key: client.identity.key_id.clone() },
            request: asked,
        };
        let (session, parked) = (&self.session, &self.shared.parked);
        let conversation = Conversation { context, client, session, parked, binding };
        let answers = given.answers.as_ref();
        if let Some(state) = given.state {
            return conversation.resume(&state, answers).await;
        }
        match begin.await? {
            Begun::Done(reply) => Ok(reply),
            Begun::Running(running) => conversation.run(running, answers).await,
        }
    }

    /// Begins a call; it does not run before it is waited for.
    pub(super) fn begin(
        &self,
        target: McpTarget,
        request: CallRequest,
        tool: Option<&Tool>,
        client: &Client,
        context: &RequestContext<RoleServer>,
        finish: impl FnOnce(CallResult) -> Result<Reply, ErrorData> + Send + 'static,
    ) -> Running {
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
        // Clients of the newer era say which reports they want.
        let is_followed = context.meta.get_progress_token().is_some()
            || context.meta.log_level().is_some()
            || !client.is_modern;
        let following = is_followed.then(|| self.shared.reports.follow(&self.shared.engine, id));
        let engine = self.shared.engine.clone();
        let tracer = self.shared.tracer.clone();
        let work: Work = Box::pin(async move {
            let answer = finish(engine.call(request).await);
            if let (Some(tracer), Some(span)) = (tracer, span) {
                tracer.mcp(span.end(failure(&answer)));
            }
            answer
        });
        Running { work, stop, questions, following }
    }

    /// The span of a request, where spans are told to somebody, and where in a
    /// trace its call belongs. What a request says of itself comes before what the
    /// HTTP request says that brought it.
    fn trace(
        &self,
        target: McpTarget,
        client: &Client,
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
fn failure(answer: &Result<Reply, ErrorData>) -> Option<McpFailure> {
    match answer {
        Err(error) => Some(McpFailure::Protocol(error.code.0)),
        Ok(Reply::Tool(result)) if result.is_error == Some(true) => Some(McpFailure::Tool),
        Ok(_) => None,
    }
}

/// An asker for whoever made a request, and where its questions come out.
fn channel(context: &RequestContext<RoleServer>, pause: Pause) -> (Asker, Arc<Mailbox>) {
    let capabilities = serde_json::to_value(context.client_capabilities().unwrap_or_default());
    asking::channel(capabilities.unwrap_or_default(), pause)
}

fn late(server: &Server, method: &str) -> Error {
    let why = format!("`{}` did not answer {method} in time", server.name());
    Error::new(ErrorKind::Timeout, why)
}

/// Whether a client has said that it answers questions.
pub(super) fn can_be_asked(context: &RequestContext<RoleServer>) -> bool {
    context.client_capabilities().is_some_and(|can| can != ClientCapabilities::default())
}

/// An answer as a client of its era reads it, whichever era the server is of that
/// gave it. The newer one wants to be told that a result is complete; the older
/// one knows neither that nor how long a result stays good, and for whom.
pub(super) fn in_era(is_modern: bool, mut answer: Value) -> Value {
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
