//! Runs of agents, kept in the documents that all servers of a database share.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{from_value, to_value};
use windlass::{BoxFuture, Error, ErrorKind, TenantId};
use windlass_executors::agent::{Entry, RunLog};
use windlass_store::{Documents, Expect, Put};

const SPACE: &str = "agent_runs";
/// How long a run can go on that was cut off.
const KEEP: Duration = Duration::from_secs(7 * 24 * 3600);
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
            put.expires_at = Timestamp::now().checked_add(KEEP).ok();
            self.0.put(put, Expect::Anything).await.map(drop)
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
