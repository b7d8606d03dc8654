//! Queries for documents, in SQL.

use jiff::Timestamp;
use rusqlite::Error::FromSqlConversionFailure;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use serde_json::Value;
use windlass::TenantId;

use crate::documents::{Document, SpaceSize};

const SELECT: &str =
    "SELECT tenant, id, alias, version, updated_us, expires_us, body, owner FROM documents";
/// Those that have not expired, and the one with an id.
const ALIVE: &str = "(expires_us IS NULL OR expires_us > ?1)";
const ONE: &str = "space = ?2 AND tenant = ?3 AND id = ?4";

pub(super) fn get(
    db: &Connection,
    space: &str,
    tenant: &TenantId,
    id: &str,
) -> rusqlite::Result<Option<Document>> {
    Ok(read(db, ONE, params![now(), space, tenant.as_str(), id])?.pop())
}

pub(super) fn body_text(
    db: &Connection,
    space: &str,
    tenant: &TenantId,
    id: &str,
) -> rusqlite::Result<Option<String>> {
    let sql = format!("SELECT body FROM documents WHERE {ALIVE} AND {ONE}");
    let mut statement = db.prepare_cached(&sql)?;
    let values = params![now(), space, tenant.as_str(), id];
    statement.query_row(values, |row| row.get(0)).optional()
}

pub(super) fn find(
    db: &Connection,
    space: &str,
    alias: &str,
) -> rusqlite::Result<Option<Document>> {
    Ok(read(db, "space = ?2 AND alias = ?3", params![now(), space, alias])?.pop())
}

pub(super) fn list(
    db: &Connection,
    space: &str,
    tenant: &TenantId,
    after: Option<&str>,
    limit: usize,
) -> rusqlite::Result<Vec<Document>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let tenant = tenant.as_str();
    match after {
        Some(after) => read(
            db,
            "space = ?2 AND tenant = ?3 AND id > ?4 ORDER BY id LIMIT ?5",
            params![now(), space, tenant, after, limit],
        ),
        None => read(
            db,
            "space = ?2 AND tenant = ?3 ORDER BY id LIMIT ?4",
            params![now(), space, tenant, limit],
        ),
    }
}

pub(super) fn size_of(
    db: &Connection,
    space: &str,
    tenant: &TenantId,
    owner: Option<&str>,
) -> rusqlite::Result<SpaceSize> {
    let size = |row: &Row<'_>| {
        let first_end = row.get::<_, Option<i64>>(2)?.map(time);
        Ok(SpaceSize { count: unsigned(row, 0)?, bytes: unsigned(row, 1)?, first_end })
    };
    let sql = "SELECT count(*), coalesce(sum(octet_length(body)), 0), min(expires_us)
               FROM documents
               WHERE (expires_us IS NULL OR expires_us > ?1) AND space = ?2 AND tenant = ?3";
    let (now, tenant) = (now(), tenant.as_str());
    match owner {
        None => db.prepare_cached(sql)?.query_row(params![now, space, tenant], size),
        Some(owner) => db
            .prepare_cached(&format!("{sql} AND owner = ?4"))?
            .query_row(params![now, space, tenant, owner], size),
    }
}

pub(super) fn owned_by(
    db: &Connection,
    space: &str,
    tenant: &TenantId,
    owner: &str,
) -> rusqlite::Result<Vec<String>> {
    let mut statement = db.prepare_cached(
        "SELECT id FROM documents WHERE (expires_us IS NULL OR expires_us > ?1) \
         AND space = ?2 AND tenant = ?3 AND owner = ?4",
    )?;
    let values = params![now(), space, tenant.as_str(), owner];
    statement.query_map(values, |row| row.get(0))?.collect()
}

pub(super) fn all(db: &Connection, space: &str) -> rusqlite::Result<Vec<Document>> {
    read(db, "space = ?2 ORDER BY tenant, id", params![now(), space])
}

pub(super) fn names(db: &Connection, space: &str) -> rusqlite::Result<Vec<(TenantId, String)>> {
    let mut statement = db.prepare_cached(
        "SELECT tenant, id FROM documents \
         WHERE (expires_us IS NULL OR expires_us > ?1) AND space = ?2 ORDER BY tenant, id",
    )?;
    let name = |row: &Row<'_>| Ok((TenantId::new(row.get::<_, String>(0)?), row.get(1)?));
    statement.query_map(params![now(), space], name)?.collect()
}

fn read(db: &Connection, which: &str, values: impl Params) -> rusqlite::Result<Vec<Document>> {
    let sql = format!("{SELECT} WHERE {ALIVE} AND {which}");
    let mut statement = db.prepare_cached(&sql)?;
    statement.query_map(values, document)?.collect()
}

fn document(row: &Row<'_>) -> rusqlite::Result<Document> {
    Ok(Document {
        tenant: TenantId::new(row.get::<_, String>(0)?),
        id: row.get(1)?,
        alias: row.get(2)?,
        version: unsigned(row, 3)?,
        updated_at: time(row.get(4)?),
        expires_at: row.get::<_, Option<i64>>(5)?.map(time),
        body: json(row, 6)?,
        owner: row.get(7)?,
    })
}

fn json(row: &Row<'_>, column: usize) -> rusqlite::Result<Value> {
    serde_json::from_str(row.get_ref(column)?.as_str()?)
        .map_err(|cause| FromSqlConversionFailure(column, Type::Text, Box::new(cause)))
}

/// SQLite's integers are signed; versions and positions are never negative.
pub(super) fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or_default())
}

/// The reverse conversion.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn time(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(micros).unwrap_or_default()
}

fn now() -> i64 {
    Timestamp::now().as_microsecond()
}
