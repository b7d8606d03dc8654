//! Watches a folder of definitions for changes.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};

use super::{LoadReport, Loader};
use crate::error::{Error, ErrorKind};

/// Debounce interval: files are often written in several steps, so they are
/// read once nothing has changed for this long.
const SETTLE: Duration = Duration::from_millis(50);

/// Options for watching a folder.
#[derive(Clone, Copy, Debug)]
pub struct WatchOptions {
    /// Polling interval.
    pub interval: Duration,
    /// Whether to use change notifications of the operating system too, for
    /// immediate reloads.
    pub notify: bool,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self { interval: Duration::from_secs(5), notify: true }
    }
}

/// Guard of a watched folder: keeps its tools up to date until it is dropped.
pub struct FolderWatch {
    signal: Sender<WatchSignal>,
    thread: Option<JoinHandle<()>>,
    _watcher: Option<RecommendedWatcher>,
}

enum WatchSignal {
    Changed,
    Stop,
}

/// Loads the folder and starts watching it.
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
            // The loader itself finds out what has changed, and drains all
            // pending signals at once.
            let _ = changed.send(WatchSignal::Changed);
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
                    Ok(WatchSignal::Changed) => loop {
                        match signals.recv_timeout(SETTLE) {
                            Ok(WatchSignal::Changed) => {}
                            Ok(WatchSignal::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                            Err(RecvTimeoutError::Timeout) => break,
                        }
                    },
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(WatchSignal::Stop) | Err(RecvTimeoutError::Disconnected) => return,
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
        let _ = self.signal.send(WatchSignal::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
