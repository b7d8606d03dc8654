//! One transaction of the writer: intents, records, and the counters that both change.
//!
//! It is idempotent: if the connection is lost during the commit, nobody knows whether it
//! succeeded, and repeating it finds the rows by their ids and changes nothing.

use std::collections::{BTreeMap, HashSet};

use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;
use windlass::{Begun, CallRecord, Histogram, Status, Usage};

use super::fault::Fault;
use super::intents;
use super::rows::Rows;
use super::text;
use crate::queue::Begin;
use crate::value::{NEVER_RAN, duration, status_code};

/// The result of a commit.
pub(crate) struct Committed {
    /// The answer to each intent.
    pub(crate) begun: Vec<Begun>,
    /// Number of calls in the database.
    pub(crate) kept_calls: i64,
}

/// Commits intents and records. `rows` are the records as columns.
pub(crate) async fn commit(
    client: &mut Client,
    owner: i32,
    begins: &[Begin],
    records: &[CallRecord],
    rows: &Rows<'_>,
) -> Result<Committed, Fault> {
    // A transaction that is dropped is rolled back.
    let transaction = client.transaction().await?;
    let client = transaction.client();
    let (begun, end) = tokio::join!(biased;
        intents::begin(client, owner, begins),
        end(client, records, rows)
    );
    let (begun, changes) = (begun?, end?);
    let kept_calls = changes.apply(client).await?;
    transaction.commit().await?;
    Ok(Committed { begun, kept_calls })
}

/// Inserts the records of finished calls, each once.
pub(crate) async fn end(
    client: &Client,
    records: &[CallRecord],
    rows: &Rows<'_>,
) -> Result<Changes, tokio_postgres::Error> {
    let mut changes = Changes::default();
    if records.is_empty() {
        return Ok(changes);
    }
    let (inserted, ended, given_back) = tokio::join!(biased;
        rows.insert(client),
        forget_intents(client, &rows.id),
        give_back_keys(client, records)
    );
    let inserted = inserted?;
    ended?;
    given_back?;
    if inserted.len() == records.len() {
        records.iter().for_each(|record| changes.count(record, 1));
        return Ok(changes);
    }
    let mut new: HashSet<(Uuid, &str)> = HashSet::with_capacity(inserted.len());
    for row in &inserted {
        new.insert((row.try_get(0)?, row.try_get(1)?));
    }
    let mut known = Vec::new();
    for (at, record) in records.iter().enumerate() {
        // The second record with an id counts as a duplicate.
        if new.remove(&(rows.id[at], &*rows.tenant[at])) {
            changes.count(record, 1);
        } else if record.status != Status::Interrupted {
            known.push(record);
        }
    }
    replace_interrupted(client, &known, &mut changes).await?;
    Ok(changes)
}

/// Replaces the record of a call that was taken for interrupted but has finished after
/// all. Any other existing record stays.
async fn replace_interrupted(
    client: &Client,
    known: &[&CallRecord],
    changes: &mut Changes,
) -> Result<(), tokio_postgres::Error> {
    if known.is_empty() {
        return Ok(());
    }
    let tenants: Vec<_> =
        known.iter().map(|record| text::key(record.caller.tenant.as_str())).collect();
    let ids: Vec<Uuid> = known.iter().map(|record| record.id.uuid()).collect();
    let interrupted = status_code(Status::Interrupted);
    let values: [(&(dyn ToSql + Sync), Type); 3] =
        [(&tenants, Type::TEXT_ARRAY), (&ids, Type::UUID_ARRAY), (&interrupted, Type::INT2)];
    let removed = client
        .query_typed(
            "DELETE FROM windlass.calls USING unnest($1, $2) AS come (tenant, id) \
             WHERE calls.id = come.id AND calls.tenant = come.tenant AND calls.status = $3 \
             RETURNING calls.id, calls.tenant, calls.tool, calls.attempts, calls.run_us",
            &values,
        )
        .await?;
    let mut replaced: HashSet<(Uuid, String)> = HashSet::new();
    for row in &removed {
        let (id, tenant, tool): (Uuid, String, &str) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let ran = row.try_get::<_, i64>(3)? > 0;
        let run_time = duration(row.try_get(4)?);
        let bucket = ran.then(|| Histogram::bucket(run_time));
        let tool = text::key(&text::read(tool)).into_owned();
        changes.add(tenant.clone(), tool, interrupted, bucket, -1);
        replaced.insert((id, tenant));
    }
    let mut come: Vec<&CallRecord> = Vec::new();
    for (record, tenant) in known.iter().zip(tenants) {
        if replaced.remove(&(record.id.uuid(), tenant.into_owned())) {
            come.push(record);
            changes.count(record, 1);
        }
    }
    if !come.is_empty() {
        Rows::of(come).insert(client).await?;
    }
    Ok(())
}

