//! The guarded way out: every request that a tool makes goes through
//! [`Outbound`].
//!
//! Arguments of a call are chosen by a model, and a model can be talked into
//! anything. So no request reaches what only this machine or its network can
//! reach, unless the operator has said so:
//!
//! 1. the URL is checked: `http` or `https`, no password, no literal address
//!    that is not open, in whatever notation;
//! 2. a name is resolved here, each of its addresses is judged, and the address
//!    that was judged is the one that is connected to, so that a name which
//!    changes its address in between gains nothing;
//! 3. redirects are followed here, one at a time, each from step 1;
//! 4. what may be a credential stays with the origin that it was meant for;
//! 5. time, size of headers and decoded size of the body are bounded.
//!
//! Proxies of the environment are not looked at. Errors name the origin of a
//! URL, never its path or query.
//!
//! ```
//! # async fn look() -> Result<(), windlass::Error> {
//! use windlass_executors::outbound::{Outbound, OutboundPolicy, Request};
//!
//! let outbound = Outbound::new(OutboundPolicy::default());
//! let request = Request::parse(http::Method::GET, "https://example.com/")?;
//! let answer = outbound.send(request).await?.checked().await?;
//! println!("{} bytes", answer.bytes().await?.len());
//! # Ok(())
//! # }
//! ```
//!
//! It leaves out HTTP/2, cookies, and encodings but gzip.

mod address;
mod answer;
mod connect;
mod fault;
mod policy;
mod redirect;
mod request;
mod target;
mod tls;
mod tunnel;
mod wire;

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use http::HeaderValue;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::capture_connection;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use windlass::{Error, ErrorKind};

pub use answer::Answer;
pub use connect::Lookup;
pub use fault::of_status;
pub use policy::{Allowed, Network, OutboundPolicy, Proxy};
pub use request::Request;

use connect::Connector;
use request::Limits;

/// The number of headers that an answer may have.
const MAX_HEADERS: usize = 128;
/// The HTTP client wants at least this much.
const MIN_HEADER_BYTES: usize = 8 * 1024;

/// Sends requests to where they may go. Cheap to clone; clones share their
/// connections.
#[derive(Clone)]
pub struct Outbound {
    policy: Arc<OutboundPolicy>,
    /// What requests say of who sends them, where that can be said.
    user_agent: Option<HeaderValue>,
    connector: Connector,
    client: Client<Connector, Full<Bytes>>,
}

impl Outbound {
    /// A client with this policy, which asks the system for addresses.
    pub fn new(policy: OutboundPolicy) -> Self {
        Self::with_lookup(policy, connect::system_lookup())
    }

    /// The same with another way to find addresses. What it finds is judged
    /// like any other.
    pub fn with_lookup(policy: OutboundPolicy, lookup: Lookup) -> Self {
        let policy = Arc::new(policy);
        let connector = Connector::new(Arc::clone(&policy), lookup);
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(policy.idle_per_host)
            .pool_idle_timeout(policy.idle_timeout)
            .pool_timer(TokioTimer::new())
            .http1_max_buf_size(policy.max_header_bytes.max(MIN_HEADER_BYTES))
            .http1_max_headers(MAX_HEADERS)
            .build(connector.clone());
        let user_agent = HeaderValue::from_str(&policy.user_agent).ok();
        Self { policy, user_agent, connector, client }
    }

    /// The same for answers that may be as large as this, whatever the policy says:
    /// for what an operator fetches, and not a model.
    #[must_use]
    pub fn taking(mut self, bytes: u64) -> Self {
        let policy = Arc::make_mut(&mut self.policy);
        policy.max_response_bytes = policy.max_response_bytes.max(bytes);
        self
    }

    /// Sends a request and waits for the headers of its answer.
    pub async fn send(&self, mut request: Request) -> Result<Answer, Error> {
        let limits = request.limits(&self.policy);
        let until = Instant::now() + limits.total_timeout;
        for _ in 0..=self.policy.max_redirects {
            target::check(&request.url, &self.policy)?;
            let response = self.exchange(&request, &limits, until).await?;
            match redirect::next(&request, response.status(), response.headers())? {
                Some(next) => request = next,
                None => return Answer::new(response, request.url, limits, until),
            }
        }
        let why = format!(
            "{} redirects more than {} times",
            target::shown(&request.url),
            self.policy.max_redirects
        );
        Err(Error::new(ErrorKind::UpstreamRejected, why))
    }

    /// A connection for another protocol than HTTP, to a host that is judged
    /// in the same way.
    pub async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, Error> {
        self.connector.tcp(host, port).await
    }

    /// One request and the beginning of its answer. Connecting has a time of
    /// its own; then the other side has to begin to speak.
    async fn exchange(
        &self,
        request: &Request,
        limits: &Limits,
        until: Instant,
    ) -> Result<http::Response<Incoming>, Error> {
        let mut wire = request.to_wire(self.user_agent.as_ref())?;
        let mut connection = capture_connection(&mut wire);
        let mut answer = pin!(self.client.request(wire));
        let too_slow = |_| fault::too_slow(&request.url, limits, until);
        let silent = || until.min(Instant::now() + limits.read_timeout);
        // A connection that was there before is taken at once.
        let begun = poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await;
        if begun.is_pending() && connection.connection_metadata().is_some() {
            let done = timeout_at(silent(), answer).await.map_err(too_slow)?;
            return done.map_err(|cause| fault::of_client(&request.url, cause));
        }
        let connected = async {
            if let Poll::Ready(done) = begun {
                return Some(done);
            }
            tokio::select! {
                biased;
                done = &mut answer => Some(done),
                _ = connection.wait_for_connection_metadata() => None,
            }
        };
        let done = match timeout_at(until, connected).await.map_err(too_slow)? {
            Some(done) => done,
            None => timeout_at(silent(), answer).await.map_err(too_slow)?,
        };
        done.map_err(|cause| fault::of_client(&request.url, cause))
    }
}
