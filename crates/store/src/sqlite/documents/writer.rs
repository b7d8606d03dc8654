//! Write connection with one operation at a time, opened by the first that needs it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::task;
use windlass::{Error, FairSlots, TenantId};

use crate::fault::unavailable;
use crate::sqlite::connect;
use crate::sqlite::fault::storage;
use crate::sqlite::file_identity::FileIdentity;
use crate::sqlite::options::Options;

pub(super) struct DocumentWriter {
    path: PathBuf,
    line: Arc<WriteLine>,
    /// Waiting callers queue here, rather than on a thread each.
    turn: Arc<FairSlots>,
}

/// The connection, and how it is opened.
struct WriteLine {
    path: PathBuf,
    options: Options,
    identity: Arc<FileIdentity>,
    connection: Mutex<Option<Connection>>,
}

impl DocumentWriter {
    /// A writer that opens its connection when it is needed, unless it is given one.
    pub(super) fn new(
        path: &Path,
        connection: Option<Connection>,
        options: Options,
        identity: Arc<FileIdentity>,
    ) -> Self {
        let path = path.to_owned();
        let connection = Mutex::new(connection);
        let line = WriteLine { path: path.clone(), options, identity, connection };
        Self { path, line: Arc::new(line), turn: FairSlots::new(1) }
    }

    /// Runs an operation of a tenant, or of the server itself, in a transaction on a
    /// blocking thread, and reports the change once it is committed. Both are completed
    /// even if the caller is gone. `what` finishes the sentence "cannot …".
    pub(super) async fn write<T: Send + 'static>(
        &self,
        what: &'static str,
        tenant: Option<&TenantId>,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
        tell: impl FnOnce(&T) + Send + 'static,
    ) -> Result<T, Error> {
        let turn = self.turn.take(tenant).await;
        let line = Arc::clone(&self.line);
        let written = task::spawn_blocking(move || {
            let _turn = turn;
            let done = line.transact(work)?;
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
        self.line.transact(work)
    }
}

impl WriteLine {
    fn transact<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        self.identity.check()?;
        let mut open = self.connection.lock();
        let connection = match open.take() {
            Some(connection) => connection,
            None => connect::another_writer(&self.path, &self.options, &self.identity)?,
        };
        let connection = open.insert(connection);
        let give_up = Instant::now() + self.options.busy_timeout;
        let transaction = connect::lock(connection, &|| Instant::now() >= give_up)?;
        let done = work(&transaction)?;
        transaction.commit()?;
        // A commit to a deleted file is not durable.
        self.identity.check()?;
        Ok(done)
    }
}
