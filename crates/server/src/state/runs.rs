//! Runs of agents and the history of their conversations, kept in the documents that
//! all servers on a database share.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{from_value, json};
use windlass::{BoxFuture, Error, ErrorKind, TenantId};
use windlass_executors::agent::{History, RunEntry, RunLog, taken_over};
use windlass_store::{Documents, Expect, KEEP_RUNS, Put};

use crate::state::quota::{CONVERSATIONS, TenantQuotas};

const SPACE: &str = "agent_runs";
/// The longest conversation that is kept, as JSON.
const MAX_CONVERSATION: usize = 4 * 1024 * 1024;

/// A log that outlives the process.
pub(crate) struct StoredRuns(pub(crate) Arc<dyn Documents>);

/// Entries of a run stand together, in their order.
fn name(run: &str, number: u32) -> String {
    format!("{run}:{number:08}")
}

impl RunLog for StoredRuns {
    fn append<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
        number: u32,
        entry: &'a RunEntry,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let mut put = Put::of(SPACE, tenant.clone(), name(run, number), entry)?;
            put.expires_at = Timestamp::now().checked_add(KEEP_RUNS).ok();
            // Optimistic locking: the second writer stops here, on whichever server.
            let kept = self.0.put(put, Expect::Absent).await?;
            kept.map(drop).ok_or_else(|| taken_over(run))
        })
    }

    fn read<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
    ) -> BoxFuture<'a, Result<Vec<RunEntry>, Error>> {
        Box::pin(async move {
            let kept = self.0.of_tenant(SPACE, tenant, &format!("{run}:")).await?;
            let entries = kept.into_iter().map(|document| from_value(document.body));
            entries.collect::<Result<_, _>>().map_err(|error| {
                let why = format!("the run {run} cannot be read: {error}");
                Error::new(ErrorKind::Internal, why)
            })
        })
    }
}

/// Where a conversation with an agent is kept from run to run.
pub(crate) struct AgentConversation {
    documents: Arc<dyn Documents>,
    tenant: TenantId,
    /// The key that it is held with.
    owner: Option<String>,
    /// The agent, the conversation and the person, which may have any name.
    id: String,
    /// The messages are in the form of its API.
    model: String,
}

impl AgentConversation {
    pub(crate) fn new(
        documents: Arc<dyn Documents>,
        tenant: TenantId,
        owner: Option<String>,
        (tool, model): (&str, &str),
        (conversation, user): (&str, Option<&str>),
    ) -> Self {
        // A conversation is visible to its user only.
        let id = match user {
            Some(user) => json!([tool, conversation, user]),
            None => json!([tool, conversation]),
        };
        let (id, model) = (id.to_string(), model.to_owned());
        Self { documents, tenant, owner, id, model }
    }

    /// Refuses one that begins where there is no room to keep it.
    pub(crate) async fn allow(&self, quotas: &TenantQuotas) -> Result<(), Error> {
        if self.documents.get(CONVERSATIONS, &self.tenant, &self.id).await?.is_some() {
            return Ok(());
        }
        quotas.allow_conversation(&*self.documents, &self.tenant, self.owner.as_deref()).await
    }

    /// The history. With another model it starts anew.
    pub(crate) async fn read(&self) -> Result<History, Error> {
        let found = self.documents.get(CONVERSATIONS, &self.tenant, &self.id).await?;
        let body = found.map(|document| document.body).unwrap_or_default();
        let said = body["messages"].as_array().filter(|_| body["model"] == self.model.as_str());
        Ok(History::new(said.cloned().unwrap_or_default()))
    }

    /// Stores the history so far. One that is too long is not stored.
    pub(crate) async fn keep(&self, history: &History) -> Result<(), Error> {
        let body = json!({"model": self.model, "messages": history.messages()});
        if history.is_empty() || body.to_string().len() > MAX_CONVERSATION {
            return Ok(());
        }
        let mut put = Put::new(CONVERSATIONS, self.tenant.clone(), self.id.clone(), body);
        put.owner.clone_from(&self.owner);
        put.expires_at = Timestamp::now().checked_add(KEEP_RUNS).ok();
        self.documents.put(put, Expect::Anything).await.map(drop)
    }
}
