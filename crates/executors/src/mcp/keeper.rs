//! Keeper: the supervisor task of one server. Connects on demand, keeps the list of tools
//! up to date, and reconnects with exponential backoff.

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
use super::server::{Link, Listed, News, Server};

/// Start timeout. Long, because the package may have to be downloaded first.
const START: Duration = Duration::from_secs(60);
/// The first backoff after a failed start; it doubles with each further one.
const PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// A server that exits sooner counts as a failed start, whatever it said.
const STABLE: Duration = Duration::from_secs(5);
/// After this long without a message the server is pinged.
const SILENCE: Duration = Duration::from_secs(30);
/// Timeout of the ping.
const PONG: Duration = Duration::from_secs(10);
/// Debounce for `list_changed` notifications.
const SETTLE: Duration = Duration::from_millis(100);
/// After this long without a change, the debounce is reset to its shortest.
const QUIET: Duration = Duration::from_secs(10);

pub(super) struct Keeper {
    pub(super) server: Arc<Server>,
    /// The engine that its tools are registered with; `None` if another keeper does that.
    pub(super) engine: Option<Engine>,
    pub(super) notebook: Arc<dyn Notebook>,
    pub(super) stop: CancellationToken,
    pub(super) start: Start,
    pub(super) note: Note,
    /// Whether the legacy era was chosen for a server that speaks both. The choice is
    /// made only once, since it may have been wrong.
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
    /// Supervises the server until it is stopped.
    pub(super) async fn run(mut self) {
        self.recall().await;
        let mut failures = 0;
        // A server without a remembered list of tools has to be asked.
        let is_known = *self.server.listed.borrow() == Listed::Known;
        let mut needed = self.start == Start::Unknown && !is_known;
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
            // A server that never came up has failed, however long that took.
            let was_stable = ended.is_ok() && lived.elapsed() > STABLE;
            failures = if was_stable { 0 } else { failures + 1 };
            // A server that worked and then exited is restarted by the next call without
            // backoff.
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

    /// One connection, from start to end. The error says why the start failed, the value
    /// why the connection ended.
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
                    // New calls wait from here on; those that hold the connection are let
                    // finish.
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

    /// Whether a server that speaks both eras is known to send its requests (elicitation,
    /// sampling) in the legacy era only. FastMCP, recognised by a mark on its tools,
    /// sends them to the client (`ctx.elicit`, `ctx.sample`), for which the stateless era
    /// has no channel.
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

    /// Switches to the legacy era if the server's requests do not work in the stateless
    /// one, unless the operator has set an era. Returns whether a new handshake is
    /// needed.
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

    /// Selects the legacy era for the next connection, with the stateless one as the
    /// fallback.
    fn choose_older(&mut self) {
        self.note.era = Some(Era::Legacy);
        self.chose_older = true;
    }

    /// Lists and publishes the tools; returns the TTL of the list.
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

    /// Refreshes the list of a running server: on failure, its tools stay as they are.
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

/// Subscribes to notifications: a stateless server sends them only on request, and a
/// legacy one needs a subscription to each resource after every start.
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

/// The notifications to subscribe to.
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

/// Heartbeat: pings a silent server. One with requests in flight need not answer.
async fn is_well(connection: &Connection) -> bool {
    if !connection.is_idle() || connection.silent() < SILENCE {
        return true;
    }
    let method = match connection.era() {
        Era::Legacy => "ping",
        Era::Modern => "server/discover",
    };
    // An error response counts as an answer.
    match timeout(PONG, connection.ask(method, &json!({}))).await {
        Ok(Err(error)) => error.kind() != ErrorKind::Network,
        Ok(Ok(_)) => true,
        Err(_) => false,
    }
}

/// When to list a running server's tools again: at the end of the list's TTL, shortly
/// after a change (debounced), and after a backoff that doubles while changes keep coming
/// or the listing fails.
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
        // After a failure, the backoff is not shortened.
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

/// The backoff after this many failures in a row.
fn pause(failures: u32) -> Duration {
    let doubled = PAUSE * 2_u32.saturating_pow(failures.saturating_sub(1).min(8));
    doubled.min(MAX_PAUSE)
}
