//! The event log in SQL.

use rusqlite::types::Value as Column;
use rusqlite::{Connection, Row, params, params_from_iter};
use windlass::TenantId;

use super::read::{signed, unsigned};
use crate::documents::{EventFilter, KeptEvent, NewEvent};
use crate::value::read_json;

/// Maximum number of events deleted in one transaction.
const STEP: u64 = 5000;

/// Appends events in this order; returns the position of the last one.
pub(super) fn append(db: &Connection, events: &[NewEvent]) -> rusqlite::Result<u64> {
    let mut statement = db.prepare_cached(
        "INSERT INTO events (tenant, conversation, batch, name, body) VALUES (?, ?, ?, ?, ?)",
    )?;
    for event in events {
        statement.execute(params![
            event.tenant.as_str(),
            event.conversation,
            event.batch,
            event.name,
            event.body.to_string(),
        ])?;
    }
    Ok(u64::try_from(db.last_insert_rowid()).unwrap_or_default())
}

/// The oldest and the newest position.
pub(super) fn range(db: &Connection) -> rusqlite::Result<(u64, u64)> {
    // A separate query for each end, answered from the primary key.
    db.query_row(
        "SELECT coalesce((SELECT min(position) FROM events), 0),
                coalesce((SELECT max(position) FROM events), 0)",
        [],
        |row| Ok((unsigned(row, 0)?, unsigned(row, 1)?)),
    )
}

/// Whether there are more events than allowed.
pub(super) fn are_too_many(db: &Connection, keep: u64) -> rusqlite::Result<bool> {
    let (oldest, newest) = range(db)?;
    Ok(newest > 0 && newest - oldest >= keep.max(1))
}

/// Deletes some of the oldest events.
pub(super) fn forget(db: &Connection, keep: u64) -> rusqlite::Result<usize> {
    let (oldest, newest) = range(db)?;
    let last = newest.saturating_sub(keep.max(1)).min(oldest + STEP);
    db.execute("DELETE FROM events WHERE position <= ?", [signed(last)])
}

/// A query for events, with its parameters.
pub(super) struct Question {
    sql: String,
    values: Vec<Column>,
}

impl Question {
    pub(super) fn new(after: u64, filter: EventFilter<'_>, limit: usize) -> Self {
        let mut question = Self {
            sql: "SELECT position, tenant, conversation, batch, name, body FROM events
                  WHERE position > ?"
                .to_owned(),
            values: vec![Column::Integer(signed(after))],
        };
        question.with("tenant", filter.tenant.map(TenantId::as_str));
        question.with("conversation", filter.conversation);
        question.with("batch", filter.batch);
        question.sql.push_str(" ORDER BY position LIMIT ?");
        question.values.push(Column::Integer(signed(limit as u64)));
        question
    }

    fn with(&mut self, column: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.sql.push_str(&format!(" AND {column} = ?"));
            self.values.push(Column::Text(value.to_owned()));
        }
    }

    pub(super) fn ask(&self, db: &Connection) -> rusqlite::Result<Vec<KeptEvent>> {
        let mut statement = db.prepare_cached(&self.sql)?;
        statement.query_map(params_from_iter(&self.values), event)?.collect()
    }
}

fn event(row: &Row<'_>) -> rusqlite::Result<KeptEvent> {
    let event = NewEvent {
        tenant: TenantId::new(row.get::<_, String>(1)?),
        conversation: row.get(2)?,
        batch: row.get(3)?,
        name: row.get(4)?,
        body: read_json(row.get_ref(5)?.as_str()?),
    };
    Ok(KeptEvent { position: unsigned(row, 0)?, event })
}
