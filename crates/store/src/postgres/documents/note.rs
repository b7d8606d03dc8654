//! Notifications between servers about changed documents, sent by `NOTIFY`.

use std::borrow::Cow;
use std::collections::HashSet;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use windlass::TenantId;

use crate::documents::{News, Origin};

pub(super) const CHANGES: &str = "windlass_changes";
pub(super) const EVENTS: &str = "windlass_events";

/// PostgreSQL limits a payload to less than 8,000 bytes.
const MAX_BYTES: usize = 7900;

/// Maximum number of this process's own changes that are remembered.
const MAX_OWN: usize = 10_000;

/// A change and its origin.
#[derive(Serialize, Deserialize)]
struct Note<'a> {
    origin: Origin,
    #[serde(borrow)]
    space: Cow<'a, str>,
    #[serde(borrow)]
    tenant: Cow<'a, str>,
    #[serde(borrow)]
    id: Cow<'a, str>,
}

/// The payload for a change; if it would be too long, only that there was one.
pub(super) fn write(origin: Origin, space: &str, tenant: &TenantId, id: &str) -> String {
    let text = |space, tenant, id| {
        let [space, tenant, id] = [space, tenant, id].map(Cow::Borrowed);
        // Strings and an id always serialize.
        serde_json::to_string(&Note { origin, space, tenant, id }).unwrap_or_default()
    };
    let whole = text(space, tenant.as_str(), id);
    if whole.len() <= MAX_BYTES { whole } else { text("", "", "") }
}

/// This process's own changes whose notifications have not arrived yet. It reports those
/// to its subscribers itself, and sooner.
#[derive(Default)]
pub(super) struct Own(Mutex<HashSet<Origin>>);

impl Own {
    /// Registers a change before it is made.
    pub(super) fn begin(&self) -> Origin {
        let origin = Origin::new();
        let mut own = self.0.lock();
        // No notifications seem to arrive. A duplicate report does no harm.
        if own.len() >= MAX_OWN {
            own.clear();
        }
        own.insert(origin);
        origin
    }

    /// Unregisters a change that failed or may have failed: if its notification arrives
    /// after all, it is reported. Returns whether it has arrived already.
    pub(super) fn disown(&self, origin: Origin) -> bool {
        !self.0.lock().remove(&origin)
    }

    /// Earlier notifications will not arrive any more.
    pub(super) fn forget(&self) {
        self.0.lock().clear();
    }

    fn hears(&self, origin: Origin) -> bool {
        self.0.lock().remove(&origin)
    }
}

/// Handles a notification.
pub(super) fn hear(news: &News, own: &Own, channel: &str, payload: &str) {
    if channel == EVENTS {
        news.events_until(payload.parse().unwrap_or_default());
    } else if channel == CHANGES {
        match serde_json::from_str::<Note<'_>>(payload) {
            Ok(note) if own.hears(note.origin) => {}
            Ok(note) if !note.space.is_empty() => {
                news.changed(&note.space, &TenantId::new(&*note.tenant), &note.id);
            }
            // Too long for a payload, or in the format of another version of windlass.
            _ => news.missed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_others_are_passed_on() {
        let own = Own::default();
        let (mine, other) = (own.begin(), Origin::new());
        let tenant = TenantId::new("a\"\0天");
        let news = News::after(0);
        let mut changes = news.changes();
        hear(&news, &own, CHANGES, &write(mine, "keys", &tenant, "k"));
        assert!(changes.try_recv().is_err());
        assert!(own.disown(mine), "heard of before the answer was lost");
        let late = own.begin();
        assert!(!own.disown(late));
        hear(&news, &own, CHANGES, &write(late, "keys", &tenant, "late"));
        assert_eq!(changes.try_recv().unwrap().id, "late");
        hear(&news, &own, CHANGES, &write(other, "keys", &tenant, "k\\"));
        let change = changes.try_recv().unwrap();
        assert_eq!((&*change.space, &change.tenant, &*change.id), ("keys", &tenant, "k\\"));
        let long = TenantId::new("\u{1}".repeat(5000));
        let note = write(other, "keys", &long, "k");
        assert!(note.len() <= MAX_BYTES);
        hear(&news, &own, CHANGES, &note);
        hear(&news, &own, CHANGES, "nonsense");
        assert_eq!(changes.try_recv().unwrap().space, "");
        assert_eq!(changes.try_recv().unwrap().space, "");
        hear(&news, &own, EVENTS, "17");
        assert_eq!(*news.new_events().borrow(), 17);
    }
}
