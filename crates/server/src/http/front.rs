//! [`Ingress`]: what happens to every request before it is routed: request ids,
//! load shedding, compression.
//!
//! It is a function and not a stack of `tower` layers, because each layer costs every
//! request a few allocations, including the requests that it does not concern.

pub(crate) mod auth;
pub(crate) mod connections;
pub(crate) mod extract;
pub(crate) mod failed_keys;
pub(crate) mod listen;
pub(crate) mod observe;
pub(crate) mod problem;
pub(crate) mod refusals;
pub(crate) mod revocation;
pub(crate) mod slots;
pub(crate) mod watchdog;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use tower::{BoxError, Service};
use tower_http::compression::Compression;
use tower_http::compression::predicate::{And, NotForContentType, Predicate, SizeAbove};
use windlass::CallId;

use super::app::App;
use connections::{ConnectionPermit, Connections};
use problem::Problem;
use slots::{RequestSlot, RequestSlots};
use watchdog::{ResponseBody, Timeouts};

/// Answers that are smaller are not worth it.
const COMPRESS_FROM: u64 = 1024;
/// The longest id of a request that is taken over.
const MAX_ID: usize = 128;
/// The header with a request's id.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// What is asked to find out how the server does, above all when it has too
/// much to do.
const ALWAYS: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// Everything that the server answers.
pub(crate) struct Ingress {
    app: Arc<App>,
    routes: Router,
    /// The same for clients that take compressed answers. The others need not pay
    /// for looking whether theirs is to be.
    compressed: Compression<Router, And<SizeAbove, NotForContentType>>,
    slots: Arc<RequestSlots>,
    /// Whether anybody is told about requests.
    is_told: bool,
}

impl Ingress {
    pub(crate) fn new(app: Arc<App>, routes: Router) -> Self {
        let compress = SizeAbove::new(COMPRESS_FROM).and(NotForContentType::SSE);
        let compressed = Compression::new(routes.clone()).compress_when(compress);
        let slots = RequestSlots::new(app.settings.max_requests, app.settings.max_waiting);
        let is_told = observe::is_told(&app);
        Self { app, routes, compressed, slots, is_told }
    }

    /// Answers a request of a connection. Every answer has the id of its request,
    /// so that people can talk about it.
    pub(crate) async fn answer<B>(
        &self,
        mut request: Request<B>,
        place: &Arc<ConnectionPermit>,
    ) -> Response<ResponseBody>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        self.app.metrics.requests.fetch_add(1, Ordering::Relaxed);
        let id = request_id(&request);
        let exchange = place.traffic.begin();
        let (mut response, slot) = match self.slot(&request, place) {
            Ok(slot) => {
                if let Some(id) = id.as_ref().filter(|_| self.is_told) {
                    request.extensions_mut().insert(RequestId(id.clone()));
                }
                (self.admit(request, &slot).await, Some(slot))
            }
            Err(problem) => (problem.into_response(), None),
        };
        if response.status() == StatusCode::TOO_MANY_REQUESTS {
            self.app.metrics.refused.fetch_add(1, Ordering::Relaxed);
        }
        let headers = response.headers_mut();
        if let Some(id) = id {
            headers.insert(REQUEST_ID, id);
        }
        // `no-store` against caches, `nosniff` against content sniffing.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        // A stream holds its slot until it ends.
        let slot = slot.filter(|slot| slot.is_waiting());
        response.map(|body| ResponseBody::new(body, exchange, slot))
    }

    /// A slot for a request, if there is one.
    fn slot<B>(
        &self,
        request: &Request<B>,
        place: &Arc<ConnectionPermit>,
    ) -> Result<Arc<RequestSlot>, Problem> {
        if ALWAYS.contains(&request.uri().path()) {
            return Ok(self.slots.always(place));
        }
        self.slots.arrive(place, place.client(request.headers()))
    }

    /// Lets a request in that has a slot, if it is for us.
    async fn admit<B>(&self, mut request: Request<B>, slot: &Arc<RequestSlot>) -> Response
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        if has_unknown_coding(&request) {
            return unknown_coding();
        }
        let page = match auth::origin(&self.app, request.headers(), request.uri()) {
            Ok(page) => page,
            Err(problem) => return problem.into_response(),
        };
        request.extensions_mut().insert(Arc::clone(slot));
        let Some(page) = page else { return self.route(request).await };
        let mut response = match auth::is_preflight(&request) {
            true => StatusCode::NO_CONTENT.into_response(),
            false => self.route(request).await,
        };
        auth::share(&mut response, page);
        response
    }

    async fn route<B>(&self, request: Request<B>) -> Response
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let answered = if request.headers().contains_key(header::ACCEPT_ENCODING) {
            let compressed = Box::pin(self.compressed.clone().call(request)).await;
            compressed.map(|response| response.map(Body::new))
        } else {
            self.routes.clone().call(request).await
        };
        match answered {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    /// Who may have connections.
    pub(super) fn connections(&self) -> Arc<Connections> {
        Connections::new(self.app.settings.connections())
    }

    /// How long a connection may take for what.
    pub(super) fn timeouts(&self) -> Timeouts {
        self.app.settings.timeouts()
    }

    /// Counts a connection that was refused or cut off.
    pub(super) fn count_cut(&self) {
        self.app.metrics.cut.fetch_add(1, Ordering::Relaxed);
    }
}

/// The id of a request, left on it for those who tell about requests.
#[derive(Clone)]
pub(crate) struct RequestId(pub(crate) HeaderValue);

/// The id that a request brought, if it can be taken over, else a new one.
fn request_id<B>(request: &Request<B>) -> Option<HeaderValue> {
    let is_plain = |id: &&HeaderValue| (1..=MAX_ID).contains(&id.len()) && id.to_str().is_ok();
    let given = request.headers().get(&REQUEST_ID).filter(is_plain).cloned();
    given.or_else(|| {
        let id = CallId::at(Timestamp::now()).to_string();
        HeaderValue::from_maybe_shared(Bytes::from(id)).ok()
    })
}

/// Whether the body is in a transfer coding besides `chunked`. Its bytes would be
/// taken for the body, and a proxy that decodes them would have judged another.
fn has_unknown_coding<B>(request: &Request<B>) -> bool {
    let mut codings = request.headers().get_all(header::TRANSFER_ENCODING).iter();
    let Some(coding) = codings.next() else { return false };
    codings.next().is_some() || !coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked")
}

fn unknown_coding() -> Response {
    let why = "a body is sent as it is, or chunked";
    let problem = Problem::new(StatusCode::NOT_IMPLEMENTED, "unknown_transfer_coding", why)
        .hint("leave out the other values of Transfer-Encoding");
    let mut response = problem.into_response();
    // The end of the body is unknown (request smuggling): nothing more is read.
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
