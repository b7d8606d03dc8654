//! Retention: deletes the oldest records and keys in small steps, so that no call waits
//! for a large delete.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

/// Maximum number of times in one step that the largest tenant is determined anew.
const ROUNDS: u32 = 16;

/// How often a tenant's records are scanned from the start. In between, the scan
/// continues where it stopped.
const LOOK_THROUGH: Duration = Duration::from_secs(60);

/// For each tenant, the position up to which records are deleted or have a key, and when
/// the scan last started from the beginning.
#[derive(Default)]
pub(crate) struct GoneUpTo(HashMap<String, (Uuid, Instant)>);

/// Deletes the oldest calls of the tenant with the most, about `most` at a time, until
/// `keep` are left. Calls with an idempotency key stay as long as the key; a tenant with
/// many of those does not cost others their calls.
pub(crate) async fn forget_calls(
    client: &Client,
    keep: u64,
    most: i64,
    gone_up_to: &mut GoneUpTo,
) -> Result<(), tokio_postgres::Error> {
    let keep = i64::try_from(keep).unwrap_or(i64::MAX);
    let mut left = most;
    for _ in 0..ROUNDS {
        let sql =
            "SELECT tenant, records FROM windlass.tenant_records ORDER BY records DESC LIMIT 2";
        let rows = client.query_typed(sql, &[]).await?;
        let Some(first) = rows.first() else { return Ok(()) };
        let (tenant, records): (String, i64) = (first.try_get(0)?, first.try_get(1)?);
        let next: i64 = rows.get(1).map_or(Ok(0), |row| row.try_get(1))?;
        let part = (records - next).max(records / i64::from(ROUNDS)).max(1).min(left);
        let gone = let_go(client, keep, &tenant, part, gone_up_to).await?;
        left -= gone;
        if gone == 0 || left <= 0 {
            return Ok(());
        }
    }
    Ok(())
}

/// Deletes a tenant's oldest calls without a key; returns how many.
async fn let_go(
    client: &Client,
    keep: i64,
    tenant: &str,
    most: i64,
    gone_up_to: &mut GoneUpTo,
) -> Result<i64, tokio_postgres::Error> {
    let known = gone_up_to.0.get(tenant).copied();
    let (after, since) = known
        .filter(|(_, since)| since.elapsed() < LOOK_THROUGH)
        .unwrap_or_else(|| (Uuid::nil(), Instant::now()));
    let sql = "WITH excess AS (
            SELECT greatest(0, least($3, value - $4)) AS calls
            FROM windlass.totals WHERE name = 'calls'
        ), oldest AS MATERIALIZED (
            SELECT id FROM windlass.calls
            WHERE tenant = $1 AND id > $2 AND NOT EXISTS (
                SELECT FROM windlass.keys WHERE keys.id = calls.id AND keys.tenant = calls.tenant)
            ORDER BY id LIMIT (SELECT calls FROM excess) FOR UPDATE SKIP LOCKED
        ), gone AS (
            DELETE FROM windlass.calls USING oldest
            WHERE calls.id = oldest.id AND calls.tenant = $1
            RETURNING calls.id
        ), counted AS (
            UPDATE windlass.tenant_records SET records = records - (SELECT count(*) FROM gone)
            WHERE tenant = $1
        )
        UPDATE windlass.totals SET value = value - (SELECT count(*) FROM gone)
        WHERE name = 'calls'
        RETURNING (SELECT count(*) FROM gone), (SELECT calls FROM excess),
            coalesce((SELECT id FROM gone ORDER BY id DESC LIMIT 1), $2),
            (SELECT id FROM windlass.calls WHERE tenant = $1 ORDER BY id DESC LIMIT 1)";
    let values: [(&(dyn ToSql + Sync), Type); 4] =
        [(&tenant, Type::TEXT), (&after, Type::UUID), (&most, Type::INT8), (&keep, Type::INT8)];
    let row = client.query_typed_one(sql, &values).await?;
    let (gone, wanted): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    let (last, newest): (Uuid, Option<Uuid>) = (row.try_get(2)?, row.try_get(3)?);
    // If fewer were deleted than wanted, the rest has keys.
    let up_to = if gone < wanted { newest.unwrap_or(last) } else { last };
    gone_up_to.0.insert(tenant.to_owned(), (up_to, since));
    Ok(gone)
}

/// Deletes keys older than `age`, except those of running calls.
pub(crate) async fn forget_keys(
    client: &Client,
    age: Duration,
    most: i64,
) -> Result<(), tokio_postgres::Error> {
    let sql = "DELETE FROM windlass.keys USING (
            SELECT tenant, key FROM windlass.keys AS old
            WHERE kept_at < now() - make_interval(secs => $1)
              AND NOT EXISTS (SELECT FROM windlass.intents WHERE intents.id = old.id)
            ORDER BY kept_at LIMIT $2
            FOR UPDATE SKIP LOCKED
        ) AS old
        WHERE keys.tenant = old.tenant AND keys.key = old.key";
    client.execute_typed(sql, &[(&age.as_secs_f64(), Type::FLOAT8), (&most, Type::INT8)]).await?;
    Ok(())
}
