//! [`RunningRequest`]: a request in progress, with its result, progress and
//! questions.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    ErrorData, InputRequiredResult, InputResponses, ProgressNotificationParam, ServerNotification,
};
use rmcp::service::{Peer, RequestContext};
use serde_json::{Map, Value, json};
use tokio::time::timeout;
use windlass::{BoxFuture, CancellationToken, Content};
use windlass_executors::mcp::convert::{Progress, to_progress};

use super::client::McpClient;
use super::mailbox::{self, Mailbox, MailboxQuestion};
use super::reply::McpReply;
use super::reports::{CallReport, FollowedCall};
use super::service::ClientSession;
use crate::human::parked::{ParkedCall, ParkedCalls, RequestBinding};

/// How long the last reports of a call that has ended are waited for.
const LAST_REPORTS: Duration = Duration::from_millis(50);

pub(super) type RequestWork = BoxFuture<'static, Result<McpReply, ErrorData>>;

/// A request in progress.
pub(crate) struct RunningRequest {
    pub(super) work: RequestWork,
    pub(super) stop: CancellationToken,
    pub(super) questions: Arc<Mailbox>,
    pub(super) following: Option<FollowedCall>,
}

/// The exchange with the client of a request.
pub(super) struct ClientExchange<'c> {
    pub(super) context: &'c RequestContext<RoleServer>,
    pub(super) client: &'c McpClient,
    pub(super) session: &'c Arc<ClientSession>,
    pub(super) parked: &'c ParkedCalls,
    pub(super) binding: RequestBinding,
}

enum RequestStep {
    Done(Result<McpReply, ErrorData>),
    Asked(MailboxQuestion),
}

impl ClientExchange<'_> {
    /// Lets a request run until it ends or the client is asked.
    pub(super) async fn run(
        &self,
        mut running: RunningRequest,
        given: Option<&InputResponses>,
    ) -> Result<McpReply, ErrorData> {
        let mut relay = Relay::new(self.context, self.session, self.client.is_modern);
        loop {
            match self.step(&mut running, &mut relay).await {
                RequestStep::Done(done) => return done,
                RequestStep::Asked(asked) => match mailbox::pick(&asked.questions, given) {
                    // What comes with the request is answered before it is asked.
                    Some(answers) => drop(asked.answer.send(Ok(answers))),
                    None if self.client.is_modern => return self.park(running, asked),
                    None => {
                        if let Some(done) = self.ask(&mut running, asked, &mut relay).await {
                            return done;
                        }
                    }
                },
            }
        }
    }

    /// Goes on with a request that waited for these answers.
    pub(super) async fn resume(
        &self,
        state: &str,
        given: Option<&InputResponses>,
    ) -> Result<McpReply, ErrorData> {
        let waiting = self.parked.take(state, &self.binding)?;
        let Some(answers) = mailbox::pick(waiting.questions(), given) else {
            // Asked again for what is missing or makes no sense.
            return self.park(waiting.running, waiting.asked);
        };
        let _ = waiting.asked.answer.send(Ok(answers));
        self.run(waiting.running, given).await
    }

    fn park(
        &self,
        mut running: RunningRequest,
        asked: MailboxQuestion,
    ) -> Result<McpReply, ErrorData> {
        let Some(requests) = mailbox::to_requests(&asked.questions) else {
            return Err(ErrorData::internal_error("a tool asked for what cannot be asked", None));
        };
        // From here on nobody polls it but itself.
        let work = tokio::spawn(running.work);
        running.work = Box::pin(async move {
            let done = work.await;
            done.unwrap_or_else(|_| Err(ErrorData::internal_error("the call was lost", None)))
        });
        let state = self.parked.put(ParkedCall { running, asked }, self.binding.clone())?;
        Ok(McpReply::Asks(InputRequiredResult::new(Some(requests), Some(state))))
    }

    async fn step(&self, running: &mut RunningRequest, relay: &mut Relay<'_>) -> RequestStep {
        let mut stopped = false;
        loop {
            let reports = async {
                match &mut running.following {
                    Some(following) => following.reports.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(report) = reports => relay.pass(report).await,
                asked = running.questions.recv() => return RequestStep::Asked(asked),
                done = &mut running.work => {
                    relay.last(running.following.take()).await;
                    return RequestStep::Done(done);
                }
                () = self.context.ct.cancelled(), if !stopped => {
                    // The call ends soon, and is recorded; then this does.
                    stopped = true;
                    running.stop.cancel();
                }
            }
        }
    }

    /// Asks a client with a session while the call goes on; returns the end of
    /// the call, should it come first.
    async fn ask(
        &self,
        running: &mut RunningRequest,
        asked: MailboxQuestion,
        relay: &mut Relay<'_>,
    ) -> Option<Result<McpReply, ErrorData>> {
        let MailboxQuestion { questions, answer } = asked;
        let mut asking = pin!(mailbox::ask_peer(&self.context.peer, questions));
        let mut stopped = false;
        loop {
            tokio::select! {
                answers = &mut asking => {
                    let _ = answer.send(answers);
                    return None;
                }
                done = &mut running.work => {
                    relay.last(running.following.take()).await;
                    return Some(done);
                }
                () = self.context.ct.cancelled(), if !stopped => {
                    stopped = true;
                    running.stop.cancel();
                }
            }
        }
    }
}

