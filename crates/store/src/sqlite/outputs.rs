//! Full outputs of calls whose results were truncated for the model.

use jiff::Timestamp;
use rusqlite::{Connection, MAIN_DB, OptionalExtension, Transaction};
use windlass::{CallId, OutputPart, TenantId};

use super::connect::lock;
use crate::queue::KeepOutput;

/// Stores outputs, and deletes others until all fit into `room` bytes: the oldest ones of
/// the tenant with the most, so that no tenant evicts another's.
pub(crate) fn keep(
    connection: &Connection,
    outputs: &[KeepOutput],
    room: u64,
    give_up: &dyn Fn() -> bool,
) -> rusqlite::Result<()> {
    let transaction = lock(connection, give_up)?;
    let mut total: i64 =
        transaction.query_row("SELECT bytes FROM output_total", [], |row| row.get(0))?;
    for output in outputs {
        total -= forget(&transaction, output)?;
        if let Some(bytes) = &output.bytes {
            total += insert(&transaction, output, bytes)?;
        }
    }
    let room = i64::try_from(room).unwrap_or(i64::MAX);
    while total > room {
        let Some(freed) = forget_oldest(&transaction)? else { break };
        total -= freed;
    }
    transaction.execute("UPDATE output_total SET bytes = ?", [total])?;
    transaction.commit()
}

/// Deletes the outputs of a tenant's calls up to this one, except for calls that are
/// running or have a key.
pub(crate) fn forget_up_to(
    connection: &Connection,
    tenant: &str,
    id: &[u8],
) -> rusqlite::Result<()> {
    let freed = connection
        .prepare_cached(
            "DELETE FROM outputs INDEXED BY outputs_by_id
             WHERE tenant = ? AND id <= ? AND NOT EXISTS (
                 SELECT 1 FROM intents WHERE tenant = outputs.tenant AND id = outputs.id)
             AND NOT EXISTS (
                 SELECT 1 FROM keys INDEXED BY keys_by_call
                 WHERE keys.tenant = outputs.tenant AND keys.id = outputs.id)
             RETURNING size",
        )?
        .query_map((tenant, id), |row| row.get::<_, i64>(0))?
        .sum::<rusqlite::Result<i64>>()?;
    if freed > 0 {
        connection.execute("UPDATE output_total SET bytes = bytes - ?", [freed])?;
    }
    Ok(())
}

/// A range of an output.
///
/// It is read by incremental blob I/O: `substr` would load the whole value.
pub(crate) fn read(
    connection: &Connection,
    tenant: &TenantId,
    id: CallId,
    offset: u64,
    limit: u64,
) -> rusqlite::Result<Option<OutputPart>> {
    // In one transaction, so that the row cannot be deleted in between.
    let transaction = connection.unchecked_transaction()?;
    let found = transaction
        .prepare_cached("SELECT seq, size FROM outputs WHERE tenant = ? AND id = ?")?
        .query_row((tenant.as_str(), id.uuid().as_bytes()), |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
        })
        .optional()?;
    let Some((seq, size)) = found else { return Ok(None) };
    let size = usize::try_from(size).unwrap_or_default();
    let begin = usize::try_from(offset).unwrap_or(usize::MAX).min(size);
    let length = usize::try_from(limit).unwrap_or(usize::MAX).min(size - begin);
    let mut bytes = vec![0; length];
    if length > 0 {
        let blob = transaction.blob_open(MAIN_DB, c"outputs", c"bytes", seq, true)?;
        blob.read_at_exact(&mut bytes, begin)?;
    }
    Ok(Some(OutputPart { bytes, total_bytes: size as u64 }))
}

fn insert(
    transaction: &Transaction<'_>,
    output: &KeepOutput,
    bytes: &[u8],
) -> rusqlite::Result<i64> {
    let size = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
    transaction
        .prepare_cached(
            "INSERT INTO outputs (tenant, id, created_us, size, bytes) VALUES (?, ?, ?, ?, ?)",
        )?
        .execute((
            output.tenant.as_str(),
            output.id.uuid().as_bytes(),
            Timestamp::now().as_microsecond(),
            size,
            bytes,
        ))?;
    Ok(size)
}

/// Deletes an earlier output of the same call; returns the bytes freed.
fn forget(transaction: &Transaction<'_>, output: &KeepOutput) -> rusqlite::Result<i64> {
    let freed = transaction
        .prepare_cached("DELETE FROM outputs WHERE tenant = ? AND id = ? RETURNING size")?
        .query_row((output.tenant.as_str(), output.id.uuid().as_bytes()), |row| row.get(0))
        .optional()?;
    Ok(freed.unwrap_or_default())
}

fn forget_oldest(transaction: &Transaction<'_>) -> rusqlite::Result<Option<i64>> {
    transaction
        .prepare_cached(
            "DELETE FROM outputs WHERE seq = (
                 SELECT min(seq) FROM outputs WHERE tenant = (
                     SELECT tenant FROM outputs GROUP BY tenant ORDER BY sum(size) DESC LIMIT 1))
             RETURNING size",
        )?
        .query_row([], |row| row.get(0))
        .optional()
}
