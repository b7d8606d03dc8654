//! [`Mailbox`]: questions of a tool for the client that called it (elicitation).
//!
//! A tool asks through an [`Asker`]; its questions arrive here while the call runs. A
//! client with a session is asked by requests of ours. A stateless client gets the
//! questions as the answer to its request, and sends its answers with the next one;
//! until then the call is parked.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rmcp::RoleServer;
use rmcp::model::{ErrorCode, InputRequests, ServerRequest};
use rmcp::service::{Peer, ServiceError};
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};
use windlass::{CallId, Error, ErrorKind, Grace, TenantId};
use windlass_executors::mcp::{Answers, Asker, ProtocolError, Questions};

use crate::human::questions::{self, ASKING, Suspended};

/// Questions that a tool may have open at once.
const OPEN: usize = 8;

/// A question of a tool, and the channel for its answers.
pub(crate) struct MailboxQuestion {
    pub(crate) questions: Questions,
    pub(crate) answer: oneshot::Sender<Result<Answers, Error>>,
}

/// The questions of a request. Every request has a mailbox and hardly any
/// is used, so it is small.
#[derive(Default)]
pub(crate) struct Mailbox {
    asked: Mutex<VecDeque<MailboxQuestion>>,
    told: Notify,
}

impl Mailbox {
    /// The next question.
    pub(crate) async fn recv(&self) -> MailboxQuestion {
        loop {
            if let Some(question) = self.asked.lock().pop_front() {
                return question;
            }
            self.told.notified().await;
        }
    }

    fn put(&self, question: MailboxQuestion) -> Result<(), Error> {
        let mut asked = self.asked.lock();
        if asked.len() >= OPEN {
            return Err(Error::new(ErrorKind::Denied, "too much is asked at once"));
        }
        asked.push_back(question);
        self.told.notify_one();
        Ok(())
    }
}

/// What becomes of a request while its questions are open.
#[derive(Default)]
pub(crate) struct Pause {
    /// Gives it the time that a person needs, where the tool's own time is not set.
    pub(crate) grace: Option<Grace>,
    /// The call that is shown as suspended, where it is one.
    pub(crate) call: Option<(Arc<questions::CallQuestions>, TenantId, CallId)>,
}

impl Pause {
    fn begin(&self) -> Option<Suspended> {
        self.grace.iter().for_each(|grace| grace.extend(ASKING));
        let (questions, tenant, id) = self.call.as_ref()?;
        Some(questions.suspend(tenant.clone(), *id))
    }
}

/// An asker for a client with these capabilities, and its questions.
pub(crate) fn channel(capabilities: Value, pause: Pause) -> (Asker, Arc<Mailbox>) {
    let mailbox = Arc::<Mailbox>::default();
    let (known, sender) = (capabilities.clone(), Arc::downgrade(&mailbox));
    let asker = Asker::new(capabilities, move |questions: Questions| {
        let asked = match missing(&known, &questions) {
            Some(missing) => Err(undeclared(&missing)),
            None => ask(&sender, questions).map(|answered| (pause.begin(), answered)),
        };
        Box::pin(async move {
            let (_suspended, answered) = asked?;
            answered.await.map_err(|_| gone())?
        })
    });
    (asker, mailbox)
}

/// Asks, if the client is still connected.
fn ask(
    mailbox: &Weak<Mailbox>,
    questions: Questions,
) -> Result<oneshot::Receiver<Result<Answers, Error>>, Error> {
    let (answer, answered) = oneshot::channel();
    mailbox.upgrade().ok_or_else(gone)?.put(MailboxQuestion { questions, answer })?;
    Ok(answered)
}

fn gone() -> Error {
    Error::new(ErrorKind::Denied, "whoever could be asked is gone")
}

/// The first capability that questions need and the client does not have.
fn missing(capabilities: &Value, questions: &Questions) -> Option<String> {
    let needed = questions.values().filter_map(|question| {
        let method = question["method"].as_str().unwrap_or_default();
        Some(method.split_once('/')?.0.to_owned())
    });
    needed.into_iter().find(|needed| capabilities.get(needed).is_none())
}

fn undeclared(capability: &str) -> Error {
    let refused = ProtocolError {
        code: ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY.0,
        message: "Missing required client capability".to_owned(),
        data: Some(json!({"requiredCapabilities": {capability: {}}})),
    };
    let why = format!("the client cannot be asked: it has no `{capability}`");
    Error::new(ErrorKind::Denied, why).with_source(refused)
}

/// Asks a client with a session, one question after the other.
pub(crate) async fn ask_peer(
    peer: &Peer<RoleServer>,
    questions: Questions,
) -> Result<Answers, Error> {
    let mut answers = Answers::new();
    for (key, question) in questions {
        let request: ServerRequest = serde_json::from_value(question).map_err(|error| {
            Error::new(ErrorKind::UpstreamFailed, format!("a tool asked {error}"))
        })?;
        let answer = peer.send_request(request).await.map_err(refused)?;
        answers.insert(key, serde_json::to_value(answer).unwrap_or_default());
    }
    Ok(answers)
}

fn refused(error: ServiceError) -> Error {
    match error {
        ServiceError::McpError(error) => {
            let why = format!("the client refused to answer: {}", error.message);
            let (code, message) = (error.code.0, error.message.into_owned());
            let cause = ProtocolError { code, message, data: error.data };
            Error::new(ErrorKind::Denied, why).with_source(cause)
        }
        other => Error::new(ErrorKind::Denied, format!("the client did not answer: {other}")),
    }
}

/// The questions in the form of the stateless protocol; none where a tool asked for
/// something that the protocol does not have.
pub(crate) fn to_requests(questions: &Questions) -> Option<InputRequests> {
    let read = |(key, question): (&String, &Value)| {
        Some((key.clone(), serde_json::from_value(question.clone()).ok()?))
    };
    questions.iter().map(read).collect()
}

/// The answers to all questions, if each is there and looks like one. What was
/// not asked for is ignored.
pub(crate) fn pick(
    questions: &Questions,
    given: Option<&BTreeMap<String, Value>>,
) -> Option<Answers> {
    let fits = |question: &Value, answer: &Value| match question["method"].as_str() {
        Some("elicitation/create") => answer["action"].is_string(),
        Some("sampling/createMessage") => !answer["content"].is_null(),
        Some("roots/list") => answer["roots"].is_array(),
        _ => answer.is_object(),
    };
    let one = |(key, question): (&String, &Value)| {
        let answer = given?.get(key).filter(|answer| fits(question, answer))?;
        Some((key.clone(), answer.clone()))
    };
    questions.iter().map(one).collect()
}
