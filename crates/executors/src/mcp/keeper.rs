//! The keeper of a server: connects when it is needed, keeps its tools up to
//! date, and begins again when it has gone.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::SubscriptionFilter;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use windlass::definition::McpProtocol;
use windlass::{Engine, Error, ErrorKind};

use super::connect::may_ask;
use super::connection::Connection;
use super::failure::gone;
use super::handshake::Era;
use super::list::List;
use super::notebook::{Note, Notebook};
use super::server::{Link, News, Server};

/// How long a server may take to start: it may have to be fetched first.
const START: Duration = Duration::from_secs(60);
/// The first pause after a failed start; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// A server that lived for less has failed to start, whatever it said.
const STABLE: Duration = Duration::from_secs(5);
/// After this long without a word a server is asked whether it is well.
const SILENCE: Duration = Duration::from_secs(30);
/// And has this long to say so.
const PONG: Duration = Duration::from_secs(10);
/// Changes that follow each other closely are looked at once.
const SETTLE: Duration = Duration::from_millis(100);
/// After this long without a change, the next one is looked at without a pause.
const QUIET: Duration = Duration::from_secs(10);

pub(super) struct Keeper {
    pub(super) server: Arc<Server>,
    /// Where its tools are published; nowhere where another keeper does that.
    pub(super) engine: Option<Engine>,
    pub(super) notebook: Arc<dyn Notebook>,
    pub(super) stop: CancellationToken,
    pub(super) start: Start,
    pub(super) note: Note,
    /// Whether the older era was chosen where the server speaks both. It may have
    /// been a mistake, and is made once.
    pub(super) chose_older: bool,
}

/// Which servers are started before a call needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Those whose tools are not known yet.
    Unknown,
    /// None.
    Needed,
}

impl Keeper {
    /// Keeps the server until it is to stop.
    pub(super) async fn run(mut self) {
        self.recall().await;
        let mut failures = 0;
        // What nobody knows anything about has to be asked.
        let mut needed = self.start == Start::Unknown && self.note.tools.is_empty();
        let stop = self.stop.clone();
        loop {
            if !needed {
                let server = Arc::clone(&self.server);
                tokio::select! {
                    () = server.needed.notified() => {}
                    () = server.accepted.notified() => {
                        self.accept().await;
                        continue;
                    }
                    () = server.learns.notified() => {
                        self.learn().await;
                        continue;
                    }
                    () = stop.cancelled() => break,
                }
            }
            if needed {
                tokio::select! {
                    () = self.server.ways.start_queue.turn(&self.server) => {}
                    () = stop.cancelled() => break,
                }
            }
            self.server.link.send_replace(Link::Starting);
            let lived = Instant::now();
            let ended = tokio::select! {
                ended = self.live() => ended,
                () = stop.cancelled() => break,
            };
            let veil = self.server.veil();
            let ended = match ended {
                Ok(why) => Ok(veil.over_error(why)),
                Err(why) => Err(veil.over_error(why)),
            };
            // One that never came up has failed, however long it took for that.
            let was_stable = ended.is_ok() && lived.elapsed() > STABLE;
            failures = if was_stable { 0 } else { failures + 1 };
            // One that worked and then went is started at once by the next call.
            let (pause, why) = match ended {
                Ok(why) if failures <= 1 => {
                    tracing::warn!(server = self.server.name(), error = %why, "a server has gone");
                    self.server.link.send_replace(Link::Idle);
                    needed = false;
                    continue;
                }
                Ok(why) | Err(why) => (pause(failures), why),
            };
            tracing::warn!(server = self.server.name(), error = %why, ?pause, "a server is down");
            let until = Instant::now() + pause;
            self.server.link.send_replace(Link::Down { why, until });
            needed = true;
            self.offer_login();
            let server = Arc::clone(&self.server);
            loop {
                tokio::select! {
                    () = sleep_until(until) => break,
                    () = server.hurry.notified() => {
                        failures = 0;
                        break;
                    }
                    () = server.learns.notified() => self.learn().await,
                    () = stop.cancelled() => break,
                }
            }
            if stop.is_cancelled() {
                break;
            }
        }
        let last = self.server.link.send_replace(Link::Gone);
        if let Link::Up(connection) = last {
            connection.close("was stopped").await;
        }
        self.publish_nothing();
    }

