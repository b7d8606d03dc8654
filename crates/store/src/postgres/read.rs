//! Queries for records, in SQL. Each names the tenant.

use jiff::Timestamp;
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;
use windlass::{
    CallId, CallRecord, PageRequest, RecordFilter, RecordPage, Statistics, Status, Summary,
    TenantId, Usage,
};

use super::rows::{COLUMNS, read_record, read_status};
use super::text;
use crate::value::{ID_SLACK_MS, first_id, status_code, usage_in};

pub(crate) async fn get(
    client: &Client,
    tenant: &TenantId,
    id: CallId,
) -> Result<Option<CallRecord>, tokio_postgres::Error> {
    let sql = format!("SELECT {COLUMNS} FROM windlass.calls WHERE id = $1 AND tenant = $2");
    let values = [(&id.uuid() as _, Type::UUID), (&text::key(tenant.as_str()) as _, Type::TEXT)];
    let row = client.query_typed_opt(&sql, &values).await?;
    row.map(|row| read_record(&row, tenant)).transpose()
}

pub(crate) async fn page(
    client: &Client,
    tenant: &TenantId,
    filter: &RecordFilter,
    page: PageRequest,
) -> Result<RecordPage, tokio_postgres::Error> {
    let limit = page.limit.clamp(1, PageRequest::MAX);
    let question = Question::new(tenant, filter, page.after, limit + 1);
    let rows = question.ask(client).await?;
    let mut records =
        rows.iter().map(|row| read_record(row, tenant)).collect::<Result<Vec<_>, _>>()?;
    let more = records.len() > limit;
    records.truncate(limit);
    let next = if more { records.last().map(|record| record.id) } else { None };
    Ok(RecordPage { records, next })
}

pub(crate) async fn summary(
    client: &Client,
    tenant: &TenantId,
    conversation: &str,
) -> Result<Summary, tokio_postgres::Error> {
    let rows = client
        .query_typed(
            "SELECT tool, count(*), count(*) FILTER (WHERE status = 0) FROM windlass.calls \
             WHERE tenant = $1 AND left(conversation, 250) = left($2, 250) AND conversation = $2 \
             GROUP BY tool",
            &[(&text::key(tenant.as_str()), Type::TEXT), (&text::kept(conversation), Type::TEXT)],
        )
        .await?;
    let mut counts = Vec::with_capacity(rows.len());
    for row in &rows {
        let tool = text::read(row.try_get(0)?).into_owned();
        counts.push((tool, count(row.try_get(1)?), count(row.try_get(2)?)));
    }
    let rows = client
        .query_typed(
            "SELECT details FROM windlass.calls \
             WHERE tenant = $1 AND left(conversation, 250) = left($2, 250) AND conversation = $2 \
             AND details IS NOT NULL",
            &[(&text::key(tenant.as_str()), Type::TEXT), (&text::kept(conversation), Type::TEXT)],
        )
        .await?;
    let mut usage = Vec::new();
    for row in &rows {
        usage.extend(usage_in(&text::read(row.try_get(0)?)));
    }
    Ok(Summary::new(conversation, counts).with_usage(usage))
}

