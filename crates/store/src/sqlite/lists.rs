//! The index of records: lists of calls that have a value in common.
//!
//! All filters are answered from one table. A row holds the ids of calls that were
//! committed together and have, say, the same conversation: a batch of calls by one agent
//! adds a row for its tool, its caller and its conversation, however many calls there are.
//!
//! Batches are in the order in which calls end, ids in that in which they begin. So the
//! rows of a value overlap, and reading merges them; the ids of a row lie within
//! [`SPAN_MS`], which bounds how far. An id without a record is passed over, and who reads
//! checks what a record says.

use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::Arc;

use rusqlite::{Connection, Row, Rows, Statement, params};
use windlass::{CallRecord, RecordFilter, Status, TenantId};

use crate::value::status_code;

/// The id of a call, as stored.
pub(crate) type Id = [u8; 16];

/// How much older than the newest id of its row an id may be.
const SPAN_MS: u64 = 60_000;

/// Maximum number of ids in a row.
const ROW_IDS: usize = 256;

/// What calls are listed by.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum ListKey {
    Conversation(Arc<str>),
    Caller(Arc<str>),
    /// One that is not a success: most calls succeed.
    Failure(Status),
    Tool(Arc<str>),
}

impl ListKey {
    /// The list that answers a filter; `None` if that takes all calls.
    pub(crate) fn of(filter: &RecordFilter) -> Option<Self> {
        let failure = filter.status.filter(|&status| status != Status::Succeeded);
        if let Some(conversation) = &filter.conversation {
            return Some(Self::Conversation(conversation.as_str().into()));
        }
        if let Some(caller) = &filter.caller_id {
            return Some(Self::Caller(caller.as_str().into()));
        }
        let tool = || filter.tool.as_deref().map(|tool| Self::Tool(tool.into()));
        failure.map(Self::Failure).or_else(tool)
    }

    /// The stored code; part of the format of databases.
    fn field(&self) -> i64 {
        match self {
            Self::Conversation(_) => 0,
            Self::Caller(_) => 1,
            Self::Failure(_) => 2,
            Self::Tool(_) => 3,
        }
    }

    fn with_value<T>(&self, run: impl FnOnce(&str) -> T) -> T {
        match self {
            Self::Conversation(value) | Self::Caller(value) | Self::Tool(value) => run(value),
            Self::Failure(status) => run(&status_code(*status).to_string()),
        }
    }
}

/// The lists of a transaction.
#[derive(Default)]
pub(crate) struct Lists(HashMap<(TenantId, ListKey), Vec<Id>, ahash::RandomState>);

impl Lists {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a record to all lists that it belongs to.
    pub(crate) fn add(&mut self, record: &CallRecord) {
        let (id, caller) = (record.id.uuid().into_bytes(), &record.caller);
        let keys = [
            caller.conversation.clone().map(ListKey::Conversation),
            caller.caller_id.clone().map(ListKey::Caller),
            (record.status != Status::Succeeded).then_some(ListKey::Failure(record.status)),
            Some(ListKey::Tool(Arc::clone(&record.tool_name))),
        ];
        for key in keys.into_iter().flatten() {
            self.0.entry((caller.tenant.clone(), key)).or_default().push(id);
        }
    }

    pub(crate) fn write(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut insert = connection.prepare_cached(
            "INSERT INTO call_lists (tenant, field, value, newest, ids) VALUES (?, ?, ?, ?, ?)
             ON CONFLICT DO UPDATE SET ids = ids || excluded.ids",
        )?;
        for ((tenant, key), ids) in &mut self.0 {
            ids.sort_unstable();
            let mut left = ids.as_slice();
            while let Some(newest) = left.last() {
                let oldest = before(newest, SPAN_MS);
                let long = left.partition_point(|id| *id < oldest);
                let from = long.max(left.len().saturating_sub(ROW_IDS));
                let (field, row) = (key.field(), left[from..].as_flattened());
                key.with_value(|value| {
                    insert.execute(params![tenant.as_str(), field, value, newest, row])
                })?;
                left = &left[..from];
            }
        }
        Ok(())
    }
}

/// Which ids are read: from `oldest` on, and before `end`.
#[derive(Clone, Copy)]
pub(crate) struct IdBounds {
    pub(crate) oldest: Option<Id>,
    pub(crate) end: Option<Id>,
}

impl IdBounds {
    pub(crate) const ALL: Self = Self { oldest: None, end: None };

    fn hold(&self, id: &Id) -> bool {
        self.oldest.is_none_or(|oldest| *id >= oldest) && self.end.is_none_or(|end| *id < end)
    }
}

/// The question for the rows of a list, newest first.
pub(crate) const ROWS: &str = "SELECT newest, ids FROM call_lists
     WHERE tenant = ? AND field = ? AND value = ? AND newest < ? AND newest >= ?
     ORDER BY newest DESC";

/// Reads the ids of a list, newest first, until `take` has enough.
pub(crate) fn read(
    connection: &Connection,
    tenant: &TenantId,
    key: &ListKey,
    bounds: IdBounds,
    mut take: impl FnMut(Id) -> rusqlite::Result<bool>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(ROWS)?;
    let mut merge = Merge::new(&mut statement, tenant, key, bounds)?;
    while let Some(id) = merge.next()? {
        if !take(id)? {
            break;
        }
    }
    Ok(())
}

