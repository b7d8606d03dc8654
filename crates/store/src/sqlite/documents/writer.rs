//! Write connection with one operation at a time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::task;
use windlass::{Error, FairSlots, TenantId};

use crate::fault::unavailable;
use crate::sqlite::connect::lock;
use crate::sqlite::fault::storage;
use crate::sqlite::file_identity::FileIdentity;

pub(super) struct DocumentWriter {
    path: PathBuf,
    connection: Arc<Mutex<Connection>>,
    identity: Arc<FileIdentity>,
    /// Waiting callers queue here, rather than on a thread each.
    turn: Arc<FairSlots>,
    /// How long to wait for another process's lock.
    patience: Duration,
}

impl DocumentWriter {
    pub(super) fn new(
        path: &Path,
        connection: Connection,
        identity: Arc<FileIdentity>,
        patience: Duration,
    ) -> Self {
        Self {
            path: path.to_owned(),
            connection: Arc::new(Mutex::new(connection)),
            identity,
            turn: FairSlots::new(1),
            patience,
        }
    }

    /// Runs an operation of a tenant, or of the server itself, in a transaction on a blocking thread, and reports the change
    /// once it is committed. Both are completed even if the caller is gone. `what`
    /// finishes the sentence "cannot …".
    pub(super) async fn write<T: Send + 'static>(
        &self,
        what: &'static str,
        tenant: Option<&TenantId>,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
        tell: impl FnOnce(&T) + Send + 'static,
    ) -> Result<T, Error> {
        let turn = self.turn.take(tenant).await;
        let (connection, patience) = (Arc::clone(&self.connection), self.patience);
        let identity = Arc::clone(&self.identity);
        let written = task::spawn_blocking(move || {
            let _turn = turn;
            let done = transact(&connection.lock(), &identity, patience, work)?;
            tell(&done);
            Ok(done)
        });
        match written.await {
            Ok(end) => end.map_err(|cause| storage(&self.path, what, cause)),
            Err(cause) => Err(unavailable(format!(
                "cannot {what}: the change to {} was dropped",
                self.path.display()
            ))
            .with_source(cause)),
        }
    }

    /// The same, on this thread.
    pub(super) fn write_here<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        transact(&self.connection.lock(), &self.identity, self.patience, work)
    }
}

fn transact<T>(
    connection: &Connection,
    identity: &FileIdentity,
    patience: Duration,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    identity.check()?;
    let give_up = Instant::now() + patience;
    let transaction = lock(connection, &|| Instant::now() >= give_up)?;
    let done = work(&transaction)?;
    transaction.commit()?;
    // A commit to a deleted file is not durable.
    identity.check()?;
    Ok(done)
}
