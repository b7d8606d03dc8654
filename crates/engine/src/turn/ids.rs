//! Ids of calls. An API refuses a conversation in which one is missing or two
//! are the same, so such calls get ids of their own.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::value::name::CallId;

/// The ids of a message.
#[derive(Debug, Default)]
pub(super) struct Ids {
    seen: HashSet<Arc<str>>,
    /// Whether one had to be made, or something else to be put right.
    pub(super) mended: bool,
}

impl Ids {
    /// The id itself, or one of its own where it cannot stay.
    pub(super) fn claim(&mut self, id: Option<&str>) -> Arc<str> {
        let own = id.filter(|id| !id.is_empty()).map(Arc::<str>::from);
        let id = own.filter(|id| !self.seen.contains(id)).unwrap_or_else(|| {
            self.mended = true;
            format!("call_{}", CallId::at(Timestamp::now())).into()
        });
        self.seen.insert(Arc::clone(&id));
        id
    }
    /// Puts something into its place in the message, where it is not there yet.
    pub(super) fn put(&mut self, place: &mut Value, value: impl Into<Value>) {
        let value = value.into();
        if *place != value {
            *place = value;
            self.mended = true;
        }
    }
}
