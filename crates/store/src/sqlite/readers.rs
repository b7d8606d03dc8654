//! Pool of read-only connections, so that a slow query delays neither the writer nor
//! async tasks, and those of one tenant not those of another; and blocking calls to the
//! file system.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::task;
use windlass::{Error, FairSlots, TenantId};

use super::connect;
use super::fault::storage;
use super::file_identity::FileIdentity;
use super::options::Options;
use crate::fault::unavailable;

pub(crate) struct Readers {
    path: PathBuf,
    options: Options,
    identity: Arc<FileIdentity>,
    idle: Arc<Mutex<Vec<Connection>>>,
    slots: Arc<FairSlots>,
}

impl Readers {
    pub(crate) fn new(path: PathBuf, options: Options, identity: Arc<FileIdentity>) -> Self {
        let slots = FairSlots::new(options.readers);
        Self { path, options, identity, idle: Arc::default(), slots }
    }

    /// Runs a query of a tenant, or of the server itself, on a blocking thread. `what`
    /// finishes the sentence "cannot …".
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        what: &'static str,
        tenant: Option<&TenantId>,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let slot = self.slots.take(tenant).await;
        let idle = Arc::clone(&self.idle);
        let (path, options) = (self.path.clone(), self.options.clone());
        let identity = Arc::clone(&self.identity);
        let answer = task::spawn_blocking(move || {
            let _slot = slot;
            let kept = idle.lock().pop();
            let connection = match kept {
                Some(connection) => connection,
                None => connect::reader(&path, &options, &identity)?,
            };
            let answer = question(&connection)?;
            // A connection that failed is not reused; it was dropped above.
            idle.lock().push(connection);
            Ok(answer)
        });
        match answer.await {
            Ok(answer) => answer.map_err(|cause| storage(&self.path, what, cause)),
            Err(cause) => Err(unavailable(format!(
                "cannot {what}: the question to {} was dropped",
                self.path.display()
            ))
            .with_source(cause)),
        }
    }

    /// Calls the file system on a blocking thread. `what` finishes the sentence "cannot
    /// …".
    pub(crate) async fn wait<T: Send + 'static>(
        &self,
        what: &'static str,
        question: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let file = self.path.display();
        match task::spawn_blocking(question).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(cause)) => {
                Err(unavailable(format!("cannot {what} ({file}): {cause}")).with_source(cause))
            }
            Err(cause) => {
                Err(unavailable(format!("cannot {what}: the question about {file} was dropped"))
                    .with_source(cause))
            }
        }
    }
}
