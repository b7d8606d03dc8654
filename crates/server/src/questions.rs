//! Questions of tools to whoever made a call over the API and does not wait for
//! it.
//!
//! A server of tools may ask something in the middle of a call. A call in the
//! background is suspended then: its questions can be read and answered until its
//! time is over. A caller that waits for the result has nobody who could answer,
//! and the server hears no at once.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::oneshot;
use windlass::{Call, CallId, Error, ErrorKind, TenantId};
use windlass_executors::mcp::{self, Answers, Asker, Askers};

use crate::mcp::pick;

/// Calls in the background, and what they were asked.
#[derive(Default)]
pub(crate) struct Questions(Mutex<HashMap<CallId, Background>>);

struct Background {
    tenant: TenantId,
    asked: VecDeque<Asked>,
}

struct Asked {
    questions: mcp::Questions,
    answer: oneshot::Sender<Answers>,
}

/// A call that can be asked, until this is dropped.
pub(crate) struct Askable {
    id: CallId,
    all: Arc<Questions>,
}

impl Drop for Askable {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.id);
    }
}

impl Questions {
    /// Has the questions of a call kept until somebody answers them.
    pub(crate) fn expect(self: &Arc<Self>, tenant: TenantId, id: CallId) -> Askable {
        self.0.lock().insert(id, Background { tenant, asked: VecDeque::new() });
        Askable { id, all: Arc::clone(self) }
    }

    /// How tools ask.
    pub(crate) fn askers(self: &Arc<Self>) -> Askers {
        let all = Arc::clone(self);
        Askers::new(move |call: &Call| {
            let id = call.id();
            all.0.lock().contains_key(&id).then(|| asker(&all, id))
        })
    }

    /// What a call waits for; none where it waits for nothing.
    pub(crate) fn open(&self, tenant: &TenantId, id: CallId) -> Option<mcp::Questions> {
        let calls = self.0.lock();
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
        let mut calls = self.0.lock();
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

    fn put(&self, id: CallId, asked: Asked) {
        if let Some(call) = self.0.lock().get_mut(&id) {
            call.asked.push_back(asked);
        }
    }
}

fn asker(all: &Arc<Questions>, id: CallId) -> Asker {
    let all = Arc::clone(all);
    let can = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}});
    Asker::new(can, move |questions| {
        let (answer, answered) = oneshot::channel();
        all.put(id, Asked { questions, answer });
        Box::pin(async move {
            let gone = |_| Error::new(ErrorKind::Denied, "nobody can be asked any more");
            answered.await.map_err(gone)
        })
    })
}
