//! Intents and idempotency keys, in SQL.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row};
use uuid::Uuid;
use windlass::{Begun, CallId, CallRecord, IdempotencyKey, Intent, TenantId};

use super::rows::{Binder, bind_caller, read_caller, read_id, read_timestamp, text};
use crate::KEEP_RUNS;
use crate::value::read_json;

/// Stores an intent and claims its key, unless another call holds the key, or the call
/// has begun elsewhere or has finished. A key claimed before `oldest_key_us` is free
/// again, unless its call is still running.
pub(crate) fn begin(
    connection: &Connection,
    intent: &Intent,
    owner: Uuid,
    now_us: i64,
    oldest_key_us: i64,
) -> rusqlite::Result<Begun> {
    let tenant = &intent.caller.tenant;
    let begun_by = owner_of(connection, tenant, intent.id)?;
    if begun_by.is_some_and(|other| other != owner) || has_record(connection, tenant, intent.id)? {
        return Ok(Begun::Duplicate(intent.id));
    }
    if let Some(key) = &intent.key {
        if let Some(claim) = claim(connection, tenant, &key.key)?
            && (claim.created_us >= oldest_key_us
                || owner_of(connection, tenant, claim.id)?.is_some())
        {
            return Ok(if claim.fingerprint == key.fingerprint {
                Begun::Duplicate(claim.id)
            } else {
                Begun::OtherArguments(claim.id)
            });
        }
        insert_key(connection, tenant, intent.id, key, now_us)?;
    }
    insert(connection, intent, owner)?;
    Ok(Begun::New)
}

/// Deletes the intent of a finished call, and releases its key if it never ran.
pub(crate) fn forget(connection: &Connection, record: &CallRecord) -> rusqlite::Result<()> {
    let id = record.id.uuid();
    let call = (record.caller.tenant.as_str(), id.as_bytes());
    connection.prepare_cached("DELETE FROM intents WHERE tenant = ? AND id = ?")?.execute(call)?;
    if record.attempts == 0 && record.idempotency_key().is_some() {
        connection.prepare_cached("DELETE FROM keys WHERE tenant = ? AND id = ?")?.execute(call)?;
    }
    Ok(())
}

/// The owner of a running call; `None` if it has finished.
pub(crate) fn owner_of(
    connection: &Connection,
    tenant: &TenantId,
    id: CallId,
) -> rusqlite::Result<Option<Uuid>> {
    connection
        .prepare_cached("SELECT owner FROM intents WHERE tenant = ? AND id = ?")?
        .query_row((tenant.as_str(), id.uuid().as_bytes()), |row| row.get(0).map(Uuid::from_bytes))
        .optional()
}

fn has_record(connection: &Connection, tenant: &TenantId, id: CallId) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM calls WHERE tenant = ? AND id = ?)")?
        .query_row((tenant.as_str(), id.uuid().as_bytes()), |row| row.get(0))
}

/// All owners of running calls.
pub(crate) fn owners(connection: &Connection) -> rusqlite::Result<Vec<Uuid>> {
    connection
        .prepare("SELECT DISTINCT owner FROM intents")?
        .query_map([], |row| row.get(0).map(Uuid::from_bytes))?
        .collect()
}

/// Some of the intents of an owner.
pub(crate) fn of_owner(
    connection: &Connection,
    owner: Uuid,
    limit: usize,
) -> rusqlite::Result<Vec<Intent>> {
    connection
        .prepare(
            "SELECT tenant, id, call_ref, tool, user, caller_id, caller_type, conversation,
                    workflow, parent, idempotency_key, created_us, arguments
             FROM intents WHERE owner = ? LIMIT ?",
        )?
        .query_map((owner.as_bytes(), i64::try_from(limit).unwrap_or(i64::MAX)), read)?
        .collect()
}

/// Deletes at most `limit` keys claimed before a time, except those of running calls.
pub(crate) fn expire_keys(
    connection: &Connection,
    oldest_key_us: i64,
    limit: usize,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "DELETE FROM keys WHERE (tenant, key) IN (
                 SELECT tenant, key FROM keys AS old INDEXED BY keys_by_age
                 WHERE created_us < ? AND NOT EXISTS (
                     SELECT 1 FROM intents WHERE tenant = old.tenant AND id = old.id)
                 ORDER BY created_us LIMIT ?)",
        )?
        .execute((oldest_key_us, i64::try_from(limit).unwrap_or(i64::MAX)))?;
    Ok(())
}

/// The call that holds a key.
struct Claim {
    id: CallId,
    fingerprint: [u8; 32],
    created_us: i64,
}

fn claim(connection: &Connection, tenant: &TenantId, key: &str) -> rusqlite::Result<Option<Claim>> {
    connection
        .prepare_cached(
            "SELECT id, fingerprint, created_us FROM keys WHERE tenant = ? AND key = ?",
        )?
        .query_row((tenant.as_str(), key), |row| {
            Ok(Claim { id: read_id(row, 0)?, fingerprint: row.get(1)?, created_us: row.get(2)? })
        })
        .optional()
}

fn insert_key(
    connection: &Connection,
    tenant: &TenantId,
    id: CallId,
    key: &IdempotencyKey,
    now_us: i64,
) -> rusqlite::Result<()> {
    // Keys that are kept longer get a later date, so that age alone decides.
    let ahead = if key.is_of_a_run() { KEEP_RUNS } else { Duration::ZERO };
    let created_us = now_us.saturating_add(i64::try_from(ahead.as_micros()).unwrap_or(i64::MAX));
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO keys (tenant, key, fingerprint, id, created_us)
             VALUES (?, ?, ?, ?, ?)",
        )?
        .execute((tenant.as_str(), &*key.key, key.fingerprint, id.uuid().as_bytes(), created_us))?;
    Ok(())
}

fn insert(connection: &Connection, intent: &Intent, owner: Uuid) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO intents (tenant, id, call_ref, tool, user, caller_id, caller_type,
             conversation, workflow, parent, owner, idempotency_key, created_us, arguments)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
    )?;
    let mut row = Binder::new(&mut statement);
    bind_caller(
        &mut row,
        &intent.caller,
        intent.id,
        intent.call_ref.as_deref(),
        &intent.tool_name,
    )?;
    row.put(owner.as_bytes().as_slice())?;
    row.put(intent.key.as_ref().map(|key| &*key.key))?;
    row.put(intent.created_at.as_microsecond())?;
    row.put(text(&*intent.arguments, &mut Vec::new())?)?;
    statement.raw_execute()?;
    Ok(())
}

fn read(row: &Row<'_>) -> rusqlite::Result<Intent> {
    Ok(Intent {
        id: read_id(row, 1)?,
        call_ref: row.get(2)?,
        tool_name: row.get(3)?,
        arguments: Arc::new(read_json(row.get_ref(12)?.as_str()?)),
        caller: Arc::new(read_caller(row)?),
        created_at: read_timestamp(row, 11)?,
        // The fingerprint is in `keys`; the record does not need it.
        key: row
            .get::<_, Option<Arc<str>>>(10)?
            .map(|key| IdempotencyKey { key, fingerprint: [0; 32] }),
    })
}
