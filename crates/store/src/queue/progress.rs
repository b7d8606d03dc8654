//! The writer's progress, and waiting for it.

use tokio::sync::{oneshot, watch};
use windlass::{CallId, Error, TenantId};

use super::{KeepOutput, Queue, Wake};
use crate::fault::unavailable;

/// The writer's progress.
#[derive(Default)]
pub(crate) struct Progress {
    /// Number of appended records that are committed or given up.
    committed: u64,
    /// Number of failed attempts.
    failures: u64,
    /// The error of the current outage; `None` after a success.
    pub(crate) outage: Option<Error>,
}

impl Progress {
    /// Called by the writer: records were committed.
    pub(crate) fn succeeded(&mut self, records: usize) {
        self.committed += records as u64;
        self.outage = None;
    }

    /// Called by the writer: an attempt has failed.
    pub(crate) fn failed(&mut self, error: Error) {
        self.failures += 1;
        self.outage = Some(error);
    }
}

impl<W: Wake> Queue<W> {
    /// Waits until everything appended so far is committed. `Err` if an attempt fails
    /// first; `None` if the writer is gone.
    pub(crate) async fn flushed(
        &self,
        mut progress: watch::Receiver<Progress>,
    ) -> Option<Result<(), Error>> {
        let failures = progress.borrow().failures;
        let wanted = self.hurry();
        let failed = |now: &Progress| now.failures > failures && now.outage.is_some();
        let end = progress.wait_for(|now| now.committed >= wanted || failed(now)).await.ok()?;
        match &end.outage {
            Some(error) if end.committed < wanted => Some(Err(error.clone())),
            _ => Some(Ok(())),
        }
    }

    /// Waits until an output is stored. Refuses one larger than `most`; `None` if the
    /// writer is gone.
    pub(crate) async fn kept(
        &self,
        tenant: &TenantId,
        id: CallId,
        bytes: Vec<u8>,
        most: u64,
    ) -> Option<Result<(), Error>> {
        let size = bytes.len() as u64;
        if size > most {
            return Some(Err(unavailable(format!(
                "the output of call {id} has {size} bytes, more than the {most} that are kept"
            ))));
        }
        self.settled(tenant, id, Some(bytes)).await
    }

    /// Waits until no output with this id is stored; `None` if the writer is gone.
    pub(crate) async fn forgotten(
        &self,
        tenant: &TenantId,
        id: CallId,
    ) -> Option<Result<(), Error>> {
        self.settled(tenant, id, None).await
    }

    async fn settled(
        &self,
        tenant: &TenantId,
        id: CallId,
        bytes: Option<Vec<u8>>,
    ) -> Option<Result<(), Error>> {
        let (done, answer) = oneshot::channel();
        self.keep(KeepOutput { tenant: tenant.clone(), id, bytes, done });
        answer.await.ok()
    }

    /// Waits until the backlog is small enough, or the writer is gone.
    pub(crate) async fn caught_up(&self, mut progress: watch::Receiver<Progress>) {
        // The writer decrements the counter before it reports progress, so no report is
        // missed.
        let _ = progress.wait_for(|_| self.keeps_up()).await;
    }
}
