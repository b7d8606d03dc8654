//! HTTP client with SSRF protection. Every request that a tool makes goes through
//! [`Outbound`].
//!
//! A model chooses the arguments of a call, and a prompt injection can make it choose
//! anything. So no request reaches loopback, private or link-local addresses unless the
//! operator has allowed them:
//!
//! 1. the URL is checked: `http` or `https`, no password, no literal address outside the
//!    public internet, in whatever notation;
//! 2. DNS names are resolved here, every address is checked, and the connection is made
//!    to exactly the address that was checked, which defeats DNS rebinding;
//! 3. redirects are followed here, one at a time, each starting again at step 1;
//! 4. headers that may be credentials are dropped on a redirect to another origin;
//! 5. timeouts, header size and decoded body size are bounded.
//!
//! Proxy variables in the environment are ignored. Errors name the origin of a URL, never
//! its path or query, which may hold secrets.
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
//! Deliberately left out: HTTP/2, cookies, and content encodings other than gzip.

mod address;
mod answer;
mod connect;
mod fault;
mod places;
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
pub use places::on_behalf;
pub use policy::{Allowed, Network, OutboundPolicy, Proxy};
pub use request::Request;

use connect::Connector;
use places::Using;
use request::RequestLimits;

/// Maximum number of headers in a response.
const MAX_HEADERS: usize = 128;
/// The smallest header buffer that hyper accepts.
const MIN_HEADER_BYTES: usize = 8 * 1024;

/// The HTTP client. Cheap to clone; clones share one connection pool.
#[derive(Clone)]
pub struct Outbound {
    policy: Arc<OutboundPolicy>,
    /// Default `User-Agent`; `None` if the configured one is not a valid header value.
    user_agent: Option<HeaderValue>,
    connector: Connector,
    client: Client<Connector, Full<Bytes>>,
}

impl Outbound {
    /// A client with this policy that uses the system's DNS resolver.
    pub fn new(policy: OutboundPolicy) -> Self {
        Self::with_lookup(policy, connect::system_lookup())
    }

    /// A client with its own DNS lookup. The addresses that it returns are checked like
    /// any others.
    pub fn with_lookup(policy: OutboundPolicy, lookup: Lookup) -> Self {
        let policy = Arc::new(policy);
        let connector = Connector::new(Arc::clone(&policy), lookup);
        Self::made(policy, connector)
    }

    /// A client with another policy, which has its connections of the same
    /// places: of both there are no more than of this one.
    #[must_use]
    pub fn beside(&self, policy: OutboundPolicy) -> Self {
        let policy = Arc::new(policy);
        let connector = self.connector.beside(Arc::clone(&policy));
        Self::made(policy, connector)
    }

    fn made(policy: Arc<OutboundPolicy>, connector: Connector) -> Self {
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

    /// What it may reach, and how much of it.
    pub fn policy(&self) -> &OutboundPolicy {
        &self.policy
    }

    /// The same for answers that may be as large as this, whatever the policy says:
    /// for what an operator fetches, and not a model.
    #[must_use]
    pub fn taking(mut self, bytes: u64) -> Self {
        let policy = Arc::make_mut(&mut self.policy);
        policy.max_response_bytes = policy.max_response_bytes.max(bytes);
        self
    }

    /// Sends a request and waits for the response headers.
    pub async fn send(&self, mut request: Request) -> Result<Answer, Error> {
        let limits = request.limits(&self.policy);
        let until = Instant::now() + limits.total_timeout;
        for _ in 0..=self.policy.max_redirects {
            target::check(&request.url, &self.policy)?;
            let (response, using) = self.exchange(&request, &limits, until).await?;
            match redirect::next(&request, response.status(), response.headers())? {
                Some(next) => request = next,
                None => return Answer::new(response, request.url, limits, until, using),
            }
        }
        let why = format!(
            "{} redirects more than {} times",
            target::shown(&request.url),
            self.policy.max_redirects
        );
        Err(Error::new(ErrorKind::UpstreamRejected, why))
    }

    /// Opens a TCP connection for a protocol other than HTTP, with the same address
    /// checks.
    pub async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, Error> {
        self.connector.tcp(host, port).await
    }

    /// Sends one request, without following redirects, and waits for the response
    /// headers. The read timeout begins once there is a connection; the connector has its
    /// own.
    async fn exchange(
        &self,
        request: &Request,
        limits: &RequestLimits,
        until: Instant,
    ) -> Result<(http::Response<Incoming>, Option<Using>), Error> {
        let mut wire = request.to_wire(self.user_agent.as_ref())?;
        let mut connection = capture_connection(&mut wire);
        let mut answer = pin!(self.client.request(wire));
        let too_slow = |_| fault::too_slow(&request.url, limits, until);
        let silent = || until.min(Instant::now() + limits.read_timeout);
        // An idle connection from the pool is ready at the first poll.
        let begun = poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await;
        let mut using = Using::of(&connection, None);
        if begun.is_pending() && using.is_some() {
            let done = timeout_at(silent(), answer).await.map_err(too_slow)?;
            let done = done.map_err(|cause| fault::of_client(&request.url, cause))?;
            // It may have been another one in the end.
            return Ok((done, Using::of(&connection, using)));
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
            None => {
                using = Using::of(&connection, using);
                timeout_at(silent(), answer).await.map_err(too_slow)?
            }
        };
        let done = done.map_err(|cause| fault::of_client(&request.url, cause))?;
        Ok((done, Using::of(&connection, using)))
    }
}
