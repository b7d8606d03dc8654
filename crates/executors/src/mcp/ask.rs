//! [`Asker`]: forwards a server's requests (elicitation, sampling, roots) to whoever made
//! the call.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use windlass::{BoxFuture, Call, Error};

/// Requests of a server by key: each is a `method` and its `params`, as the protocol
/// writes them (`elicitation/create`, `sampling/createMessage`, `roots/list`).
pub type Questions = BTreeMap<String, Value>;

/// The responses, by the keys of their requests.
pub type Answers = BTreeMap<String, Value>;

type Ask = dyn Fn(Questions) -> BoxFuture<'static, Result<Answers, Error>> + Send + Sync;

type MakeAsker = dyn Fn(&Call) -> Option<Asker> + Send + Sync;

/// Makes askers for calls that bring none. Attached to an engine as an object.
pub struct Askers(Box<MakeAsker>);

impl Askers {
    /// A factory that returns an asker for the calls whose caller can be asked.
    pub fn new(of: impl Fn(&Call) -> Option<Asker> + Send + Sync + 'static) -> Self {
        Self(Box::new(of))
    }

    /// The asker of a call, if its caller can be asked.
    pub(super) fn of(call: &Call) -> Option<Arc<Asker>> {
        let own = call.object::<Asker>();
        own.or_else(|| (call.object::<Self>()?.0)(call).map(Arc::new))
    }
}

/// Asks the caller of a call. A caller that supports elicitation, sampling or roots puts
/// one into the context of its calls.
#[derive(Clone)]
pub struct Asker {
    ask: Arc<Ask>,
    capabilities: Arc<Value>,
    log_level: Option<Arc<str>>,
}

impl Asker {
    /// An asker that supports these client capabilities, as the protocol writes them.
    pub fn new(
        capabilities: Value,
        ask: impl Fn(Questions) -> BoxFuture<'static, Result<Answers, Error>> + Send + Sync + 'static,
    ) -> Self {
        Self { ask: Arc::new(ask), capabilities: Arc::new(capabilities), log_level: None }
    }

    /// Sets the log level that the caller has asked for.
    #[must_use]
    pub fn with_log_level(mut self, level: impl Into<Arc<str>>) -> Self {
        self.log_level = Some(level.into());
        self
    }

    /// The caller's client capabilities, as the protocol writes them.
    pub fn capabilities(&self) -> &Value {
        &self.capabilities
    }

    /// The minimum level of the log messages that the caller wants.
    pub fn log_level(&self) -> Option<&str> {
        self.log_level.as_deref()
    }

    /// Asks, and waits for all answers. The deadline is that of the call.
    pub async fn ask(&self, questions: Questions) -> Result<Answers, Error> {
        (self.ask)(questions).await
    }
}
