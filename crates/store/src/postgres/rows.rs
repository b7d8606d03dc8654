//! Converts [`CallRecord`]s to rows of `windlass.calls`, and back.
//!
//! A batch is sent as one array for each column: a single statement for any number of
//! rows.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::Timestamp;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};
use uuid::Uuid;
use windlass::{CallRecord, Caller, CallerType, ErrorKind, RecordedError, Status, TenantId};

use super::text;
use crate::value::{self, duration, micros, read_json, read_output, status_code};

/// Maximum JSON in one statement. More would take long to send, and PostgreSQL has a
/// limit of 1 GB.
const STATEMENT_BYTES: usize = 8 * 1024 * 1024;

/// The columns, in the order in which they are sent and read.
macro_rules! columns {
    () => {
        "tenant, id, call_ref, tool, user_id, caller_id, caller_type, conversation, workflow, \
         parent, status, error_kind, error_message, error_feedback, attempts, queue_us, run_us, \
         created_us, arguments, result, details"
    };
}

pub(crate) const COLUMNS: &str = columns!();

const INSERT: &str = concat!(
    "INSERT INTO windlass.calls (",
    columns!(),
    ") SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, \
     $16, $17, $18, $19, $20, $21) ON CONFLICT DO NOTHING RETURNING id, tenant"
);

type Text<'a> = Vec<Cow<'a, str>>;
type MaybeText<'a> = Vec<Option<Cow<'a, str>>>;

/// Records as arrays of column values.
#[derive(Default)]
pub(crate) struct Rows<'a> {
    pub(crate) tenant: Text<'a>,
    pub(crate) id: Vec<Uuid>,
    call_ref: MaybeText<'a>,
    tool: Text<'a>,
    user: MaybeText<'a>,
    caller_id: MaybeText<'a>,
    caller_type: Vec<&'static str>,
    conversation: MaybeText<'a>,
    workflow: MaybeText<'a>,
    parent: Vec<Option<Uuid>>,
    status: Vec<i16>,
    error_kind: Vec<Option<&'static str>>,
    error_message: MaybeText<'a>,
    error_feedback: MaybeText<'a>,
    attempts: Vec<i64>,
    queue_us: Vec<i64>,
    run_us: Vec<i64>,
    created_us: Vec<i64>,
    arguments: Vec<String>,
    result: Vec<Option<String>>,
    details: Vec<Option<String>>,
}

impl<'a> Rows<'a> {
    /// As many of the records as fit into one statement, at least one.
    pub(crate) fn first_of(records: &'a [CallRecord], most: usize) -> Self {
        let mut rows = Self::default();
        let mut bytes = 0;
        for record in records.iter().take(most.max(1)) {
            bytes += rows.push(record);
            if bytes >= STATEMENT_BYTES {
                break;
            }
        }
        rows
    }

    /// All of these records.
    pub(crate) fn of(records: impl IntoIterator<Item = &'a CallRecord>) -> Self {
        let mut rows = Self::default();
        for record in records {
            rows.push(record);
        }
        rows
    }

    pub(crate) fn len(&self) -> usize {
        self.id.len()
    }

    /// Adds a record; returns the size of its JSON.
    fn push(&mut self, record: &'a CallRecord) -> usize {
        let caller = &*record.caller;
        let error = record.error.as_ref();
        self.tenant.push(text::key(caller.tenant.as_str()));
        self.id.push(record.id.uuid());
        self.call_ref.push(maybe(record.call_ref.as_deref()));
        self.tool.push(text::kept(&record.tool_name));
        self.user.push(maybe(caller.user.as_deref()));
        self.caller_id.push(maybe(caller.caller_id.as_deref()));
        self.caller_type.push(caller.caller_type.name());
        self.conversation.push(maybe(caller.conversation.as_deref()));
        self.workflow.push(maybe(caller.workflow.as_deref()));
        self.parent.push(caller.parent.map(windlass::CallId::uuid));
        self.status.push(status_code(record.status));
        self.error_kind.push(error.map(|error| error.kind.name()));
        self.error_message.push(maybe(error.map(|error| error.message.as_str())));
        self.error_feedback.push(maybe(error.and_then(|error| error.feedback.as_deref())));
        self.attempts.push(record.attempts.into());
        self.queue_us.push(micros(record.queue_wait));
        self.run_us.push(micros(record.run_time));
        self.created_us.push(record.created_at.as_microsecond());
        let arguments = json(&*record.arguments);
        let result = record.result.as_deref().map(json);
        let details = record.details.as_deref().map(json);
        let bytes = arguments.len() + result.as_ref().map_or(0, String::len);
        self.arguments.push(arguments);
        self.result.push(result);
        self.details.push(details);
        bytes
    }

