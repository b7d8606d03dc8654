//! Start queue: limits how many servers start at once ahead of need.
//!
//! Dozens of processes starting together slow each other down. A slot is held only for
//! the first moments of a start, when the process loads; a server that then waits for
//! something else does not block the next. Tenants share the slots fairly: one with
//! hundreds of servers does not delay those of others. Calls never wait here.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use windlass::FairSlots;

use super::server::{Server, State};

/// Number of slots.
const TOGETHER: usize = 8;
/// How long a start holds its slot.
const BEGINNING: Duration = Duration::from_millis(250);

pub(super) struct StartQueue(Arc<FairSlots>);

impl Default for StartQueue {
    fn default() -> Self {
        Self(FairSlots::new(TOGETHER))
    }
}

impl StartQueue {
    /// Waits for a slot, or until a call needs the server.
    pub(super) async fn turn(&self, server: &Server) {
        tokio::select! {
            biased;
            () = server.needed.notified() => {}
            () = self.place(server) => {}
        }
    }

    /// Waits for a slot.
    pub(super) async fn place(&self, server: &Server) {
        let place = self.0.take(server.owner()).await;
        if server.state() == State::Idle {
            tokio::spawn(async move {
                sleep(BEGINNING).await;
                drop(place);
            });
        }
    }
}
