//! Handshake: detects which era of the protocol a server speaks, and initializes it.
//!
//! A server of 2026-07-28 answers `server/discover`; an older one refuses it or stays
//! silent and expects `initialize`; many answer both. A server that starts slowly also
//! stays silent. So a silent server is sent both requests, one after the other, and the
//! first response decides. The other one, whenever it arrives, has an id that nobody
//! waits for. The detected era is remembered and tried first the next time.

use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    ClientConfig, ClientJsonRpcMessage, ClientNotification, ClientRequest, ClientResult,
    CustomResult, DiscoverRequest, DiscoverRequestParams, DiscoverResult, ErrorCode, ErrorData,
    GetExtensions, InitializeRequest, InitializeResult, InitializedNotification, JsonRpcMessage,
    ProtocolVersion, RequestId, RequestMetaObject, ServerPeerInfo, ServerRequest, ServerResult,
};
use rmcp::transport::Transport;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

/// How long to wait for the first response before the other request is sent as well.
const PROBE: Duration = Duration::from_secs(3);
/// Far from the ids of ordinary requests, so that a late response matches none of them.
const DISCOVER: i64 = 2_000_000_001;
const INITIALIZE: i64 = 2_000_000_002;
const DISCOVER_AGAIN: i64 = 2_000_000_003;

/// The two eras of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Era {
    /// With `initialize`: all versions before 2026-07-28.
    Legacy,
    /// Stateless, without `initialize`: every request carries the client's capabilities.
    Modern,
}

impl Era {
    pub(super) fn other(self) -> Self {
        match self {
            Self::Legacy => Self::Modern,
            Self::Modern => Self::Legacy,
        }
    }
}

/// Which era to try with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Greeting {
    /// Try this one first.
    First(Era),
    /// Try only this one, as the operator has set.
    Only(Era),
}

impl Greeting {
    pub(super) fn era(self) -> Era {
        match self {
            Self::First(era) | Self::Only(era) => era,
        }
    }
}

/// Why the handshake failed.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The connection was closed.
    Ended,
    /// A request could not be sent.
    Unsent(Box<dyn std::error::Error + Send + Sync>),
    /// It refused both requests, or supports no version that we do.
    Refused(String),
}

/// Does the handshake with a server.
pub(super) async fn greet<T: Transport<RoleClient>>(
    transport: &mut T,
    client: &ClientConfig,
    greeting: Greeting,
) -> Result<(Era, ServerPeerInfo), Refusal> {
    let (first, other) = match greeting {
        Greeting::First(era) => (era, HandshakeReply::Not),
        Greeting::Only(era) => (era, HandshakeReply::Refused("was not asked".to_owned())),
    };
    let mut questions = match first {
        Era::Legacy => {
            Questions { transport, client, discover: other, initialize: HandshakeReply::Not }
        }
        Era::Modern => {
            Questions { transport, client, discover: HandshakeReply::Not, initialize: other }
        }
    };
    match first {
        Era::Legacy => questions.initialize().await?,
        Era::Modern => questions.discover().await?,
    }
    let mut patience = Instant::now() + PROBE;
    loop {
        let message = tokio::select! {
            message = questions.transport.receive() => message.ok_or(Refusal::Ended)?,
            () = sleep_until(patience) => {
                // Silent or slow to start: send the other request, too.
                questions.ask_the_other().await?;
                patience = Instant::now() + Duration::from_secs(24 * 3600);
                continue;
            }
        };
        let answer = match message {
            JsonRpcMessage::Response(response) => {
                (Some(response.id), Ok(value_of(response.result)))
            }
            JsonRpcMessage::Error(error) => (error.id, Err(error.error)),
            JsonRpcMessage::Request(request)
                if matches!(request.request, ServerRequest::PingRequest(_)) =>
            {
                let pong = JsonRpcMessage::response(ClientResult::empty(()), request.id);
                questions.send(pong).await?;
                continue;
            }
            _ => continue,
        };
        if let Some(greeted) = questions.hear(answer.0, answer.1).await? {
            return Ok(greeted);
        }
    }
}

/// The result of a request as JSON.
pub(super) fn value_of(result: ServerResult) -> Value {
    match result {
        ServerResult::CustomResult(CustomResult(value)) => value,
        other => serde_json::to_value(other).unwrap_or_default(),
    }
}

#[derive(PartialEq)]
enum HandshakeReply {
    Not,
    Waiting,
    Refused(String),
}

/// The requests sent to a server so far, and their outcome.
struct Questions<'t, T> {
    transport: &'t mut T,
    client: &'t ClientConfig,
    discover: HandshakeReply,
    initialize: HandshakeReply,
}

