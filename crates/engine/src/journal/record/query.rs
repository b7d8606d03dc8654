//! Filters and pages for record queries.

use jiff::Timestamp;
use serde::Serialize;

use super::{CallRecord, Status};
use crate::value::name::CallId;

/// Filter for records; all conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordFilter {
    /// Conversation.
    pub conversation: Option<String>,
    /// Tool name.
    pub tool: Option<String>,
    /// Caller id.
    pub caller_id: Option<String>,
    /// Final status.
    pub status: Option<Status>,
    /// Received at or after this time.
    pub since: Option<Timestamp>,
    /// Received before this time.
    pub until: Option<Timestamp>,
}

impl RecordFilter {
    /// Whether a record matches. Times are compared in microseconds, the
    /// precision of databases.
    pub fn matches(&self, record: &CallRecord) -> bool {
        fn same(wanted: Option<&str>, found: Option<&str>) -> bool {
            wanted.is_none() || wanted == found
        }
        let created_us = record.created_at.as_microsecond();
        let caller = &record.caller;
        same(self.conversation.as_deref(), caller.conversation.as_deref())
            && same(self.tool.as_deref(), Some(&record.tool_name))
            && same(self.caller_id.as_deref(), caller.caller_id.as_deref())
            && self.status.is_none_or(|status| record.status == status)
            && self.since.is_none_or(|since| created_us >= since.as_microsecond())
            && self.until.is_none_or(|until| created_us < until.as_microsecond())
    }
}

/// Request for a page of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// Maximum number of records; stores cap it at [`PageRequest::MAX`].
    pub limit: usize,
    /// Cursor: start after the record with this id, the `next` of the previous
    /// page.
    pub after: Option<CallId>,
}

impl PageRequest {
    /// Maximum page size.
    pub const MAX: usize = 1000;

    /// The first page.
    pub fn first(limit: usize) -> Self {
        Self { limit, after: None }
    }
}

/// A page of records.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RecordPage {
    /// The records, newest first.
    pub records: Vec<CallRecord>,
    /// Cursor of the next page; `None` on the last page.
    pub next: Option<CallId>,
}
