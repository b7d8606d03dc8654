//! [`Server`]: handle of one MCP server, running or not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicI32;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore, SemaphorePermit, broadcast, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass::definition::{Asking, McpServer, McpTransport};
use windlass::{Caller, Error, ErrorKind, TenantId, TraceContext, Veil};

use super::accounts::AccountConnections;
use super::ask::Asker;
use super::authorize::{self, Login, LoginOptions};
use super::call::Rounds;
use super::connection::{self, Connection};
use super::failure::{gone, resting};
use super::http::{self, Wire};
use super::in_flight::InFlightRequest;
use super::inputs::Filling;
use super::keeper::Start;
use super::list::List;
use super::logins::Logins;
use super::notebook::{Notebook, Offers};
use super::quarantine::ToolChange;
use super::start_queue::StartQueue;
use super::stdio::MAX_MESSAGE;
use super::tokens::{Account, Store, Tokens};
use super::watching::{Watched, Watching};
use crate::outbound::Outbound;

/// Longest wait of a call for a server that is in backoff.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long after its registration a server may delay a list of tools.
const SETTLING: Duration = Duration::from_secs(5);
/// Capacity of the notification channel, for slow receivers.
const NEWS: usize = 64;

/// A notification of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Its list of tools has changed.
    Tools,
    /// Its list of prompts has changed.
    Prompts,
    /// Its list of resources has changed.
    Resources,
    /// The content of a resource has changed.
    Updated(Arc<str>),
}

/// The state of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Not running, since nobody needs it.
    Idle,
    /// Starting.
    Starting,
    /// Running.
    Up,
    /// Failed to start, and why.
    Down(String),
    /// Removed.
    Gone,
}

/// An MCP server.
pub struct Server {
    name: Arc<str>,
    owner: Option<TenantId>,
    /// The account whose login it uses.
    account: Account,
    /// The same server, as other accounts are logged in to it.
    pub(super) accounts: AccountConnections,
    settings: Arc<McpServer>,
    /// What is filled into its settings, and redacted in what it sends.
    pub(super) filling: Filling,
    named: Instant,
    pub(super) link: watch::Sender<Link>,
    /// The process of its last start; 0 while it has none.
    pub(super) process: Arc<AtomicI32>,
    /// Whether its tools are known.
    pub(super) listed: watch::Sender<Listed>,
    /// Wakes the keeper.
    pub(super) needed: Notify,
    /// Ends the backoff after a failed start.
    pub(super) hurry: Notify,
    /// Quarantined tools by name, as they are now.
    pub(super) held: Mutex<BTreeMap<String, Value>>,
    /// Their differences from what was accepted.
    pub(super) changes: Mutex<Vec<ToolChange>>,
    /// Tools that an operator has approved; `accepted` tells the keeper.
    pub(super) accepting: Mutex<Vec<String>>,
    pub(super) accepted: Notify,
    /// Tools that another account's connection has listed; `learns` tells the keeper.
    pub(super) learned: Mutex<Option<Vec<Value>>>,
    pub(super) learns: Notify,
    /// Notified when a request of the server had no channel back to us.
    pub(super) cannot_ask: Notify,
    /// Its capabilities besides tools, as far as is known.
    pub(super) offers: Mutex<Offers>,
    /// What was odd about its last list.
    pub(super) odd: Mutex<Vec<String>>,
    /// Which tools of the list it has now are none, and why.
    pub(super) left_out: Mutex<Vec<String>>,
    /// Subscribed resources.
    pub(super) watched: Watched,
    /// Notified when the subscriptions change.
    pub(super) watching: Notify,
    /// The last authentication challenge.
    challenge: Mutex<Option<String>>,
    /// Serializes requests, if the operator wants one at a time.
    turns: Semaphore,
    pub(super) ways: Ways,
    pub(super) news: broadcast::Sender<News>,
}

/// How much is known of a server's tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    /// The notebook has not been read yet.
    Unread,
    /// Nothing is remembered; the server has to be asked.
    Unknown,
    Known,
}

