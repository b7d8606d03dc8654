//! What goes when there is no more room for it, in small steps, so that no
//! call waits for a large one.

use std::time::Duration;

use tokio_postgres::Client;
use tokio_postgres::types::Type;

/// Lets the oldest calls go, `most` at a time, until `keep` are left, and
/// their keys with them. Returns how many are left.
pub(crate) async fn forget_calls(
    client: &Client,
    keep: u64,
    most: i64,
) -> Result<i64, tokio_postgres::Error> {
    let keep = i64::try_from(keep).unwrap_or(i64::MAX);
    let sql = "WITH excess AS (
            SELECT greatest(0, least($2, value - $1)) AS calls
            FROM windlass.totals WHERE name = 'calls'
        ), oldest AS MATERIALIZED (
            SELECT id, tenant FROM windlass.calls ORDER BY id, tenant
            LIMIT (SELECT calls FROM excess) FOR UPDATE SKIP LOCKED
        ), gone AS (
            DELETE FROM windlass.calls USING oldest
            WHERE calls.id = oldest.id AND calls.tenant = oldest.tenant
            RETURNING calls.id, calls.tenant
        ), keys_gone AS (
            DELETE FROM windlass.keys USING gone
            WHERE keys.id = gone.id AND keys.tenant = gone.tenant
        )
        UPDATE windlass.totals SET value = value - (SELECT count(*) FROM gone)
        WHERE name = 'calls' RETURNING value";
    let row = client.query_typed_one(sql, &[(&keep, Type::INT8), (&most, Type::INT8)]).await?;
    row.try_get(0)
}

/// Lets keys go that are older than `age`, but not those of calls that run.
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
