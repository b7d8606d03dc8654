//! Pool of read-only connections, so that a slow query does not delay the writer,
//! and those of one tenant not those of another.
//!
//! Connections and timers belong to the store's own runtime: queries may come from any
//! other one.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_postgres::Client;
use windlass::{Error, FairSlots, TenantId};

use super::connect::Target;
use super::fault::{Fault, no_answer, unavailable};
use super::options::PostgresOptions;

pub(crate) struct Readers {
    target: Target,
    runtime: Handle,
    idle: Mutex<Vec<Arc<Client>>>,
    slots: Arc<FairSlots>,
    /// Client-side timeout, longer than the server's statement timeout.
    patience: Duration,
}

impl Readers {
    pub(crate) fn new(target: Target, runtime: Handle, options: &PostgresOptions) -> Self {
        Self {
            target,
            runtime,
            idle: Mutex::default(),
            slots: FairSlots::new(options.readers),
            patience: options.statement_timeout + Duration::from_secs(1),
        }
    }

    /// Runs a query of a tenant, or of the server itself, on a pooled connection. `what` finishes the sentence "cannot …".
    pub(crate) async fn ask<T, F>(
        &self,
        what: &'static str,
        tenant: Option<&TenantId>,
        question: impl FnOnce(Arc<Client>) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, tokio_postgres::Error>>,
    {
        let place = &self.target.place;
        let gone = || unavailable(format!("cannot {what}: the store is shutting down"));
        let _slot = self.slots.take(tenant).await;
        let client = match self.idle() {
            Some(client) => client,
            None => {
                let target = self.target.clone();
                let opened = self.runtime.spawn(async move { target.reader().await });
                let opened = opened.await.map_err(|_| gone())?;
                Arc::new(opened.map_err(|fault| fault.at(place, what))?)
            }
        };
        let mut late = JoinSet::new();
        late.spawn_on(sleep(self.patience), &self.runtime);
        let answer = tokio::select! {
            answer = question(Arc::clone(&client)) => answer,
            // A connection that timed out is not reused.
            _ = late.join_next() => return Err(no_answer(place, what, self.patience)),
        };
        self.idle.lock().push(client);
        answer.map_err(|cause| Fault::from(cause).at(place, what))
    }

    fn idle(&self) -> Option<Arc<Client>> {
        let mut idle = self.idle.lock();
        idle.retain(|client| !client.is_closed());
        idle.pop()
    }
}
