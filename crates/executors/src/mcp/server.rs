//! [`Server`]: one server of tools, whether it runs at the moment or not.

use std::collections::BTreeMap;
use std::sync::Arc;
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
use super::expand::expand;
use super::failure::{gone, resting};
use super::http::{self, Wire};
use super::in_flight::InFlightRequest;
use super::list::List;
use super::logins::Logins;
use super::notebook::{Notebook, Offers};
use super::quarantine::ToolChange;
use super::secrets;
use super::start_queue::StartQueue;
use super::stdio::MAX_MESSAGE;
use super::tokens::{Account, Store, Tokens};
use super::watching::{Watched, Watching};
use crate::outbound::OutboundPolicy;

/// What a call waits for at most while a server is given another chance.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long after a server was named a list waits for it.
const SETTLING: Duration = Duration::from_secs(5);
/// How much news a slow listener may miss.
const NEWS: usize = 64;

/// Something that a server said of its own accord.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Its tools have changed.
    Tools,
    /// Its prompts have changed.
    Prompts,
    /// Its resources have changed.
    Resources,
    /// A resource has changed.
    Updated(Arc<str>),
}

/// How a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Nobody needs it at the moment.
    Idle,
    /// It is being started.
    Starting,
    /// It runs.
    Up,
    /// It could not be started, and why.
    Down(String),
    /// It was taken away.
    Gone,
}

/// A server of tools.
pub struct Server {
    name: Arc<str>,
    owner: Option<TenantId>,
    /// As whom it is used, where it wants a login.
    account: Account,
    /// The same server, as others use it.
    pub(super) accounts: AccountConnections,
    settings: Arc<McpServer>,
    /// Hides what it is told in secret in what it says.
    veil: Arc<Veil>,
    named: Instant,
    pub(super) link: watch::Sender<Link>,
    /// Whether its tools are known.
    pub(super) listed: watch::Sender<Listed>,
    /// Wakes the keeper.
    pub(super) needed: Notify,
    /// Ends the pause after a failed start.
    pub(super) hurry: Notify,
    /// Tools that have changed since they were accepted, as they are now.
    pub(super) held: Mutex<BTreeMap<String, Value>>,
    /// What is another about them.
    pub(super) changes: Mutex<Vec<ToolChange>>,
    /// Those that an operator has looked at, and a word to the keeper.
    pub(super) accepting: Mutex<Vec<String>>,
    pub(super) accepted: Notify,
    /// Tools that somebody else's connection has listed, and a word to the keeper.
    pub(super) learned: Mutex<Option<Vec<Value>>>,
    pub(super) learns: Notify,
    /// Tells that a question of it had no way back to us.
    pub(super) cannot_ask: Notify,
    /// What it has besides tools, as far as is known.
    pub(super) offers: Mutex<Offers>,
    /// What was left out of its last list.
    pub(super) odd: Mutex<Vec<String>>,
    /// Resources that somebody watches.
    pub(super) watched: Watched,
    /// Tells that they are others.
    pub(super) watching: Notify,
    /// What it said when it wanted somebody to log in.
    challenge: Mutex<Option<String>>,
    /// Whose turn it is, where requests take turns.
    turns: Semaphore,
    pub(super) ways: Ways,
    pub(super) news: broadcast::Sender<News>,
}

/// What is known of a server's tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    /// The notebook has not been read yet.
    Unread,
    /// The server has to be asked.
    Unknown,
    Known,
}

/// What servers share: how they are reached, where their tokens are, and who
/// keeps them.
#[derive(Clone)]
pub(super) struct Ways {
    pub(super) outbound: Arc<OutboundPolicy>,
    pub(super) notebook: Arc<dyn Notebook>,
    pub(super) tokens: Arc<dyn Tokens>,
    pub(super) logins: Arc<Logins>,
    pub(super) start_queue: Arc<StartQueue>,
    pub(super) stop: CancellationToken,
    pub(super) keepers: TaskTracker,
}