/// What all servers share: HTTP policy, stores, and the tasks of their keepers.
#[derive(Clone)]
pub(super) struct Ways {
    pub(super) outbound: Outbound,
    pub(super) notebook: Arc<dyn Notebook>,
    pub(super) tokens: Arc<dyn Tokens>,
    pub(super) logins: Arc<Logins>,
    pub(super) start_queue: Arc<StartQueue>,
    pub(super) stop: CancellationToken,
    pub(super) keepers: TaskTracker,
}

/// State of the connection, as calls see it.
#[derive(Clone)]
pub(super) enum Link {
    Idle,
    Starting,
    Up(Arc<Connection>),
    Down { why: Error, until: Instant },
    Gone,
}

impl Server {
    pub(super) fn new(
        name: &str,
        owner: Option<TenantId>,
        settings: Arc<McpServer>,
        ways: Ways,
        account: Account,
    ) -> Arc<Self> {
        let filling = Filling::new(&settings, owner.is_none());
        Arc::new(Self {
            name: name.into(),
            filling,
            owner,
            account,
            accounts: AccountConnections::default(),
            settings,
            named: Instant::now(),
            link: watch::Sender::new(Link::Idle),
            process: Arc::default(),
            listed: watch::Sender::new(Listed::Unread),
            needed: Notify::new(),
            hurry: Notify::new(),
            held: Mutex::default(),
            changes: Mutex::default(),
            accepting: Mutex::default(),
            accepted: Notify::new(),
            learned: Mutex::default(),
            learns: Notify::new(),
            cannot_ask: Notify::new(),
            offers: Mutex::default(),
            odd: Mutex::default(),
            left_out: Mutex::default(),
            watched: Watched::default(),
            watching: Notify::new(),
            challenge: Mutex::default(),
            turns: Semaphore::new(1),
            ways,
            news: broadcast::Sender::new(NEWS),
        })
    }

    /// Its name, which is that of its provider.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tenant that owns it; `None` for a server of all tenants.
    pub fn owner(&self) -> Option<&TenantId> {
        self.owner.as_ref()
    }

    /// Its current state.
    pub fn state(&self) -> State {
        match &*self.link.borrow() {
            Link::Idle => State::Idle,
            Link::Starting => State::Starting,
            Link::Up(_) => State::Up,
            Link::Down { why, .. } => State::Down(why.message().to_owned()),
            Link::Gone => State::Gone,
        }
    }

    /// Waits until its tools are known, be it from the notebook or by starting it.
    pub async fn listed(&self) -> Result<(), Error> {
        let mut listed = self.listed.subscribe();
        // No server is started for what the notebook may answer.
        let read = listed.wait_for(|known| *known != Listed::Unread).await;
        if read.is_ok_and(|known| *known == Listed::Known) {
            return Ok(());
        }
        let known = async { listed.wait_for(|known| *known == Listed::Known).await.is_ok() };
        tokio::select! {
            biased;
            _ = known => Ok(()),
            connected = self.connection() => connected.map(drop),
        }
    }

    /// The same in its turn: a server that nobody calls does not hurry. It is started by
    /// its keeper, or here where keepers start only what is needed.
    pub(super) async fn listed_in_turn(&self, start: Start) -> Result<(), Error> {
        let mut listed = self.listed.subscribe();
        let read = listed.wait_for(|known| *known != Listed::Unread).await;
        if read.is_ok_and(|known| *known == Listed::Known) {
            return Ok(());
        }
        match start {
            Start::Unknown => self.started().await,
            Start::Needed => self.ways.start_queue.place(self).await,
        }
        self.listed().await
    }

    /// Ends once its start has: it is up, or it failed.
    pub(super) fn started(&self) -> impl Future<Output = ()> + use<> {
        let mut link = self.link.subscribe();
        async move {
            let _ = link.wait_for(|link| !matches!(link, Link::Idle | Link::Starting)).await;
        }
    }

    /// Waits a little for the tools of a server that was registered only just now. A
    /// server that fails to start, or is slow, delays no list.
    pub(super) async fn settled(&self) {
        let mut listed = self.listed.subscribe();
        let mut link = self.link.subscribe();
        let known = listed.wait_for(|known| *known == Listed::Known);
        let down = link.wait_for(|link| matches!(link, Link::Down { .. } | Link::Gone));
        tokio::select! {
            _ = known => {}
            _ = down => {}
            () = tokio::time::sleep_until(self.named + SETTLING) => {}
        }
    }

