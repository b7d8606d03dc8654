//! [`LastUsed`]: timestamps of last use, written at most once a minute and outside of
//! the request path.
//!
//! They are documents of their own. Inside the documents that they are about, each
//! would be a change that every server is notified of, and that could conflict with a
//! real one.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use lru::LruCache;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use windlass::{Error, TenantId};
use windlass_store::{Documents, Expect, Put};

/// How often a use is noted.
const INTERVAL: Duration = Duration::from_secs(60);
/// Notes that wait to be written. Past that they are left out: the next use
/// will be noted.
const WAITING: usize = 256;
/// Things whose last note is remembered.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");

type UseKey = (TenantId, String);

/// Records when the documents of a space were last used. Needs a Tokio runtime.
pub(crate) struct LastUsed {
    documents: Arc<dyn Documents>,
    space: &'static str,
    noted: Mutex<LruCache<UseKey, Instant>>,
    waiting: mpsc::Sender<UseKey>,
    writer: JoinHandle<()>,
}

impl LastUsed {
    /// Notes uses in this space.
    pub(crate) fn new(documents: Arc<dyn Documents>, space: &'static str) -> Self {
        let (waiting, notes) = mpsc::channel(WAITING);
        let writer = tokio::spawn(write(Arc::clone(&documents), space, notes));
        Self { documents, space, noted: Mutex::new(LruCache::new(REMEMBERED)), waiting, writer }
    }

    /// Notes that this is used now; returns at once.
    pub(crate) fn note(&self, tenant: &TenantId, id: &str) {
        let used = (tenant.clone(), id.to_owned());
        let now = Instant::now();
        {
            let mut noted = self.noted.lock();
            if noted.get(&used).is_some_and(|last| now.duration_since(*last) < INTERVAL) {
                return;
            }
            noted.put(used.clone(), now);
        }
        // Where too many wait, the next use after a minute is noted.
        let _ = self.waiting.try_send(used);
    }

    /// When this was last used, as far as it was noted.
    pub(crate) async fn last(
        &self,
        tenant: &TenantId,
        id: &str,
    ) -> Result<Option<Timestamp>, Error> {
        let note = self.documents.get(self.space, tenant, id).await?;
        Ok(note.and_then(|note| when(&note.body)))
    }

    /// When the things of a tenant were last used, by their ids.
    pub(crate) async fn of_tenant(
        &self,
        tenant: &TenantId,
    ) -> Result<HashMap<String, Timestamp>, Error> {
        let notes = self.documents.of_tenant(self.space, tenant, "").await?;
        Ok(notes.into_iter().filter_map(|note| Some((note.id, when(&note.body)?))).collect())
    }

    /// Forgets a thing that is gone.
    pub(crate) async fn forget(&self, tenant: &TenantId, id: &str) -> Result<(), Error> {
        self.documents.delete(self.space, tenant, id, Expect::Anything).await.map(drop)
    }
}

impl Drop for LastUsed {
    fn drop(&mut self) {
        self.writer.abort();
    }
}

fn when(note: &serde_json::Value) -> Option<Timestamp> {
    note["at"].as_str().and_then(|at| at.parse().ok())
}

async fn write(
    documents: Arc<dyn Documents>,
    space: &'static str,
    mut notes: mpsc::Receiver<UseKey>,
) {
    while let Some((tenant, id)) = notes.recv().await {
        let note = Put::new(space, tenant, id, json!({"at": Timestamp::now()}));
        // A failed write is not retried: the next use writes again.
        let _ = documents.put(note, Expect::Anything).await;
    }
}

#[cfg(test)]
mod tests {
    use windlass_store::MemoryDocuments;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_use_is_noted_once_a_minute() {
        let documents = Arc::new(MemoryDocuments::new());
        let uses = LastUsed::new(documents.clone(), "test_uses");
        let tenant = TenantId::default();
        let version = async || {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let note = documents.get("test_uses", &tenant, "a").await.unwrap();
            note.map_or(0, |note| note.version)
        };
        assert_eq!(uses.last(&tenant, "a").await.unwrap(), None);
        for _ in 0..100 {
            uses.note(&tenant, "a");
        }
        assert_eq!(version().await, 1);
        tokio::time::advance(INTERVAL).await;
        uses.note(&tenant, "a");
        uses.note(&tenant, "a");
        assert_eq!(version().await, 2);
        assert!(uses.last(&tenant, "a").await.unwrap().is_some());
        assert_eq!(uses.of_tenant(&tenant).await.unwrap().len(), 1);
        assert!(uses.of_tenant(&TenantId::new("other")).await.unwrap().is_empty());
        uses.forget(&tenant, "a").await.unwrap();
        assert_eq!(uses.last(&tenant, "a").await.unwrap(), None);
    }
}
