//! How a keeper connects: over which transport, and which era of the protocol it tries.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::transport::{AuthClient, Transport};
use tokio::time::timeout;
use windlass::definition::{Asking, McpProtocol, McpServer, McpTransport};
use windlass::{Error, ErrorKind};

use super::authorize;
use super::connection::{self, Connection, Parts};
use super::failure::gone;
use super::handler::{Handler, introduction};
use super::handshake::{self, Era, Greeting, Refusal};
use super::http;
use super::in_flight::InFlightRequests;
use super::keeper::Keeper;
use super::notebook::Offers;
use super::process::Program;
use super::stdio::{Ending, MAX_MESSAGE, Stdio};
use super::tap::Tap;

/// How long to read on after a failed write, for the server's reason.
const LAST_WORDS: Duration = Duration::from_secs(1);

impl Keeper {
    pub(super) async fn connect(&mut self) -> Result<Arc<Connection>, Error> {
        self.server.read_inputs().await?;
        let settings = self.server.settings();
        let (greeting, known) = match (settings.protocol, self.note.era) {
            (McpProtocol::Legacy, _) => (Greeting::Only(Era::Legacy), true),
            (McpProtocol::Modern, _) => (Greeting::Only(Era::Modern), true),
            (McpProtocol::Auto, Some(era)) => (Greeting::First(era), true),
            (McpProtocol::Auto, None) => (Greeting::First(Era::Modern), false),
        };
        let connected = match self.connect_as(greeting).await {
            // Some servers exit when they receive a request of an era that they do not
            // know.
            Err(Failed { ended: true, .. }) if !known || self.chose_older => {
                self.connect_as(Greeting::First(greeting.era().other())).await
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
            // The note is first written when the tools have been listed; until then there
            // is none to update.
            if self.note.listed {
                self.remember().await;
            }
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
        let in_flight = Arc::<InFlightRequests>::default();
        let mut tap = Tap {
            inner: transport,
            server: Arc::clone(&server),
            in_flight: Arc::clone(&in_flight),
            news: self.server.news.clone(),
        };
        let client = introduction(&settings);
        let greeted = handshake::greet(&mut tap, &client, greeting).await;
        if let Err(Refusal::Unsent(error)) = &greeted
            && authorize::challenge(&**error).is_none()
        {
            // The last output of a server that closed its input says why.
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
                    let sent = connection::causes(&*error);
                    (true, ending.get().unwrap_or(format!("could not be reached: {sent}")))
                }
                Refusal::Refused(why) => (false, why),
            };
            Failed { ended, why: gone(&server, &why) }
        })?;
        let handler = Handler { settings, in_flight };
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
            veil: self.server.veil(),
            process: Arc::clone(&self.server.process),
        })
    }

    fn expanded(&self, text: &str) -> Result<String, Error> {
        self.server.expanded(text)
    }
}

/// Whether a server may send requests to its client (elicitation, sampling), so that it
/// matters in which era they work.
pub(super) fn may_ask(settings: &McpServer) -> bool {
    (settings.elicitation, settings.sampling) != (Asking::Refuse, Asking::Refuse)
}

/// Why connecting failed.
struct Failed {
    /// Whether the other side closed the connection.
    ended: bool,
    why: Error,
}

impl From<Error> for Failed {
    fn from(why: Error) -> Self {
        Self { ended: false, why }
    }
}
