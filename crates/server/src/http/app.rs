//! [`App`]: the shared state of all request handlers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass::{Engine, Lang};
use windlass_executors::mcp::Servers;
use windlass_executors::outbound::{Network, Outbound};
use windlass_store::Documents;
use windlass_workflow::Runs;

use super::broker::EventBroker;
use super::cluster::membership::Membership;
use super::front::connections::ConnectionLimits;
use super::front::failed_keys::{self, FailedKeys};
use super::front::refusals::Refusals;
use super::front::watchdog::Timeouts;
use super::metrics::Metrics;
use super::readiness::Readiness;
use super::routes::files::Links;
use crate::human::approvals::ApprovalQueue;
use crate::human::consents::Consents;
use crate::human::questions::CallQuestions;
use crate::mcp::{MAX_SESSIONS, Sessions};
use crate::prerequisites::Prerequisites;
use crate::state::audit::Audit;
use crate::state::identity::{ApiKeys, Bearers, OAuthSettings};
use crate::state::quota::TenantQuotas;
use crate::state::runs::StoredRuns;
use crate::state::vault::Credentials;
use crate::telemetry::Tracer;

/// The server.
pub(crate) struct App {
    pub(crate) engine: Engine,
    /// The servers whose tools it runs.
    pub(crate) servers: Arc<Servers>,
    pub(crate) documents: Arc<dyn Documents>,
    pub(crate) keys: ApiKeys,
    /// The audit log.
    pub(crate) audit: Audit,
    pub(crate) failed_keys: FailedKeys,
    /// MCP sessions.
    pub(crate) sessions: Arc<Sessions>,
    /// Quotas of tenants and keys.
    pub(crate) quotas: Arc<TenantQuotas>,
    /// Bearer tokens of an external authorization server.
    pub(crate) bearers: Option<Bearers>,
    pub(crate) credentials: Arc<Credentials>,
    /// Which built-in tools cannot work yet.
    pub(crate) prerequisites: Prerequisites,
    pub(crate) approvals: Arc<ApprovalQueue>,
    /// Open questions of tools (elicitation).
    pub(crate) questions: Arc<CallQuestions>,
    /// OAuth consents under way.
    pub(crate) consents: Arc<Consents>,
    /// The guarded HTTP client for outbound requests.
    pub(crate) outbound: Outbound,
    /// The log of agents' runs.
    pub(crate) runs: Arc<StoredRuns>,
    /// The runs of workflows.
    pub(crate) workflow_runs: Runs,
    pub(crate) links: Links,
    pub(crate) events: Arc<EventBroker>,
    /// The membership of the cluster.
    pub(crate) membership: Membership,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) readiness: Readiness,
    /// What keys were refused that may not do it.
    pub(crate) refusals: Refusals,
    /// Where spans go, if they go anywhere.
    pub(crate) tracer: Option<Arc<Tracer>>,
    pub(crate) settings: HttpSettings,
    /// The language of what models read.
    pub(crate) lang: Lang,
    /// Cancelled at shutdown: no new calls, streams close.
    pub(crate) draining: CancellationToken,
    /// Background tasks that outlive their request.
    pub(crate) tasks: TaskTracker,
    pub(crate) started: Instant,
}

