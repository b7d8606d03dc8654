//! The event log in SQL.

use rusqlite::types::Value as Column;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};
use windlass::TenantId;

use super::read::{signed, unsigned};
use crate::documents::{EventFilter, EventSurplus, KeptEvent, NewEvent};
use crate::value::read_json;

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

/// How many events each tenant has.
pub(super) fn counts(db: &Connection) -> rusqlite::Result<Vec<(String, u64)>> {
    let mut statement = db.prepare_cached("SELECT tenant, count(*) FROM events GROUP BY tenant")?;
    statement.query_map([], |row| Ok((row.get(0)?, unsigned(row, 1)?)))?.collect()
}

/// Deletes the oldest events of tenants, and remembers up to which position. Where another
/// process has done it meanwhile, nothing more is deleted.
pub(super) fn forget(db: &Connection, surplus: &[EventSurplus]) -> rusqlite::Result<()> {
    let mut remember = db.prepare_cached(
        "INSERT INTO forgotten_events (tenant, position)
         SELECT ?1, min(last, step) FROM (SELECT
             (SELECT position FROM events WHERE tenant = ?1
              ORDER BY position DESC LIMIT 1 OFFSET ?2) AS last,
             (SELECT max(position) FROM (
                 SELECT position FROM events WHERE tenant = ?1
                 ORDER BY position LIMIT ?3)) AS step)
         WHERE last IS NOT NULL
         ON CONFLICT DO UPDATE SET position = max(position, excluded.position)
         RETURNING position",
    )?;
    let mut delete = db.prepare_cached("DELETE FROM events WHERE tenant = ? AND position <= ?")?;
    for EventSurplus { tenant, level, gone } in surplus {
        let values = params![tenant, signed(*level), signed(*gone)];
        let last: Option<i64> = remember.query_row(values, |row| row.get(0)).optional()?;
        if let Some(last) = last {
            delete.execute(params![tenant, last])?;
        }
    }
    Ok(())
}

/// Position of the last event of a tenant that was deleted.
pub(super) fn forgotten(db: &Connection, tenant: &TenantId) -> rusqlite::Result<u64> {
    let sql = "SELECT coalesce(max(position), 0) FROM forgotten_events WHERE tenant = ?";
    db.prepare_cached(sql)?.query_row([tenant.as_str()], |row| unsigned(row, 0))
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