pub(crate) async fn statistics(
    client: &Client,
    tenant: &TenantId,
) -> Result<Statistics, tokio_postgres::Error> {
    let rows = client
        .query_typed(
            // A count returns to zero when an interrupted call finishes after all.
            "SELECT tool, status, bucket, count FROM windlass.call_stats \
             WHERE tenant = $1 AND count > 0",
            &[(&text::key(tenant.as_str()), Type::TEXT)],
        )
        .await?;
    let mut counts = Vec::with_capacity(rows.len());
    for row in &rows {
        let tool = text::read(row.try_get(0)?).into_owned();
        // `NEVER_RAN` is not a bucket.
        let bucket = u32::try_from(row.try_get::<_, i64>(2)?).ok();
        counts.push((tool, read_status(row.try_get(1)?), bucket, count(row.try_get(3)?)));
    }
    let rows = client
        .query_typed(
            "SELECT tool, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, \
             cost_usd FROM windlass.model_usage WHERE tenant = $1",
            &[(&text::key(tenant.as_str()), Type::TEXT)],
        )
        .await?;
    let mut usage = Vec::with_capacity(rows.len());
    for row in &rows {
        let used = Usage {
            input_tokens: count(row.try_get(1)?),
            output_tokens: count(row.try_get(2)?),
            cache_read_tokens: count(row.try_get(3)?),
            cache_write_tokens: count(row.try_get(4)?),
            cost_usd: row.try_get(5)?,
        };
        usage.push((text::read(row.try_get(0)?).into_owned(), used));
    }
    Ok(Statistics::from_counts(counts).with_usage(usage))
}

fn count(value: i64) -> u64 {
    u64::try_from(value).unwrap_or_default()
}

/// A page of `windlass.calls` as SQL with its parameters.
struct Question {
    sql: String,
    values: Vec<(Box<dyn ToSql + Sync + Send>, Type)>,
}

impl Question {
    fn new(tenant: &TenantId, filter: &RecordFilter, after: Option<CallId>, rows: usize) -> Self {
        let mut question = Self {
            sql: format!("SELECT {COLUMNS} FROM windlass.calls WHERE tenant = $1"),
            values: vec![(Box::new(text::key(tenant.as_str()).into_owned()), Type::TEXT)],
        };
        question.with_text("conversation", filter.conversation.as_deref());
        question.with_text("caller_id", filter.caller_id.as_deref());
        question.with_text("tool", filter.tool.as_deref());
        question.with("status = $", filter.status.map(status_code), Type::INT2);
        if filter.status.is_some_and(|status| status != Status::Succeeded) {
            // The same condition as in the partial index.
            question.sql.push_str(" AND status <> 0");
        }
        let micros = Timestamp::as_microsecond;
        question.with("created_us >= $", filter.since.map(micros), Type::INT8);
        question.with("created_us < $", filter.until.map(micros), Type::INT8);
        // Ids contain the time, and rows are in id order: without these bounds, a short
        // time span would be searched for among all rows.
        let from = |at, shift_ms| Uuid::from_bytes(first_id(at, shift_ms));
        question.with("id >= $", filter.since.map(|at| from(at, -ID_SLACK_MS)), Type::UUID);
        question.with("id < $", filter.until.map(|at| from(at, ID_SLACK_MS)), Type::UUID);
        question.with("id < $", after.map(CallId::uuid), Type::UUID);
        question.values.push((Box::new(i64::try_from(rows).unwrap_or(i64::MAX)), Type::INT8));
        let limit = question.values.len();
        question.sql.push_str(&format!(" ORDER BY id DESC LIMIT ${limit}"));
        question
    }

    /// The index has only a prefix of long values, so the row is compared as well.
    fn with_text(&mut self, column: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.values.push((Box::new(text::kept(value).into_owned()), Type::TEXT));
            let number = self.values.len();
            self.sql.push_str(&format!(
                " AND left({column}, 250) = left(${number}, 250) AND {column} = ${number}"
            ));
        }
    }

    fn with(
        &mut self,
        condition: &str,
        value: Option<impl ToSql + Sync + Send + 'static>,
        kind: Type,
    ) {
        if let Some(value) = value {
            self.values.push((Box::new(value), kind));
            self.sql.push_str(&format!(" AND {condition}{}", self.values.len()));
        }
    }

    async fn ask(
        &self,
        client: &Client,
    ) -> Result<Vec<tokio_postgres::Row>, tokio_postgres::Error> {
        let values: Vec<(&(dyn ToSql + Sync), Type)> =
            self.values.iter().map(|(value, kind)| (&**value as _, kind.clone())).collect();
        client.query_typed(&self.sql, &values).await
    }
}
