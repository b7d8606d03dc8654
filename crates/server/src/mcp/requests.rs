//! The requests that take time, and may ask back before they are done.

use std::future::Future;
use std::sync::Arc;

use jiff::Timestamp;
use rmcp::RoleServer;
use rmcp::model::{ClientCapabilities, ErrorData, InputResponses};
use rmcp::service::RequestContext;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass::{
    CallId, CallRequest, CallResult, CancellationToken, Context, Error, ErrorKind, Grace, Tool,
};
use windlass_executors::mcp::{Asker, Server};

use super::asking::{self, Mailbox, Pause};
use super::parked::Binding;
use super::reply::{self, Reply};
use super::running::{Conversation, Running, Work, level_name};
use super::service::{Service, Session, read};
use super::who::Client;

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
        let answer = tokio::time::timeout(limit, server.ask(method, &params, None)).await;
        let answer = answer.unwrap_or_else(|_| Err(late(server, method)));
        read(in_era_of(client, answer.map_err(|error| self.failed(&error))?))
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
            tenant: client.tenant().to_string(),
            key: client.identity.key_id.clone(),
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
            .context(Context::new(client.caller()).object(asker))
            .begun_by(client.identity.key_id.clone())
            .cancel_token(stop.clone());
        if let Some(grace) = grace {
            request = request.grace(grace);
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

/// An answer as a client of its era may read it, whichever era the server is of
/// that gave it.
fn in_era_of(client: &Client, answer: Value) -> Value {
    if client.is_modern { answer } else { without_hints(answer) }
}

/// An answer without what the older era does not know: how long it stays good,
/// and for whom.
pub(super) fn without_hints(mut answer: Value) -> Value {
    if let Value::Object(answer) = &mut answer {
        answer.remove("ttlMs");
        answer.remove("cacheScope");
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
