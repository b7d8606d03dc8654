//! The front door: what happens to every request before its route is looked
//! for.
//!
//! It is a function and not a stack of layers: each layer of a router costs
//! every request a few allocations, also those that it has no business with.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

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
use super::auth;
use super::problem::Problem;

/// Answers that are smaller are not worth it.
const COMPRESS_FROM: u64 = 1024;
/// The longest id of a request that is taken over.
const MAX_ID: usize = 128;
/// The header with a request's id.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// What is asked to find out how the server does, above all when it has too
/// much to do.
const ALWAYS: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// Everything that the server answers.
pub(crate) struct Front {
    app: Arc<App>,
    routes: Router,
    /// The same for clients that take compressed answers. The others need not pay
    /// for looking whether theirs is to be.
    compressed: Compression<Router, And<SizeAbove, NotForContentType>>,
    /// Requests that are being worked on.
    open: AtomicUsize,
}

impl Front {
    pub(crate) fn new(app: Arc<App>, routes: Router) -> Self {
        let compress = SizeAbove::new(COMPRESS_FROM).and(NotForContentType::SSE);
        let compressed = Compression::new(routes.clone()).compress_when(compress);
        Self { app, routes, compressed, open: AtomicUsize::new(0) }
    }

    /// Answers a request. Every answer has the id of its request, so that people
    /// can talk about it.
    pub(crate) async fn answer<B>(&self, request: Request<B>) -> Response
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        self.app.metrics.requests.fetch_add(1, Ordering::Relaxed);
        let given = given_id(&request);
        let mut response = self.admit(request).await;
        let headers = response.headers_mut();
        // Whoever tells about requests has named it already.
        if !headers.contains_key(&REQUEST_ID)
            && let Some(id) = given.or_else(new_id)
        {
            headers.insert(REQUEST_ID, id);
        }
        // Nobody on the way keeps an answer, and no browser guesses what it is.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        response
    }

    /// Lets a request in, if there is room. One that is refused has cost next to
    /// nothing: neither its key nor its body has been looked at.
    async fn admit<B>(&self, request: Request<B>) -> Response
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let place = Place::take(&self.open);
        if place.before >= self.app.settings.max_requests && !ALWAYS.contains(&request.uri().path())
        {
            self.app.metrics.refused.fetch_add(1, Ordering::Relaxed);
            return too_many();
        }
        let page = match auth::origin(&self.app, request.headers(), request.uri()) {
            Ok(page) => page,
            Err(problem) => return problem.into_response(),
        };
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

    /// How many connections may be open.
    pub(crate) fn max_connections(&self) -> usize {
        self.app.settings.max_connections
    }

    /// How long a client may take to say what it wants.
    pub(crate) fn header_timeout(&self) -> Duration {
        self.app.settings.header_timeout
    }
}

/// The id that a request brought, if it can be taken over.
pub(crate) fn given_id<B>(request: &Request<B>) -> Option<HeaderValue> {
    let is_plain = |id: &&HeaderValue| (1..=MAX_ID).contains(&id.len()) && id.to_str().is_ok();
    request.headers().get(&REQUEST_ID).filter(is_plain).cloned()
}

/// An id for a request that brought none.
pub(crate) fn new_id() -> Option<HeaderValue> {
    let id = CallId::at(Timestamp::now()).to_string();
    HeaderValue::from_maybe_shared(Bytes::from(id)).ok()
}

/// A request that is being worked on. A stream that follows does not count.
struct Place<'a> {
    open: &'a AtomicUsize,
    before: usize,
}

impl<'a> Place<'a> {
    fn take(open: &'a AtomicUsize) -> Self {
        Self { open, before: open.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

fn too_many() -> Response {
    let why = "the server works on as many requests as it may";
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", why)
        .hint("try again a little later; the operator sets `server.max_requests`")
        .retry_after(Some(Duration::from_secs(1)))
        .into_response()
}
