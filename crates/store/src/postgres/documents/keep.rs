//! Changes documents with one statement each, which also notifies other servers.

use jiff::Timestamp;
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};
use windlass::TenantId;

use super::fault::{Fault, unavailable};
use super::{note, text};
use crate::documents::{Expect, Origin, Put};

/// The database's clock, which all servers share.
pub(super) const NOW: &str = "(extract(epoch FROM now()) * 1000000)::bigint";

/// Maximum number of retries after conflicts.
const ATTEMPTS: u32 = 20;

/// Maximum number of expired documents deleted in one statement.
const SWEEP: i64 = 500;

/// What prevents the use of an alias.
enum Way {
    Free,
    Taken,
}

/// Stores a document; returns its new version.
///
/// A statement that fails because of the alias has changed nothing. The document that
/// holds the alias may have expired: then it is deleted, and the statement is retried.
pub(super) async fn put(
    client: &Client,
    put: &Put,
    expect: Expect,
    origin: Origin,
) -> Result<Option<u64>, Fault> {
    const UNIQUE: &str = "23505";
    for _ in 0..ATTEMPTS {
        let fault = match try_put(client, put, expect, origin).await {
            Ok(version) => return Ok(version),
            Err(fault) => fault,
        };
        if fault.code() == Some(UNIQUE) {
            if let Way::Taken = clear_the_way(client, put).await? {
                return Ok(None);
            }
        } else if fault.code().is_none() || !fault.is_worth_another_try() {
            return Err(fault);
        }
    }
    Err(unavailable("cannot keep a document: too many others change it").into())
}

/// Deletes a document if the precondition holds; returns whether it did.
pub(super) async fn delete(
    client: &Client,
    space: &str,
    tenant: &TenantId,
    id: &str,
    expect: Expect,
    origin: Origin,
) -> Result<bool, Fault> {
    let sql = format!(
        "WITH gone AS (
            DELETE FROM windlass.documents
            WHERE space = $1 AND tenant = $2 AND id = $3
              AND (expires_us IS NULL OR expires_us > {NOW}) AND version = coalesce($4, version)
            RETURNING 1
        )
        SELECT pg_notify('{}', $5) FROM gone",
        note::CHANGES
    );
    let version = match expect {
        Expect::Absent => return Ok(false),
        Expect::Anything => None,
        Expect::Version(version) => Some(signed(version)),
    };
    let rows = client
        .query_typed(
            &sql,
            &[
                (&space, Type::TEXT),
                (&text::key(tenant.as_str()), Type::TEXT),
                (&id, Type::TEXT),
                (&version, Type::INT8),
                (&note::write(origin, space, tenant, id), Type::TEXT),
            ],
        )
        .await?;
    Ok(!rows.is_empty())
}

/// Deletes some expired documents; returns how many.
pub(super) async fn sweep(client: &Client) -> Result<u64, tokio_postgres::Error> {
    let sql = format!(
        "DELETE FROM windlass.documents USING (
            SELECT space, tenant, id FROM windlass.documents
            WHERE expires_us <= {NOW} LIMIT {SWEEP} FOR UPDATE SKIP LOCKED
        ) AS old
        WHERE documents.space = old.space AND documents.tenant = old.tenant
          AND documents.id = old.id"
    );
    client.execute_typed(&sql, &[]).await
}

/// The full tenant id, if its key is only a prefix and hash.
pub(super) fn whole(tenant: &TenantId) -> Option<String> {
    let kept = text::kept(tenant.as_str());
    (kept != text::key(tenant.as_str())).then(|| kept.into_owned())
}

pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

async fn try_put(
    client: &Client,
    put: &Put,
    expect: Expect,
    origin: Origin,
) -> Result<Option<u64>, Fault> {
    let key = text::key(put.tenant.as_str());
    let whole = whole(&put.tenant);
    let expires = put.expires_at.map(Timestamp::as_microsecond);
    let (body, note) = (put.body.to_string(), note::write(origin, put.space, &put.tenant, &put.id));
    let mut values: Vec<(&(dyn ToSql + Sync), Type)> = vec![
        (&put.space, Type::TEXT),
        (&key, Type::TEXT),
        (&whole, Type::TEXT),
        (&put.id, Type::TEXT),
        (&put.alias, Type::TEXT),
        (&expires, Type::INT8),
        (&body, Type::TEXT),
        (&note, Type::TEXT),
        (&put.owner, Type::TEXT),
    ];
    let version;
    if let Expect::Version(expected) = expect {
        version = signed(expected);
        values.push((&version, Type::INT8));
    }
    let row = client.query_typed_opt(&statement(expect), &values).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?.map(unsigned))
}

/// The parameters are space, tenant, full tenant, id, alias, expiry, body, notification,
/// owner and the expected version.
fn statement(expect: Expect) -> String {
    let expired = format!("(kept.expires_us <= {NOW}) IS TRUE");
    let change = format!(
        "alias = $5, expires_us = $6, body = $7, updated_us = {NOW}, \
         owner = CASE WHEN {expired} THEN $9 ELSE kept.owner END, \
         version = CASE WHEN {expired} THEN 1 ELSE kept.version + 1 END"
    );
    let insert = format!(
        "INSERT INTO windlass.documents AS kept
             (space, tenant, whole_tenant, id, alias, expires_us, body, updated_us, version,
              owner)
         VALUES ($1, $2, $3, $4, $5, $6, $7, {NOW}, 1, $9)
         ON CONFLICT (space, tenant, id) DO UPDATE SET {change}"
    );
    let keep = match expect {
        Expect::Anything => insert,
        Expect::Absent => format!("{insert} WHERE {expired}"),
        Expect::Version(_) => format!(
            "UPDATE windlass.documents AS kept SET {change}, whole_tenant = $3
             WHERE space = $1 AND tenant = $2 AND id = $4 AND version = $10 AND NOT {expired}"
        ),
    };
    format!(
        "WITH done AS ({keep} RETURNING kept.version)
         SELECT version, pg_notify('{}', $8) FROM done",
        note::CHANGES
    )
}

/// Deletes another document with the same alias if it has expired. Returns what remains.
async fn clear_the_way(client: &Client, put: &Put) -> Result<Way, Fault> {
    let other = "space = $1 AND alias = $2 AND (tenant <> $3 OR id <> $4)";
    let sql = format!(
        "WITH gone AS (DELETE FROM windlass.documents WHERE {other} AND expires_us <= {NOW})
         SELECT EXISTS (SELECT FROM windlass.documents
                        WHERE {other} AND (expires_us IS NULL OR expires_us > {NOW}))"
    );
    let row = client
        .query_typed_one(
            &sql,
            &[
                (&put.space, Type::TEXT),
                (&put.alias, Type::TEXT),
                (&text::key(put.tenant.as_str()), Type::TEXT),
                (&put.id, Type::TEXT),
            ],
        )
        .await?;
    Ok(if row.try_get(0)? { Way::Taken } else { Way::Free })
}
