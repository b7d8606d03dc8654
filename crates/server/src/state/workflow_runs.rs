//! Runs of workflows, kept in the documents that all servers on a database share.
//!
//! | space | id | what |
//! |---|---|---|
//! | `workflow_runs` | the run, mirrored, so that the newest comes first | its head |
//! | `workflow_log` | `RUN:00000012` | a group of entries |
//! | `workflow_mail` | `RUN:KEY` | a message to the run |
//! | `workflow_open` | the run | it has not ended |
//! | `workflow_definitions` | a digest | a definition that runs keep to |
//! | `workflow_owners` | a process | it lives, until the document expires |

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::{Value, from_value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OnceCell, broadcast};
use windlass::{BoxFuture, CallId, Error, ErrorKind, TenantId};
use windlass_store::{Documents, Expect, KEEP_RUNS, Put};
use windlass_workflow::log::{Entry, Message, RunHead};
use windlass_workflow::store::{RunChange, RunKey, RunPage, RunStore, StoredRun, taken_over};

const RUNS: &str = "workflow_runs";
const LOG: &str = "workflow_log";
const MAIL: &str = "workflow_mail";
const OPEN: &str = "workflow_open";
const DEFINITIONS: &str = "workflow_definitions";
const OWNERS: &str = "workflow_owners";

/// How long the log of a run is kept: longer than a run can wait.
const KEEP_LOG: Duration = Duration::from_secs(400 * 86_400);
/// How often a process says that it lives, and how long that is believed.
const BEAT: Duration = Duration::from_secs(5);
const BELIEVED: Duration = Duration::from_secs(20);
/// How long a count of open runs is believed.
const COUNTED_FOR: Duration = Duration::from_secs(5);
/// How many digests are remembered of definitions that are stored.
const KNOWN_DEFINITIONS: usize = 10_000;

/// A store that outlives the process.
pub(crate) struct StoredWorkflowRuns {
    documents: Arc<dyn Documents>,
    owner: Arc<str>,
    changes: broadcast::Sender<RunChange>,
    /// Set when this process has said that it lives.
    beating: OnceCell<()>,
    known: Mutex<HashSet<RunKey>>,
    /// How many open runs the tenants have that began one lately.
    counted: Mutex<HashMap<TenantId, (Instant, u64)>>,
    most_open: u64,
}

impl StoredWorkflowRuns {
    /// Runs in these documents, of which a tenant may have so many open ones.
    pub(crate) fn new(documents: Arc<dyn Documents>, most_open: u64) -> Arc<Self> {
        let owner = CallId::at(Timestamp::now()).to_string().into();
        let (changes, beating) = (broadcast::Sender::new(1024), OnceCell::new());
        let (known, counted) = (Mutex::default(), Mutex::default());
        Arc::new(Self { documents, owner, changes, beating, known, counted, most_open })
    }

    /// Tells of the changes of other servers, until the store is dropped.
    pub(crate) fn follow(self: &Arc<Self>) {
        let (mut news, store) = (self.documents.changes(), Arc::downgrade(self));
        tokio::spawn(async move {
            loop {
                let change = match news.recv().await {
                    Ok(change) => match run_of(&change.space, &change.id) {
                        Some(run) => RunChange { tenant: change.tenant, run },
                        None => continue,
                    },
                    Err(RecvError::Lagged(_)) => {
                        RunChange { tenant: TenantId::default(), run: "".into() }
                    }
                    Err(RecvError::Closed) => return,
                };
                let Some(store) = store.upgrade() else { return };
                // Nobody listens where nothing waits.
                store.changes.send(change).ok();
            }
        });
    }

    /// Says that this process lives, from now on.
    async fn beat(&self) -> Result<(), Error> {
        let begin = async || {
            say_that_it_lives(&*self.documents, &self.owner).await?;
            let (documents, owner) = (Arc::downgrade(&self.documents), Arc::clone(&self.owner));
            tokio::spawn(keep_beating(documents, owner));
            Ok(())
        };
        self.beating.get_or_try_init(begin).await.map(drop)
    }

