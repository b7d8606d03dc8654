//! Servers that nobody waits for yet are started a few at a time.
//!
//! Dozens of them at once keep each other from getting ready. What takes a place
//! is the beginning of a start, when a process is loaded; one that then waits for
//! something else does not hold up the next. A call never waits here.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::server::{Server, State};

/// How many starts begin together.
const TOGETHER: usize = 8;
/// How long one counts as beginning.
const BEGINNING: Duration = Duration::from_millis(250);

pub(super) struct StartQueue(Arc<Semaphore>);

impl Default for StartQueue {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(TOGETHER)))
    }
}

impl StartQueue {
    /// Waits until a server may be started ahead of need, or is needed.
    pub(super) async fn turn(&self, server: &Server) {
        tokio::select! {
            biased;
            () = server.needed.notified() => {}
            () = self.place(server) => {}
        }
    }

    /// Waits until a server may be started, or has been.
    pub(super) async fn place(&self, server: &Server) {
        let Ok(place) = Arc::clone(&self.0).acquire_owned().await else { return };
        if server.state() == State::Idle {
            tokio::spawn(async move {
                sleep(BEGINNING).await;
                drop(place);
            });
        }
    }
}
