//! Statistics, counted in the transaction that inserts the records.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::Connection;
use windlass::{CallRecord, Status, TenantId};

use crate::rows::{NEVER_RAN, status_code};

/// Calls by tenant, tool, status and run-time bucket.
#[derive(Default)]
pub(crate) struct Counts(HashMap<Key, u64, ahash::RandomState>);

type Key = (TenantId, Arc<str>, Status, Option<u32>);

impl Counts {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn add(&mut self, record: &CallRecord) {
        let key =
            (record.caller.tenant.clone(), record.counted_as(), record.status, record.run_bucket());
        *self.0.entry(key).or_default() += 1;
    }

    /// How many calls were counted.
    pub(crate) fn total(&self) -> u64 {
        self.0.values().sum()
    }

    pub(crate) fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached(
            "INSERT INTO call_stats (tenant, tool, status, bucket, count) VALUES (?, ?, ?, ?, ?)
             ON CONFLICT DO UPDATE SET count = count + excluded.count",
        )?;
        for ((tenant, tool, status, bucket), &count) in &self.0 {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            let bucket = bucket.map_or(NEVER_RAN, i64::from);
            statement.execute((tenant.as_str(), &**tool, status_code(*status), bucket, count))?;
        }
        Ok(())
    }
}