/// Passes reports on to a client that wants them.
struct Relay<'c> {
    peer: &'c Peer<RoleServer>,
    token: Option<rmcp::model::ProgressToken>,
    /// The least of the messages that it reads.
    level: Option<u8>,
    steps: u64,
    ended: bool,
}

impl<'c> Relay<'c> {
    fn new(
        context: &'c RequestContext<RoleServer>,
        session: &ClientSession,
        is_modern: bool,
    ) -> Self {
        let level = match is_modern {
            // Each request says for itself.
            true => context.meta.log_level().map(|level| rank(&json!(level))),
            false => Some(session.level()),
        };
        let token = context.meta.get_progress_token();
        Self { peer: &context.peer, token, level, steps: 0, ended: false }
    }

    async fn pass(&mut self, report: CallReport) {
        match report {
            CallReport::Ended => self.ended = true,
            CallReport::Progress(progress) => self.tell(&progress).await,
        }
    }

    async fn tell(&mut self, progress: &Content) {
        self.steps += 1;
        let told = match to_progress(progress, self.steps) {
            Progress::Step { progress, total, message } => {
                let Some(token) = self.token.clone() else { return };
                let mut told = ProgressNotificationParam::new(token, progress);
                (told.total, told.message) = (total, message);
                let told = rmcp::model::ProgressNotification::new(told);
                ServerNotification::ProgressNotification(told)
            }
            Progress::Log(message) => {
                let Some(told) = self.log(&message) else { return };
                told
            }
        };
        // A client that has gone is noticed elsewhere.
        let _ = self.peer.send_notification(told).await;
    }

    fn log(&self, message: &Map<String, Value>) -> Option<ServerNotification> {
        let level = message.get("level")?;
        if rank(level) < self.level? {
            return None;
        }
        let told = json!({"method": "notifications/message", "params": message});
        serde_json::from_value(told).ok()
    }

    /// Passes on what is still on its way when a call has ended.
    async fn last(&mut self, following: Option<FollowedCall>) {
        let Some(mut following) = following else { return };
        // Who reports nothing at all is not waited for.
        while let Ok(report) = following.reports.try_recv() {
            self.pass(report).await;
        }
        if self.ended || self.steps == 0 && self.token.is_none() {
            return;
        }
        let rest = async {
            while let Some(report) = following.reports.recv().await {
                if matches!(report, CallReport::Ended) {
                    return;
                }
                self.pass(report).await;
            }
        };
        let _ = timeout(LAST_REPORTS, rest).await;
    }
}

/// The levels of messages, from the least.
const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// The place of a level among them.
pub(super) fn rank(level: &Value) -> u8 {
    let place = LEVELS.iter().position(|known| level == known);
    place.and_then(|place| u8::try_from(place).ok()).unwrap_or_default()
}

/// The level at a place.
pub(super) fn level_name(rank: u8) -> &'static str {
    LEVELS.get(usize::from(rank)).copied().unwrap_or("debug")
}
