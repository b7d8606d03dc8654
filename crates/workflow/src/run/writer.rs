//! [`Writer`]: appends to the log of a run.

use std::sync::Arc;

use parking_lot::Mutex;
use windlass::Error;

use crate::log::{Entry, RunHead};
use crate::store::{RunStore, StoredRun};

/// Entries that gather before they are written by themselves.
const MANY: usize = 256;

/// Appends entries in groups: those that came while a group was being written
/// are the next one (group commit).
pub(crate) struct Writer {
    store: Arc<dyn RunStore>,
    gathered: Mutex<Vec<Entry>>,
    written: tokio::sync::Mutex<Written>,
}

/// What the store has.
struct Written {
    head: RunHead,
    /// `None` if the run is not stored yet.
    version: Option<u64>,
    groups: u32,
    /// Why nothing can be written any more.
    broken: Option<Error>,
}

impl Writer {
    /// The writer of a run that is not stored yet.
    pub(crate) fn begin(store: Arc<dyn RunStore>, head: RunHead) -> Self {
        Self::new(store, head, None, 0)
    }

    /// The writer of a run that is stored.
    pub(crate) fn resume(store: Arc<dyn RunStore>, run: StoredRun, groups: u32) -> Self {
        Self::new(store, run.head, Some(run.version), groups)
    }

    fn new(store: Arc<dyn RunStore>, head: RunHead, version: Option<u64>, groups: u32) -> Self {
        let written = Written { head, version, groups, broken: None };
        let written = tokio::sync::Mutex::new(written);
        Self { store, gathered: Mutex::default(), written }
    }

    pub(crate) fn store(&self) -> &Arc<dyn RunStore> {
        &self.store
    }

    /// Adds an entry to the next group.
    pub(crate) fn add(&self, entry: Entry) {
        self.gathered.lock().push(entry);
    }

    /// Whether there are entries that are not written.
    pub(crate) fn is_behind(&self) -> bool {
        !self.gathered.lock().is_empty()
    }

    /// Whether enough have gathered that they should be written.
    pub(crate) fn is_far_behind(&self) -> bool {
        self.gathered.lock().len() >= MANY
    }

    /// Writes all entries that were added so far.
    pub(crate) async fn flush(&self) -> Result<(), Error> {
        let mut written = self.written.lock().await;
        self.flush_into(&mut written).await
    }

    async fn flush_into(&self, written: &mut Written) -> Result<(), Error> {
        if let Some(broken) = &written.broken {
            return Err(broken.clone());
        }
        let entries = std::mem::take(&mut *self.gathered.lock());
        if entries.is_empty() && written.version.is_some() {
            return Ok(());
        }
        let appended = self.append(written, &entries).await;
        if let Err(error) = &appended {
            written.broken = Some(error.clone());
        }
        appended
    }

    async fn append(&self, written: &mut Written, entries: &[Entry]) -> Result<(), Error> {
        if written.version.is_none() {
            written.version = Some(self.store.create(&written.head).await?);
        }
        if entries.is_empty() {
            return Ok(());
        }
        let RunHead { tenant, id, .. } = &written.head;
        self.store.append(tenant, id, written.groups, entries).await?;
        written.groups += 1;
        Ok(())
    }

    /// Writes all entries and the head, as this changes it. If somebody else has
    /// changed the head meanwhile, it is changed again.
    pub(crate) async fn update(&self, change: impl Fn(&mut RunHead)) -> Result<(), Error> {
        let mut written = self.written.lock().await;
        if written.version.is_none() {
            let mut head = written.head.clone();
            change(&mut head);
            if head.status.has_ended() {
                written.head = head;
                return self.flush_into(&mut written).await;
            }
        }
        self.flush_into(&mut written).await?;
        loop {
            let mut head = written.head.clone();
            change(&mut head);
            let version = written.version.unwrap_or_default();
            if let Some(version) = self.store.update(&head, version).await? {
                (written.head, written.version) = (head, Some(version));
                return Ok(());
            }
            let now = self.store.head(&head.tenant, &head.id).await?;
            let Some(now) = now.filter(|now| now.head.driver == head.driver) else {
                return Err(crate::store::taken_over(&head.id));
            };
            (written.head, written.version) = (now.head, Some(now.version));
        }
    }
}
