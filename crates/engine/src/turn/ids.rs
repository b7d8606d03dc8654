//! Call ids. APIs refuse a conversation with missing or duplicate ids, so such
//! calls get new ones.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::value::name::CallId;

/// The ids in a message.
#[derive(Debug, Default)]
pub(super) struct Ids {
    seen: HashSet<Arc<str>>,
    /// Whether an id had to be made, or something else repaired.
    pub(super) mended: bool,
}

impl Ids {
    /// The id itself, or a new one if it is missing or a duplicate.
    pub(super) fn claim(&mut self, id: Option<&str>) -> Arc<str> {
        let own = id.filter(|id| !id.is_empty()).map(Arc::<str>::from);
        let id = own.filter(|id| !self.seen.contains(id)).unwrap_or_else(|| {
            self.mended = true;
            format!("call_{}", CallId::at(Timestamp::now())).into()
        });
        self.seen.insert(Arc::clone(&id));
        id
    }
    /// Sets a value in the message, if it is not there yet.
    pub(super) fn put(&mut self, place: &mut Value, value: impl Into<Value>) {
        let value = value.into();
        if *place != value {
            *place = value;
            self.mended = true;
        }
    }
}
