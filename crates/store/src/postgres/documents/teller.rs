//! Tells of a change that is made here, whatever becomes of its connection.

use std::sync::Arc;

use windlass::TenantId;

use super::fault::Fault;
use super::note::Own;
use crate::documents::{News, Origin};

/// Made before a change. Dropped without an answer, because that was late, it
/// leaves the change to be heard of like one of another server.
pub(super) struct Teller {
    origin: Origin,
    own: Arc<Own>,
    news: Arc<News>,
    space: &'static str,
    tenant: TenantId,
    id: String,
    told: bool,
}

impl Teller {
    pub(super) fn new(
        own: Arc<Own>,
        news: Arc<News>,
        space: &'static str,
        tenant: TenantId,
        id: &str,
    ) -> Self {
        let origin = own.begin();
        Self { origin, own, news, space, tenant, id: id.to_owned(), told: false }
    }

    pub(super) fn origin(&self) -> Origin {
        self.origin
    }

    /// Tells of the change, if it was made.
    pub(super) fn tell<T>(
        mut self,
        end: Result<T, Fault>,
        was_made: impl Fn(&T) -> bool,
    ) -> Result<T, Fault> {
        if end.as_ref().is_ok_and(was_made) {
            self.news.changed(self.space, &self.tenant, &self.id);
            self.told = true;
        }
        end
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        // It may have been made and heard of before the answer was lost.
        if !self.told && self.own.disown(self.origin) {
            self.news.changed(self.space, &self.tenant, &self.id);
        }
    }
}
