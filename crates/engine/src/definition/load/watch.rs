//! Watches a folder of definitions.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};

use super::{LoadReport, Loader};
use crate::error::{Error, ErrorKind};

/// A file is often written in several steps; this long nothing may change
/// before it is read.
const SETTLE: Duration = Duration::from_millis(50);

/// How a folder is watched (S0.23).
#[derive(Clone, Copy, Debug)]
pub struct WatchOptions {
    /// How often to look for changes by itself.
    pub interval: Duration,
    /// Whether to be told of changes by the operating system, too: they are
    /// seen at once then.
    pub notify: bool,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self { interval: Duration::from_secs(5), notify: true }
    }
}

/// Keeps a folder's tools up to date until it is dropped.
pub struct FolderWatch {
    signal: Sender<Signal>,
    thread: Option<JoinHandle<()>>,
    _watcher: Option<RecommendedWatcher>,
}

enum Signal {
    Changed,
    Stop,
}

/// Loads the folder and begins to watch it.
pub(super) fn start(
    mut loader: Loader,
    options: WatchOptions,
) -> Result<(LoadReport, FolderWatch), Error> {
    let failed = |what: &str, error: Box<dyn std::error::Error + Send + Sync>| {
        Error::new(ErrorKind::Internal, format!("the folder cannot be watched: {what}: {error}"))
    };
    let (signal, signals) = mpsc::channel();
    let watcher = if options.notify {
        let changed = signal.clone();
        let mut watcher = notify::recommended_watcher(move |_: notify::Result<notify::Event>| {
            // The loader looks for itself at what has changed; a full queue of
            // signals cannot build up because it drains them.
            let _ = changed.send(Signal::Changed);
        })
        .map_err(|error| failed("no watcher", error.into()))?;
        watcher
            .watch(&loader.folder, RecursiveMode::Recursive)
            .map_err(|error| failed(&loader.folder.display().to_string(), error.into()))?;
        Some(watcher)
    } else {
        None
    };
    let report = loader.load();
    let thread = thread::Builder::new()
        .name("windlass-definitions".into())
        .spawn(move || {
            loop {
                match signals.recv_timeout(options.interval) {
                    Ok(Signal::Changed) => loop {
                        match signals.recv_timeout(SETTLE) {
                            Ok(Signal::Changed) => {}
                            Ok(Signal::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                            Err(RecvTimeoutError::Timeout) => break,
                        }
                    },
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(Signal::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                }
                if loader.is_stale() {
                    loader.reload();
                }
            }
        })
        .map_err(|error| failed("no thread", error.into()))?;
    Ok((report, FolderWatch { signal, thread: Some(thread), _watcher: watcher }))
}

impl Drop for FolderWatch {
    fn drop(&mut self) {
        let _ = self.signal.send(Signal::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
