//! The keeper of a server: connects when it is needed, keeps its tools up to
//! date, and begins again when it has gone.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::SubscriptionFilter;
use rmcp::transport::{AuthClient, Transport};
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use windlass::definition::{McpProtocol, McpTransport};
use windlass::{Engine, Error, ErrorKind};

use super::authorize;
use super::connection::{Connection, List, Parts};
use super::failure::gone;
use super::flights::Flights;
use super::handler::{Handler, introduction};
use super::handshake::{self, Era, Greeting, Refusal};
use super::http;
use super::notebook::{Note, Notebook, Offers};
use super::process::Program;
use super::server::{Link, News, Server};
use super::stdio::{Ending, MAX_MESSAGE, Stdio};
use super::tap::Tap;

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
/// How long the last words of a server that listens no more are waited for.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Changes that follow each other closely are looked at once.
const SETTLE: Duration = Duration::from_millis(100);
/// Tools that a server may have, and the shortest life of a list.
const MAX_TOOLS: usize = 2_000;
const MIN_TTL: Duration = Duration::from_secs(5);
const MAX_TTL: Duration = Duration::from_secs(24 * 3600);

pub(super) struct Keeper {
    pub(super) server: Arc<Server>,
    /// Where its tools are published; nowhere where another keeper does that.
    pub(super) engine: Option<Engine>,
    pub(super) notebook: Arc<dyn Notebook>,
    pub(super) stop: CancellationToken,
    pub(super) start: Start,
    pub(super) note: Note,
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
            self.server.link.send_replace(Link::Starting);
            let lived = Instant::now();
            let ended = tokio::select! {
                ended = self.live() => ended,
                () = stop.cancelled() => break,
            };
            failures = if lived.elapsed() > STABLE { 0 } else { failures + 1 };
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
            let connection = self.connect().await?;
            let ttl = self.refresh(&connection).await?;
            Ok::<_, Error>((connection, ttl))
        });
        let (connection, mut ttl) = started.await.unwrap_or_else(|_| {
            Err(gone(self.server.name(), &format!("did not start within {limit:?}")))
        })?;
        tracing::info!(server = self.server.name(), era = ?connection.era(), "a server is up");
        self.server.link.send_replace(Link::Up(Arc::clone(&connection)));
        let server = Arc::clone(&self.server);
        let mut listening = std::pin::pin!(listen(Arc::clone(&server), Arc::clone(&connection)));
        loop {
            let stale = ttl;
            tokio::select! {
                () = connection.ended() => return Ok(connection.why_gone()),
                () = server.accepted.notified() => self.accept().await,
                () = server.learns.notified() => self.learn().await,
                heard = news.recv() => match heard {
                    Ok(News::Tools) | Err(RecvError::Lagged(_)) => {
                        sleep(SETTLE).await;
                        news = self.server.news();
                        ttl = self.refresh_again(&connection).await;
                    }
                    Ok(_) => {}
                    Err(RecvError::Closed) => return Ok(connection.why_gone()),
                },
                () = sleep(stale.unwrap_or(MAX_TTL)), if stale.is_some() => {
                    ttl = self.refresh_again(&connection).await;
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

    async fn connect(&mut self) -> Result<Arc<Connection>, Error> {
        let greeting = match (self.server.settings().protocol, self.note.era) {
            (McpProtocol::Legacy, _) => Greeting::Only(Era::Legacy),
            (McpProtocol::Modern, _) => Greeting::Only(Era::Modern),
            (McpProtocol::Auto, Some(era)) => Greeting::First(era),
            (McpProtocol::Auto, None) => Greeting::First(Era::Modern),
        };
        let unknown = greeting == Greeting::First(Era::Modern) && self.note.era.is_none();
        let connected = match self.connect_as(greeting).await {
            // Some servers of the older era end when they hear of the newer one.
            Err(Failed { ended: true, .. }) if unknown => {
                self.connect_as(Greeting::First(Era::Legacy)).await
            }
            connected => connected,
        };
        let connection = connected.map_err(|failed| failed.why)?;
        self.note.era = Some(connection.era());
        let can = &connection.info().capabilities;
        let offers = Offers { prompts: can.prompts.is_some(), resources: can.resources.is_some() };
        if self.note.offers != offers {
            self.note.offers = offers;
            *self.server.offers.lock() = offers;
            self.remember().await;
        }
        Ok(connection)
    }

    async fn connect_as(&self, greeting: Greeting) -> Result<Arc<Connection>, Failed> {
        let settings = self.server.settings();
        let ending = Ending::default();
        match &settings.transport {
            McpTransport::Command { .. } => {
                let program = self.program(&settings.transport)?;
                let limit = settings.max_message_bytes.unwrap_or(MAX_MESSAGE);
                let stdio =
                    Stdio::start(self.server.name(), &program, limit, ending.clone()).await?;
                self.greet(stdio, greeting, ending).await
            }
            McpTransport::Url { url, headers } => {
                let limit = settings.max_message_bytes.unwrap_or(MAX_MESSAGE);
                let headers = (headers.iter())
                    .map(|(name, value)| Ok((name.clone(), self.expanded(value)?)))
                    .collect::<Result<Vec<_>, Error>>()?;
                let url = self.expanded(url)?;
                let wire = self.server.wire(&url, limit);
                let store = self.server.store(self.server.account().clone());
                match authorize::manager(self.server.name(), &wire, &url, store).await? {
                    Some(manager) => {
                        let client = AuthClient::new(wire, manager);
                        let http = http::transport(client, &url, &headers, limit)?;
                        self.greet(http, greeting, ending).await
                    }
                    None => {
                        let http = http::transport(wire, &url, &headers, limit)?;
                        self.greet(http, greeting, ending).await
                    }
                }
            }
        }
    }

    async fn greet<T: Transport<RoleClient> + 'static>(
        &self,
        transport: T,
        greeting: Greeting,
        ending: Ending,
    ) -> Result<Arc<Connection>, Failed> {
        let (server, settings) = (self.server.shared_name(), Arc::clone(self.server.settings()));
        let flights = Arc::<Flights>::default();
        let mut tap = Tap {
            inner: transport,
            server: Arc::clone(&server),
            flights: Arc::clone(&flights),
            news: self.server.news.clone(),
        };
        let client = introduction(&settings);
        let greeted = handshake::greet(&mut tap, &client, greeting).await;
        if let Err(Refusal::Unsent(error)) = &greeted
            && authorize::challenge(&**error).is_none()
        {
            // Why it listens no more is the last that it says.
            let _ = timeout(LAST_WORDS, async { while tap.receive().await.is_some() {} }).await;
        }
        let (era, info) = greeted.map_err(|refusal| {
            let (ended, why) = match refusal {
                Refusal::Ended => (true, ending.get().unwrap_or_else(|| "ended".to_owned())),
                Refusal::Unsent(error) => {
                    if let Some(challenge) = authorize::challenge(&*error) {
                        self.server.challenged(challenge);
                        let why = authorize::wants_login(&server);
                        return Failed { ended: false, why };
                    }
                    let sent = super::connection::causes(&*error);
                    (true, ending.get().unwrap_or(format!("could not be reached: {sent}")))
                }
                Refusal::Refused(why) => (false, why),
            };
            Failed { ended, why: gone(&server, &why) }
        })?;
        let handler = Handler { settings, flights };
        let owner = Arc::clone(&self.server);
        Ok(Connection::new(tap, Parts { server, era, info, handler, ending, owner }))
    }

    fn program(&self, transport: &McpTransport) -> Result<Program, Error> {
        let McpTransport::Command { command, args, env, cwd } = transport else {
            return Err(Error::new(ErrorKind::Internal, "the server has no command"));
        };
        let text = |text: &String| self.expanded(text);
        Ok(Program {
            command: text(command)?,
            args: args.iter().map(text).collect::<Result<_, _>>()?,
            env: (env.iter())
                .map(|(name, value)| Ok((name.clone(), text(value)?)))
                .collect::<Result<_, Error>>()?,
            cwd: cwd.as_ref().map(text).transpose()?,
        })
    }

    fn expanded(&self, text: &str) -> Result<String, Error> {
        self.server.expanded(text)
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
        let List { items, ttl } = connection.list("tools/list", "tools", MAX_TOOLS).await?;
        self.publish(items).await;
        let ttl = ttl.filter(|millis| *millis > 0).map(Duration::from_millis);
        Ok(ttl.map(|ttl| ttl.clamp(MIN_TTL, MAX_TTL)))
    }

    /// The same for a server that runs: if it fails, the tools stay as they are.
    async fn refresh_again(&mut self, connection: &Connection) -> Option<Duration> {
        match timeout(START, self.refresh(connection)).await {
            Ok(Ok(ttl)) => ttl,
            Ok(Err(error)) => {
                tracing::warn!(server = self.server.name(), %error, "the tools were not refreshed");
                Some(MAX_PAUSE)
            }
            Err(_) => Some(MAX_PAUSE),
        }
    }
}

/// Why a connection could not be made.
struct Failed {
    /// Whether the other side hung up.
    ended: bool,
    why: Error,
}

impl From<Error> for Failed {
    fn from(why: Error) -> Self {
        Self { ended: false, why }
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

/// How long to wait after so many failures in a row.
fn pause(failures: u32) -> Duration {
    let doubled = PAUSE * 2_u32.saturating_pow(failures.saturating_sub(1).min(8));
    doubled.min(MAX_PAUSE)
}
