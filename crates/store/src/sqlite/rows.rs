//! Converts a [`CallRecord`] to a row of `calls`, and back.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Row, Statement, ToSql};
use uuid::Uuid;
use windlass::{
    CallId, CallRecord, Caller, CallerType, ErrorKind, RecordedError, Status, TenantId,
};

use crate::value::{self, duration, micros, read_json, read_output, status_code};

/// The columns, in the order in which they are bound and read.
macro_rules! columns {
    () => {
        "tenant, id, call_ref, tool, user, caller_id, caller_type, conversation, workflow, \
         parent, status, error_kind, error_message, attempts, queue_us, run_us, created_us, \
         arguments, result, error_feedback, details"
    };
}

pub(crate) const COLUMNS: &str = columns!();

/// One row in each statement: statements with 32 rows were measured to be 20 to 30 %
/// slower.
const INSERT: &str = concat!(
    "INSERT INTO calls (",
    columns!(),
    ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
);

const INSERT_NEW: &str = concat!(
    "INSERT INTO calls (",
    columns!(),
    ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
);

/// Inserts records. Fails if one of them exists already.
pub(crate) fn insert_records(
    connection: &Connection,
    records: &[CallRecord],
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(INSERT)?;
    let mut json = Vec::with_capacity(1024);
    for record in records {
        bind(&mut statement, record, &mut json)?;
        statement.raw_execute()?;
    }
    Ok(())
}

/// Inserts one record; `false` if it exists already.
pub(crate) fn insert_new(connection: &Connection, record: &CallRecord) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached(INSERT_NEW)?;
    bind(&mut statement, record, &mut Vec::new())?;
    Ok(statement.raw_execute()? == 1)
}

/// `json` is a buffer that the rows of a batch share.
fn bind(
    statement: &mut Statement<'_>,
    record: &CallRecord,
    json: &mut Vec<u8>,
) -> rusqlite::Result<()> {
    let error = record.error.as_ref();
    let mut row = Binder::new(statement);
    bind_caller(
        &mut row,
        &record.caller,
        record.id,
        record.call_ref.as_deref(),
        &record.tool_name,
    )?;
    row.put(status_code(record.status))?;
    row.put(error.map(|error| error.kind.name()))?;
    row.put(error.map(|error| error.message.as_str()))?;
    row.put(record.attempts)?;
    row.put(micros(record.queue_wait))?;
    row.put(micros(record.run_time))?;
    row.put(record.created_at.as_microsecond())?;
    row.put(text(&*record.arguments, json)?)?;
    match &record.result {
        Some(result) => row.put(text(&**result, json)?)?,
        None => row.put(None::<&str>)?,
    }
    row.put(error.and_then(|error| error.feedback.as_deref()))?;
    match &record.details {
        Some(details) => row.put(text(&**details, json)?),
        None => row.put(None::<&str>),
    }
}

/// The first ten columns, which calls and intents share.
pub(crate) fn bind_caller(
    row: &mut Binder<'_, '_>,
    caller: &Caller,
    id: CallId,
    call_ref: Option<&str>,
    tool: &str,
) -> rusqlite::Result<()> {
    row.put(caller.tenant.as_str())?;
    row.put(id.uuid().as_bytes().as_slice())?;
    row.put(call_ref)?;
    row.put(tool)?;
    row.put(caller.user.as_deref())?;
    row.put(caller.caller_id.as_deref())?;
    row.put(caller.caller_type.name())?;
    row.put(caller.conversation.as_deref())?;
    row.put(caller.workflow.as_deref())?;
    row.put(caller.parent.map(|parent| parent.uuid().into_bytes()))
}

/// Binds values from left to right.
pub(crate) struct Binder<'a, 's> {
    statement: &'a mut Statement<'s>,
    bound: usize,
}

impl<'a, 's> Binder<'a, 's> {
    pub(crate) fn new(statement: &'a mut Statement<'s>) -> Self {
        Self { statement, bound: 0 }
    }

    pub(crate) fn put(&mut self, value: impl ToSql) -> rusqlite::Result<()> {
        self.bound += 1;
        self.statement.raw_bind_parameter(self.bound, value)
    }
}

/// A value as JSON text in a reusable buffer: SQLite copies it when it is bound.
pub(crate) fn text<'a>(
    value: &impl serde::Serialize,
    json: &'a mut Vec<u8>,
) -> rusqlite::Result<ToSqlOutput<'a>> {
    json.clear();
    serde_json::to_writer(&mut *json, value)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    Ok(ToSqlOutput::Borrowed(ValueRef::Text(json)))
}

/// Reads a row of [`COLUMNS`].
pub(crate) fn read_record(row: &Row<'_>) -> rusqlite::Result<CallRecord> {
    let kind: Option<String> = row.get(11)?;
    let message: Option<String> = row.get(12)?;
    let feedback: Option<String> = row.get(19)?;
    Ok(CallRecord {
        id: read_id(row, 1)?,
        call_ref: row.get(2)?,
        tool_name: row.get(3)?,
        arguments: Arc::new(read_json(row.get_ref(17)?.as_str()?)),
        result: row.get_ref(18)?.as_str_or_null()?.map(|json| Arc::new(read_output(json))),
        status: read_status(row, 10)?,
        error: kind.map(|kind| {
            Box::new(RecordedError {
                // A kind of error from a newer version of windlass.
                kind: ErrorKind::from_name(&kind).unwrap_or(ErrorKind::Internal),
                message: message.unwrap_or_default(),
                feedback,
            })
        }),
        caller: Arc::new(read_caller(row)?),
        attempts: row.get(13)?,
        queue_wait: read_duration(row, 14)?,
        run_time: read_duration(row, 15)?,
        created_at: read_timestamp(row, 16)?,
        details: row
            .get_ref(20)?
            .as_str_or_null()?
            .and_then(|json| serde_json::from_str(json).ok()),
    })
}

/// Reads the caller from the columns of [`bind_caller`].
pub(crate) fn read_caller(row: &Row<'_>) -> rusqlite::Result<Caller> {
    Ok(Caller {
        tenant: TenantId::new(row.get::<_, Arc<str>>(0)?),
        user: row.get(4)?,
        caller_id: row.get(5)?,
        caller_type: CallerType::from_name(row.get_ref(6)?.as_str()?).unwrap_or_default(),
        conversation: row.get(7)?,
        workflow: row.get(8)?,
        parent: row.get::<_, Option<[u8; 16]>>(9)?.map(|id| Uuid::from_bytes(id).into()),
    })
}

pub(crate) fn read_id(row: &Row<'_>, column: usize) -> rusqlite::Result<CallId> {
    Ok(Uuid::from_bytes(row.get(column)?).into())
}

pub(crate) fn read_status(row: &Row<'_>, column: usize) -> rusqlite::Result<Status> {
    let code: i64 = row.get(column)?;
    value::read_status(code).ok_or(rusqlite::Error::IntegralValueOutOfRange(column, code))
}

fn read_duration(row: &Row<'_>, column: usize) -> rusqlite::Result<Duration> {
    Ok(duration(row.get(column)?))
}

pub(crate) fn read_timestamp(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    let micros = row.get(column)?;
    Timestamp::from_microsecond(micros)
        .map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, micros))
}
