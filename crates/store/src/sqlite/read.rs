//! Queries for records, in SQL. Each names the tenant.

use jiff::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params_from_iter};
use windlass::{
    CallId, CallRecord, PageRequest, RecordFilter, RecordPage, Statistics, Status, Summary,
    TenantId, Usage,
};

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
    let question = Question::new(tenant, filter, page.after, limit + 1);
    let mut statement = connection.prepare_cached(&question.sql)?;
    let mut records = statement
        .query_map(params_from_iter(&question.values), read_record)?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let more = records.len() > limit;
    records.truncate(limit);
    let next = if more { records.last().map(|record| record.id) } else { None };
    Ok(RecordPage { records, next })
}

pub(crate) fn summary(
    connection: &Connection,
    tenant: &TenantId,
    conversation: &str,
) -> rusqlite::Result<Summary> {
    let mut statement = connection.prepare_cached(
        "SELECT tool, count(*), sum(status = 0)
         FROM calls INDEXED BY calls_by_conversation
         WHERE tenant = ? AND conversation = ? GROUP BY tool",
    )?;
    let counts = statement
        .query_map((tenant.as_str(), conversation), |row| {
            Ok((row.get(0)?, read_count(row, 1)?, read_count(row, 2)?))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let mut statement = connection.prepare_cached(
        "SELECT details FROM calls INDEXED BY calls_by_conversation
         WHERE tenant = ? AND conversation = ? AND details IS NOT NULL",
    )?;
    let usage = statement
        .query_map((tenant.as_str(), conversation), |row| row.get::<_, String>(0))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let usage = usage.iter().filter_map(|details| usage_in(details));
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

/// A page of `calls` as SQL with its parameters.
struct Question {
    sql: String,
    values: Vec<Value>,
}

impl Question {
    /// The index is named explicitly: without statistics, SQLite may prefer the one on
    /// tools for a conversation.
    fn new(tenant: &TenantId, filter: &RecordFilter, after: Option<CallId>, rows: usize) -> Self {
        let failure = filter.status.filter(|&status| status != Status::Succeeded);
        let index = match filter {
            RecordFilter { conversation: Some(_), .. } => "INDEXED BY calls_by_conversation",
            RecordFilter { caller_id: Some(_), .. } => "INDEXED BY calls_by_caller",
            _ if failure.is_some() => "INDEXED BY calls_by_failure",
            RecordFilter { tool: Some(_), .. } => "INDEXED BY calls_by_tool",
            _ => "",
        };
        let mut question = Self {
            sql: format!("SELECT {COLUMNS} FROM calls {index} WHERE tenant = ?"),
            values: vec![tenant.as_str().to_owned().into()],
        };
        question.with("conversation = ?", filter.conversation.clone());
        question.with("caller_id = ?", filter.caller_id.clone());
        question.with("tool = ?", filter.tool.clone());
        question.with("status = ?", filter.status.map(status_code));
        if failure.is_some() {
            // The same condition as in the partial index.
            question.sql.push_str(" AND status <> 0");
        }
        question.with("created_us >= ?", filter.since.map(Timestamp::as_microsecond));
        question.with("created_us < ?", filter.until.map(Timestamp::as_microsecond));
        // Ids contain the time, and rows are in id order: without these bounds, a short
        // time span would be searched for among all rows.
        question.with("id >= ?", filter.since.map(|since| first_id(since, -ID_SLACK_MS).to_vec()));
        question.with("id < ?", filter.until.map(|until| first_id(until, ID_SLACK_MS).to_vec()));
        question.with("id < ?", after.map(|id| id.uuid().as_bytes().to_vec()));
        question.sql.push_str(" ORDER BY id DESC LIMIT ?");
        question.values.push(Value::Integer(i64::try_from(rows).unwrap_or(i64::MAX)));
        question
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
    use super::super::connect;
    use super::*;
    use crate::Options;

    /// Every combination of filters is answered from an index, in its order.
    #[test]
    fn no_question_scans_or_sorts() {
        let folder = tempfile::tempdir().unwrap();
        let connection =
            connect::writer(&folder.path().join("calls.db"), &Options::default()).unwrap();
        let now = Timestamp::now();
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
                let question = Question::new(&TenantId::default(), &filter, after, 10);
                let plan: String = connection
                    .prepare(&format!("EXPLAIN QUERY PLAN {}", question.sql))
                    .unwrap()
                    .query_map(params_from_iter(&question.values), |row| row.get::<_, String>(3))
                    .unwrap()
                    .map(Result::unwrap)
                    .collect();
                assert!(plan.starts_with("SEARCH calls USING"), "{filter:?}: {plan}");
                assert!(!plan.contains("TEMP B-TREE"), "{filter:?}: {plan}");
                let bounded = after.is_some() || filter.since.is_some() || filter.until.is_some();
                assert_eq!(bounded, plan.contains("id>") || plan.contains("id<"), "{plan}");
            }
        }
    }
}