/// Settings of the HTTP server.
#[derive(Clone, Debug)]
pub(crate) struct HttpSettings {
    /// Names that a request may be for, besides addresses and this machine.
    pub(crate) hosts: Vec<String>,
    /// Web pages of these origins may use the API, besides our own.
    pub(crate) origins: Vec<String>,
    /// Whether connections to this server are of TLS.
    pub(crate) has_tls: bool,
    /// Whether plain text is spoken on purpose, because something in front has
    /// TLS.
    pub(crate) without_tls: bool,
    /// The largest body of a request.
    pub(crate) max_body_bytes: usize,
    /// How many connections may be open; one more takes the place of one that is
    /// idle, or waits until another closes.
    pub(crate) max_connections: usize,
    /// How many connections an address may have.
    pub(crate) max_connections_per_address: usize,
    /// How many connections a key may use.
    pub(crate) max_connections_per_key: usize,
    /// Reverse proxies, whose addresses are not those of clients.
    pub(crate) trusted_proxies: Vec<Network>,
    /// How many requests are worked on at once; one more is refused at once.
    pub(crate) max_requests: usize,
    /// How many requests wait at once: long polls, streams.
    pub(crate) max_waiting: usize,
    /// How many keys that do not work an address may show in a minute.
    pub(crate) max_failed_keys: usize,
    /// How many MCP sessions are kept: a tenant has at most half of them, a key a
    /// tenth.
    pub(crate) max_mcp_sessions: usize,
    /// How long a client may take to say what it wants.
    pub(crate) header_timeout: Duration,
    /// How long a connection may have no request under way.
    pub(crate) idle_timeout: Duration,
    /// How long a connection may be open.
    pub(crate) connection_timeout: Duration,
    /// How long a client may take to send a body.
    pub(crate) body_timeout: Duration,
    /// How long a client may take nothing of an answer before it is cut off.
    pub(crate) reader_timeout: Duration,
    /// How long the calls that run may go on when the server is to end.
    pub(crate) drain: Duration,
    /// How long a call waits for a person.
    pub(crate) approvals_expire: Duration,
    /// Whether the requester of a call may not approve it (four-eyes principle).
    pub(crate) four_eyes: bool,
    /// Whether tenants besides the first may add commands.
    pub(crate) tenant_commands: bool,
    /// How long events are kept for a tenant after its last reader was seen.
    pub(crate) event_listener_ttl: Duration,
    /// Whose tokens `/mcp` takes, besides keys.
    pub(crate) oauth: OAuthSettings,
}

impl HttpSettings {
    /// How many connections may be open.
    pub(super) fn connections(&self) -> ConnectionLimits {
        ConnectionLimits {
            total: self.max_connections,
            per_address: self.max_connections_per_address,
            per_key: self.max_connections_per_key,
            proxies: self.trusted_proxies.clone(),
        }
    }

    /// How long they may take for what.
    pub(super) fn timeouts(&self) -> Timeouts {
        Timeouts {
            header: self.header_timeout,
            idle: self.idle_timeout,
            send: self.reader_timeout,
            total: self.connection_timeout,
        }
    }
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            origins: Vec::new(),
            has_tls: false,
            without_tls: false,
            max_body_bytes: 4 * 1024 * 1024,
            max_connections: 16_384,
            max_connections_per_address: 4096,
            max_connections_per_key: 4096,
            trusted_proxies: Vec::new(),
            max_requests: 4096,
            max_waiting: 16_384,
            max_failed_keys: failed_keys::MOST,
            max_mcp_sessions: MAX_SESSIONS,
            header_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(90),
            connection_timeout: Duration::from_secs(24 * 3600),
            body_timeout: Duration::from_secs(60),
            reader_timeout: Duration::from_secs(30),
            drain: Duration::from_secs(30),
            approvals_expire: Duration::from_secs(24 * 3600),
            four_eyes: false,
            tenant_commands: false,
            event_listener_ttl: Duration::from_secs(600),
            oauth: OAuthSettings::default(),
        }
    }
}

impl HttpSettings {
    /// The scheme by which pages reach this server under a name. What is in front
    /// of it, and has TLS, serves the names that were set.
    pub(crate) fn scheme(&self, name: &str) -> &'static str {
        let in_front = || self.without_tls && self.is_own_name(name);
        if self.has_tls || in_front() { "https" } else { "http" }
    }

    /// Whether this is a name that was set, with or without its last dot.
    pub(crate) fn is_own_name(&self, name: &str) -> bool {
        let name = name.trim_end_matches('.');
        self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}
