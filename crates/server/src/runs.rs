//! Runs of agents, kept in the documents that all servers of a database share.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::from_value;
use windlass::{BoxFuture, Error, ErrorKind, TenantId};
use windlass_executors::agent::{Entry, RunLog};
use windlass_store::{Documents, Expect, Put};

const SPACE: &str = "agent_runs";
/// How long a run can go on that was cut off.
const KEEP: Duration = Duration::from_secs(7 * 24 * 3600);

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
            let mut put = Put::of(SPACE, tenant.clone(), name(run, number), entry)?;
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
            let kept = self.0.of_tenant(SPACE, tenant, &format!("{run}:")).await?;
            let entries = kept.into_iter().map(|document| from_value(document.body));
            entries.collect::<Result<_, _>>().map_err(|error| {
                let why = format!("the run {run} cannot be read: {error}");
                Error::new(ErrorKind::Internal, why)
            })
        })
    }
}
