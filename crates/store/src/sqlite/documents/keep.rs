//! Changes documents, each within an exclusive transaction.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use windlass::TenantId;

use super::read::{signed, unsigned};
use crate::documents::{Change, Expect, Origin, Put};

/// Length of the change log. Whoever is further behind must read everything again.
const KEEP_CHANGES: i64 = 1000;

/// Maximum number of expired documents deleted in one transaction.
const SWEEP: i64 = 500;

/// Stores a document; returns its new version.
pub(super) fn put(
    db: &Connection,
    put: &Put,
    expect: Expect,
    origin: Origin,
) -> rusqlite::Result<Option<u64>> {
    let now = Timestamp::now().as_microsecond();
    clear_the_way(db, put, now)?;
    let before = version(db, put.space, &put.tenant, &put.id, now)?;
    if !expect.allows(before) || is_taken(db, put)? {
        return Ok(None);
    }
    let version = before.map_or(1, |version| version + 1);
    db.prepare_cached(
        "INSERT INTO documents (space, tenant, id, alias, version, updated_us, expires_us, body, owner)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT (space, tenant, id) DO UPDATE SET
             alias = ?4, version = ?5, updated_us = ?6, expires_us = ?7, body = ?8",
    )?
    .execute(params![
        put.space,
        put.tenant.as_str(),
        put.id,
        put.alias,
        signed(version),
        now,
        put.expires_at.map(Timestamp::as_microsecond),
        put.body.to_string(),
        put.owner,
    ])?;
    note(db, put.space, &put.tenant, &put.id, origin)?;
    Ok(Some(version))
}

/// Deletes a document if the precondition holds; returns whether it did.
pub(super) fn delete(
    db: &Connection,
    space: &str,
    tenant: &TenantId,
    id: &str,
    expect: Expect,
    origin: Origin,
) -> rusqlite::Result<bool> {
    let before = version(db, space, tenant, id, Timestamp::now().as_microsecond())?;
    if before.is_none() || !expect.allows(before) {
        return Ok(false);
    }
    db.prepare_cached("DELETE FROM documents WHERE space = ?1 AND tenant = ?2 AND id = ?3")?
        .execute(params![space, tenant.as_str(), id])?;
    note(db, space, tenant, id, origin)?;
    Ok(true)
}

/// Number of the last change.
pub(super) fn last_change(db: &Connection) -> rusqlite::Result<i64> {
    db.query_row("SELECT coalesce(max(seq), 0) FROM document_changes", [], |row| row.get(0))
}

/// Changes by other processes after the number `last`, and the current number. `None` as
/// the list if some are no longer in the log.
pub(super) fn changes_of_others(
    db: &Connection,
    origin: Origin,
    last: i64,
) -> rusqlite::Result<(Option<Vec<Change>>, i64)> {
    let mut statement = db.prepare_cached(
        "SELECT seq, origin, space, tenant, id FROM document_changes WHERE seq > ? ORDER BY seq",
    )?;
    let mut rows = statement.query([last])?;
    let (mut changes, mut seen) = (Some(Vec::new()), last);
    while let Some(row) = rows.next()? {
        let seq: i64 = row.get(0)?;
        if seq != seen + 1 {
            changes = None;
        }
        seen = seq;
        if row.get_ref(1)?.as_blob()? != origin.0.as_bytes()
            && let Some(changes) = &mut changes
        {
            let tenant = TenantId::new(row.get::<_, String>(3)?);
            changes.push(Change { space: row.get(2)?, tenant, id: row.get(4)? });
        }
    }
    Ok((changes, seen))
}

/// Whether there are expired documents.
pub(super) fn has_expired(db: &Connection) -> rusqlite::Result<bool> {
    db.query_row(
        "SELECT EXISTS (SELECT 1 FROM documents WHERE expires_us <= ?)",
        [Timestamp::now().as_microsecond()],
        |row| row.get(0),
    )
}

/// Deletes some expired documents.
pub(super) fn sweep(db: &Connection) -> rusqlite::Result<usize> {
    db.execute(
        "DELETE FROM documents WHERE (space, tenant, id) IN (
             SELECT space, tenant, id FROM documents WHERE expires_us <= ? LIMIT ?)",
        params![Timestamp::now().as_microsecond(), SWEEP],
    )
}

/// Deletes expired documents that would conflict with this one.
fn clear_the_way(db: &Connection, put: &Put, now: i64) -> rusqlite::Result<()> {
    db.prepare_cached(
        "DELETE FROM documents WHERE space = ?1 AND tenant = ?2 AND id = ?3 AND expires_us <= ?4",
    )?
    .execute(params![put.space, put.tenant.as_str(), put.id, now])?;
    db.prepare_cached(
        "DELETE FROM documents WHERE space = ?1 AND alias = ?2 AND expires_us <= ?3",
    )?
    .execute(params![put.space, put.alias, now])?;
    Ok(())
}

fn version(
    db: &Connection,
    space: &str,
    tenant: &TenantId,
    id: &str,
    now: i64,
) -> rusqlite::Result<Option<u64>> {
    db.prepare_cached(
        "SELECT version FROM documents WHERE space = ?1 AND tenant = ?2 AND id = ?3
             AND (expires_us IS NULL OR expires_us > ?4)",
    )?
    .query_row(params![space, tenant.as_str(), id, now], |row| unsigned(row, 0))
    .optional()
}

/// Whether another document has the alias.
fn is_taken(db: &Connection, put: &Put) -> rusqlite::Result<bool> {
    db.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM documents
             WHERE space = ?1 AND alias = ?2 AND (tenant <> ?3 OR id <> ?4))",
    )?
    .query_row(params![put.space, put.alias, put.tenant.as_str(), put.id], |row| row.get(0))
}

/// Adds a change to the log for other processes.
fn note(
    db: &Connection,
    space: &str,
    tenant: &TenantId,
    id: &str,
    origin: Origin,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO document_changes (origin, space, tenant, id) VALUES (?, ?, ?, ?)",
    )?
    .execute(params![origin.0.as_bytes(), space, tenant.as_str(), id])?;
    db.prepare_cached("DELETE FROM document_changes WHERE seq <= ?")?
        .execute([db.last_insert_rowid() - KEEP_CHANGES])?;
    Ok(())
}
