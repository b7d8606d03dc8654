//! Guard that reports a local change to subscribers, even if the connection is lost.

use std::sync::Arc;

use windlass::TenantId;

use super::fault::Fault;
use super::note::Own;
use crate::documents::{News, Origin};

/// Created before a change. If it is dropped without a result, the change is reported
/// when its notification arrives, like that of another server.
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

    /// Reports the change, if it was made.
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
        // The change may have been made, and its notification received, before the answer
        // was lost.
        if !self.told && self.own.disown(self.origin) {
            self.news.changed(self.space, &self.tenant, &self.id);
        }
    }
}
