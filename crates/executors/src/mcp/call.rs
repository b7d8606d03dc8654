//! The executor of a server's tool: sends `tools/call`, and answers `input_required`.

use std::collections::BTreeMap;
use std::sync::Arc;

use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest, RequestMetaObject};
use serde_json::{Map, Value, json};
use windlass::{BoxFuture, Call, Error, ErrorKind, Executor, Output, TraceContext};

use super::ask::{Answers, Asker, Askers, Questions};
use super::connection::Connection;
use super::convert;
use super::handshake::Era;
use super::in_flight::InFlightRequest;
use super::server::Server;
use super::tools;

/// Maximum number of `input_required` rounds of one request.
const MAX_ROUNDS: usize = 16;

/// A tool of a remote server.
pub(super) struct Remote {
    pub(super) server: Arc<Server>,
    /// The tool's name on its server.
    pub(super) tool: Arc<str>,
}

impl Executor for Remote {
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        Box::pin(async move {
            let server = self.server.of(call.caller()).await.map_err(Error::nothing_done)?;
            let failed = match self.run(&server, call).await {
                Err(failed) if failed.kind() == ErrorKind::CredentialInvalid => failed,
                done => return done,
            };
            match server.challenge() {
                Some(challenge) => {
                    Err(self.server.ask_to_log_in(call.caller(), &challenge, failed).await)
                }
                None => Err(failed),
            }
        })
    }
}

impl Remote {
    async fn run(&self, server: &Server, call: &Call) -> Result<Output, Error> {
        let _turn = server.turn().await;
        let connection = server.connection().await.map_err(Error::nothing_done)?;
        // Tools that were quarantined by the list that this connection just fetched
        // count, too.
        if self.server.is_held(&self.tool) {
            return Err(tools::held(&self.server, &self.tool));
        }
        let asker = Askers::of(call);
        let flight = InFlightRequest::new(call, asker.clone());
        let arguments = call.arguments().as_object().cloned().unwrap_or_default();
        let mut rounds = Rounds::new(&connection, server, asker).traced(call.trace());
        loop {
            let mut params =
                CallToolRequestParams::new(self.tool.to_string()).with_arguments(arguments.clone());
            params.input_responses = rounds.answers.take();
            params.request_state = rounds.state.take();
            let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
            let result =
                connection.request(request, Some(Arc::clone(&flight)), rounds.meta()).await?;
            if let Some(result) = rounds.next(result).await? {
                let output = convert::from_result(result, server.settings().max_output_bytes);
                let has_no_way_back = connection.era() == Era::Modern
                    && output.as_ref().is_err_and(|failed| has_no_way_back(&failed.to_string()));
                if has_no_way_back {
                    server.cannot_ask.notify_one();
                }
                return output;
            }
        }
    }
}

/// Whether a tool failed because it tried to send its client a request, which the
/// stateless era does not allow. This is the wording of the Python SDK and of FastMCP.
fn has_no_way_back(failed: &str) -> bool {
    failed.contains("server-initiated request")
}

/// A request that a server may answer with `input_required` (elicitation, sampling,
/// roots) any number of times.
pub(super) struct Rounds<'s> {
    server: &'s Server,
    era: Era,
    asker: Option<Arc<Asker>>,
    pub(super) answers: Option<BTreeMap<String, Value>>,
    pub(super) state: Option<String>,
    rounds: usize,
    trace: Option<TraceContext>,
}

impl<'s> Rounds<'s> {
    pub(super) fn new(
        connection: &Connection,
        server: &'s Server,
        asker: Option<Arc<Asker>>,
    ) -> Self {
        let era = connection.era();
        Self { server, era, asker, answers: None, state: None, rounds: 0, trace: None }
    }

    /// Sets the trace context to propagate.
    pub(super) fn traced(mut self, trace: Option<TraceContext>) -> Self {
        self.trace = trace;
        self
    }

    /// The `_meta` of a request. A caller that cannot be asked declares no capabilities,
    /// so that the server does not try.
    pub(super) fn meta(&self) -> Option<RequestMetaObject> {
        let mut meta = Map::new();
        if let Some(trace) = &self.trace {
            meta.insert("traceparent".to_owned(), trace.to_string().into());
            meta.extend(trace.state().map(|state| ("tracestate".to_owned(), state.into())));
        }
        if self.era == Era::Legacy {
            let said = (!meta.is_empty()).then_some(Value::Object(meta));
            return said.and_then(|meta| serde_json::from_value(meta).ok());
        }
        let capabilities = match &self.asker {
            Some(asker) => self.server.allowed(asker.capabilities()),
            None => json!({}),
        };
        meta.insert("io.modelcontextprotocol/clientCapabilities".to_owned(), capabilities);
        if let Some(level) = self.asker.as_ref().and_then(|asker| asker.log_level()) {
            meta.insert("io.modelcontextprotocol/logLevel".to_owned(), level.into());
        }
        serde_json::from_value(Value::Object(meta)).ok()
    }

    /// The result; `None` if the server asked for input, which the next request brings.
    pub(super) async fn next(&mut self, result: Value) -> Result<Option<Value>, Error> {
        if result.get("resultType").and_then(Value::as_str) != Some("input_required") {
            return Ok(Some(result));
        }
        self.rounds += 1;
        let name = self.server.name();
        if self.rounds > MAX_ROUNDS {
            let why = format!("`{name}` asked for more than {MAX_ROUNDS} times");
            return Err(Error::new(ErrorKind::UpstreamFailed, why));
        }
        self.state = result.get("requestState").and_then(Value::as_str).map(str::to_owned);
        let questions: Questions = match result.get("inputRequests") {
            Some(Value::Object(asked)) => asked.clone().into_iter().collect(),
            _ => Questions::new(),
        };
        if questions.is_empty() {
            return Ok(None);
        }
        self.answers = Some(self.answer(questions).await?);
        Ok(None)
    }

    async fn answer(&self, questions: Questions) -> Result<Answers, Error> {
        if let Some(asker) = &self.asker {
            return asker.ask(questions).await;
        }
        // Without a caller to ask, only `roots/list` can be answered: the operator has
        // set the roots.
        let roots = self.server.roots();
        let known = |question: &Value| question["method"] == "roots/list" && !roots.is_empty();
        if questions.values().all(known) {
            let answer = json!({"roots": roots});
            return Ok(questions.into_keys().map(|key| (key, answer.clone())).collect());
        }
        let asked: Vec<&str> = (questions.values())
            .filter_map(|question| question["params"]["message"].as_str())
            .collect();
        let why = format!(
            "`{}` wants to ask something, and nobody can be asked here: {}",
            self.server.name(),
            asked.join("; ")
        );
        Err(Error::new(ErrorKind::Denied, why))
    }
}
