//! Elicitation for background calls: questions of tools that the API's client
//! reads and answers.
//!
//! An MCP server may ask something in the middle of a call. A background call is
//! suspended then, and its questions can be read and answered until it times out. A
//! caller that waits for the result cannot answer, so the MCP server is told at once
//! that the elicitation is declined.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::oneshot;
use windlass::{Call, CallId, Error, ErrorKind, Grace, TenantId};
use windlass_executors::mcp::{self, Answers, Asker, Askers};

use crate::mcp::pick;

/// Default timeout of a call from its first question on.
pub(crate) const ASKING: Duration = Duration::from_secs(300);

/// Background calls and their open questions.
#[derive(Default)]
pub(crate) struct CallQuestions {
    calls: Mutex<HashMap<CallId, BackgroundCall>>,
    /// Calls whose questions somebody else keeps, and how many each has.
    elsewhere: Mutex<HashMap<CallId, (TenantId, usize)>>,
}

struct BackgroundCall {
    tenant: TenantId,
    grace: Option<Grace>,
    asked: VecDeque<OpenQuestion>,
}

struct OpenQuestion {
    questions: mcp::Questions,
    answer: oneshot::Sender<Answers>,
}

/// A call that waits for answers, until this is dropped.
pub(crate) struct Suspended {
    id: CallId,
    all: Arc<CallQuestions>,
}

impl Drop for Suspended {
    fn drop(&mut self) {
        let mut elsewhere = self.all.elsewhere.lock();
        match elsewhere.get_mut(&self.id) {
            Some((_, open)) if *open > 1 => *open -= 1,
            _ => drop(elsewhere.remove(&self.id)),
        }
    }
}

/// A call that can be asked, until this is dropped.
pub(crate) struct Askable {
    id: CallId,
    all: Arc<CallQuestions>,
}

impl Drop for Askable {
    fn drop(&mut self) {
        self.all.calls.lock().remove(&self.id);
    }
}

impl CallQuestions {
    /// Has the questions of a call kept until somebody answers them, and gives it
    /// time for that.
    pub(crate) fn expect(
        self: &Arc<Self>,
        tenant: TenantId,
        id: CallId,
        grace: Option<Grace>,
    ) -> Askable {
        self.calls.lock().insert(id, BackgroundCall { tenant, grace, asked: VecDeque::new() });
        Askable { id, all: Arc::clone(self) }
    }

    /// How tools ask.
    pub(crate) fn askers(self: &Arc<Self>) -> Askers {
        let all = Arc::clone(self);
        Askers::new(move |call: &Call| {
            let id = call.id();
            all.calls.lock().contains_key(&id).then(|| asker(&all, id))
        })
    }

    /// Says of a call that it waits for answers to a question that is not kept here.
    pub(crate) fn suspend(self: &Arc<Self>, tenant: TenantId, id: CallId) -> Suspended {
        self.elsewhere.lock().entry(id).or_insert((tenant, 0)).1 += 1;
        Suspended { id, all: Arc::clone(self) }
    }

    /// Whether a call waits for answers.
    pub(crate) fn suspends(&self, tenant: &TenantId, id: CallId) -> bool {
        let elsewhere = self.elsewhere.lock();
        let is_elsewhere = elsewhere.get(&id).is_some_and(|(owner, _)| owner == tenant);
        is_elsewhere || self.open(tenant, id).is_some()
    }

    /// What a call waits for; none where it waits for nothing.
    pub(crate) fn open(&self, tenant: &TenantId, id: CallId) -> Option<mcp::Questions> {
        let calls = self.calls.lock();
        let call = calls.get(&id).filter(|call| call.tenant == *tenant)?;
        call.asked.front().map(|asked| asked.questions.clone())
    }

    /// Answers what a call waits for; none where that is nothing. Answers that do
    /// not fit leave the question open.
    pub(crate) fn answer(
        &self,
        tenant: &TenantId,
        id: CallId,
        given: &Answers,
    ) -> Option<Result<usize, Error>> {
        let mut calls = self.calls.lock();
        let call = calls.get_mut(&id).filter(|call| call.tenant == *tenant)?;
        let Some(answers) = pick(&call.asked.front()?.questions, Some(given)) else {
            let why = "each question needs an answer in the form that the protocol has for it";
            return Some(Err(Error::new(ErrorKind::InvalidArguments, why)));
        };
        let asked = call.asked.pop_front()?;
        let count = answers.len();
        let _ = asked.answer.send(answers);
        Some(Ok(count))
    }

    fn put(&self, id: CallId, asked: OpenQuestion) {
        if let Some(call) = self.calls.lock().get_mut(&id) {
            call.grace.iter().for_each(|grace| grace.extend(ASKING));
            call.asked.push_back(asked);
        }
    }
}

fn asker(all: &Arc<CallQuestions>, id: CallId) -> Asker {
    let all = Arc::clone(all);
    let can = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}});
    Asker::new(can, move |questions| {
        let (answer, answered) = oneshot::channel();
        all.put(id, OpenQuestion { questions, answer });
        Box::pin(async move {
            let gone = |_| Error::new(ErrorKind::Denied, "nobody can be asked any more");
            answered.await.map_err(gone)
        })
    })
}
