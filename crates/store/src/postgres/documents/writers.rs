//! Pool of connections that write.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_postgres::Client;
use windlass::{Error, FairSlots, TenantId};

use super::super::connect::Target;
use super::super::options::PostgresOptions;
use super::fault::{Fault, no_answer, unavailable};

pub(super) struct Writers {
    target: Target,
    runtime: Handle,
    idle: Mutex<Vec<Arc<Client>>>,
    slots: Arc<FairSlots>,
    /// Client-side timeout, longer than the server's statement timeout.
    patience: Duration,
}

impl Writers {
    pub(super) fn new(target: Target, runtime: Handle, options: &PostgresOptions) -> Self {
        Self {
            target,
            runtime,
            idle: Mutex::default(),
            slots: FairSlots::new(options.readers),
            patience: options.statement_timeout + Duration::from_secs(1),
        }
    }

    /// Runs an operation of a tenant, or of the server itself, on a pooled connection to its end, even if the caller is gone.
    /// It is not retried: after a lost connection its outcome is unknown. `what` finishes
    /// the sentence "cannot …".
    pub(super) async fn write<T, F>(
        self: &Arc<Self>,
        what: &'static str,
        tenant: Option<&TenantId>,
        work: impl FnOnce(Arc<Client>) -> F + Send + 'static,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        let gone = || unavailable(format!("cannot {what}: the store is shutting down"));
        let slot = self.slots.take(tenant).await;
        let this = Arc::clone(self);
        let task = self.runtime.spawn(async move {
            let _slot = slot;
            this.try_write(what, work).await
        });
        let end = task.await.map_err(|_| gone())?;
        end.map_err(|fault| fault.at(&self.target.place, what))
    }

    async fn try_write<T, F>(
        &self,
        what: &'static str,
        work: impl FnOnce(Arc<Client>) -> F,
    ) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        let client = match self.idle() {
            Some(client) => client,
            None => Arc::new(self.target.writer().await?),
        };
        let end = timeout(self.patience, work(Arc::clone(&client)))
            .await
            .unwrap_or_else(|_| Err(no_answer(&self.target.place, what, self.patience).into()));
        // A connection that timed out, broke or leads to a standby is not reused.
        let is_good = |fault: &Fault| fault.code().is_some() && !fault.is_read_only();
        if end.as_ref().err().is_none_or(is_good) {
            self.idle.lock().push(client);
        }
        end
    }

    fn idle(&self) -> Option<Arc<Client>> {
        let mut idle = self.idle.lock();
        idle.retain(|client| !client.is_closed());
        idle.pop()
    }
}