async fn forget_intents(client: &Client, ids: &[Uuid]) -> Result<(), tokio_postgres::Error> {
    let sql = "DELETE FROM windlass.intents WHERE id = ANY ($1)";
    client.execute_typed(sql, &[(&ids, Type::UUID_ARRAY)]).await?;
    Ok(())
}

/// Releases the idempotency keys of calls that never ran, so that the caller may retry.
/// Such a call may have been cancelled, or refused because nobody knew whether its intent
/// was stored.
async fn give_back_keys(
    client: &Client,
    records: &[CallRecord],
) -> Result<(), tokio_postgres::Error> {
    let free: Vec<Uuid> = records
        .iter()
        .filter(|record| record.attempts == 0 && record.idempotency_key().is_some())
        .map(|record| record.id.uuid())
        .collect();
    if !free.is_empty() {
        let sql = "DELETE FROM windlass.keys WHERE id = ANY ($1)";
        client.execute_typed(sql, &[(&free, Type::UUID_ARRAY)]).await?;
    }
    Ok(())
}

/// Changes of the counters in one transaction. Sorted, to avoid deadlocks between
/// servers.
#[derive(Default)]
pub(crate) struct Changes {
    by_key: BTreeMap<(String, String, i16, i64), i64>,
    /// Model usage by tenant and tool.
    usage: BTreeMap<(String, String), Usage>,
    by_tenant: BTreeMap<String, i64>,
    calls: i64,
}

impl Changes {
    pub(crate) fn count(&mut self, record: &CallRecord, calls: i64) {
        let tenant = text::key(record.caller.tenant.as_str()).into_owned();
        let tool = text::key(&record.counted_as()).into_owned();
        if let Some(usage) = record.usage().filter(|_| calls > 0) {
            *self.usage.entry((tenant.clone(), tool.clone())).or_default() += usage;
        }
        self.add(tenant, tool, status_code(record.status), record.run_bucket(), calls);
    }

    fn add(&mut self, tenant: String, tool: String, status: i16, bucket: Option<u32>, calls: i64) {
        let bucket = bucket.map_or(NEVER_RAN, i64::from);
        *self.by_tenant.entry(tenant.clone()).or_default() += calls;
        *self.by_key.entry((tenant, tool, status, bucket)).or_default() += calls;
        self.calls += calls;
    }

