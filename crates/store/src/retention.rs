//! Lets the oldest records go when there are more than should be kept.
//!
//! A table by age alone would cost every insert. Instead the oldest record of
//! each tenant is remembered, and the oldest of these goes first: a lookup for
//! each tenant once, then one for each run of records that goes.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use rusqlite::{Connection, OptionalExtension};

use crate::{intents, outputs};

/// How many more records may go than have come, in one commit.
const STEP: u64 = 1000;

type Id = [u8; 16];

pub(crate) struct Retention {
    limit: u64,
    /// The oldest record of each tenant, oldest first.
    oldest: BinaryHeap<Reverse<(Id, String)>>,
    /// The newest record of all when that was looked up. A tenant that has come
    /// since has younger records only.
    newest: Id,
    /// How many of the records of that time may be left. It ends what `newest`
    /// does not: ids from a clock that is ahead.
    known: u64,
}

impl Retention {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit: limit.max(1), oldest: BinaryHeap::new(), newest: [0; 16], known: 0 }
    }

    /// Counts records that have come, and lets as many go as are too many, in
    /// steps: after a lower limit it takes some commits.
    pub(crate) fn make_room(&mut self, connection: &Connection, come: u64) -> rusqlite::Result<()> {
        let total = add_records(connection, come)?;
        let surplus = total.saturating_sub(self.limit).min(come + STEP);
        if surplus > 0 {
            if self.is_outdated() {
                self.look_up(connection)?;
                self.known = total;
            }
            let gone = self.let_go(connection, surplus)?;
            self.known = self.known.saturating_sub(gone);
            remove_records(connection, gone)?;
        }
        Ok(())
    }

    /// What was remembered of a transaction that was rolled back is wrong.
    pub(crate) fn forget(&mut self) {
        self.oldest.clear();
    }

    fn let_go(&mut self, connection: &Connection, surplus: u64) -> rusqlite::Result<u64> {
        let mut gone = 0;
        let mut touched: HashMap<String, Id> = HashMap::new();
        // One that is no longer what was remembered takes a turn without
        // letting anything go; hence the bound.
        for _ in 0..surplus + STEP {
            if gone >= surplus {
                break;
            }
            let Some(Reverse((_, tenant))) = self.oldest.pop() else { break };
            let before = self.oldest.peek().map_or([0xff; 16], |Reverse((id, _))| *id);
            gone += delete_oldest(connection, &tenant, &before, surplus - gone)?;
            let left = oldest_of(connection, &tenant)?;
            touched.insert(tenant.clone(), left.unwrap_or(before));
            if let Some(id) = left {
                self.oldest.push(Reverse((id, tenant)));
            }
        }
        for (tenant, id) in touched {
            intents::forget_keys_before(connection, &tenant, &id)?;
            outputs::forget_before(connection, &tenant, &id)?;
        }
        Ok(gone)
    }

    /// Whether tenants that nobody has looked up may have the oldest records.
    fn is_outdated(&self) -> bool {
        self.known == 0 || self.oldest.peek().is_none_or(|Reverse((id, _))| *id >= self.newest)
    }

    /// Finds each tenant's oldest record, by jumping from tenant to tenant.
    fn look_up(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.oldest.clear();
        self.newest = [0; 16];
        let mut statement = connection.prepare_cached(
            "WITH RECURSIVE found (tenant) AS (
                 SELECT min(tenant) FROM calls
                 UNION ALL
                 SELECT (SELECT min(tenant) FROM calls WHERE tenant > found.tenant)
                 FROM found WHERE tenant IS NOT NULL)
             SELECT tenant,
                    (SELECT min(id) FROM calls WHERE tenant = found.tenant),
                    (SELECT max(id) FROM calls WHERE tenant = found.tenant)
             FROM found WHERE tenant IS NOT NULL",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            self.oldest.push(Reverse((row.get(1)?, row.get(0)?)));
            self.newest = self.newest.max(row.get(2)?);
        }
        Ok(())
    }
}

/// Counts records that have come; returns how many there are.
pub(crate) fn add_records(connection: &Connection, come: u64) -> rusqlite::Result<u64> {
    let total: i64 = connection
        .prepare_cached("UPDATE record_total SET records = records + ? RETURNING records")?
        .query_row([i64::try_from(come).unwrap_or(i64::MAX)], |row| row.get(0))?;
    Ok(u64::try_from(total).unwrap_or_default())
}

fn remove_records(connection: &Connection, gone: u64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE record_total SET records = max(records - ?, 0)")?
        .execute([i64::try_from(gone).unwrap_or(i64::MAX)])?;
    Ok(())
}

fn oldest_of(connection: &Connection, tenant: &str) -> rusqlite::Result<Option<Id>> {
    connection
        .prepare_cached("SELECT id FROM calls WHERE tenant = ? ORDER BY id LIMIT 1")?
        .query_row([tenant], |row| row.get(0))
        .optional()
}

/// Deletes a tenant's oldest records up to the one with this id.
fn delete_oldest(
    connection: &Connection,
    tenant: &str,
    up_to: &Id,
    limit: u64,
) -> rusqlite::Result<u64> {
    let deleted = connection
        .prepare_cached(
            "DELETE FROM calls WHERE tenant = ?1 AND id IN (
                 SELECT id FROM calls WHERE tenant = ?1 AND id <= ?2 ORDER BY id LIMIT ?3)",
        )?
        .execute((tenant, up_to, i64::try_from(limit).unwrap_or(i64::MAX)))?;
    Ok(deleted as u64)
}
