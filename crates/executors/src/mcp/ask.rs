//! [`Asker`]: how a server's questions reach whoever made the call.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use windlass::{BoxFuture, Call, Error};

/// Questions by their names: each is a `method` and its `params`, as the
/// protocol writes them (`elicitation/create`, `sampling/createMessage`,
/// `roots/list`).
pub type Questions = BTreeMap<String, Value>;

/// The answers, by the names of their questions.
pub type Answers = BTreeMap<String, Value>;

type Ask = dyn Fn(Questions) -> BoxFuture<'static, Result<Answers, Error>> + Send + Sync;

type MakeAsker = dyn Fn(&Call) -> Option<Asker> + Send + Sync;

/// Makes askers for calls that bring none: an object of all tools of an engine.
pub struct Askers(Box<MakeAsker>);

impl Askers {
    /// The calls that can be asked, and how.
    pub fn new(of: impl Fn(&Call) -> Option<Asker> + Send + Sync + 'static) -> Self {
        Self(Box::new(of))
    }

    /// Who can be asked about a call.
    pub(super) fn of(call: &Call) -> Option<Arc<Asker>> {
        let own = call.object::<Asker>();
        own.or_else(|| (call.object::<Self>()?.0)(call).map(Arc::new))
    }
}

/// Asks whoever made a call. A caller that can be asked puts one into the
/// call's context.
#[derive(Clone)]
pub struct Asker {
    ask: Arc<Ask>,
    capabilities: Arc<Value>,
    log_level: Option<Arc<str>>,
}

impl Asker {
    /// An asker that takes these kinds of questions: the client's capabilities,
    /// as the protocol writes them.
    pub fn new(
        capabilities: Value,
        ask: impl Fn(Questions) -> BoxFuture<'static, Result<Answers, Error>> + Send + Sync + 'static,
    ) -> Self {
        Self { ask: Arc::new(ask), capabilities: Arc::new(capabilities), log_level: None }
    }

    /// The same, for a caller that wants to read messages of this level.
    #[must_use]
    pub fn with_log_level(mut self, level: impl Into<Arc<str>>) -> Self {
        self.log_level = Some(level.into());
        self
    }

    /// What the caller can be asked, as the protocol writes it.
    pub fn capabilities(&self) -> &Value {
        &self.capabilities
    }

    /// The least of the messages that the caller wants to read.
    pub fn log_level(&self) -> Option<&str> {
        self.log_level.as_deref()
    }

    /// Asks, and waits for all answers. How long that may take is up to the
    /// call.
    pub async fn ask(&self, questions: Questions) -> Result<Answers, Error> {
        (self.ask)(questions).await
    }
}