    /// Its notifications, from now on.
    pub fn news(&self) -> broadcast::Receiver<News> {
        self.news.subscribe()
    }

    /// The quarantined tools by name, as the server declares them now. Calls of them are
    /// refused.
    pub fn held(&self) -> BTreeMap<String, Value> {
        self.held.lock().clone()
    }

    /// The differences of the quarantined tools.
    pub fn changes(&self) -> Vec<ToolChange> {
        self.changes.lock().clone()
    }

    pub(super) fn is_held(&self, tool: &str) -> bool {
        self.settings.quarantine && self.held.lock().contains_key(tool)
    }

    /// Accepts quarantined tools as they are now, on behalf of an operator: those of
    /// these names, or all if there are no names. Returns which.
    pub fn accept(&self, names: &[String]) -> Vec<String> {
        let held = self.held();
        let wanted = |name: &String| names.is_empty() || names.contains(name);
        let accepted: Vec<String> = held.into_keys().filter(wanted).collect();
        self.accepting.lock().extend(accepted.iter().cloned());
        self.accepted.notify_one();
        accepted
    }

    /// Its self-description: `capabilities`, `serverInfo`, `instructions`.
    pub async fn about(&self) -> Result<Value, Error> {
        let connection = self.connection().await?;
        Ok(serde_json::to_value(connection.info()).unwrap_or_default())
    }

    /// Sends a request other than a tool call, such as `prompts/list` or
    /// `resources/read`. The asker answers the server's own requests (elicitation,
    /// sampling).
    pub async fn ask(
        &self,
        method: &str,
        params: &Value,
        asker: Option<Arc<Asker>>,
        trace: Option<TraceContext>,
    ) -> Result<Value, Error> {
        let _turn = self.turn().await;
        let connection = self.connection().await?;
        let flight = InFlightRequest::unheard(asker.clone());
        let mut rounds = Rounds::new(&connection, self, asker).traced(trace);
        loop {
            let mut params = params.clone();
            if let (Value::Object(map), Some(answers)) = (&mut params, rounds.answers.take()) {
                map.insert("inputResponses".to_owned(), json!(answers));
            }
            if let (Value::Object(map), Some(state)) = (&mut params, rounds.state.take()) {
                map.insert("requestState".to_owned(), state.into());
            }
            let request = connection::request(method, &params)?;
            let result =
                connection.request(request, Some(Arc::clone(&flight)), rounds.meta()).await?;
            if let Some(result) = rounds.next(result).await? {
                return Ok(result);
            }
        }
    }

    /// Its capabilities besides tools, as far as is known.
    pub fn offers(&self) -> Offers {
        *self.offers.lock()
    }

    /// What was left out of its last list of tools, and why.
    pub fn odd(&self) -> Vec<String> {
        let mut odd = self.odd.lock().clone();
        odd.extend(self.left_out.lock().iter().cloned());
        odd
    }

    /// Starts it if it is not running, so that its tools are listed again: what is
    /// remembered may be stale.
    pub async fn listed_anew(&self) -> Result<(), Error> {
        self.connection().await.map(drop)
    }

    /// All pages of one of its lists.
    pub async fn list(&self, method: &str, items: &str) -> Result<Vec<Value>, Error> {
        let connection = self.connection().await?;
        List::of(&connection, method, items).await.map(|list| list.items)
    }

    /// Subscribes to a resource until the returned guard is dropped. Changes arrive as
    /// notifications.
    pub async fn watch(self: &Arc<Self>, uri: &str) -> Result<Watching, Error> {
        Watching::begin(self, uri).await
    }

    /// Starts a login. The tokens serve everybody who may use the server.
    pub async fn login(self: &Arc<Self>, options: LoginOptions) -> Result<Login, Error> {
        let challenge = self.challenge();
        authorize::begin(self, self.account.clone(), challenge.as_deref(), options).await
    }

    /// The error for a call of this caller that failed for want of a login, with the URL
    /// at which they log in, if there is one.
    pub(super) async fn ask_to_log_in(
        self: &Arc<Self>,
        caller: &Caller,
        challenge: &str,
        failed: Error,
    ) -> Error {
        let account = self.account_of(caller);
        match self.ways.logins.url(self, account, Some(challenge)).await {
            Some(Ok(url)) => authorize::authorization_required(&self.name, &url),
            Some(Err(error)) => error,
            None => failed,
        }
    }

