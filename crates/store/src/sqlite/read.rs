//! Queries for records, in SQL. Each names the tenant.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};
use windlass::{
    CallId, CallRecord, PageRequest, RecordFilter, RecordPage, Statistics, Summary, TenantId, Usage,
};

use super::lists::{self, Id, IdBounds, ListKey};
use super::rows::{COLUMNS, read_record, read_status};
use crate::value::{ID_SLACK_MS, first_id, status_code, usage_in};

pub(crate) fn get(
    connection: &Connection,
    tenant: &TenantId,
    id: CallId,
) -> rusqlite::Result<Option<CallRecord>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM calls WHERE tenant = ? AND id = ?"))?
        .query_row((tenant.as_str(), id.uuid().as_bytes()), read_record)
        .optional()
}

pub(crate) fn page(
    connection: &Connection,
    tenant: &TenantId,
    filter: &RecordFilter,
    page: PageRequest,
) -> rusqlite::Result<RecordPage> {
    let limit = page.limit.clamp(1, PageRequest::MAX);
    let mut records = match ListKey::of(filter) {
        Some(key) => listed(connection, tenant, &key, filter, page.after, limit + 1)?,
        None => {
            let question = Question::of_page(tenant, filter, page.after, limit + 1);
            let mut statement = connection.prepare_cached(&question.sql)?;
            statement
                .query_map(params_from_iter(&question.values), read_record)?
                .collect::<rusqlite::Result<Vec<_>>>()?
        }
    };
    let more = records.len() > limit;
    records.truncate(limit);
    let next = if more { records.last().map(|record| record.id) } else { None };
    Ok(RecordPage { records, next })
}

/// The newest records of a list that a filter accepts.
fn listed(
    connection: &Connection,
    tenant: &TenantId,
    key: &ListKey,
    filter: &RecordFilter,
    after: Option<CallId>,
    most: usize,
) -> rusqlite::Result<Vec<CallRecord>> {
    let mut question = Question::of_one(tenant, filter);
    let mut statement = connection.prepare_cached(&question.sql)?;
    let mut records = Vec::new();
    lists::read(connection, tenant, key, bounds(filter, after), |id| {
        question.about(&id);
        let found = statement.query_row(params_from_iter(&question.values), read_record);
        records.extend(found.optional()?);
        Ok(records.len() < most)
    })?;
    Ok(records)
}

/// Ids contain the time, so a time span bounds them.
fn bounds(filter: &RecordFilter, after: Option<CallId>) -> IdBounds {
    let until = filter.until.map(|until| first_id(until, ID_SLACK_MS));
    let after = after.map(|id| id.uuid().into_bytes());
    IdBounds {
        oldest: filter.since.map(|since| first_id(since, -ID_SLACK_MS)),
        end: until.into_iter().chain(after).min(),
    }
}

pub(crate) fn summary(
    connection: &Connection,
    tenant: &TenantId,
    conversation: &str,
) -> rusqlite::Result<Summary> {
    let mut statement = connection.prepare_cached(
        "SELECT tool, status = 0, details FROM calls
         WHERE tenant = ? AND id = ? AND conversation = ?",
    )?;
    let mut counts: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut usage = Vec::new();
    let key = ListKey::Conversation(conversation.into());
    lists::read(connection, tenant, &key, IdBounds::ALL, |id| {
        let mut rows = statement.query(params![tenant.as_str(), id, conversation])?;
        if let Some(row) = rows.next()? {
            let (all, successes) = counts.entry(row.get(0)?).or_default();
            *all += 1;
            *successes += u64::from(row.get::<_, bool>(1)?);
            let details: Option<String> = row.get(2)?;
            usage.extend(details.and_then(|details| usage_in(&details)));
        }
        Ok(true)
    })?;
    let counts = counts.into_iter().map(|(tool, (all, successes))| (tool, all, successes));
    Ok(Summary::new(conversation, counts).with_usage(usage))
}

