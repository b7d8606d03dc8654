//! Document stores to test with, each of which several servers may open.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::broadcast;
use tokio::time::timeout;
use windlass_store::{
    Change, Documents, MemoryDocuments, Options, PostgresDocuments, PostgresOptions,
    SqliteDocuments,
};

use crate::postgres::Database;

/// How many events a place keeps in these tests.
pub(crate) const KEEP_EVENTS: u64 = 500;

pub(crate) enum Place {
    /// It cannot be opened twice; all share the one.
    Memory(Arc<MemoryDocuments>),
    Sqlite(TempDir),
    Postgres(Database),
}

impl Place {
    pub(crate) fn memory() -> Self {
        Self::Memory(Arc::new(MemoryDocuments::with_events(KEEP_EVENTS as usize)))
    }

    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    pub(crate) async fn postgres() -> Self {
        Self::Postgres(Database::new().await)
    }

    /// What a server opens when it starts.
    pub(crate) async fn open(&self) -> Arc<dyn Documents> {
        match self {
            Self::Memory(documents) => Arc::clone(documents) as _,
            Self::Sqlite(folder) => {
                let options = Options { keep_events: KEEP_EVENTS, ..Options::default() };
                Arc::new(SqliteDocuments::open_with(file(folder), options).unwrap())
            }
            Self::Postgres(database) => {
                let options =
                    PostgresOptions { keep_events: KEEP_EVENTS, ..PostgresOptions::default() };
                let url = database.url().parse().unwrap();
                Arc::new(PostgresDocuments::connect_to(&url, options).await.unwrap())
            }
        }
    }

    /// How many documents there are, expired ones too.
    pub(crate) async fn rows(&self) -> Option<i64> {
        let sql = "SELECT count(*) FROM windlass.documents";
        match self {
            Self::Memory(_) => None,
            Self::Sqlite(folder) => {
                let db = rusqlite::Connection::open(file(folder)).unwrap();
                Some(db.query_row(&sql.replace("windlass.", ""), [], |row| row.get(0)).unwrap())
            }
            Self::Postgres(database) => {
                Some(database.raw().await.query_one(sql, &[]).await.unwrap().get(0))
            }
        }
    }
}

fn file(folder: &TempDir) -> PathBuf {
    folder.path().join("calls.db")
}

/// The next change, which should not take long.
pub(crate) async fn next(changes: &mut broadcast::Receiver<Change>) -> Change {
    timeout(Duration::from_secs(5), changes.recv()).await.expect("no change was heard").unwrap()
}
