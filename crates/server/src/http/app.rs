//! What all handlers share.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass::{Engine, Lang};
use windlass_executors::mcp::Servers;
use windlass_executors::outbound::Outbound;
use windlass_store::Documents;

use super::files::Links;
use super::hub::Hub;
use super::metrics::Metrics;
use crate::approvals::Desk;
use crate::consents::Consents;
use crate::identity::{Bearers, Keys, OAuthSettings};
use crate::questions::Questions;
use crate::runs::KeptRuns;
use crate::telemetry::Tracer;
use crate::vault::Credentials;

/// The server.
pub(crate) struct App {
    pub(crate) engine: Engine,
    /// The servers whose tools it runs.
    pub(crate) servers: Arc<Servers>,
    pub(crate) documents: Arc<dyn Documents>,
    pub(crate) keys: Keys,
    /// Who logs in elsewhere.
    pub(crate) bearers: Option<Bearers>,
    pub(crate) credentials: Arc<Credentials>,
    pub(crate) desk: Arc<Desk>,
    /// What tools ask in the middle of calls.
    pub(crate) questions: Arc<Questions>,
    /// People who are asked to agree.
    pub(crate) consents: Arc<Consents>,
    /// The guarded way out.
    pub(crate) outbound: Outbound,
    /// What is kept of agents' runs.
    pub(crate) runs: Arc<KeptRuns>,
    pub(crate) links: Links,
    pub(crate) hub: Arc<Hub>,
    pub(crate) metrics: Arc<Metrics>,
    /// Where spans go, if they go anywhere.
    pub(crate) tracer: Option<Arc<Tracer>>,
    pub(crate) settings: HttpSettings,
    /// The language of what models read.
    pub(crate) lang: Lang,
    /// Cancelled when the server is to end: no new calls, streams close.
    pub(crate) draining: CancellationToken,
    /// Calls that go on without the request that began them.
    pub(crate) tasks: TaskTracker,
    pub(crate) started: Instant,
}

/// How the server deals with requests.
#[derive(Clone, Debug)]
pub(crate) struct HttpSettings {
    /// Names that a request may be for, besides addresses and this machine.
    pub(crate) hosts: Vec<String>,
    /// Web pages of these origins may use the API, besides our own.
    pub(crate) origins: Vec<String>,
    /// The largest body of a request.
    pub(crate) max_body_bytes: usize,
    /// How many connections may be open; one more waits until another closes.
    pub(crate) max_connections: usize,
    /// How many requests are worked on at once; one more is refused at once.
    pub(crate) max_requests: usize,
    /// How long a client may take to say what it wants.
    pub(crate) header_timeout: Duration,
    /// How long a client may take to send a body.
    pub(crate) body_timeout: Duration,
    /// How long a reader of events may take nothing before it is cut off.
    pub(crate) reader_timeout: Duration,
    /// How long the calls that run may go on when the server is to end.
    pub(crate) drain: Duration,
    /// How long a call waits for a person.
    pub(crate) approvals_expire: Duration,
    /// Whether tenants besides the first may add commands.
    pub(crate) tenant_commands: bool,
    /// How long events are kept for a tenant after its last reader was seen.
    pub(crate) events_linger: Duration,
    /// Whose tokens `/mcp` takes, besides keys.
    pub(crate) oauth: OAuthSettings,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            origins: Vec::new(),
            max_body_bytes: 4 * 1024 * 1024,
            max_connections: 16_384,
            max_requests: 4096,
            header_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(60),
            reader_timeout: Duration::from_secs(30),
            drain: Duration::from_secs(30),
            approvals_expire: Duration::from_secs(24 * 3600),
            tenant_commands: false,
            events_linger: Duration::from_secs(600),
            oauth: OAuthSettings::default(),
        }
    }
}
