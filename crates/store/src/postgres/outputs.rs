//! Full outputs of calls whose results were truncated for the model.

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Transaction};
use windlass::{CallId, OutputPart, TenantId};

use super::fault::Fault;
use super::text;
use crate::queue::KeepOutput;

/// Stores outputs, and deletes others until all fit into `room` bytes: the oldest ones of
/// the tenant with the most, so that no tenant evicts another's.
pub(crate) async fn keep(
    client: &mut Client,
    outputs: &[KeepOutput],
    room: u64,
) -> Result<(), Fault> {
    let transaction = client.transaction().await?;
    let sql = "SELECT value FROM windlass.totals WHERE name = 'outputs' FOR UPDATE";
    let mut total: i64 = transaction.query_typed_one(sql, &[]).await?.try_get(0)?;
    for output in outputs {
        total -= forget(&transaction, output).await?;
        if let Some(bytes) = &output.bytes {
            total += insert(&transaction, output, bytes).await?;
        }
    }
    let room = i64::try_from(room).unwrap_or(i64::MAX);
    while total > room {
        let Some(freed) = forget_oldest(&transaction).await? else { break };
        total -= freed;
    }
    let sql = "UPDATE windlass.totals SET value = $1 WHERE name = 'outputs'";
    transaction.execute_typed(sql, &[(&total, Type::INT8)]).await?;
    transaction.commit().await?;
    Ok(())
}

/// A range of an output. The column is not compressed, so only this range is read.
pub(crate) async fn read(
    client: &Client,
    tenant: &TenantId,
    id: CallId,
    offset: u64,
    limit: u64,
) -> Result<Option<OutputPart>, tokio_postgres::Error> {
    // `substring` takes 32-bit positions from 1. No output is larger, so nothing is lost
    // here.
    let most = i32::MAX as u64 / 2;
    let from = i32::try_from(offset.min(most)).unwrap_or(i32::MAX) + 1;
    let length = i32::try_from(limit.min(most)).unwrap_or(i32::MAX);
    let row = client
        .query_typed_opt(
            "SELECT substring(bytes FROM $3 FOR $4), size FROM windlass.outputs \
             WHERE tenant = $1 AND id = $2",
            &[
                (&text::key(tenant.as_str()), Type::TEXT),
                (&id.uuid(), Type::UUID),
                (&from, Type::INT4),
                (&length, Type::INT4),
            ],
        )
        .await?;
    let Some(row) = row else { return Ok(None) };
    let size: i64 = row.try_get(1)?;
    Ok(Some(OutputPart {
        bytes: row.try_get(0)?,
        total_bytes: u64::try_from(size).unwrap_or_default(),
    }))
}

async fn insert(
    transaction: &Transaction<'_>,
    output: &KeepOutput,
    bytes: &Vec<u8>,
) -> Result<i64, tokio_postgres::Error> {
    let size = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
    transaction
        .execute_typed(
            "INSERT INTO windlass.outputs (tenant, id, size, bytes) VALUES ($1, $2, $3, $4)",
            &[
                (&text::key(output.tenant.as_str()), Type::TEXT),
                (&output.id.uuid(), Type::UUID),
                (&size, Type::INT8),
                (bytes, Type::BYTEA),
            ],
        )
        .await?;
    Ok(size)
}

/// Deletes an earlier output of the same call; returns the bytes freed.
async fn forget(
    transaction: &Transaction<'_>,
    output: &KeepOutput,
) -> Result<i64, tokio_postgres::Error> {
    let freed = transaction
        .query_typed_opt(
            "DELETE FROM windlass.outputs WHERE tenant = $1 AND id = $2 RETURNING size",
            &[(&text::key(output.tenant.as_str()), Type::TEXT), (&output.id.uuid(), Type::UUID)],
        )
        .await?;
    freed.map_or(Ok(0), |row| row.try_get(0))
}

async fn forget_oldest(
    transaction: &Transaction<'_>,
) -> Result<Option<i64>, tokio_postgres::Error> {
    let row = transaction
        .query_typed_opt(
            "DELETE FROM windlass.outputs WHERE seq = ( \
                 SELECT min(seq) FROM windlass.outputs WHERE tenant = ( \
                     SELECT tenant FROM windlass.outputs \
                     GROUP BY tenant ORDER BY sum(size) DESC LIMIT 1)) \
             RETURNING size",
            &[],
        )
        .await?;
    row.map(|row| row.try_get(0)).transpose()
}