    /// One life of the server: why it could not be started, or why it ended.
    async fn live(&mut self) -> Result<Error, Error> {
        let limit = self.server.settings().start_timeout.unwrap_or(START);
        let mut news = self.server.news();
        let started = timeout(limit, async {
            let is_new = self.note.era.is_none();
            let mut connection = self.connect().await?;
            let mut ttl = self.refresh(&connection).await?;
            if is_new && self.asks_in_older_era(&connection) {
                self.choose_older();
                connection.close("is spoken to in the older era").await;
                connection = self.connect().await?;
                ttl = self.refresh(&connection).await?;
            }
            Ok::<_, Error>((connection, ttl))
        });
        let (connection, ttl) = started.await.unwrap_or_else(|_| {
            Err(gone(self.server.name(), &format!("did not start within {limit:?}")))
        })?;
        tracing::info!(server = self.server.name(), era = ?connection.era(), "a server is up");
        self.server.link.send_replace(Link::Up(Arc::clone(&connection)));
        let server = Arc::clone(&self.server);
        let mut listening = std::pin::pin!(listen(Arc::clone(&server), Arc::clone(&connection)));
        let mut due = Due::new(ttl);
        let mut is_leaving = false;
        loop {
            tokio::select! {
                () = connection.ended() => return Ok(connection.why_gone()),
                () = server.cannot_ask.notified() => {
                    is_leaving |= self.takes_older_era(&connection);
                }
                () = sleep(SETTLE), if is_leaving && connection.is_idle() => {
                    // Nobody begins here any more; who was about to is let through.
                    server.link.send_replace(Link::Starting);
                    sleep(SETTLE).await;
                    if connection.is_idle() {
                        connection.close("is spoken to in the older era from now on").await;
                        return Ok(connection.why_gone());
                    }
                    server.link.send_replace(Link::Up(Arc::clone(&connection)));
                }
                () = server.accepted.notified() => self.accept().await,
                () = server.learns.notified() => self.learn().await,
                heard = news.recv() => match heard {
                    Ok(News::Tools) | Err(RecvError::Lagged(_)) => due.changed(),
                    Ok(_) => {}
                    Err(RecvError::Closed) => return Ok(connection.why_gone()),
                },
                () = due.reached() => {
                    news = self.server.news();
                    match self.refresh_again(&connection).await {
                        Some(ttl) => due.refreshed(ttl),
                        None => due.failed(),
                    }
                }
                () = sleep(SILENCE) => {
                    if !is_well(&connection).await {
                        connection.close("does not answer any more").await;
                        return Ok(connection.why_gone());
                    }
                }
                () = &mut listening => {}
            }
        }
    }

    /// Whether a server that speaks both eras is known to ask its questions in the
    /// older one alone. FastMCP, which marks its tools, sends them to the client
    /// (`ctx.elicit`, `ctx.sample`), and the newer era has no way back for that.
    fn asks_in_older_era(&self, connection: &Connection) -> bool {
        let settings = self.server.settings();
        let is_marked = |tool: &serde_json::Value| {
            let meta = &tool["_meta"];
            meta["fastmcp"].is_object() || meta["_fastmcp"].is_object()
        };
        connection.era() == Era::Modern
            && settings.protocol == McpProtocol::Auto
            && may_ask(settings)
            && self.note.tools.iter().any(is_marked)
    }

    /// Decides for the older era where a server's questions do not work in the newer
    /// one, unless the operator wants that. Says whether it has to be greeted anew.
    fn takes_older_era(&mut self, connection: &Connection) -> bool {
        let is_free = self.server.settings().protocol == McpProtocol::Auto && !self.chose_older;
        if !is_free || connection.era() == Era::Legacy {
            return false;
        }
        tracing::warn!(
            server = self.server.name(),
            "it cannot ask in the newer era, and is spoken to in the older one from now on"
        );
        self.choose_older();
        true
    }

    /// The next connection is of the older era, or of the newer one again where the
    /// server refuses it.
    fn choose_older(&mut self) {
        self.note.era = Some(Era::Legacy);
        self.chose_older = true;
    }

    /// Asks for the tools and publishes them; says how long they stay good.
    async fn refresh(&mut self, connection: &Connection) -> Result<Option<Duration>, Error> {
        if self.engine.is_none() {
            return Ok(None);
        }
        if connection.info().capabilities.tools.is_none() {
            self.publish(Vec::new()).await;
            return Ok(None);
        }
        let list = List::of_tools(connection).await?;
        for odd in &list.odd {
            tracing::warn!(server = self.server.name(), "{odd}");
        }
        self.server.odd.lock().clone_from(&list.odd);
        self.publish(list.items).await;
        Ok(list.ttl)
    }

