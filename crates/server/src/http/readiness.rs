//! Readiness check: whether the database can be read and written. A database that
//! can be read may have a full disk or a deleted file, and then every call with a
//! side effect is refused.
//!
//! The result is cached for about a second, so that frequent probes cost next to
//! nothing.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::time::timeout;
use windlass::{Engine, Error, ErrorKind};
use windlass_store::Documents;

/// How long the database may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long an answer holds.
const HOLDS: Duration = Duration::from_secs(1);

/// What was found out last.
#[derive(Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Result<(), Error>)>>);

impl Readiness {
    /// Whether the database can be read and written, or why not.
    pub(crate) async fn ask(
        &self,
        engine: &Engine,
        documents: &dyn Documents,
    ) -> Result<(), Error> {
        let last = self.0.lock().clone();
        if let Some((_, found)) = last.filter(|(at, _)| at.elapsed() < HOLDS) {
            return found;
        }
        // Concurrent probes share one write.
        let asked = async {
            engine.records().probe().await?;
            documents.event_range().await.map(drop)
        };
        let found = timeout(PATIENCE, asked).await.unwrap_or_else(|_| {
            let why = format!("the database has not answered for {} s", PATIENCE.as_secs());
            Err(Error::new(ErrorKind::StorageUnavailable, why))
        });
        let before = self.0.lock().replace((Instant::now(), found.clone()));
        let was_ready = before.is_none_or(|(_, before)| before.is_ok());
        match &found {
            Err(error) if was_ready => {
                tracing::error!(%error, "not ready: the database cannot be used");
            }
            Ok(()) if !was_ready => tracing::info!("ready again: the database can be used"),
            _ => {}
        }
        found
    }
}