pub(crate) fn statistics(
    connection: &Connection,
    tenant: &TenantId,
) -> rusqlite::Result<Statistics> {
    let mut statement = connection
        .prepare_cached("SELECT tool, status, bucket, count FROM call_stats WHERE tenant = ?")?;
    let counts = statement
        .query_map([tenant.as_str()], |row| {
            // `NEVER_RAN` is not a bucket.
            let bucket = u32::try_from(row.get::<_, i64>(2)?).ok();
            Ok((row.get::<_, String>(0)?, read_status(row, 1)?, bucket, read_count(row, 3)?))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let mut statement = connection.prepare_cached(
        "SELECT tool, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd
         FROM model_usage WHERE tenant = ?",
    )?;
    let usage = statement
        .query_map([tenant.as_str()], |row| {
            let usage = Usage {
                input_tokens: read_count(row, 1)?,
                output_tokens: read_count(row, 2)?,
                cache_read_tokens: read_count(row, 3)?,
                cache_write_tokens: read_count(row, 4)?,
                cost_usd: row.get(5)?,
            };
            Ok((row.get::<_, String>(0)?, usage))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(Statistics::from_counts(counts).with_usage(usage))
}

fn read_count(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let count: i64 = row.get(column)?;
    u64::try_from(count).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, count))
}

/// A question about `calls` as SQL with its parameters.
struct Question {
    sql: String,
    values: Vec<Value>,
}

impl Question {
    /// A page of all calls of a tenant: rows are in id order.
    fn of_page(
        tenant: &TenantId,
        filter: &RecordFilter,
        after: Option<CallId>,
        rows: usize,
    ) -> Self {
        let mut question = Self::begin(tenant);
        let IdBounds { oldest, end } = bounds(filter, after);
        question.with("id >= ?", oldest.map(Vec::from));
        question.with("id < ?", end.map(Vec::from));
        question.with_all(filter);
        question.sql.push_str(" ORDER BY id DESC LIMIT ?");
        question.values.push(Value::Integer(i64::try_from(rows).unwrap_or(i64::MAX)));
        question
    }

    /// One call, if the filter accepts it; [`Self::about`] says which.
    fn of_one(tenant: &TenantId, filter: &RecordFilter) -> Self {
        let mut question = Self::begin(tenant);
        question.with("id = ?", Some(Vec::new()));
        question.with_all(filter);
        question
    }

    fn about(&mut self, id: &Id) {
        self.values[1] = Value::Blob(id.to_vec());
    }

    fn begin(tenant: &TenantId) -> Self {
        let sql = format!("SELECT {COLUMNS} FROM calls WHERE tenant = ?");
        Self { sql, values: vec![tenant.as_str().to_owned().into()] }
    }

    fn with_all(&mut self, filter: &RecordFilter) {
        self.with("conversation = ?", filter.conversation.clone());
        self.with("caller_id = ?", filter.caller_id.clone());
        self.with("tool = ?", filter.tool.clone());
        self.with("status = ?", filter.status.map(status_code));
        self.with("created_us >= ?", filter.since.map(Timestamp::as_microsecond));
        self.with("created_us < ?", filter.until.map(Timestamp::as_microsecond));
    }

    fn with(&mut self, condition: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.sql.push_str(" AND ");
            self.sql.push_str(condition);
            self.values.push(value.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass::Status;

    use super::super::connect;
    use super::*;
    use crate::Options;

    fn plan(connection: &Connection, sql: &str) -> String {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let mut rows = statement.raw_query();
        let mut plan = String::new();
        while let Some(row) = rows.next().unwrap() {
            plan += &row.get::<_, String>(3).unwrap();
        }
        plan
    }

    /// Every combination of filters is answered from an index, in its order.
    #[test]
    fn no_question_scans_or_sorts() {
        let folder = tempfile::tempdir().unwrap();
        let connection =
            connect::writer(&folder.path().join("calls.db"), &Options::default()).unwrap();
        let (now, tenant) = (Timestamp::now(), TenantId::default());
        for bits in 0_u32..128 {
            let wanted = |bit: u32| bits & (1 << bit) != 0;
            let filter = RecordFilter {
                conversation: wanted(0).then(|| "c".to_owned()),
                tool: wanted(1).then(|| "t".to_owned()),
                caller_id: wanted(2).then(|| "a".to_owned()),
                status: wanted(3).then_some(if wanted(4) {
                    Status::Failed
                } else {
                    Status::Succeeded
                }),
                since: wanted(5).then_some(now),
                until: wanted(6).then_some(now),
            };
            for after in [None, Some(CallId::at(now))] {
                if ListKey::of(&filter).is_some() {
                    let plan = plan(&connection, &Question::of_one(&tenant, &filter).sql);
                    assert_eq!(plan, "SEARCH calls USING PRIMARY KEY (tenant=? AND id=?)");
                    continue;
                }
                let plan = plan(&connection, &Question::of_page(&tenant, &filter, after, 10).sql);
                assert!(plan.starts_with("SEARCH calls USING"), "{filter:?}: {plan}");
                assert!(!plan.contains("TEMP B-TREE"), "{filter:?}: {plan}");
                let bounded = after.is_some() || filter.since.is_some() || filter.until.is_some();
                assert_eq!(bounded, plan.contains("id>") || plan.contains("id<"), "{plan}");
            }
        }
        assert_eq!(
            plan(&connection, lists::ROWS),
            "SEARCH call_lists USING PRIMARY KEY \
             (tenant=? AND field=? AND value=? AND newest>? AND newest<?)"
        );
    }
}