impl<T: Transport<RoleClient>> Questions<'_, T> {
    async fn send(&mut self, message: ClientJsonRpcMessage) -> Result<(), Refusal> {
        self.transport.send(message).await.map_err(|error| Refusal::Unsent(Box::new(error)))
    }

    async fn discover(&mut self) -> Result<(), Refusal> {
        self.discover_as(DISCOVER).await
    }

    async fn discover_as(&mut self, id: i64) -> Result<(), Refusal> {
        let mut request = DiscoverRequest::new(DiscoverRequestParams {});
        request.extensions_mut().insert(RequestMetaObject::with_client_context(
            ProtocolVersion::V_2026_07_28,
            self.client.client_info.clone(),
            self.client.capabilities.clone(),
        ));
        self.discover = HandshakeReply::Waiting;
        let request = ClientRequest::DiscoverRequest(request);
        self.send(JsonRpcMessage::request(request, RequestId::Number(id))).await
    }

    async fn initialize(&mut self) -> Result<(), Refusal> {
        let client = self.client.clone();
        let client = client.with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE);
        self.initialize = HandshakeReply::Waiting;
        let request = ClientRequest::InitializeRequest(InitializeRequest::new(client));
        self.send(JsonRpcMessage::request(request, RequestId::Number(INITIALIZE))).await
    }

    async fn ask_the_other(&mut self) -> Result<(), Refusal> {
        if self.initialize == HandshakeReply::Not {
            return self.initialize().await;
        }
        if self.discover == HandshakeReply::Not {
            return self.discover().await;
        }
        Ok(())
    }

    async fn hear(
        &mut self,
        id: Option<RequestId>,
        answer: Result<Value, ErrorData>,
    ) -> Result<Option<(Era, ServerPeerInfo)>, Refusal> {
        let is = |wanted: i64| id.as_ref().is_some_and(|id| *id == RequestId::Number(wanted));
        // A server that could not parse the request answers without an id.
        let to_discover = is(DISCOVER)
            || is(DISCOVER_AGAIN)
            || id.is_none() && self.initialize == HandshakeReply::Not;
        match answer {
            Ok(value) if to_discover => match modern(value) {
                Ok(info) => return Ok(Some((Era::Modern, info))),
                Err(why) => self.discover = HandshakeReply::Refused(why),
            },
            Ok(value) if is(INITIALIZE) => {
                let told: InitializeResult = serde_json::from_value(value).map_err(|error| {
                    Refusal::Refused(format!("answered `initialize` with nonsense: {error}"))
                })?;
                let done = InitializedNotification::default();
                let done = ClientNotification::InitializedNotification(done);
                self.send(JsonRpcMessage::notification(done)).await?;
                return Ok(Some((Era::Legacy, told.into())));
            }
            Err(error) if to_discover => {
                if is(DISCOVER) && speaks_ours(&error) {
                    self.discover_as(DISCOVER_AGAIN).await?;
                    return Ok(None);
                }
                if error.code == ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY {
                    return Err(Refusal::Refused(error.message.into_owned()));
                }
                self.discover = HandshakeReply::Refused(error.message.into_owned());
            }
            Err(error) if is(INITIALIZE) => {
                self.initialize = HandshakeReply::Refused(error.message.into_owned());
            }
            // A late response, or one that matches no request.
            _ => return Ok(None),
        }
        if let (HandshakeReply::Refused(modern), HandshakeReply::Refused(legacy)) =
            (&self.discover, &self.initialize)
        {
            let why = format!("refused `server/discover` ({modern}) and `initialize` ({legacy})");
            return Err(Refusal::Refused(why));
        }
        self.ask_the_other().await?;
        Ok(None)
    }
}

/// Parses a response to `server/discover`.
fn modern(value: Value) -> Result<ServerPeerInfo, String> {
    let told: DiscoverResult = serde_json::from_value(value).map_err(|error| error.to_string())?;
    if !told.supported_versions.contains(&ProtocolVersion::V_2026_07_28) {
        return Err("speaks other versions".to_owned());
    }
    Ok(ServerPeerInfo::from_discover_result(ProtocolVersion::V_2026_07_28, told))
}

/// Whether a server that rejected our version lists it as supported, so that another try
/// makes sense.
fn speaks_ours(error: &ErrorData) -> bool {
    let supported = error.data.as_ref().and_then(|data| data["supported"].as_array());
    error.code == ErrorCode::UNSUPPORTED_PROTOCOL_VERSION
        && supported.is_some_and(|all| {
            all.iter().any(|version| version == ProtocolVersion::V_2026_07_28.as_str())
        })
}
