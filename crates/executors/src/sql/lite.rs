//! Queries to SQLite.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Batch, Connection, ErrorCode, OpenFlags};
use serde_json::{Value, json};
use windlass::native::run_blocking;
use windlass::{Error, ErrorKind, TenantId};

use super::rows::Rows;
use super::{Question, rejected, too_slow};

/// How many VM steps SQLite runs between checks for cancellation.
const STEPS: i32 = 1_000;
/// Maximum length of a text or blob.
const MAX_VALUE: i32 = 4 * 1024 * 1024;
/// Busy timeout: how long to wait for a lock.
const PATIENCE: Duration = Duration::from_secs(2);

/// Runs a query on a blocking thread, which stops when the future is dropped.
pub(super) async fn ask(
    tenant: &TenantId,
    path: PathBuf,
    question: Question,
) -> Result<Rows, Error> {
    let stop = Stop::default();
    let gone = Arc::clone(&stop.0);
    let rows = run_blocking(tenant, move || run(&path, &question, gone)).await;
    drop(stop);
    rows
}

/// Signals cancellation when dropped.
#[derive(Default)]
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn run(path: &Path, question: &Question, gone: Arc<AtomicBool>) -> Result<Rows, Error> {
    let connection = open(path, question, gone)?;
    let fault = |error| fault(&error, question);
    let mut statements = Batch::new(&connection, &question.sql);
    let Some(mut statement) = statements.next().map_err(fault)? else {
        return Err(rejected("the query has no statement"));
    };
    // A second statement is refused: it would run, or silently be ignored.
    if !matches!(statements.next(), Ok(None)) {
        return Err(rejected("the query has more than one statement; send one at a time"));
    }
    if !question.write && !statement.readonly() {
        return Err(read_only());
    }
    let before = connection.total_changes();
    let mut found = Rows::new(statement.column_names().map(str::to_owned).collect());
    let width = found.columns.len();
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(fault)? {
        let cells = (0..width).map(|at| row.get_ref(at).map(value)).collect::<Result<_, _>>();
        // A statement that changes data runs to its end anyway.
        if !found.take(cells.map_err(fault)?, question) && !question.write {
            break;
        }
    }
    found.affected = question.write.then(|| connection.total_changes() - before);
    Ok(found)
}

fn open(path: &Path, question: &Question, gone: Arc<AtomicBool>) -> Result<Connection, Error> {
    let failed = |error: rusqlite::Error| {
        // The path is only shown to the operator.
        Error::new(ErrorKind::Network, "the database file cannot be opened").with_source(error)
    };
    let access = match question.write {
        true => OpenFlags::SQLITE_OPEN_READ_WRITE,
        false => OpenFlags::SQLITE_OPEN_READ_ONLY,
    };
    let mut connection =
        Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)
            .map_err(failed)?;
    let set = |connection: &Connection| -> rusqlite::Result<()> {
        connection.busy_timeout(PATIENCE)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE)?;
        connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
        connection.pragma_update(None, "query_only", !question.write)
    };
    set(&connection).map_err(failed)?;
    let write = question.write;
    connection.authorizer(Some(move |step: AuthContext<'_>| allow(step, write))).map_err(failed)?;
    let until = question.until;
    let is_over = move || gone.load(Ordering::Relaxed) || Instant::now() >= until;
    connection.progress_handler(STEPS, Some(is_over)).map_err(failed)?;
    Ok(connection)
}

/// Authorizer: what a statement may do. Other files, extensions, settings and
/// transactions are always denied.
fn allow(step: AuthContext<'_>, write: bool) -> Authorization {
    match step.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => {
            Authorization::Allow
        }
        AuthAction::Function { function_name } if function_name != "load_extension" => {
            Authorization::Allow
        }
        // Pragmas that only query the schema.
        AuthAction::Pragma { pragma_name, .. }
            if ["table_info", "table_xinfo", "table_list", "index_list", "index_info"]
                .contains(&pragma_name) =>
        {
            Authorization::Allow
        }
        AuthAction::Insert { .. } | AuthAction::Update { .. } | AuthAction::Delete { .. } => {
            if write {
                Authorization::Allow
            } else {
                Authorization::Deny
            }
        }
        _ => Authorization::Deny,
    }
}

fn value(cell: ValueRef<'_>) -> Value {
    match cell {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
        ValueRef::Blob(bytes) => json!(format!("[{} bytes]", bytes.len())),
    }
}

fn fault(error: &rusqlite::Error, question: &Question) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => too_slow(),
        Some(ErrorCode::AuthorizationForStatementDenied) if question.write => {
            rejected("only SELECT, INSERT, UPDATE and DELETE are allowed here")
        }
        Some(ErrorCode::AuthorizationForStatementDenied | ErrorCode::ReadOnly) => read_only(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Error::new(ErrorKind::Network, "the database is locked by somebody else")
        }
        _ => rejected(format!("the database refused the query: {error}")),
    }
}

fn read_only() -> Error {
    Error::new(ErrorKind::Denied, "this tool only reads: one SELECT, and nothing that changes data")
}