    /// Writes the changes; returns the number of calls in the database.
    pub(crate) async fn apply(&self, client: &Client) -> Result<i64, tokio_postgres::Error> {
        let tenants: Vec<&str> = self.by_key.keys().map(|key| key.0.as_str()).collect();
        let tools: Vec<&str> = self.by_key.keys().map(|key| key.1.as_str()).collect();
        let statuses: Vec<i16> = self.by_key.keys().map(|key| key.2).collect();
        let buckets: Vec<i64> = self.by_key.keys().map(|key| key.3).collect();
        let counts: Vec<i64> = self.by_key.values().copied().collect();
        let values: [(&(dyn ToSql + Sync), Type); 5] = [
            (&tenants, Type::TEXT_ARRAY),
            (&tools, Type::TEXT_ARRAY),
            (&statuses, Type::INT2_ARRAY),
            (&buckets, Type::INT8_ARRAY),
            (&counts, Type::INT8_ARRAY),
        ];
        let statistics = async {
            if tenants.is_empty() {
                return Ok(0);
            }
            let sql = "INSERT INTO windlass.call_stats (tenant, tool, status, bucket, count) \
                 SELECT * FROM unnest($1, $2, $3, $4, $5) \
                 ON CONFLICT (tenant, tool, status, bucket) \
                 DO UPDATE SET count = call_stats.count + excluded.count";
            client.execute_typed(sql, &values).await
        };
        let (counted, by_tenant, total) =
            tokio::join!(biased; statistics, self.count_tenants(client), self.total(client));
        counted?;
        by_tenant?;
        let total = total?;
        for ((tenant, tool), usage) in &self.usage {
            add_usage(client, tenant, tool, usage).await?;
        }
        Ok(total)
    }

    async fn count_tenants(&self, client: &Client) -> Result<(), tokio_postgres::Error> {
        let changed = || self.by_tenant.iter().filter(|(_, calls)| **calls != 0);
        let tenants: Vec<&str> = changed().map(|(tenant, _)| tenant.as_str()).collect();
        if tenants.is_empty() {
            return Ok(());
        }
        let counts: Vec<i64> = changed().map(|(_, calls)| *calls).collect();
        let sql = "INSERT INTO windlass.tenant_records AS own (tenant, records) \
                   SELECT * FROM unnest($1, $2) \
                   ON CONFLICT (tenant) DO UPDATE SET records = own.records + excluded.records";
        let values: [(&(dyn ToSql + Sync), Type); 2] =
            [(&tenants, Type::TEXT_ARRAY), (&counts, Type::INT8_ARRAY)];
        client.execute_typed(sql, &values).await.map(drop)
    }

    /// Intents alone change no total, and so do not contend for its row.
    async fn total(&self, client: &Client) -> Result<i64, tokio_postgres::Error> {
        let row = if self.calls == 0 {
            let sql = "SELECT value FROM windlass.totals WHERE name = 'calls'";
            client.query_typed_one(sql, &[]).await?
        } else {
            let sql = "UPDATE windlass.totals SET value = value + $1 WHERE name = 'calls' \
                       RETURNING value";
            client.query_typed_one(sql, &[(&self.calls, Type::INT8)]).await?
        };
        row.try_get(0)
    }
}

async fn add_usage(
    client: &Client,
    tenant: &str,
    tool: &str,
    usage: &Usage,
) -> Result<(), tokio_postgres::Error> {
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let sql = "INSERT INTO windlass.model_usage AS own VALUES ($1, $2, $3, $4, $5, $6, $7) \
         ON CONFLICT (tenant, tool) DO UPDATE SET \
         input_tokens = own.input_tokens + excluded.input_tokens, \
         output_tokens = own.output_tokens + excluded.output_tokens, \
         cache_read_tokens = own.cache_read_tokens + excluded.cache_read_tokens, \
         cache_write_tokens = own.cache_write_tokens + excluded.cache_write_tokens, \
         cost_usd = own.cost_usd + excluded.cost_usd";
    let values: [(&(dyn ToSql + Sync), Type); 7] = [
        (&tenant, Type::TEXT),
        (&tool, Type::TEXT),
        (&count(usage.input_tokens), Type::INT8),
        (&count(usage.output_tokens), Type::INT8),
        (&count(usage.cache_read_tokens), Type::INT8),
        (&count(usage.cache_write_tokens), Type::INT8),
        (&usage.cost_usd, Type::FLOAT8),
    ];
    client.execute_typed(sql, &values).await.map(drop)
}