    /// The last authentication challenge; `None` while the server accepts our requests.
    pub fn challenge(&self) -> Option<String> {
        self.challenge.lock().clone()
    }

    pub(super) fn challenged(&self, challenge: String) {
        *self.challenge.lock() = Some(challenge);
    }

    /// Called after a login. If it is the shared one, the server is tried again at once.
    pub(super) fn logged_in(&self, account: &Account) {
        if *account != self.account {
            return self.accounts.forget(account);
        }
        *self.challenge.lock() = None;
        if let Link::Up(connection) = &*self.link.borrow() {
            connection.end("is asked with other tokens");
        }
        self.hurry.notify_one();
    }

    pub(super) fn account(&self) -> &Account {
        &self.account
    }

    /// The token store of an account.
    pub(super) fn store(&self, account: Account) -> Store {
        Store::new(Arc::clone(&self.ways.tokens), account)
    }

    /// The URL of a remote server, and the HTTP client for it.
    pub(super) fn remote(&self) -> Result<(String, Wire), Error> {
        let McpTransport::Url { url, .. } = &self.settings.transport else {
            let why = format!("`{}` is a process; nobody logs in to it", self.name);
            return Err(Error::new(ErrorKind::InvalidArguments, why));
        };
        let url = self.expanded(url)?;
        let wire = self.wire(&url, MAX_MESSAGE);
        Ok((url, wire))
    }

    pub(super) fn wire(&self, url: &str, max_message: usize) -> Wire {
        let veil = self.veil();
        http::wire(&self.ways.outbound, url, self.owner.as_ref(), max_message, veil)
    }

    /// Redacts its secrets.
    pub(super) fn veil(&self) -> Arc<Veil> {
        self.filling.veil()
    }

    /// Expands inputs, and environment variables in the operator's own definitions.
    pub(super) fn expanded(&self, text: &str) -> Result<String, Error> {
        self.filling.expanded(text)
    }

    pub(super) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    pub(super) fn settings(&self) -> &Arc<McpServer> {
        &self.settings
    }

    /// Whether it is a child process and not a URL.
    pub(super) fn is_process(&self) -> bool {
        matches!(self.settings.transport, McpTransport::Command { .. })
    }

    /// The roots (folders) that it is told about.
    pub(super) fn roots(&self) -> Vec<Value> {
        self.settings.roots.iter().map(|uri| json!({"uri": uri})).collect()
    }

    /// The client capabilities of a caller, restricted to what the operator allows this
    /// server.
    pub(super) fn allowed(&self, capabilities: &Value) -> Value {
        let refused = BTreeMap::from([
            ("elicitation", self.settings.elicitation == Asking::Refuse),
            ("sampling", self.settings.sampling == Asking::Refuse),
        ]);
        let mut allowed = capabilities.clone();
        if let Value::Object(map) = &mut allowed {
            map.retain(|key, _| refused.get(key.as_str()) != Some(&true));
        }
        allowed
    }

    /// If the operator wants one request at a time, waits for the others. The guard
    /// releases the turn.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        match self.settings.one_at_a_time {
            true => self.turns.acquire().await.ok(),
            false => None,
        }
    }

    /// The connection, opened if necessary. Waits for a server that is starting, but not
    /// for one that is known to be down.
    pub(super) async fn connection(&self) -> Result<Arc<Connection>, Error> {
        let mut link = self.link.subscribe();
        let mut failed = None;
        loop {
            let now = link.borrow_and_update().clone();
            match now {
                Link::Up(connection) if !connection.is_closed() => return Ok(connection),
                Link::Gone => return Err(gone(&self.name, "was taken away")),
                Link::Down { why, until } => {
                    let again = until.saturating_duration_since(Instant::now());
                    // Worth waiting for once, not twice.
                    if failed.is_some() || again > PATIENCE {
                        return Err(resting(&self.name, why, again));
                    }
                    failed = Some(why);
                }
                Link::Idle | Link::Starting | Link::Up(_) => {}
            }
            self.needed.notify_one();
            if link.changed().await.is_err() {
                return Err(gone(&self.name, "was taken away"));
            }
        }
    }
}
