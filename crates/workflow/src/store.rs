//! [`RunStore`]: where runs are kept.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::broadcast;
use windlass::{BoxFuture, Error, ErrorKind, TenantId};

use crate::log::{Entry, Message, RunHead};

/// Maximum number of runs that the store in memory keeps of a tenant.
const MAX_RUNS: usize = 10_000;

/// A run with the version of its head.
#[derive(Clone, Debug)]
pub struct StoredRun {
    /// The head.
    pub head: RunHead,
    /// Increases with every change of the head.
    pub version: u64,
}

/// A change of a run: its head, or a message to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunChange {
    /// The tenant.
    pub tenant: TenantId,
    /// The run; empty if changes may have been missed.
    pub run: Arc<str>,
}

/// A run and its tenant.
pub type RunKey = (TenantId, Arc<str>);

/// A page of runs: those after an id, and at most so many.
#[derive(Clone, Debug)]
pub struct RunPage<'a> {
    /// Of this workflow.
    pub workflow: Option<&'a str>,
    /// Before this run: pages go from new to old.
    pub before: Option<&'a str>,
    /// At most so many.
    pub limit: usize,
}

/// Keeps runs, their logs, the messages to them and their definitions. What a
/// future has stored when it is ready is durable.
pub trait RunStore: Send + Sync + 'static {
    /// The process on whose behalf this store writes.
    fn owner(&self) -> Arc<str>;

    /// Whether another process still runs.
    fn is_alive<'a>(&'a self, owner: &'a str) -> BoxFuture<'a, Result<bool, Error>>;

    /// Stores a run that is not there yet.
    fn create<'a>(&'a self, head: &'a RunHead) -> BoxFuture<'a, Result<u64, Error>>;

    /// A run.
    fn head<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
    ) -> BoxFuture<'a, Result<Option<StoredRun>, Error>>;

    /// Replaces the head of a run that still has this version. Returns the new
    /// version; `None` if somebody else was first.
    fn update<'a>(
        &'a self,
        head: &'a RunHead,
        version: u64,
    ) -> BoxFuture<'a, Result<Option<u64>, Error>>;

    /// Appends the group of entries with this number, from 0. If there is one
    /// already, another driver has taken over: [`taken_over`]. Since effects
    /// wait for their entries, a run has only one driver.
    fn append<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
        group: u32,
        entries: &'a [Entry],
    ) -> BoxFuture<'a, Result<(), Error>>;

    /// All entries of a run in order, and the number of groups.
    fn entries<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
    ) -> BoxFuture<'a, Result<(Vec<Entry>, u32), Error>>;

    /// Keeps a message to a run. Returns whether it is a new one.
    fn send<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
        message: &'a Message,
    ) -> BoxFuture<'a, Result<bool, Error>>;

    /// The messages to a run, oldest first.
    fn messages<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Message>, Error>>;

    /// Keeps a definition under its digest.
    fn keep_definition<'a>(
        &'a self,
        tenant: &'a TenantId,
        digest: &'a str,
        definition: &'a Value,
    ) -> BoxFuture<'a, Result<(), Error>>;

    /// The definition with a digest.
    fn definition<'a>(
        &'a self,
        tenant: &'a TenantId,
        digest: &'a str,
    ) -> BoxFuture<'a, Result<Option<Value>, Error>>;

    /// Runs of a tenant, the newest first.
    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        page: RunPage<'a>,
    ) -> BoxFuture<'a, Result<Vec<RunHead>, Error>>;

    /// Tenants and ids of all runs that have not ended.
    fn open(&self) -> BoxFuture<'_, Result<Vec<RunKey>, Error>>;

    /// Changes of runs by this and other processes.
    fn changes(&self) -> broadcast::Receiver<RunChange>;
}

/// The error of a driver whose run another call drives.
pub fn taken_over(run: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("another call goes on with the run {run}"))
}

/// A store in memory: of each tenant it keeps the newest runs.
pub struct MemoryRuns {
    shared: Arc<Memory>,
    owner: Arc<str>,
}

struct Memory {
    kept: Mutex<BTreeMap<TenantId, TenantRuns>>,
    changes: broadcast::Sender<RunChange>,
    /// Those who use it.
    owners: Mutex<Vec<Arc<str>>>,
    owners_so_far: AtomicUsize,
}

#[derive(Default)]
struct TenantRuns {
    runs: BTreeMap<Arc<str>, KeptRun>,
    definitions: BTreeMap<Arc<str>, Value>,
}

struct KeptRun {
    run: StoredRun,
    groups: Vec<Vec<Entry>>,
    messages: Vec<Message>,
}

impl Default for MemoryRuns {
    fn default() -> Self {
        let memory = Memory {
            kept: Mutex::default(),
            changes: broadcast::Sender::new(1024),
            owners: Mutex::default(),
            owners_so_far: AtomicUsize::new(0),
        };
        Self::of(Arc::new(memory))
    }
}

impl Drop for MemoryRuns {
    fn drop(&mut self) {
        self.shared.owners.lock().retain(|owner| *owner != self.owner);
    }
}

impl MemoryRuns {
    fn of(shared: Arc<Memory>) -> Self {
        let number = shared.owners_so_far.fetch_add(1, Ordering::Relaxed);
        let owner: Arc<str> = format!("memory-{number}").into();
        shared.owners.lock().push(Arc::clone(&owner));
        Self { shared, owner }
    }

    /// The same runs for another owner, who counts as dead when this is
    /// dropped: several engines of a program can share runs.
    #[must_use]
    pub fn for_another(&self) -> Self {
        Self::of(Arc::clone(&self.shared))
    }

