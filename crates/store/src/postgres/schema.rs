//! Database schema and migrations.
//!
//! The tables are in a schema of their own, `windlass`, so that the database may be
//! shared with other programs. `windlass.migrations` lists the migrations that were
//! applied.

use tokio_postgres::Client;
use tokio_postgres::types::Type;
use windlass::Error;

use super::fault::{Fault, unavailable};

/// One script for each version; scripts are only added, never changed.
const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/postgres/0001_calls.sql"),
    include_str!("../../migrations/postgres/0002_documents.sql"),
    include_str!("../../migrations/postgres/0003_model_usage.sql"),
    include_str!("../../migrations/postgres/0004_tenant_records.sql"),
    include_str!("../../migrations/postgres/0005_document_owners.sql"),
    include_str!("../../migrations/postgres/0006_forgotten_events.sql"),
];

/// Advisory lock for migrations: `WNDLASS`.
const LOCK: i64 = 0x0057_4e44_4c41_5353;

/// Applies missing migrations in one transaction. Processes that start together wait for
/// one another at the lock, and the later ones find nothing left to do.
pub(crate) async fn migrate(client: &mut Client, place: &str) -> Result<(), Fault> {
    check_encoding(client, place).await?;
    let known = MIGRATIONS.len() as i64;
    if version(client).await? == Some(known) {
        return Ok(());
    }
    let transaction = client.transaction().await?;
    transaction.batch_execute("SET LOCAL statement_timeout = 0").await?;
    transaction.execute_typed("SELECT pg_advisory_xact_lock($1)", &[(&LOCK, Type::INT8)]).await?;
    let seen = match version(transaction.client()).await? {
        Some(seen) if seen > known => return Err(newer(place, seen).into()),
        Some(seen) => seen,
        None => {
            create(transaction.client(), place).await?;
            0
        }
    };
    for (index, script) in (1_i64..).zip(MIGRATIONS).skip(usize::try_from(seen).unwrap_or(0)) {
        transaction.batch_execute(script).await?;
        transaction
            .execute_typed(
                "INSERT INTO windlass.migrations (version) VALUES ($1)",
                &[(&index, Type::INT8)],
            )
            .await?;
    }
    transaction.commit().await?;
    Ok(())
}

/// Number of applied migrations, and of known ones.
pub(crate) async fn versions(client: &Client) -> Result<(u64, u64), tokio_postgres::Error> {
    let seen = version(client).await?.unwrap_or_default();
    Ok((u64::try_from(seen).unwrap_or_default(), MIGRATIONS.len() as u64))
}

/// Number of applied migrations; `None` if there is no table of them.
///
/// Queries the catalog directly: `to_regclass` uses a cache that may not have seen what
/// another process has just committed.
async fn version(client: &Client) -> Result<Option<i64>, tokio_postgres::Error> {
    let row = client
        .query_typed_one(
            "SELECT EXISTS (SELECT FROM pg_class JOIN pg_namespace ON relnamespace = pg_namespace.oid
                            WHERE nspname = 'windlass' AND relname = 'migrations')",
            &[],
        )
        .await?;
    if !row.try_get(0)? {
        return Ok(None);
    }
    let row = client
        .query_typed_one("SELECT coalesce(max(version), 0) FROM windlass.migrations", &[])
        .await?;
    row.try_get(0).map(Some)
}

/// Creates the schema and its table of migrations. An existing empty schema is used, but
/// not one with other tables.
async fn create(client: &Client, place: &str) -> Result<(), Fault> {
    let row = client
        .query_typed_one(
            "SELECT count(DISTINCT pg_namespace.oid) > 0, count(relname) > 0
             FROM pg_namespace LEFT JOIN pg_class ON relnamespace = pg_namespace.oid
             WHERE nspname = 'windlass'",
            &[],
        )
        .await?;
    let (there, in_use): (bool, bool) = (row.try_get(0)?, row.try_get(1)?);
    if in_use {
        return Err(unavailable(format!(
            "cannot open the record store: the schema `windlass` of {place} is another program's; name another database"
        ))
        .into());
    }
    if !there {
        client.batch_execute("CREATE SCHEMA windlass").await?;
    }
    client
        .batch_execute(
            "CREATE TABLE windlass.migrations (
                 version    bigint      PRIMARY KEY,
                 applied_at timestamptz NOT NULL DEFAULT now()
             )",
        )
        .await?;
    Ok(())
}

fn newer(place: &str, version: i64) -> Error {
    unavailable(format!(
        "cannot open the record store: {place} has version {version}, this windlass knows versions up to {}; use a newer windlass, or name another database",
        MIGRATIONS.len()
    ))
}

/// Encodings other than UTF-8 cannot hold every text, and would fail a whole batch for
/// one character.
async fn check_encoding(client: &Client, place: &str) -> Result<(), Fault> {
    let row = client.query_typed_one("SELECT current_setting('server_encoding')", &[]).await?;
    let encoding: &str = row.try_get(0)?;
    if encoding == "UTF8" {
        return Ok(());
    }
    Err(unavailable(format!(
        "cannot open the record store: {place} has the encoding {encoding}; create a database with `createdb --encoding=UTF8 --template=template0`"
    ))
    .into())
}
