//! Queries for documents, in SQL.

use jiff::Timestamp;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};
use windlass::TenantId;

use super::keep::{NOW, signed, unsigned};
use super::text;
use crate::documents::{Document, SpaceSize};
use crate::value::read_json;

const COLUMNS: &str =
    "tenant, whole_tenant, id, alias, version, updated_us, expires_us, body, owner";

pub(super) async fn get(
    client: &Client,
    space: &str,
    tenant: &TenantId,
    id: &str,
) -> Result<Option<Document>, tokio_postgres::Error> {
    let key = text::key(tenant.as_str());
    let values: Values<'_> = &[(&space, Type::TEXT), (&key, Type::TEXT), (&id, Type::TEXT)];
    let mut found = read(client, "space = $1 AND tenant = $2 AND id = $3", values).await?;
    Ok(found.pop())
}

pub(super) async fn find(
    client: &Client,
    space: &str,
    alias: &str,
) -> Result<Option<Document>, tokio_postgres::Error> {
    let values: Values<'_> = &[(&space, Type::TEXT), (&alias, Type::TEXT)];
    Ok(read(client, "space = $1 AND alias = $2", values).await?.pop())
}

pub(super) async fn list(
    client: &Client,
    space: &str,
    tenant: &TenantId,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<Document>, tokio_postgres::Error> {
    // No id contains a zero byte, so the prefix sorts the same.
    let after = after.and_then(|after| after.split('\0').next());
    let key = text::key(tenant.as_str());
    let values: Values<'_> = &[
        (&space, Type::TEXT),
        (&key, Type::TEXT),
        (&signed(limit as u64), Type::INT8),
        (&after.unwrap_or_default(), Type::TEXT),
    ];
    let from = if after.is_some() { ">" } else { ">=" };
    let which = format!("space = $1 AND tenant = $2 AND id {from} $4 ORDER BY id LIMIT $3");
    read(client, &which, values).await
}

pub(super) async fn size_of(
    client: &Client,
    space: &str,
    tenant: &TenantId,
    owner: Option<&str>,
) -> Result<SpaceSize, tokio_postgres::Error> {
    let key = text::key(tenant.as_str());
    let values: Values<'_> = &[(&space, Type::TEXT), (&key, Type::TEXT), (&owner, Type::TEXT)];
    let sql = format!(
        "SELECT count(*), coalesce(sum(octet_length(body::text)), 0)::bigint, min(expires_us)
         FROM windlass.documents
         WHERE (expires_us IS NULL OR expires_us > {NOW}) AND space = $1 AND tenant = $2
           AND ($3 IS NULL OR owner = $3)"
    );
    let rows = client.query_typed(&sql, values).await?;
    let Some(row) = rows.first() else { return Ok(SpaceSize::default()) };
    Ok(SpaceSize {
        count: unsigned(row.try_get(0)?),
        bytes: unsigned(row.try_get(1)?),
        first_end: row.try_get::<_, Option<i64>>(2)?.map(time),
    })
}

pub(super) async fn owned_by(
    client: &Client,
    space: &str,
    tenant: &TenantId,
    owner: &str,
) -> Result<Vec<String>, tokio_postgres::Error> {
    let key = text::key(tenant.as_str());
    let values: Values<'_> = &[(&space, Type::TEXT), (&key, Type::TEXT), (&owner, Type::TEXT)];
    let sql = format!(
        "SELECT id FROM windlass.documents
         WHERE (expires_us IS NULL OR expires_us > {NOW}) AND space = $1 AND tenant = $2
           AND owner = $3"
    );
    client.query_typed(&sql, values).await?.iter().map(|row| row.try_get(0)).collect()
}

pub(super) async fn all(
    client: &Client,
    space: &str,
) -> Result<Vec<Document>, tokio_postgres::Error> {
    read(client, "space = $1 ORDER BY tenant, id", &[(&space, Type::TEXT)]).await
}

pub(super) async fn names(
    client: &Client,
    space: &str,
) -> Result<Vec<(TenantId, String)>, tokio_postgres::Error> {
    let sql = format!(
        "SELECT tenant, whole_tenant, id FROM windlass.documents
         WHERE (expires_us IS NULL OR expires_us > {NOW}) AND space = $1 ORDER BY tenant, id"
    );
    let found = client.query_typed(&sql, &[(&space, Type::TEXT)]).await?;
    found.iter().map(|row| Ok((tenant(row, 0)?, row.try_get(2)?))).collect()
}

/// The tenant of a row: its key, or the full id if that is longer.
pub(super) fn tenant(row: &Row, key: usize) -> Result<TenantId, tokio_postgres::Error> {
    let whole: Option<&str> = row.try_get(key + 1)?;
    let stored = match whole {
        Some(whole) => whole,
        None => row.try_get(key)?,
    };
    Ok(TenantId::new(&*text::read(stored)))
}

type Values<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

async fn read(
    client: &Client,
    which: &str,
    values: Values<'_>,
) -> Result<Vec<Document>, tokio_postgres::Error> {
    let sql = format!(
        "SELECT {COLUMNS} FROM windlass.documents
         WHERE (expires_us IS NULL OR expires_us > {NOW}) AND {which}"
    );
    client.query_typed(&sql, values).await?.iter().map(document).collect()
}

fn document(row: &Row) -> Result<Document, tokio_postgres::Error> {
    Ok(Document {
        tenant: tenant(row, 0)?,
        id: row.try_get(2)?,
        alias: row.try_get(3)?,
        version: unsigned(row.try_get(4)?),
        updated_at: time(row.try_get(5)?),
        expires_at: row.try_get::<_, Option<i64>>(6)?.map(time),
        // Only valid JSON is stored.
        body: read_json(row.try_get(7)?),
        owner: row.try_get(8)?,
    })
}

fn time(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(micros).unwrap_or_default()
}