    /// Refuses a run of a tenant that has too many open ones. They are counted
    /// now and then, and in between those that begin here are added.
    async fn has_room(&self, tenant: &TenantId) -> Result<(), Error> {
        let known = {
            let mut counted = self.counted.lock();
            counted.retain(|_, (at, _)| at.elapsed() < COUNTED_FOR);
            counted.get_mut(tenant).map(|(_, open)| {
                *open += 1;
                *open
            })
        };
        let open = match known {
            Some(open) => open,
            None => {
                let open = self.documents.size_of(OPEN, tenant, None).await?.count + 1;
                self.counted.lock().insert(tenant.clone(), (Instant::now(), open));
                open
            }
        };
        if open <= self.most_open {
            return Ok(());
        }
        let most = self.most_open;
        let why = format!("{most} runs of workflows have not ended; cancel some, or let them end");
        Err(Error::new(ErrorKind::QuotaExceeded, why).nothing_done())
    }

    async fn put(&self, put: Put, expect: Expect) -> Result<Option<u64>, Error> {
        self.documents.put(put, expect).await
    }
}

async fn say_that_it_lives(documents: &dyn Documents, owner: &str) -> Result<(), Error> {
    let mut put = Put::new(OWNERS, TenantId::default(), owner, json!({}));
    put.expires_at = Timestamp::now().checked_add(BELIEVED).ok();
    documents.put(put, Expect::Anything).await.map(drop)
}

async fn keep_beating(documents: Weak<dyn Documents>, owner: Arc<str>) {
    loop {
        tokio::time::sleep(BEAT).await;
        let Some(documents) = documents.upgrade() else { return };
        if let Err(error) = say_that_it_lives(&*documents, &owner).await {
            tracing::warn!(%error, "that this process lives could not be written down");
        }
    }
}

/// The id of a run, mirrored and back: the newest comes first.
fn mirrored(id: &str) -> String {
    let mirror = |c: char| match c.to_digit(16).and_then(|digit| char::from_digit(15 - digit, 16)) {
        Some(mirrored) => mirrored,
        None => c,
    };
    id.chars().map(mirror).collect()
}

/// The run that a document is of.
fn run_of(space: &str, id: &str) -> Option<Arc<str>> {
    match space {
        "" => Some("".into()),
        RUNS => Some(mirrored(id).into()),
        MAIL => id.split_once(':').map(|(run, _)| run.into()),
        _ => None,
    }
}

fn read<T: DeserializeOwned>(run: &str, body: Value) -> Result<T, Error> {
    from_value(body).map_err(|error| {
        Error::new(ErrorKind::Internal, format!("the run {run} cannot be read: {error}"))
    })
}

fn after(span: Duration) -> Option<Timestamp> {
    Timestamp::now().checked_add(span).ok()
}

fn head_put(head: &RunHead) -> Result<Put, Error> {
    let mut put = Put::of(RUNS, head.tenant.clone(), mirrored(&head.id), head)?;
    put.owner = head.begun_by.as_deref().map(str::to_owned);
    if head.status.has_ended() {
        put.expires_at = after(KEEP_RUNS);
    }
    Ok(put)
}

impl RunStore for StoredWorkflowRuns {
    fn owner(&self) -> Arc<str> {
        Arc::clone(&self.owner)
    }

