//! A connection to a server that has been greeted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rmcp::RoleClient;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientNotification, ClientRequest,
    GetExtensions, RequestId, RequestMetaObject, ServerPeerInfo,
};
use rmcp::service::{Peer, PeerRequestOptions, ServiceError, serve_directly_with_ct};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass::{Error, ErrorKind};

use super::authorize;
use super::failure::{ProtocolError, gone, unreadable, useless};
use super::handler::Handler;
use super::handshake::{Era, value_of};
use super::http;
use super::in_flight::{InFlightRequest, InFlightRequests};
use super::message;
use super::server::Server;
use super::stdio::Ending;

/// How long a connection may take to end.
const CLOSE: Duration = Duration::from_secs(4);

pub(super) struct Connection {
    server: Arc<str>,
    peer: Peer<RoleClient>,
    info: Arc<ServerPeerInfo>,
    era: Era,
    in_flight: Arc<InFlightRequests>,
    ending: Ending,
    owner: Weak<Server>,
    /// Whether the server says nothing more about a request that is given up: the
    /// answer has a stream of its own, and that is closed.
    ends_what_is_dropped: bool,
    stop: CancellationToken,
    /// Ends the connection when nobody has it any more.
    _guard: DropGuard,
    /// Cancelled when the connection has ended, from whichever side.
    closed: CancellationToken,
    began: Instant,
    /// When it last answered, in milliseconds since it began.
    heard: AtomicU64,
}

/// What a connection is made of.
pub(super) struct Parts {
    pub(super) server: Arc<str>,
    pub(super) era: Era,
    pub(super) info: ServerPeerInfo,
    pub(super) handler: Handler,
    pub(super) ending: Ending,
    pub(super) owner: Arc<Server>,
}