/// The connection, as calls see it.
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
        // Variables are for the operator's own definitions.
        let variable = |name: &str| std::env::var(name).ok().filter(|_| owner.is_none());
        let veil = Arc::new(Veil::new(&secrets::of(&settings.transport, variable)));
        Arc::new(Self {
            name: name.into(),
            veil,
            owner,
            account,
            accounts: AccountConnections::default(),
            settings,
            named: Instant::now(),
            link: watch::Sender::new(Link::Idle),
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
            watched: Watched::default(),
            watching: Notify::new(),
            challenge: Mutex::default(),
            turns: Semaphore::new(1),
            ways,
            news: broadcast::Sender::new(NEWS),
        })
    }

    /// Its name, which is the provider's.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whose it is; none for everybody's.
    pub fn owner(&self) -> Option<&TenantId> {
        self.owner.as_ref()
    }

    /// How it is at the moment.
    pub fn state(&self) -> State {
        match &*self.link.borrow() {
            Link::Idle => State::Idle,
            Link::Starting => State::Starting,
            Link::Up(_) => State::Up,
            Link::Down { why, .. } => State::Down(why.message().to_owned()),
            Link::Gone => State::Gone,
        }
    }

    /// Waits until its tools are known, from an earlier time or because it was
    /// started and asked.
    pub async fn listed(&self) -> Result<(), Error> {
        let mut listed = self.listed.subscribe();
        // Nobody is started for what the notebook will say.
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

    /// Waits a little for the tools of a server that nobody knows yet and that has
    /// only just been named. One that cannot be started, or takes its time, holds
    /// up no list.
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

    /// What it says of its own accord, from now on.
    pub fn news(&self) -> broadcast::Receiver<News> {
        self.news.subscribe()
    }

    /// The tools that have changed since they were accepted, as the server
    /// declares them now, by name. Their calls are refused.
    pub fn held(&self) -> BTreeMap<String, Value> {
        self.held.lock().clone()
    }

    /// What is another about them than was accepted.
    pub fn changes(&self) -> Vec<ToolChange> {
        self.changes.lock().clone()
    }

    pub(super) fn is_held(&self, tool: &str) -> bool {
        self.settings.quarantine && self.held.lock().contains_key(tool)
    }

    /// Accepts them as they are now, in the name of an operator: those of these
    /// names, or all where there are none. Says which.
    pub fn accept(&self, names: &[String]) -> Vec<String> {
        let held = self.held();
        let wanted = |name: &String| names.is_empty() || names.contains(name);
        let accepted: Vec<String> = held.into_keys().filter(wanted).collect();
        self.accepting.lock().extend(accepted.iter().cloned());
        self.accepted.notify_one();
        accepted
    }

    /// What it says of itself: `capabilities`, `serverInfo`, `instructions`.
    pub async fn about(&self) -> Result<Value, Error> {
        let connection = self.connection().await?;
        Ok(serde_json::to_value(connection.info()).unwrap_or_default())
    }

    /// Asks it for something else than a tool: a list of prompts, a resource.
    /// Where it asks back, the asker answers.
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

    /// What it has besides tools, as far as is known.
    pub fn offers(&self) -> Offers {
        *self.offers.lock()
    }

    /// What was left out of its last list of tools, and why.
    pub fn odd(&self) -> Vec<String> {
        self.odd.lock().clone()
    }

    /// Starts it, where it does not run, so that it is asked for its tools now:
    /// what was remembered of them may be too old.
    pub async fn listed_anew(&self) -> Result<(), Error> {
        self.connection().await.map(drop)
    }

    /// All pages of one of its lists.
    pub async fn list(&self, method: &str, items: &str) -> Result<Vec<Value>, Error> {
        let connection = self.connection().await?;
        List::of(&connection, method, items).await.map(|list| list.items)
    }

    /// Watches a resource until what this returns is dropped: when it changes,
    /// that is news.
    pub async fn watch(self: &Arc<Self>, uri: &str) -> Result<Watching, Error> {
        Watching::begin(self, uri).await
    }

    /// Begins a login for a server that wants one. Whoever may use the server
    /// gets to use what it allows then.
    pub async fn login(self: &Arc<Self>, options: LoginOptions) -> Result<Login, Error> {
        let challenge = self.challenge();
        authorize::begin(self, self.account.clone(), challenge.as_deref(), options).await
    }

    /// What a call of this caller ends with that failed for want of a login: the
    /// address at which they log in, where there is one.
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

    /// What the server said when it wanted somebody to log in; nothing while it
    /// is content.
    pub fn challenge(&self) -> Option<String> {
        self.challenge.lock().clone()
    }

    pub(super) fn challenged(&self, challenge: String) {
        *self.challenge.lock() = Some(challenge);
    }

    /// Somebody has logged in: as everybody, and the server is tried at once, or
    /// as themselves.
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

    /// The tokens of an account.
    pub(super) fn store(&self, account: Account) -> Store {
        Store::new(Arc::clone(&self.ways.tokens), account)
    }

    /// The address of a remote server, and the way there.
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
        let veil = Arc::clone(&self.veil);
        http::wire(&self.ways.outbound, url, self.owner.is_none(), max_message, veil)
    }

    /// What hides its secrets.
    pub(super) fn veil(&self) -> &Arc<Veil> {
        &self.veil
    }

    /// Variables are for the operator's own definitions.
    pub(super) fn expanded(&self, text: &str) -> Result<String, Error> {
        match self.owner {
            Some(_) => Ok(text.to_owned()),
            None => expand(text, |name| std::env::var(name).ok()),
        }
    }

    pub(super) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    pub(super) fn settings(&self) -> &Arc<McpServer> {
        &self.settings
    }

    /// Whether it is a process, and no address.
    pub(super) fn is_process(&self) -> bool {
        matches!(self.settings.transport, McpTransport::Command { .. })
    }

    /// The folders that it is told of.
    pub(super) fn roots(&self) -> Vec<Value> {
        self.settings.roots.iter().map(|uri| json!({"uri": uri})).collect()
    }

    /// What a caller can be asked, as far as the operator lets this server ask.
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

    /// Waits until no other request is under way, where the operator wants one at
    /// a time. The turn is over when what is returned is dropped.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        match self.settings.one_at_a_time {
            true => self.turns.acquire().await.ok(),
            false => None,
        }
    }

    /// A connection: the one there is, or a new one. It waits for a server that
    /// starts, and not for one that is known to be down.
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
                    // One more try is worth waiting for, a second is not.
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
