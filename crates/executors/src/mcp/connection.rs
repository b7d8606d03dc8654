//! An initialized connection to a server.

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

/// Timeout for closing a connection.
const CLOSE: Duration = Duration::from_secs(4);

pub(super) struct Connection {
    server: Arc<str>,
    peer: Peer<RoleClient>,
    info: Arc<ServerPeerInfo>,
    era: Era,
    in_flight: Arc<InFlightRequests>,
    ending: Ending,
    owner: Weak<Server>,
    /// Whether cancelling a request also ends the server's messages about it: over HTTP,
    /// a response has a stream of its own, which is closed.
    ends_what_is_dropped: bool,
    stop: CancellationToken,
    /// Closes the connection when the last reference is dropped.
    _guard: DropGuard,
    /// Cancelled once the connection is closed, by either side.
    closed: CancellationToken,
    began: Instant,
    /// When the server last answered, in milliseconds since the connection was opened.
    heard: AtomicU64,
}

/// The parts of a connection.
pub(super) struct Parts {
    pub(super) server: Arc<str>,
    pub(super) era: Era,
    pub(super) info: ServerPeerInfo,
    pub(super) handler: Handler,
    pub(super) ending: Ending,
    pub(super) owner: Arc<Server>,
}

impl Connection {
    /// Serves a transport over which the handshake has been done.
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

    /// The server's name.
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

    /// Whether it is closed or closing: new requests would get no response.
    pub(super) fn is_closed(&self) -> bool {
        self.ending.get().is_some() || self.peer.is_transport_closed()
    }

    /// Whether no request is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.len() == 0
    }

    /// Time since the server last answered.
    pub(super) fn silent(&self) -> Duration {
        self.began
            .elapsed()
            .saturating_sub(Duration::from_millis(self.heard.load(Ordering::Relaxed)))
    }

    /// The error that says why it was closed.
    pub(super) fn why_gone(&self) -> Error {
        let why = self.ending.get().unwrap_or_else(|| "closed the connection".to_owned());
        gone(&self.server, &why)
    }

    /// Waits until the connection is closed.
    pub(super) async fn ended(&self) {
        self.closed.cancelled().await;
    }

    /// Starts closing the connection.
    pub(super) fn end(&self, why: &str) {
        self.ending.put(why);
        self.stop.cancel();
    }

    /// Closes the connection and waits for that.
    pub(super) async fn close(&self, why: &str) {
        self.end(why);
        let _ = tokio::time::timeout(CLOSE, self.closed.cancelled()).await;
    }

    /// Sends a request and waits for its response. Dropping the future cancels the
    /// request on the server as well.
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

    /// Sends a request given by method and parameters.
    pub(super) async fn ask(&self, method: &str, params: &Value) -> Result<Value, Error> {
        self.request(self::request(method, params)?, None, None).await
    }

    /// Retires a connection on which the server's requests can no longer be attributed to
    /// a call, once it is idle. The next call opens a new one.
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

/// An error and its chain of causes, on one line.
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

/// A typed request from a method and parameters.
pub(super) fn request(method: &str, params: &Value) -> Result<ClientRequest, Error> {
    serde_json::from_value(json!({"method": method, "params": params})).map_err(|error| {
        let why = format!("the request `{method}` cannot be written: {error}");
        Error::new(ErrorKind::Internal, why)
    })
}

/// A request in flight. Dropping it cancels the request on the server.
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