    /// The same for a server that runs: if it fails, the tools stay as they are.
    async fn refresh_again(&mut self, connection: &Connection) -> Option<Option<Duration>> {
        let refreshed = timeout(START, self.refresh(connection)).await;
        let error = match refreshed {
            Ok(Ok(ttl)) => return Some(ttl),
            Ok(Err(error)) => error,
            Err(_) => gone(self.server.name(), &format!("did not list its tools within {START:?}")),
        };
        tracing::warn!(server = self.server.name(), %error, "the tools were not refreshed");
        None
    }
}

/// Hears of changes: a server of the newer era tells them only to those who ask,
/// one of the older has to be asked about each resource again after a start.
async fn listen(server: Arc<Server>, connection: Arc<Connection>) {
    if connection.era() == Era::Legacy {
        for uri in server.watched.all() {
            let _ = connection.ask("resources/subscribe", &json!({"uri": uri})).await;
        }
        return std::future::pending().await;
    }
    let mut pause = PAUSE;
    loop {
        let filter = wanted_news(&server, &connection);
        if filter == SubscriptionFilter::default() {
            server.watching.notified().await;
            continue;
        }
        if let Ok(mut told) = connection.peer().listen(filter).await {
            pause = PAUSE;
            loop {
                tokio::select! {
                    heard = told.next() => if !matches!(heard, Ok(Some(_))) { break },
                    () = server.watching.notified() => {
                        let _ = told.cancel().await;
                        break;
                    }
                }
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

/// What there is to hear of a server.
fn wanted_news(server: &Server, connection: &Connection) -> SubscriptionFilter {
    let can = &connection.info().capabilities;
    let mut filter = SubscriptionFilter::default();
    let tells = |told: Option<bool>| (told == Some(true)).then_some(true);
    filter.tools_list_changed = tells(can.tools.as_ref().and_then(|own| own.list_changed));
    filter.prompts_list_changed = tells(can.prompts.as_ref().and_then(|own| own.list_changed));
    filter.resources_list_changed = tells(can.resources.as_ref().and_then(|own| own.list_changed));
    let watched = server.watched.all();
    if !watched.is_empty() && can.resources.as_ref().and_then(|own| own.subscribe) == Some(true) {
        filter.resource_subscriptions = Some(watched);
    }
    filter
}

/// Asks a silent server whether it is well. One that works on something has no
/// duty to answer.
async fn is_well(connection: &Connection) -> bool {
    if !connection.is_idle() || connection.silent() < SILENCE {
        return true;
    }
    let method = match connection.era() {
        Era::Legacy => "ping",
        Era::Modern => "server/discover",
    };
    // Also a refusal is an answer.
    match timeout(PONG, connection.ask(method, &json!({}))).await {
        Ok(Err(error)) => error.kind() != ErrorKind::Network,
        Ok(Ok(_)) => true,
        Err(_) => false,
    }
}

/// When the tools of a server that runs are asked for again: at the end of the
/// list's life, soon after a change, and after a pause that accounts where changes
/// follow each other without end, or the answers are none.
struct Due {
    at: Option<Instant>,
    settle: Duration,
    last: Instant,
    failures: u32,
}

impl Due {
    fn new(ttl: Option<Duration>) -> Self {
        let last = Instant::now();
        Self { at: ttl.map(|ttl| last + ttl), settle: SETTLE, last, failures: 0 }
    }

    fn changed(&mut self) {
        let now = Instant::now();
        if now.duration_since(self.last) > QUIET.max(self.settle * 2) {
            self.settle = SETTLE;
        }
        // After a failure, the pause stays what it is.
        let soon = now + self.settle;
        let at = self.at.filter(|at| *at < soon || self.failures > 0);
        self.at = Some(at.unwrap_or(soon));
    }

    async fn reached(&self) {
        match self.at {
            Some(at) => sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    fn refreshed(&mut self, ttl: Option<Duration>) {
        self.last = Instant::now();
        self.failures = 0;
        self.settle = (self.settle * 2).min(MAX_PAUSE);
        self.at = ttl.map(|ttl| self.last + ttl);
    }

    fn failed(&mut self) {
        self.last = Instant::now();
        self.failures = self.failures.saturating_add(1);
        self.at = Some(self.last + pause(self.failures));
    }
}

/// How long to wait after so many failures in a row.
fn pause(failures: u32) -> Duration {
    let doubled = PAUSE * 2_u32.saturating_pow(failures.saturating_sub(1).min(8));
    doubled.min(MAX_PAUSE)
}
