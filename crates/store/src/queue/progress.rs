//! How far the writer has come, and how others wait for it.

use tokio::sync::{oneshot, watch};
use windlass::{CallId, Error, TenantId};

use super::{KeepOutput, Queue, Wake};
use crate::fault::unavailable;

/// How far the writer has come.
#[derive(Default)]
pub(crate) struct Progress {
    /// How many of the appended records are committed, or given up.
    committed: u64,
    /// How many attempts have failed.
    failures: u64,
    /// Why the last one failed; none once one has succeeded.
    pub(crate) outage: Option<Error>,
}

impl Progress {
    /// The writer's side: so many records are committed.
    pub(crate) fn succeeded(&mut self, records: usize) {
        self.committed += records as u64;
        self.outage = None;
    }

    /// The writer's side: an attempt has failed.
    pub(crate) fn failed(&mut self, error: Error) {
        self.failures += 1;
        self.outage = Some(error);
    }
}

impl<W: Wake> Queue<W> {
    /// Ends when everything appended so far is committed, with an error when an
    /// attempt fails before, and with nothing where the writer has ended.
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

    /// Ends when an output is kept, with nothing where the writer has ended. One
    /// of more bytes than `most` is refused.
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

    /// Ends when no output of this id is kept, with nothing where the writer has
    /// ended.
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

    /// Ends when few enough records wait, or the writer has ended.
    pub(crate) async fn caught_up(&self, mut progress: watch::Receiver<Progress>) {
        // The writer counts down before it reports progress, so no report that
        // matters comes before the condition is looked at.
        let _ = progress.wait_for(|_| self.keeps_up()).await;
    }
}