    /// Inserts rows that do not exist yet, and returns their ids and tenants.
    pub(crate) async fn insert(&self, client: &Client) -> Result<Vec<Row>, tokio_postgres::Error> {
        let values: [(&(dyn ToSql + Sync), Type); 21] = [
            (&self.tenant, Type::TEXT_ARRAY),
            (&self.id, Type::UUID_ARRAY),
            (&self.call_ref, Type::TEXT_ARRAY),
            (&self.tool, Type::TEXT_ARRAY),
            (&self.user, Type::TEXT_ARRAY),
            (&self.caller_id, Type::TEXT_ARRAY),
            (&self.caller_type, Type::TEXT_ARRAY),
            (&self.conversation, Type::TEXT_ARRAY),
            (&self.workflow, Type::TEXT_ARRAY),
            (&self.parent, Type::UUID_ARRAY),
            (&self.status, Type::INT2_ARRAY),
            (&self.error_kind, Type::TEXT_ARRAY),
            (&self.error_message, Type::TEXT_ARRAY),
            (&self.error_feedback, Type::TEXT_ARRAY),
            (&self.attempts, Type::INT8_ARRAY),
            (&self.queue_us, Type::INT8_ARRAY),
            (&self.run_us, Type::INT8_ARRAY),
            (&self.created_us, Type::INT8_ARRAY),
            (&self.arguments, Type::TEXT_ARRAY),
            (&self.result, Type::TEXT_ARRAY),
            (&self.details, Type::TEXT_ARRAY),
        ];
        client.query_typed(INSERT, &values).await
    }
}

/// Reads the caller from columns 4 to 9, of `calls` or `intents`.
pub(crate) fn read_caller(row: &Row, tenant: TenantId) -> Result<Caller, tokio_postgres::Error> {
    Ok(Caller {
        tenant,
        user: read_text(row, 4)?,
        caller_id: read_text(row, 5)?,
        caller_type: CallerType::from_name(row.try_get(6)?).unwrap_or_default(),
        conversation: read_text(row, 7)?,
        workflow: read_text(row, 8)?,
        parent: row.try_get::<_, Option<Uuid>>(9)?.map(Into::into),
    })
}

/// Reads a row of [`COLUMNS`], for the tenant that was asked for.
pub(crate) fn read_record(
    row: &Row,
    tenant: &TenantId,
) -> Result<CallRecord, tokio_postgres::Error> {
    let kind: Option<&str> = row.try_get(11)?;
    let message: Option<String> = read_text(row, 12)?;
    Ok(CallRecord {
        id: row.try_get::<_, Uuid>(1)?.into(),
        call_ref: read_text(row, 2)?,
        tool_name: text::read(row.try_get(3)?).into(),
        arguments: Arc::new(read_json(row.try_get(18)?)),
        result: row.try_get::<_, Option<&str>>(19)?.map(|json| Arc::new(read_output(json))),
        status: read_status(row.try_get(10)?),
        error: match kind {
            Some(kind) => Some(Box::new(RecordedError {
                // A kind of error from a newer version of windlass.
                kind: ErrorKind::from_name(kind).unwrap_or(ErrorKind::Internal),
                message: message.unwrap_or_default(),
                feedback: read_text(row, 13)?,
            })),
            None => None,
        },
        caller: Arc::new(read_caller(row, tenant.clone())?),
        attempts: u32::try_from(row.try_get::<_, i64>(14)?).unwrap_or(u32::MAX),
        queue_wait: duration(row.try_get(15)?),
        run_time: duration(row.try_get(16)?),
        created_at: timestamp(row.try_get(17)?),
        details: row
            .try_get::<_, Option<&str>>(20)?
            .and_then(|json| serde_json::from_str(json).ok()),
    })
}

pub(crate) fn maybe(text: Option<&str>) -> Option<Cow<'_, str>> {
    text.map(text::kept)
}

pub(crate) fn read_text<T: for<'a> From<Cow<'a, str>>>(
    row: &Row,
    column: usize,
) -> Result<Option<T>, tokio_postgres::Error> {
    Ok(row.try_get::<_, Option<&str>>(column)?.map(|stored| text::read(stored).into()))
}

/// A value as JSON text. Only maps with keys that are not text fail to serialize, and
/// records have none.
pub(crate) fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

/// A status from a newer version can only be a kind of failure.
pub(crate) fn read_status(code: i16) -> Status {
    value::read_status(code.into()).unwrap_or(Status::Failed)
}

pub(crate) fn timestamp(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(micros).unwrap_or(Timestamp::UNIX_EPOCH)
}
