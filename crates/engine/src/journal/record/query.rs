//! Questions for records: which ones, and how many at a time.

use jiff::Timestamp;
use serde::Serialize;

use super::{CallRecord, Status};
use crate::value::name::CallId;

/// Which records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordFilter {
    /// Of this conversation.
    pub conversation: Option<String>,
    /// Of this tool.
    pub tool: Option<String>,
    /// Of this caller.
    pub caller_id: Option<String>,
    /// That ended so.
    pub status: Option<Status>,
    /// That came at this time or later.
    pub since: Option<Timestamp>,
    /// That came before this time.
    pub until: Option<Timestamp>,
}

impl RecordFilter {
    /// Whether a record is one of these. Times count in microseconds, which
    /// is what databases keep.
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

/// Which part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// How many at the most; stores cap it at [`PageRequest::MAX`].
    pub limit: usize,
    /// Begin after the record with this id: the `next` of the page before.
    pub after: Option<CallId>,
}

impl PageRequest {
    /// The largest page.
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
    /// Where the next page begins; none on the last.
    pub next: Option<CallId>,
}
