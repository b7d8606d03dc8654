//! Broadcasts changes to subscribers in this process.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::{broadcast, watch};
use uuid::Uuid;
use windlass::{CallId, TenantId};

use super::Change;

/// How many changes a slow subscriber may lag behind.
const CHANGES: usize = 256;

/// Identifies the origin of a change, so that a process can ignore the echo of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Origin(pub(crate) Uuid);

impl Origin {
    pub(crate) fn new() -> Self {
        Self(CallId::at(Timestamp::now()).uuid())
    }
}

pub(crate) struct News {
    changes: broadcast::Sender<Change>,
    newest: watch::Sender<u64>,
}

impl News {
    /// Starts after this event.
    pub(crate) fn after(newest: u64) -> Self {
        Self { changes: broadcast::Sender::new(CHANGES), newest: watch::Sender::new(newest) }
    }

    pub(crate) fn changed(&self, space: &str, tenant: &TenantId, id: &str) {
        let (space, id) = (space.to_owned(), id.to_owned());
        // There may be no subscribers.
        let _ = self.changes.send(Change { space, tenant: tenant.clone(), id });
    }

    /// Reports that changes may have been missed.
    pub(crate) fn missed(&self) {
        self.changed("", &TenantId::default(), "");
    }

    /// Reports events up to this position. Reports of several writers may arrive out of
    /// order.
    pub(crate) fn events_until(&self, position: u64) {
        self.newest.send_if_modified(|newest| {
            let is_news = position > *newest;
            *newest = position.max(*newest);
            is_news
        });
    }

    pub(crate) fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    pub(crate) fn new_events(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }
}