    fn with<T>(&self, tenant: &TenantId, change: impl FnOnce(&mut TenantRuns) -> T) -> T {
        let mut kept = self.shared.kept.lock();
        match kept.get_mut(tenant) {
            Some(own) => change(own),
            None => change(kept.entry(tenant.clone()).or_default()),
        }
    }

    fn of_run<T>(
        &self,
        tenant: &TenantId,
        run: &str,
        change: impl FnOnce(&mut KeptRun) -> T,
    ) -> Option<T> {
        self.shared.kept.lock().get_mut(tenant)?.runs.get_mut(run).map(change)
    }

    fn tell(&self, tenant: &TenantId, run: &str) {
        // Nobody listens in programs that never wait.
        self.shared.changes.send(RunChange { tenant: tenant.clone(), run: run.into() }).ok();
    }
}

fn ready<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, Result<T, Error>> {
    Box::pin(std::future::ready(Ok(value)))
}

impl RunStore for MemoryRuns {
    fn owner(&self) -> Arc<str> {
        Arc::clone(&self.owner)
    }

    fn is_alive<'a>(&'a self, owner: &'a str) -> BoxFuture<'a, Result<bool, Error>> {
        ready(self.shared.owners.lock().iter().any(|alive| **alive == *owner))
    }

    fn create<'a>(&'a self, head: &'a RunHead) -> BoxFuture<'a, Result<u64, Error>> {
        self.with(&head.tenant, |own| {
            if own.runs.len() >= MAX_RUNS {
                let ended = own.runs.iter().find(|(_, kept)| kept.run.head.status.has_ended());
                let oldest = ended.or_else(|| own.runs.iter().next()).map(|(id, _)| Arc::clone(id));
                oldest.and_then(|id| own.runs.remove(&id));
            }
            let run = StoredRun { head: head.clone(), version: 1 };
            let kept = KeptRun { run, groups: Vec::new(), messages: Vec::new() };
            own.runs.insert(Arc::clone(&head.id), kept);
        });
        ready(1)
    }

    fn head<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
    ) -> BoxFuture<'a, Result<Option<StoredRun>, Error>> {
        ready(self.of_run(tenant, run, |kept| kept.run.clone()))
    }

    fn update<'a>(
        &'a self,
        head: &'a RunHead,
        version: u64,
    ) -> BoxFuture<'a, Result<Option<u64>, Error>> {
        let updated = self.of_run(&head.tenant, &head.id, |kept| {
            (kept.run.version == version).then(|| {
                kept.run = StoredRun { head: head.clone(), version: version + 1 };
                version + 1
            })
        });
        if updated.flatten().is_some() {
            self.tell(&head.tenant, &head.id);
        }
        ready(updated.flatten())
    }

    fn append<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
        group: u32,
        entries: &'a [Entry],
    ) -> BoxFuture<'a, Result<(), Error>> {
        let appended = self.of_run(tenant, run, |kept| {
            let is_next = kept.groups.len() == group as usize;
            if is_next {
                kept.groups.push(entries.to_vec());
            }
            is_next
        });
        match appended {
            Some(false) => Box::pin(std::future::ready(Err(taken_over(run)))),
            // A run that was evicted goes on without a log.
            Some(true) | None => ready(()),
        }
    }

    fn entries<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
    ) -> BoxFuture<'a, Result<(Vec<Entry>, u32), Error>> {
        let found = self.of_run(tenant, run, |kept| {
            (kept.groups.concat(), u32::try_from(kept.groups.len()).unwrap_or(u32::MAX))
        });
        ready(found.unwrap_or_default())
    }

    fn send<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
        message: &'a Message,
    ) -> BoxFuture<'a, Result<bool, Error>> {
        let is_new = self.of_run(tenant, run, |kept| {
            let is_new = kept.messages.iter().all(|known| known.key != message.key);
            if is_new {
                kept.messages.push(message.clone());
            }
            is_new
        });
        self.tell(tenant, run);
        ready(is_new.unwrap_or_default())
    }

    fn messages<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Message>, Error>> {
        ready(self.of_run(tenant, run, |kept| kept.messages.clone()).unwrap_or_default())
    }

    fn keep_definition<'a>(
        &'a self,
        tenant: &'a TenantId,
        digest: &'a str,
        definition: &'a Value,
    ) -> BoxFuture<'a, Result<(), Error>> {
        self.with(tenant, |own| {
            if !own.definitions.contains_key(digest) {
                own.definitions.insert(digest.into(), definition.clone());
            }
        });
        ready(())
    }

    fn definition<'a>(
        &'a self,
        tenant: &'a TenantId,
        digest: &'a str,
    ) -> BoxFuture<'a, Result<Option<Value>, Error>> {
        ready(self.with(tenant, |own| own.definitions.get(digest).cloned()))
    }

    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        page: RunPage<'a>,
    ) -> BoxFuture<'a, Result<Vec<RunHead>, Error>> {
        ready(self.with(tenant, |own| {
            let heads = own.runs.values().rev().map(|kept| &kept.run.head);
            heads
                .filter(|head| page.before.is_none_or(|before| *head.id < *before))
                .filter(|head| page.workflow.is_none_or(|workflow| *head.workflow == *workflow))
                .take(page.limit)
                .cloned()
                .collect()
        }))
    }

    fn open(&self) -> BoxFuture<'_, Result<Vec<RunKey>, Error>> {
        let kept = self.shared.kept.lock();
        let open = kept.iter().flat_map(|(tenant, own)| {
            let runs = own.runs.iter().filter(|(_, kept)| !kept.run.head.status.has_ended());
            runs.map(|(id, _)| (tenant.clone(), Arc::clone(id)))
        });
        ready(open.collect())
    }

    fn changes(&self) -> broadcast::Receiver<RunChange> {
        self.shared.changes.subscribe()
    }
}
