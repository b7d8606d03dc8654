//! Polls for changes by other processes, and deletes what is too old.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use windlass::Error;

use super::writer::DocumentWriter;
use super::{connect, events, keep};
use crate::documents::{EventCount, News, Origin};
use crate::fault::unavailable;
use crate::sqlite::fault::storage;
use crate::sqlite::file_identity::FileIdentity;
use crate::sqlite::options::Options;

/// Polling interval; a poll takes a few microseconds if nothing has changed.
const LOOK: Duration = Duration::from_millis(200);

/// Interval of the clean-up.
const UPKEEP: Duration = Duration::from_secs(1);

pub(super) struct Watch {
    path: PathBuf,
    options: Options,
    identity: Arc<FileIdentity>,
    /// Whether the path still named the opened file at the last check.
    is_there: bool,
    origin: Origin,
    news: Arc<News>,
    /// `None` after a failure, until there is a new connection.
    connection: Option<Connection>,
    /// Of this connection; changes with every commit of another one.
    data_version: Option<i64>,
    /// Number of the last change that was reported.
    last_change: i64,
    event_count: EventCount,
}

/// The polling thread, which stops when this is dropped.
pub(super) struct Watcher {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub(super) fn new(
        path: &Path,
        options: Options,
        identity: Arc<FileIdentity>,
        origin: Origin,
        last_change: i64,
        news: Arc<News>,
    ) -> Self {
        let path = path.to_owned();
        let (connection, data_version) = (None, None);
        Self {
            path,
            options,
            identity,
            is_there: true,
            origin,
            news,
            connection,
            data_version,
            last_change,
            event_count: EventCount::default(),
        }
    }

    pub(super) fn start(
        mut self,
        documents: Arc<DocumentWriter>,
        events: Arc<DocumentWriter>,
    ) -> Result<Watcher, Error> {
        let (stop, stopped) = mpsc::channel();
        let run = move || {
            let mut next_upkeep = Instant::now();
            while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                self.look_for_the_file();
                self.note_failure(Self::look);
                if Instant::now() >= next_upkeep {
                    self.note_failure(|watch| watch.keep_up(&documents, &events));
                    next_upkeep = Instant::now() + UPKEEP;
                }
            }
        };
        let thread = thread::Builder::new().name("windlass-watch".to_owned()).spawn(run).map_err(
            |cause| {
                unavailable("cannot start the thread that watches documents").with_source(cause)
            },
        )?;
        Ok(Watcher { stop: Some(stop), thread: Some(thread) })
    }

    /// After a failure, tries again soon on a new connection.
    fn note_failure(&mut self, work: impl FnOnce(&mut Self) -> rusqlite::Result<()>) {
        if let Err(error) = work(self) {
            tracing::debug!(%error, file = %self.path.display(), "documents cannot be watched");
            self.connection = None;
            self.data_version = None;
        }
    }

    /// Tells the operator when the file is deleted, replaced, moved or back: without
    /// writes, nobody else would notice.
    fn look_for_the_file(&mut self) {
        let found = self.identity.check();
        let was_there = std::mem::replace(&mut self.is_there, found.is_ok());
        match found {
            Ok(()) if !was_there => {
                tracing::info!(file = %self.path.display(), "the database file is back");
            }
            Err(cause) if was_there => {
                let error = storage(&self.path, "use the database", cause);
                tracing::error!(%error, "the database file is not the one that was opened");
            }
            _ => {}
        }
    }

    /// Reports changes by others since the last poll.
    fn look(&mut self) -> rusqlite::Result<()> {
        let db = open(&mut self.connection, &self.path, &self.options, &self.identity)?;
        // Read first: what is written in between is seen by the next poll at the latest.
        let version = db.query_row("PRAGMA data_version", [], |row| row.get(0))?;
        if self.data_version == Some(version) {
            return Ok(());
        }
        let (changes, last) = keep::changes_of_others(db, self.origin, self.last_change)?;
        let (_, newest) = events::range(db)?;
        self.last_change = last;
        self.data_version = Some(version);
        match changes {
            Some(changes) => changes
                .iter()
                .for_each(|change| self.news.changed(&change.space, &change.tenant, &change.id)),
            None => self.news.missed(),
        }
        self.news.events_until(newest);
        Ok(())
    }

    /// Deletes what is too old, in steps, so that others get their turn.
    fn keep_up(
        &mut self,
        documents: &DocumentWriter,
        events: &DocumentWriter,
    ) -> rusqlite::Result<()> {
        let keep = self.options.keep_events;
        let db = open(&mut self.connection, &self.path, &self.options, &self.identity)?;
        if keep::has_expired(db)? {
            while documents.write_here(keep::sweep)? > 0 {}
        }
        loop {
            let (_, newest) = events::range(db)?;
            if !self.event_count.may_exceed(keep, newest) {
                return Ok(());
            }
            let surplus = self.event_count.counted(events::counts(db)?, keep, newest);
            if surplus.is_empty() {
                return Ok(());
            }
            events.write_here(|db| events::forget(db, &surplus))?;
        }
    }
}

fn open<'a>(
    connection: &'a mut Option<Connection>,
    path: &Path,
    options: &Options,
    identity: &FileIdentity,
) -> rusqlite::Result<&'a Connection> {
    let open = match connection.take() {
        Some(open) => open,
        None => connect::reader(path, options, identity)?,
    };
    Ok(connection.insert(open))
}

impl Drop for Watcher {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that watches documents panicked");
        }
    }
}
