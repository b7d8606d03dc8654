//! Statistics and lists, updated in the transaction that inserts the records.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::Connection;
use windlass::{CallRecord, Status, TenantId, Usage};

use super::lists::Lists;
use crate::value::{NEVER_RAN, status_code};

/// What follows from new records: calls by tenant, tool, status and run-time bucket, and
/// their lists.
#[derive(Default)]
pub(crate) struct Counts {
    calls: HashMap<Key, u64, ahash::RandomState>,
    /// Model usage by tenant and tool.
    usage: HashMap<(TenantId, Arc<str>), Usage, ahash::RandomState>,
    lists: Lists,
}

type Key = (TenantId, Arc<str>, Status, Option<u32>);

impl Counts {
    pub(crate) fn clear(&mut self) {
        self.calls.clear();
        self.usage.clear();
        self.lists.clear();
    }

    pub(crate) fn add(&mut self, record: &CallRecord) {
        let key =
            (record.caller.tenant.clone(), record.counted_as(), record.status, record.run_bucket());
        if let Some(usage) = record.usage() {
            *self.usage.entry((key.0.clone(), Arc::clone(&key.1))).or_default() += usage;
        }
        *self.calls.entry(key).or_default() += 1;
        self.lists.add(record);
    }

    /// Number of calls counted.
    pub(crate) fn total(&self) -> u64 {
        self.calls.values().sum()
    }

    /// Number of calls by tenant.
    pub(crate) fn by_tenant(&self) -> HashMap<&TenantId, u64, ahash::RandomState> {
        let mut by_tenant: HashMap<_, u64, _> = HashMap::default();
        for ((tenant, ..), count) in &self.calls {
            *by_tenant.entry(tenant).or_default() += count;
        }
        by_tenant
    }

    pub(crate) fn write(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.lists.write(connection)?;
        let mut statement = connection.prepare_cached(
            "INSERT INTO call_stats (tenant, tool, status, bucket, count) VALUES (?, ?, ?, ?, ?)
             ON CONFLICT DO UPDATE SET count = count + excluded.count",
        )?;
        for ((tenant, tool, status, bucket), &count) in &self.calls {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            let bucket = bucket.map_or(NEVER_RAN, i64::from);
            statement.execute((tenant.as_str(), &**tool, status_code(*status), bucket, count))?;
        }
        self.usage
            .iter()
            .try_for_each(|((tenant, tool), usage)| add_usage(connection, tenant, tool, usage))
    }
}

fn add_usage(
    connection: &Connection,
    tenant: &TenantId,
    tool: &str,
    usage: &Usage,
) -> rusqlite::Result<()> {
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(
        "INSERT INTO model_usage VALUES (?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT DO UPDATE SET
             input_tokens = input_tokens + excluded.input_tokens,
             output_tokens = output_tokens + excluded.output_tokens,
             cache_read_tokens = cache_read_tokens + excluded.cache_read_tokens,
             cache_write_tokens = cache_write_tokens + excluded.cache_write_tokens,
             cost_usd = cost_usd + excluded.cost_usd",
    )?;
    let values = (
        tenant.as_str(),
        tool,
        count(usage.input_tokens),
        count(usage.output_tokens),
        count(usage.cache_read_tokens),
        count(usage.cache_write_tokens),
        usage.cost_usd,
    );
    statement.execute(values).map(drop)
}
