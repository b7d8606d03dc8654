//! [`Servers`]: all MCP servers that the providers of an engine name.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use windlass::definition::McpServer;
use windlass::{Engine, Error, TenantId};

use super::authorize::LoginOptions;
use super::failure::gone;
use super::keeper::{Keeper, Start};
use super::notebook::{Note, Notebook};
use super::server::{Server, Ways};
use super::tokens::{Account, Tokens};
use crate::outbound::{Outbound, OutboundPolicy};

/// Timeout for stopping all servers together.
const STOP: Duration = Duration::from_secs(8);
/// How many connections to remote servers there are at least at once: each has one
/// for its news, for as long as it is up.
const MAX_CONNECTIONS: usize = 4096;

/// The servers of an engine. Dropping it stops them.
pub struct Servers {
    shared: Arc<Shared>,
    _guard: DropGuard,
}

struct Shared {
    engine: Engine,
    ways: Ways,
    start: Start,
    known: Mutex<HashMap<Name, SupervisedServer>>,
}

type Name = (Option<TenantId>, String);

struct SupervisedServer {
    server: Arc<Server>,
    settings: Arc<McpServer>,
    stop: CancellationToken,
}

impl Servers {
    /// Follows the engine's providers from now on, and supervises their servers in the
    /// background. Needs a Tokio runtime.
    pub fn follow(
        engine: &Engine,
        notebook: Arc<dyn Notebook>,
        tokens: Arc<dyn Tokens>,
        mut outbound: OutboundPolicy,
        start: Start,
    ) -> Self {
        outbound.max_connections = outbound.max_connections.max(MAX_CONNECTIONS);
        let stop = CancellationToken::new();
        let shared = Arc::new(Shared {
            engine: engine.clone(),
            ways: Ways {
                outbound: Outbound::new(outbound),
                notebook,
                tokens,
                logins: Arc::default(),
                start_queue: Arc::default(),
                stop: stop.clone(),
                keepers: TaskTracker::new(),
            },
            start,
            known: Mutex::default(),
        });
        let mut changes = engine.providers().changes();
        shared.sync();
        tokio::spawn({
            let shared = Arc::clone(&shared);
            async move {
                loop {
                    tokio::select! {
                        changed = changes.changed() => if changed.is_err() { return },
                        () = shared.ways.stop.cancelled() => return,
                    }
                    shared.sync();
                }
            }
        });
        Self { shared, _guard: stop.drop_guard() }
    }

    /// The server of this name that a tenant sees: its own, else the shared one.
    pub fn get_for(&self, tenant: &TenantId, name: &str) -> Option<Arc<Server>> {
        let known = self.shared.known.lock();
        let of = |owner: Option<TenantId>| known.get(&(owner, name.to_owned()));
        let entry = of(Some(tenant.clone())).or_else(|| of(None));
        entry.map(|entry| Arc::clone(&entry.server))
    }

    /// All servers that a tenant sees, by name.
    pub fn list_for(&self, tenant: &TenantId) -> Vec<Arc<Server>> {
        let known = self.shared.known.lock();
        let mut servers: Vec<Arc<Server>> = (known.iter())
            .filter(|((owner, name), _)| match owner {
                Some(owner) => owner == tenant,
                None => !known.contains_key(&(Some(tenant.clone()), name.clone())),
            })
            .map(|(_, entry)| Arc::clone(&entry.server))
            .collect();
        servers.sort_by(|a, b| a.name().cmp(b.name()));
        servers
    }

    /// Waits, up to a limit, until the tools of all servers are known or have failed to
    /// load. Returns the failures.
    pub async fn listed(&self, limit: Duration) -> Vec<Error> {
        let servers: Vec<Arc<Server>> =
            self.shared.known.lock().values().map(|entry| Arc::clone(&entry.server)).collect();
        let mut waiting: JoinSet<Result<(), Error>> = servers
            .into_iter()
            .map(|server| {
                let start = self.shared.start;
                async move {
                    let listed = server.listed_in_turn(start);
                    timeout(limit, listed).await.unwrap_or_else(|_| {
                        Err(gone(server.name(), &format!("did not start within {limit:?}")))
                    })
                }
            })
            .collect();
        let mut errors = Vec::new();
        while let Some(done) = waiting.join_next().await {
            errors.extend(done.ok().and_then(Result::err));
        }
        errors
    }

    /// Waits a little for servers of a tenant that were registered only just now, so that
    /// the first list has their tools.
    pub async fn settled_for(&self, tenant: &TenantId) {
        let servers = self.list_for(tenant);
        join_all(servers.iter().map(|server| server.settled())).await;
    }

    /// Enables logins started by calls: a call whose server needs one fails with the URL
    /// at which its caller logs in. Pass the redirect to [`Servers::came_back`].
    pub fn offer_logins(&self, options: LoginOptions) {
        self.shared.ways.logins.offer(options);
    }

    /// Whose login a browser comes back from, where it comes back to this address.
    pub fn login_of(&self, address: &str) -> Option<Account> {
        self.shared.ways.logins.account_of(address)
    }

    /// A browser has come back to this address; none where that is about
    /// something else.
    pub async fn came_back(&self, address: &str) -> Option<Result<(), Error>> {
        let login = self.shared.ways.logins.take(address)?;
        Some(login.finish(address).await)
    }

    /// Stops all servers.
    pub async fn stop(&self) {
        self.shared.ways.stop.cancel();
        self.shared.ways.keepers.close();
        let _ = timeout(STOP, self.shared.ways.keepers.wait()).await;
    }
}

impl Shared {
    /// Starts keepers for new servers and stops those of removed ones.
    fn sync(self: &Arc<Self>) {
        let wanted: HashMap<Name, Arc<McpServer>> = (self.engine.providers().all().into_iter())
            .filter_map(|(owner, provider)| {
                let settings = provider.mcp.as_deref().filter(|settings| !settings.disabled)?;
                Some(((owner, provider.name.clone()), Arc::new(settings.clone())))
            })
            .collect();
        let mut known = self.known.lock();
        known.retain(|name, entry| {
            let same = wanted.get(name).is_some_and(|settings| *settings == entry.settings);
            if !same {
                entry.stop.cancel();
            }
            same
        });
        for (name, settings) in wanted {
            known.entry(name.clone()).or_insert_with(|| self.start(name, settings));
        }
    }

    fn start(&self, (owner, name): Name, settings: Arc<McpServer>) -> SupervisedServer {
        let tenant = owner.clone().unwrap_or_default();
        let account = Account { tenant, server: name.as_str().into(), user: None };
        let (own, ways) = (Arc::clone(&settings), self.ways.clone());
        let server = Server::new(&name, owner, own, ways, account);
        let stop = self.ways.stop.child_token();
        let keeper = Keeper {
            server: Arc::clone(&server),
            engine: Some(self.engine.clone()),
            notebook: Arc::clone(&self.ways.notebook),
            stop: stop.clone(),
            start: self.start,
            note: Note::default(),
            chose_older: false,
        };
        self.ways.keepers.spawn(keeper.run());
        SupervisedServer { server, settings, stop }
    }
}
