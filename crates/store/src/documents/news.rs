//! Tells those who listen in this process what is new.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::{broadcast, watch};
use uuid::Uuid;
use windlass::{CallId, TenantId};

use super::Change;

/// How many changes a slow listener may be behind.
const CHANGES: usize = 256;

/// Where a change comes from, so that whoever made it need not hear of it twice.
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
    /// From an event on.
    pub(crate) fn after(newest: u64) -> Self {
        Self { changes: broadcast::Sender::new(CHANGES), newest: watch::Sender::new(newest) }
    }

    pub(crate) fn changed(&self, space: &str, tenant: &TenantId, id: &str) {
        let (space, id) = (space.to_owned(), id.to_owned());
        // Nobody may listen.
        let _ = self.changes.send(Change { space, tenant: tenant.clone(), id });
    }

    /// Changes may have gone unheard.
    pub(crate) fn missed(&self) {
        self.changed("", &TenantId::default(), "");
    }

    /// There are events up to this one. Reports of several writers may overtake
    /// each other.
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
