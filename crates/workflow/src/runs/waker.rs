//! Goes on with runs whose time, answer or child has come, and with those whose
//! process has died.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio::sync::broadcast::error::RecvError;
use windlass::{Error, ErrorKind};

use super::Runs;
use crate::log::{Recipient, RunHead, RunStatus, Wait};
use crate::store::RunKey;

/// How many runs are gone on with at once; each holds a slot of the engine only
/// while it runs a tool.
const AT_ONCE: usize = 256;
/// How often all open runs are looked through, for those of dead processes.
const SWEEP: Duration = Duration::from_secs(15);
/// How often the call of a run that waits for its approval is looked up.
const LOOK: Duration = Duration::from_secs(2);
/// How long a run whose drive could not begin is left alone.
const AGAIN: Duration = Duration::from_secs(5);

/// When which run goes on.
#[derive(Default)]
struct Index {
    due: BTreeSet<(Timestamp, RunKey)>,
    times: HashMap<RunKey, Timestamp>,
}

impl Index {
    fn set(&mut self, run: &RunKey, due: Option<Timestamp>) {
        if let Some(before) = self.times.remove(run) {
            self.due.remove(&(before, run.clone()));
        }
        if let Some(due) = due {
            self.times.insert(run.clone(), due);
            self.due.insert((due, run.clone()));
        }
    }

    fn next(&self) -> Option<Timestamp> {
        self.due.first().map(|(due, _)| *due)
    }

    /// A run whose time has come.
    fn take(&mut self, now: Timestamp) -> Option<RunKey> {
        let (_, run) = self.due.first().filter(|(due, _)| *due <= now)?.clone();
        self.set(&run, None);
        Some(run)
    }
}

pub(super) async fn run(runs: &Runs) {
    let store = Arc::clone(runs.workflows.store());
    let mut changes = store.changes();
    let mut waker =
        Waker { runs, index: Index::default(), going: Arc::new(Semaphore::new(AT_ONCE)) };
    let mut sweep = tokio::time::interval(SWEEP);
    loop {
        let due = waker.index.next().map(|due| {
            let left = Timestamp::now().duration_until(due);
            Duration::try_from(left).unwrap_or_default()
        });
        tokio::select! {
            _ = sweep.tick() => waker.look_through().await,
            change = changes.recv() => match change {
                Ok(change) if change.run.is_empty() => waker.look_through().await,
                Ok(change) => waker.look_at(&(change.tenant, change.run)).await,
                Err(RecvError::Lagged(_)) => waker.look_through().await,
                Err(RecvError::Closed) => return,
            },
            () = tokio::time::sleep(due.unwrap_or_default()), if due.is_some() => {
                while let Some(run) = waker.index.take(Timestamp::now()) {
                    waker.look_at(&run).await;
                }
            }
        }
    }
}

struct Waker<'a> {
    runs: &'a Runs,
    index: Index,
    going: Arc<Semaphore>,
}

impl Waker<'_> {
    async fn look_through(&mut self) {
        let open = match self.runs.workflows.store().open().await {
            Ok(open) => open,
            Err(error) => {
                tracing::warn!(%error, "the runs of workflows cannot be read");
                return;
            }
        };
        for run in open {
            self.look_at(&run).await;
        }
    }

    /// Goes on with a run if there is something to do, or remembers when.
    async fn look_at(&mut self, run: &RunKey) {
        let due = match self.what_about(run).await {
            Ok(Todo::Now) => {
                self.go_on(run).await;
                // In case that it could not begin.
                Some(Timestamp::now() + AGAIN)
            }
            Ok(Todo::At(due)) => due,
            Err(error) => {
                tracing::warn!(run = &*run.1, %error, "the run of a workflow cannot be read");
                Some(Timestamp::now() + AGAIN)
            }
        };
        self.index.set(run, due);
    }

    async fn what_about(&self, run: &RunKey) -> Result<Todo, Error> {
        let (tenant, id) = run;
        let store = self.runs.workflows.store();
        let Some(stored) = store.head(tenant, id).await? else { return Ok(Todo::At(None)) };
        let head = &stored.head;
        match head.status {
            RunStatus::Succeeded | RunStatus::Failed | RunStatus::Cancelled => Ok(Todo::At(None)),
            RunStatus::Running => match &head.owner {
                None => Ok(Todo::Now),
                // Driven here, or about to be; its own driver hears of messages.
                Some(_) if self.runs.workflows.notify(id) => Ok(Todo::At(None)),
                // Its driver could not write, and has given up.
                Some(owner) if *owner == store.owner() => Ok(Todo::Now),
                Some(owner) if store.is_alive(owner).await? => Ok(Todo::At(None)),
                Some(_) => Ok(Todo::Now),
            },
            RunStatus::Waiting if self.has_come(head).await? => Ok(Todo::Now),
            RunStatus::Waiting => {
                let waits_for_call =
                    head.waits.iter().any(|open| matches!(open.wait, Wait::Call { .. }));
                let look = waits_for_call.then(|| Timestamp::now() + LOOK);
                Ok(Todo::At(head.due().into_iter().chain(look).min()))
            }
        }
    }

    /// Whether something that a run waits for has come.
    async fn has_come(&self, head: &RunHead) -> Result<bool, Error> {
        if head.due().is_some_and(|due| due <= Timestamp::now()) {
            return Ok(true);
        }
        for open in &head.waits {
            if let Wait::Call { call } = open.wait
                && self.runs.engine.records().get(&head.tenant, call).await?.is_some()
            {
                return Ok(true);
            }
        }
        let messages = self.runs.workflows.store().messages(&head.tenant, &head.id).await?;
        Ok(messages.iter().any(|message| match &message.to {
            Recipient::Cancel => true,
            Recipient::Place(place) => head.waits.iter().any(|open| open.place == *place),
            Recipient::Signal(signal) => head
                .waits
                .iter()
                .any(|open| matches!(&open.wait, Wait::Signal { name, .. } if name == signal)),
        }))
    }

    async fn go_on(&self, run: &RunKey) {
        // Nobody closes it.
        let Ok(permit) = Arc::clone(&self.going).acquire_owned().await else { return };
        let (runs, (tenant, run)) = (self.runs.clone(), run.clone());
        tokio::spawn(async move {
            let _permit = permit;
            match runs.go_on(&tenant, &run).await {
                // Somebody else was faster.
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => {
                    tracing::warn!(run = &*run, %error, "the run of a workflow does not go on");
                }
                Ok(_) => {}
            }
        });
    }
}

enum Todo {
    Now,
    At(Option<Timestamp>),
}
