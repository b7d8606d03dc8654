//! Owners: the processes that run calls, and how the calls of dead ones are closed.
//!
//! Every open store is an owner: a row with a heartbeat every second, and an advisory
//! lock that the server releases when the store's connection ends. An owner is dead if
//! the lock is free *and* the heartbeat has been missing for a while, by the database's
//! clock: a brief loss of the connection interrupts no calls. Whoever notices a dead
//! owner first closes its calls.

use std::collections::HashSet;
use std::time::Duration;

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};
use uuid::Uuid;
use windlass::CallRecord;

use super::batch;
use super::fault::Fault;
use super::intents::{COLUMNS, read_intent};
use super::rows::Rows;

/// Maximum number of calls closed in one transaction.
const STEP: i64 = 500;

/// Registers a new owner; returns its id.
pub(crate) async fn register(client: &Client) -> Result<i32, tokio_postgres::Error> {
    let sql = "INSERT INTO windlass.owners (seen_at) VALUES (clock_timestamp()) RETURNING id";
    client.query_typed_one(sql, &[]).await?.try_get(0)
}

/// Writes the heartbeat, and revives an owner that others took for dead.
pub(crate) async fn touch(client: &Client, owner: i32) -> Result<(), tokio_postgres::Error> {
    let sql = "INSERT INTO windlass.owners (id, seen_at) VALUES ($1, clock_timestamp()) \
               ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at";
    client.execute_typed(sql, &[(&owner, Type::INT4)]).await?;
    Ok(())
}

/// Takes the owner's advisory lock in this session; `false` if another session holds it,
/// which may be our previous one.
pub(crate) async fn lock(client: &Client, owner: i32) -> Result<bool, tokio_postgres::Error> {
    let sql = "SELECT pg_try_advisory_lock('windlass.owners'::regclass::oid::integer, $1)";
    client.query_typed_one(sql, &[(&owner, Type::INT4)]).await?.try_get(0)
}

/// Unregisters the owner. Calls that it leaves behind may be closed at once.
pub(crate) async fn leave(client: &Client, owner: i32) -> Result<(), tokio_postgres::Error> {
    let sql = "DELETE FROM windlass.owners WHERE id = $1 \
               AND NOT EXISTS (SELECT FROM windlass.intents WHERE owner = $1)";
    if client.execute_typed(sql, &[(&owner, Type::INT4)]).await? == 0 {
        let sql = "UPDATE windlass.owners SET seen_at = '-infinity' WHERE id = $1";
        client.execute_typed(sql, &[(&owner, Type::INT4)]).await?;
    }
    Ok(())
}

/// Whether an owner is gone and all its calls are closed: its row is removed with the
/// last.
pub(crate) async fn is_gone(client: &Client, owner: i32) -> Result<bool, tokio_postgres::Error> {
    let sql = "SELECT NOT EXISTS (SELECT FROM windlass.owners WHERE id = $1)";
    client.query_typed_one(sql, &[(&owner, Type::INT4)]).await?.try_get(0)
}

/// Owners whose heartbeat has been missing for a while.
pub(crate) async fn silent(
    client: &Client,
    owner: i32,
    grace: Duration,
) -> Result<Vec<i32>, tokio_postgres::Error> {
    let sql = "SELECT id FROM windlass.owners \
               WHERE id <> $1 AND seen_at < clock_timestamp() - make_interval(secs => $2) \
               ORDER BY id LIMIT 100";
    let values = [(&owner as _, Type::INT4), (&grace.as_secs_f64() as _, Type::FLOAT8)];
    client.query_typed(sql, &values).await?.iter().map(|row| row.try_get(0)).collect()
}

/// Closes calls of an owner if it is dead, and removes the owner with the last of them.
/// Adds the calls closed here to `closed`.
pub(crate) async fn close(
    client: &mut Client,
    owner: i32,
    grace: Duration,
    closed: &mut Vec<CallRecord>,
) -> Result<(), Fault> {
    loop {
        let transaction = client.transaction().await?;
        if !is_dead(transaction.client(), owner, grace).await? {
            return Ok(());
        }
        let intents = take_intents(transaction.client(), owner).await?;
        let last = intents.len() < STEP as usize;
        let mut records = Vec::with_capacity(intents.len());
        for row in &intents {
            records.push(read_intent(row)?.interrupted());
        }
        let client = transaction.client();
        let rows = Rows::of(&records);
        let inserted = if records.is_empty() { Vec::new() } else { rows.insert(client).await? };
        let new: HashSet<Uuid> =
            inserted.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        drop(rows);
        // A call that has its record already was not interrupted.
        records.retain(|record| new.contains(&record.id.uuid()));
        let mut changes = batch::Changes::default();
        records.iter().for_each(|record| changes.count(record, 1));
        changes.apply(client).await?;
        if last {
            let sql = "DELETE FROM windlass.owners WHERE id = $1";
            client.execute_typed(sql, &[(&owner, Type::INT4)]).await?;
        }
        transaction.commit().await?;
        closed.append(&mut records);
        if last {
            return Ok(());
        }
    }
}

/// Whether the owner is dead and no other process is closing it. Its row stays locked
/// until the end of the transaction, so it cannot begin a call meanwhile.
async fn is_dead(
    client: &Client,
    owner: i32,
    grace: Duration,
) -> Result<bool, tokio_postgres::Error> {
    let sql = "SELECT pg_try_advisory_xact_lock('windlass.owners'::regclass::oid::integer, $1)";
    let free: bool = client.query_typed_one(sql, &[(&owner, Type::INT4)]).await?.try_get(0)?;
    if !free {
        return Ok(false);
    }
    let sql = "SELECT FROM windlass.owners \
               WHERE id = $1 AND seen_at < clock_timestamp() - make_interval(secs => $2) \
               FOR UPDATE SKIP LOCKED";
    let values = [(&owner as _, Type::INT4), (&grace.as_secs_f64() as _, Type::FLOAT8)];
    Ok(client.query_typed_opt(sql, &values).await?.is_some())
}

async fn take_intents(client: &Client, owner: i32) -> Result<Vec<Row>, tokio_postgres::Error> {
    let sql = format!(
        "DELETE FROM windlass.intents WHERE id IN ( \
             SELECT id FROM windlass.intents WHERE owner = $1 ORDER BY id LIMIT $2) \
         RETURNING {COLUMNS}"
    );
    client.query_typed(&sql, &[(&owner, Type::INT4), (&STEP, Type::INT8)]).await
}
