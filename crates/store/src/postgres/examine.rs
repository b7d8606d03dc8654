//! Read-only health check of a PostgreSQL database.

use std::time::Duration;

use jiff::Timestamp;
use windlass::Error;

use super::connect::Target;
use super::fault::{Fault, no_answer};
use super::options::PostgresOptions;
use super::schema;
use super::url::PostgresUrl;
use crate::sqlite::Examination;

/// Timeout for all of it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Checks whether a PostgreSQL database can be reached, has our schema, and is writable.
///
/// # Errors
///
/// If it cannot be reached.
pub async fn examine_postgres(url: &PostgresUrl) -> Result<Examination, Error> {
    let target = Target::new(url, &PostgresOptions::default())?;
    let place = target.place.clone();
    let what = "examine the database";
    match tokio::time::timeout(PATIENCE, look(&target)).await {
        Ok(found) => found.map_err(|fault| fault.at(&place, what)),
        Err(_) => Err(no_answer(&place, what, PATIENCE)),
    }
}

async fn look(target: &Target) -> Result<Examination, Fault> {
    let client = target.writer().await?;
    let (version, known) = schema::versions(&client).await?;
    let row = client
        .query_typed_one(
            "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on',
                    has_database_privilege(current_database(), 'CREATE'),
                    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
            &[],
        )
        .await?;
    let (read_only, may_create): (bool, bool) = (row.try_get(0)?, row.try_get(1)?);
    let read_only = match (read_only, may_create) {
        (true, _) => Some("it is a read-only copy"),
        (false, false) if version == 0 => Some("this user may not create the schema `windlass`"),
        _ => None,
    };
    Ok(Examination {
        version,
        known,
        damage: Vec::new(),
        read_only: read_only.map(str::to_owned),
        clock: Timestamp::from_microsecond(row.try_get(2)?).ok(),
    })
}