    fn is_alive<'a>(&'a self, owner: &'a str) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            let found = self.documents.get(OWNERS, &TenantId::default(), owner).await?;
            Ok(found.is_some())
        })
    }

    fn create<'a>(&'a self, head: &'a RunHead) -> BoxFuture<'a, Result<u64, Error>> {
        Box::pin(async move {
            if !head.status.has_ended() {
                self.has_room(&head.tenant).await?;
                self.beat().await?;
                let open = Put::new(OPEN, head.tenant.clone(), &*head.id, json!({}));
                self.put(open, Expect::Anything).await?;
            }
            let version = self.put(head_put(head)?, Expect::Absent).await?;
            version.ok_or_else(|| taken_over(&head.id))
        })
    }

    fn head<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
    ) -> BoxFuture<'a, Result<Option<StoredRun>, Error>> {
        Box::pin(async move {
            let Some(found) = self.documents.get(RUNS, tenant, &mirrored(run)).await? else {
                return Ok(None);
            };
            let version = found.version;
            Ok(Some(StoredRun { head: read(run, found.body)?, version }))
        })
    }

    fn update<'a>(
        &'a self,
        head: &'a RunHead,
        version: u64,
    ) -> BoxFuture<'a, Result<Option<u64>, Error>> {
        Box::pin(async move {
            if head.owner.is_some() {
                self.beat().await?;
            }
            let updated = self.put(head_put(head)?, Expect::Version(version)).await?;
            if updated.is_some() && head.status.has_ended() {
                self.documents.delete(OPEN, &head.tenant, &head.id, Expect::Anything).await?;
            }
            Ok(updated)
        })
    }

    fn append<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
        group: u32,
        entries: &'a [Entry],
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let id = format!("{run}:{group:08}");
            let mut put = Put::of(LOG, tenant.clone(), id, &entries)?;
            put.expires_at = after(KEEP_LOG);
            // Whoever comes second stops here, on whatever server.
            let appended = self.put(put, Expect::Absent).await?;
            appended.map(drop).ok_or_else(|| taken_over(run))
        })
    }

    fn entries<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
    ) -> BoxFuture<'a, Result<(Vec<Entry>, u32), Error>> {
        Box::pin(async move {
            let kept = self.documents.of_tenant(LOG, tenant, &format!("{run}:")).await?;
            let groups = u32::try_from(kept.len()).unwrap_or(u32::MAX);
            let mut entries = Vec::new();
            for group in kept {
                entries.extend(read::<Vec<Entry>>(run, group.body)?);
            }
            Ok((entries, groups))
        })
    }

    fn send<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
        message: &'a Message,
    ) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            let id = format!("{run}:{}", message.key);
            let mut put = Put::of(MAIL, tenant.clone(), id, &(Timestamp::now(), message))?;
            put.expires_at = after(KEEP_LOG);
            Ok(self.put(put, Expect::Absent).await?.is_some())
        })
    }

    fn messages<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Message>, Error>> {
        Box::pin(async move {
            let kept = self.documents.of_tenant(MAIL, tenant, &format!("{run}:")).await?;
            let read = kept.into_iter().map(|document| read(run, document.body));
            let mut read: Vec<(Timestamp, Message)> = read.collect::<Result<_, _>>()?;
            read.sort_by_key(|(at, _)| *at);
            Ok(read.into_iter().map(|(_, message)| message).collect())
        })
    }

    fn keep_definition<'a>(
        &'a self,
        tenant: &'a TenantId,
        digest: &'a str,
        definition: &'a Value,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let key = (tenant.clone(), Arc::from(digest));
            if self.known.lock().contains(&key) {
                return Ok(());
            }
            let put = Put::new(DEFINITIONS, tenant.clone(), digest, definition.clone());
            self.put(put, Expect::Absent).await?;
            let mut known = self.known.lock();
            if known.len() >= KNOWN_DEFINITIONS {
                known.clear();
            }
            known.insert(key);
            Ok(())
        })
    }

    fn definition<'a>(
        &'a self,
        tenant: &'a TenantId,
        digest: &'a str,
    ) -> BoxFuture<'a, Result<Option<Value>, Error>> {
        Box::pin(async move {
            let found = self.documents.get(DEFINITIONS, tenant, digest).await?;
            Ok(found.map(|document| document.body))
        })
    }

    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        page: RunPage<'a>,
    ) -> BoxFuture<'a, Result<Vec<RunHead>, Error>> {
        const PAGE: usize = 100;
        Box::pin(async move {
            let mut found: Vec<RunHead> = Vec::new();
            let mut after = page.before.map(mirrored);
            loop {
                let some = self.documents.list(RUNS, tenant, after.as_deref(), PAGE).await?;
                let was_last = some.len() < PAGE;
                for document in some {
                    let head: RunHead = read(&mirrored(&document.id), document.body)?;
                    if page.workflow.is_none_or(|workflow| *head.workflow == *workflow) {
                        found.push(head);
                    }
                    after = Some(document.id);
                    if found.len() == page.limit {
                        return Ok(found);
                    }
                }
                if was_last {
                    return Ok(found);
                }
            }
        })
    }

    fn open(&self) -> BoxFuture<'_, Result<Vec<RunKey>, Error>> {
        Box::pin(async move {
            let names = self.documents.names(OPEN).await?;
            Ok(names.into_iter().map(|(tenant, run)| (tenant, run.into())).collect())
        })
    }

    fn changes(&self) -> broadcast::Receiver<RunChange> {
        self.changes.subscribe()
    }
}
