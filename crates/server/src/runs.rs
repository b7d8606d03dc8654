//! Runs of agents and what was said in conversations, kept in the documents that
//! all servers of a database share.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{from_value, json, to_value};
use windlass::{BoxFuture, Error, ErrorKind, TenantId};
use windlass_executors::agent::{Entry, History, RunLog, taken_over};
use windlass_store::{Documents, Expect, KEEP_RUNS, Put};

const SPACE: &str = "agent_runs";
const CONVERSATIONS: &str = "agent_conversations";
/// The longest conversation that is kept, as JSON.
const MAX_CONVERSATION: usize = 4 * 1024 * 1024;
/// How many entries are read at once.
const PAGE: usize = 100;

/// A log that outlives the process.
pub(crate) struct KeptRuns(pub(crate) Arc<dyn Documents>);

/// Entries of a run stand together, in their order.
fn name(run: &str, number: u32) -> String {
    format!("{run}:{number:08}")
}

impl RunLog for KeptRuns {
    fn append<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
        number: u32,
        entry: &'a Entry,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let body = to_value(entry)
                .map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
            let mut put = Put::new(SPACE, tenant.clone(), name(run, number), body);
            put.expires_at = Timestamp::now().checked_add(KEEP_RUNS).ok();
            // Whoever comes second stops here, on whatever server.
            let kept = self.0.put(put, Expect::Absent).await?;
            kept.map(drop).ok_or_else(|| taken_over(run))
        })
    }

    fn read<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Entry>, Error>> {
        Box::pin(async move {
            let beginning = format!("{run}:");
            let mut entries = Vec::new();
            let mut after = beginning.clone();
            loop {
                let page = self.0.list(SPACE, tenant, Some(&after), PAGE).await?;
                let is_last = page.len() < PAGE;
                for document in page {
                    if !document.id.starts_with(&beginning) {
                        return Ok(entries);
                    }
                    after.clone_from(&document.id);
                    entries.push(from_value(document.body).map_err(|error| {
                        let why = format!("the run {run} cannot be read: {error}");
                        Error::new(ErrorKind::Internal, why)
                    })?);
                }
                if is_last {
                    return Ok(entries);
                }
            }
        })
    }
}

/// Where a conversation with an agent is kept from run to run.
pub(crate) struct Conversation {
    documents: Arc<dyn Documents>,
    tenant: TenantId,
    /// The agent and the conversation, either of which may have any name.
    id: String,
    /// The messages are in the form of its API.
    model: String,
}

impl Conversation {
    pub(crate) fn new(
        documents: Arc<dyn Documents>,
        tenant: TenantId,
        (tool, model): (&str, &str),
        conversation: &str,
    ) -> Self {
        let (id, model) = (json!([tool, conversation]).to_string(), model.to_owned());
        Self { documents, tenant, id, model }
    }

    /// What was said. With another model it begins anew.
    pub(crate) async fn read(&self) -> Result<History, Error> {
        let found = self.documents.get(CONVERSATIONS, &self.tenant, &self.id).await?;
        let body = found.map(|document| document.body).unwrap_or_default();
        let said = body["messages"].as_array().filter(|_| body["model"] == self.model.as_str());
        Ok(History::new(said.cloned().unwrap_or_default()))
    }

    /// Keeps what has been said by now. One that is too long stays as it was.
    pub(crate) async fn keep(&self, history: &History) -> Result<(), Error> {
        let body = json!({"model": self.model, "messages": history.messages()});
        if history.is_empty() || body.to_string().len() > MAX_CONVERSATION {
            return Ok(());
        }
        let mut put = Put::new(CONVERSATIONS, self.tenant.clone(), self.id.clone(), body);
        put.expires_at = Timestamp::now().checked_add(KEEP_RUNS).ok();
        self.documents.put(put, Expect::Anything).await.map(drop)
    }
}