impl Connection {
    /// Begins to serve a transport over which the server has been greeted.
    pub(super) fn new<T: Transport<RoleClient> + 'static>(transport: T, parts: Parts) -> Arc<Self> {
        let Parts { server, era, info, handler, ending, owner } = parts;
        let in_flight = Arc::clone(&handler.in_flight);
        let stop = CancellationToken::new();
        let service = serve_directly_with_ct(handler, transport, Some(info.clone()), stop.clone());
        let peer = service.peer().clone();
        let closed = CancellationToken::new();
        tokio::spawn({
            let closed = closed.clone();
            async move {
                let _ = service.waiting().await;
                closed.cancel();
            }
        });
        Arc::new(Self {
            server,
            peer,
            info: Arc::new(info),
            era,
            in_flight,
            ending,
            ends_what_is_dropped: era == Era::Modern && !owner.is_process(),
            owner: Arc::downgrade(&owner),
            _guard: stop.clone().drop_guard(),
            stop,
            closed,
            began: Instant::now(),
            heard: AtomicU64::new(0),
        })
    }

    /// The name of the server.
    pub(super) fn server(&self) -> &str {
        &self.server
    }

    pub(super) fn info(&self) -> &ServerPeerInfo {
        &self.info
    }

    pub(super) fn era(&self) -> Era {
        self.era
    }

    pub(super) fn peer(&self) -> &Peer<RoleClient> {
        &self.peer
    }

    /// Whether it has ended or is about to: what is asked now gets no answer.
    pub(super) fn is_closed(&self) -> bool {
        self.ending.get().is_some() || self.peer.is_transport_closed()
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.len() == 0
    }

    /// How long it has been silent.
    pub(super) fn silent(&self) -> Duration {
        self.began
            .elapsed()
            .saturating_sub(Duration::from_millis(self.heard.load(Ordering::Relaxed)))
    }

    /// Why it ended.
    pub(super) fn why_gone(&self) -> Error {
        let why = self.ending.get().unwrap_or_else(|| "closed the connection".to_owned());
        gone(&self.server, &why)
    }

    /// Ends when the server is gone.
    pub(super) async fn ended(&self) {
        self.closed.cancelled().await;
    }

    /// Begins to end the connection.
    pub(super) fn end(&self, why: &str) {
        self.ending.put(why);
        self.stop.cancel();
    }

    /// Ends the connection.
    pub(super) async fn close(&self, why: &str) {
        self.end(why);
        let _ = tokio::time::timeout(CLOSE, self.closed.cancelled()).await;
    }

    /// Sends a request and waits for its answer. Whoever stops waiting cancels
    /// it on the server, too.
    pub(super) async fn request(
        &self,
        mut request: ClientRequest,
        flight: Option<Arc<InFlightRequest>>,
        meta: Option<RequestMetaObject>,
    ) -> Result<Value, Error> {
        if let Some(flight) = &flight {
            request.extensions_mut().insert(Arc::clone(flight));
        }
        let mut options = PeerRequestOptions::no_options();
        options.meta = meta;
        let sent = self.peer.send_request_with_option(request, options).await;
        let handle = sent.map_err(|error| self.failed(error))?;
        let mut pending = Pending { connection: self, id: Some(handle.id.clone()), flight };
        let answer = handle.await_response().await;
        if let Some(id) = pending.id.take() {
            self.in_flight.end(&id);
        }
        self.begin_anew();
        self.note_heard();
        answer.map(value_of).map_err(|error| self.failed(error))
    }

    /// A request by its method.
    pub(super) async fn ask(&self, method: &str, params: &Value) -> Result<Value, Error> {
        self.request(self::request(method, params)?, None, None).await
    }

    /// Ends a connection whose questions cannot be placed any more, once nobody
    /// needs it. The next call has a new one.
    fn begin_anew(&self) {
        if self.is_idle() && self.in_flight.is_muddled() {
            self.end("asks about calls that were given up, and begins anew");
        }
    }

    fn note_heard(&self) {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.heard.store(now, Ordering::Relaxed);
    }

    fn failed(&self, error: ServiceError) -> Error {
        match error {
            ServiceError::McpError(error) if error.code == message::UNREADABLE => {
                unreadable(&self.server, &error.message)
            }
            ServiceError::McpError(error) => {
                ProtocolError::new(error.code.0, error.message.into_owned(), error.data)
                    .into_error(&self.server)
            }
            ServiceError::TransportClosed => self.why_gone(),
            ServiceError::TransportSend(error) => self.unsent(&*error.error),
            other => gone(&self.server, &format!("gave no answer: {other}")),
        }
    }

    fn unsent(&self, error: &(dyn std::error::Error + 'static)) -> Error {
        if let Some(challenge) = authorize::challenge(error) {
            self.owner.upgrade().iter().for_each(|own| own.challenged(challenge.clone()));
            return authorize::wants_login(&self.server);
        }
        match (self.ending.get(), http::answered_with(error)) {
            (Some(_), _) => self.why_gone(),
            (None, Some((kind, what))) => useless(&self.server, kind, &what),
            (None, None) => gone(&self.server, &format!("could not be reached: {}", causes(error))),
        }
    }
}

/// An error and what caused it, in one line.
pub(super) fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}

/// A request by its method and parameters.
pub(super) fn request(method: &str, params: &Value) -> Result<ClientRequest, Error> {
    serde_json::from_value(json!({"method": method, "params": params})).map_err(|error| {
        let why = format!("the request `{method}` cannot be written: {error}");
        Error::new(ErrorKind::Internal, why)
    })
}

/// A request without an answer yet. Dropped, it is cancelled.
struct Pending<'c> {
    connection: &'c Connection,
    id: Option<RequestId>,
    flight: Option<Arc<InFlightRequest>>,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        match &self.flight {
            Some(flight) if !self.connection.ends_what_is_dropped => {
                self.connection.in_flight.abandon(&id, flight);
            }
            _ => self.connection.in_flight.end(&id),
        }
        self.connection.begin_anew();
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let told = CancelledNotificationParam::new(Some(id), Some("the call was stopped".into()));
        let told = ClientNotification::CancelledNotification(CancelledNotification::new(told));
        let peer = self.connection.peer.clone();
        runtime.spawn(async move {
            let _ = peer.send_notification(told).await;
        });
    }
}