/// The rows of a list, merged.
struct Merge<'s> {
    rows: Rows<'s>,
    next: Option<(Id, Vec<u8>)>,
    /// Ids of the rows that were read and may not be the newest.
    ids: BinaryHeap<Id>,
    bounds: IdBounds,
    last: Option<Id>,
}

impl<'s> Merge<'s> {
    fn new(
        statement: &'s mut Statement<'_>,
        tenant: &TenantId,
        key: &ListKey,
        bounds: IdBounds,
    ) -> rusqlite::Result<Self> {
        let end = bounds.end.map_or([0xff; 16], |end| after(&end, SPAN_MS + 1));
        let oldest = bounds.oldest.unwrap_or_default();
        let mut rows = key.with_value(|value| {
            statement.query(params![tenant.as_str(), key.field(), value, end, oldest])
        })?;
        let next = next_row(&mut rows)?;
        Ok(Self { rows, next, ids: BinaryHeap::new(), bounds, last: None })
    }

    fn next(&mut self) -> rusqlite::Result<Option<Id>> {
        loop {
            while let Some((newest, ids)) = &self.next
                && self.ids.peek().is_none_or(|first| newest >= first)
            {
                let (ids, _) = ids.as_chunks::<16>();
                self.ids.extend(ids.iter().filter(|id| self.bounds.hold(id)));
                self.next = next_row(&mut self.rows)?;
            }
            let Some(id) = self.ids.pop() else { return Ok(None) };
            if self.last.replace(id) != Some(id) {
                return Ok(Some(id));
            }
        }
    }
}

fn next_row(rows: &mut Rows<'_>) -> rusqlite::Result<Option<(Id, Vec<u8>)>> {
    rows.next()?.map(|row| Ok((row.get(0)?, row.get(1)?))).transpose()
}

/// Records that are being deleted, by the lists that they are in.
#[derive(Default)]
pub(crate) struct Deleted {
    ids: HashSet<Id>,
    lists: HashMap<ListKey, Id>,
}

impl Deleted {
    /// The columns that [`Self::add`] reads.
    pub(crate) const COLUMNS: &str = "id, conversation, caller_id, status, tool";

    pub(crate) fn add(&mut self, row: &Row<'_>) -> rusqlite::Result<Id> {
        let id: Id = row.get(0)?;
        let status = super::rows::read_status(row, 3)?;
        let keys = [
            row.get::<_, Option<Arc<str>>>(1)?.map(ListKey::Conversation),
            row.get::<_, Option<Arc<str>>>(2)?.map(ListKey::Caller),
            (status != Status::Succeeded).then_some(ListKey::Failure(status)),
            Some(ListKey::Tool(row.get(4)?)),
        ];
        for key in keys.into_iter().flatten() {
            let newest = self.lists.entry(key).or_insert(id);
            *newest = id.max(*newest);
        }
        self.ids.insert(id);
        Ok(id)
    }

    /// Deletes the rows whose records are all gone. Those up to `seen` were looked at
    /// before.
    pub(crate) fn unlist(
        &self,
        connection: &Connection,
        tenant: &str,
        seen: &Id,
    ) -> rusqlite::Result<()> {
        let mut rows = connection.prepare_cached(
            "SELECT newest, ids FROM call_lists
             WHERE tenant = ? AND field = ? AND value = ? AND newest > ? AND newest <= ?",
        )?;
        let mut exists = connection
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM calls WHERE tenant = ? AND id = ?)")?;
        let mut delete = connection.prepare_cached(
            "DELETE FROM call_lists WHERE tenant = ? AND field = ? AND value = ? AND newest = ?",
        )?;
        for (key, newest) in &self.lists {
            let mut gone: Vec<Id> = Vec::new();
            let mut found = key.with_value(|value| {
                rows.query(params![tenant, key.field(), value, seen, newest])
            })?;
            while let Some((newest, ids)) = next_row(&mut found)? {
                let (ids, _) = ids.as_chunks::<16>();
                let mut left = false;
                for id in ids.iter().filter(|id| !self.ids.contains(*id)) {
                    left = left || exists.query_row(params![tenant, id], |row| row.get(0))?;
                }
                if !left {
                    gone.push(newest);
                }
            }
            drop(found);
            for newest in gone {
                key.with_value(|value| {
                    delete.execute(params![tenant, key.field(), value, newest])
                })?;
            }
        }
        Ok(())
    }
}

/// An id as it was this much earlier.
fn before(id: &Id, millis: u64) -> Id {
    shifted(id, |at| at.saturating_sub(millis))
}

/// An id as it will be this much later.
fn after(id: &Id, millis: u64) -> Id {
    shifted(id, |at| at.saturating_add(millis).min((1 << 48) - 1))
}

/// Moves the time that an id begins with: 48 bits of milliseconds.
fn shifted(id: &Id, shift: impl Fn(u64) -> u64) -> Id {
    let (mut millis, mut shifted) = ([0; 8], *id);
    millis[2..].copy_from_slice(&id[..6]);
    shifted[..6].copy_from_slice(&shift(u64::from_be_bytes(millis)).to_be_bytes()[2..]);
    shifted
}
