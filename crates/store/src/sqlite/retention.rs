//! Retention: deletes the oldest records when there are too many.
//!
//! The tenant with the most records loses its oldest ones, so a busy tenant never evicts
//! those of a quiet one. A record whose call has an idempotency key stays as long as the
//! key: a retry gets its result, whatever came in between. Keys expire by age alone, so
//! the limit may be exceeded until they do.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension, params};

use super::lists::{Deleted, Id};
use super::outputs;
use super::stats::Counts;

/// Maximum surplus of deleted over new records in one commit.
const STEP: u64 = 1000;

/// How often a tenant's records are scanned from the start. In between, the scan
/// continues where it stopped.
const LOOK_THROUGH: Duration = Duration::from_secs(60);

/// At most this fraction of a tenant's records is deleted before the largest tenant is
/// determined anew.
const PART: u64 = 16;

pub(crate) struct Retention {
    limit: u64,
    /// For each tenant, the position up to which records are deleted or have a key, and
    /// when the scan last started from the beginning.
    gone_up_to: HashMap<String, (Id, Instant)>,
}

impl Retention {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit: limit.max(1), gone_up_to: HashMap::new() }
    }

    /// Counts new records and deletes surplus ones in steps: after the limit was lowered,
    /// it takes several commits.
    pub(crate) fn make_room(
        &mut self,
        connection: &Connection,
        come: &Counts,
    ) -> rusqlite::Result<()> {
        let total = add_records(connection, come)?;
        let mut surplus = total.saturating_sub(self.limit).min(come.total() + STEP);
        while surplus > 0 {
            let Some((tenant, records, next)) = largest(connection)? else { break };
            let most = (records - next).max(records / PART).clamp(1, surplus);
            let gone = self.let_go(connection, &tenant, most)?;
            if gone == 0 {
                // All that is left of it has keys. Other tenants do not pay for that.
                break;
            }
            remove_records(connection, &tenant, gone)?;
            surplus = surplus.saturating_sub(gone);
        }
        Ok(())
    }

    /// Resets the state after a rollback.
    pub(crate) fn forget(&mut self) {
        self.gone_up_to.clear();
    }

    /// Deletes a tenant's oldest records without a key, at most this many.
    fn let_go(
        &mut self,
        connection: &Connection,
        tenant: &str,
        most: u64,
    ) -> rusqlite::Result<u64> {
        let known = self.gone_up_to.get(tenant).copied();
        let (after, since) = known
            .filter(|(_, since)| since.elapsed() < LOOK_THROUGH)
            .unwrap_or_else(|| ([0; 16], Instant::now()));
        let mut deleted = Deleted::default();
        let gone: Vec<Id> = connection
            .prepare_cached(&format!(
                "DELETE FROM calls WHERE tenant = ?1 AND id IN (
                     SELECT id FROM calls WHERE tenant = ?1 AND id > ?2 AND NOT EXISTS (
                         SELECT 1 FROM keys INDEXED BY keys_by_call
                         WHERE keys.tenant = ?1 AND keys.id = calls.id)
                     ORDER BY id LIMIT ?3)
                 RETURNING {}",
                Deleted::COLUMNS
            ))?
            .query_map(params![tenant, after, signed(most)], |row| deleted.add(row))?
            .collect::<rusqlite::Result<_>>()?;
        let last = gone.iter().max().copied();
        if let Some(last) = last {
            outputs::forget_up_to(connection, tenant, &last)?;
            deleted.unlist(connection, tenant, &after)?;
        }
        let up_to = match last {
            Some(last) if gone.len() as u64 == most => last,
            // The rest has keys.
            _ => newest_of(connection, tenant)?.unwrap_or(after),
        };
        self.gone_up_to.insert(tenant.to_owned(), (up_to, since));
        Ok(gone.len() as u64)
    }
}

/// Counts new records; returns the total.
pub(crate) fn add_records(connection: &Connection, come: &Counts) -> rusqlite::Result<u64> {
    let mut add = connection.prepare_cached(
        "INSERT INTO tenant_records (tenant, records) VALUES (?, ?)
         ON CONFLICT DO UPDATE SET records = records + excluded.records",
    )?;
    for (tenant, records) in come.by_tenant() {
        add.execute(params![tenant.as_str(), signed(records)])?;
    }
    let total: i64 = connection
        .prepare_cached("UPDATE record_total SET records = records + ? RETURNING records")?
        .query_row([signed(come.total())], |row| row.get(0))?;
    Ok(u64::try_from(total).unwrap_or_default())
}

fn remove_records(connection: &Connection, tenant: &str, gone: u64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE tenant_records SET records = max(records - ?, 0) WHERE tenant = ?")?
        .execute(params![signed(gone), tenant])?;
    connection.prepare_cached("DELETE FROM tenant_records WHERE records = 0")?.execute([])?;
    connection
        .prepare_cached("UPDATE record_total SET records = max(records - ?, 0)")?
        .execute([signed(gone)])?;
    Ok(())
}

/// The tenant with the most records, its number of records, and that of the second.
fn largest(connection: &Connection) -> rusqlite::Result<Option<(String, u64, u64)>> {
    let mut statement = connection.prepare_cached(
        "SELECT tenant, records FROM tenant_records ORDER BY records DESC LIMIT 2",
    )?;
    let mut rows = statement.query([])?;
    let Some(first) = rows.next()? else { return Ok(None) };
    let (tenant, records): (String, i64) = (first.get(0)?, first.get(1)?);
    let next: i64 = rows.next()?.map_or(Ok(0), |row| row.get(1))?;
    let unsigned = |count| u64::try_from(count).unwrap_or_default();
    Ok(Some((tenant, unsigned(records), unsigned(next))))
}

fn newest_of(connection: &Connection, tenant: &str) -> rusqlite::Result<Option<Id>> {
    connection
        .prepare_cached("SELECT id FROM calls WHERE tenant = ? ORDER BY id DESC LIMIT 1")?
        .query_row([tenant], |row| row.get(0))
        .optional()
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
