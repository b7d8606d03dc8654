//! `sql_query`: SQL queries to PostgreSQL and SQLite.
//!
//! The database is never the model's choice: a definition names one of the operator's
//! (`entry: {database: shop}`), or the provider's credential has its URL. A credential
//! may only name PostgreSQL servers, which are subject to the SSRF guard; files and
//! internal servers are the operator's.
//!
//! A definition is read-only unless it says `write: true`. The database itself enforces
//! that: SQLite opens the file read-only and asks an authorizer before every step of a
//! statement; PostgreSQL gets a read-only transaction and a cursor, which accepts only
//! queries.

mod capped;
mod lite;
mod pg;
mod rows;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass::{BoxFuture, Call, Error, ErrorKind, Executor, Kind, Output, Secret, ToolSpec};

use crate::builtin::Toolbox;
use crate::outbound::Outbound;
use rows::Rows;

/// The definitions of these tools and of their provider: a file name and its YAML.
pub const DEFINITIONS: &[(&str, &str)] =
    &[("sql_query.yaml", include_str!("sql/definitions/sql_query.yaml"))];

const MAX_QUERY: usize = 64 * 1024;
/// Default and maximum number of rows.
const DEFAULT_ROWS: usize = 100;
const MAX_ROWS: usize = 1_000;
const MAX_RESULT_BYTES: usize = 4 * 1024 * 1024;
/// Statement timeout, within the deadline of the call.
const MAX_TIME: Duration = Duration::from_secs(30);

/// The tool, with the operator's databases: names and URLs such as
/// `postgres://user:password@host/shop` or `sqlite:data/shop.db`.
pub fn toolbox(outbound: &Outbound, databases: BTreeMap<String, Secret>) -> Toolbox {
    let shared = Arc::new(SqlContext { outbound: outbound.clone(), databases });
    Toolbox::new(DEFINITIONS).bound("sql_query", move |spec| {
        let settings = SqlSettings::read(spec)?;
        Ok(Arc::new(SqlQuery { shared: Arc::clone(&shared), settings }))
    })
}

/// Whether a definition names one of the operator's databases, which a tenant's own tool
/// must not use.
pub fn names_database(spec: &ToolSpec) -> bool {
    let handler = [spec.entry.handler.as_str(), spec.name.as_str()];
    let is_query = handler.into_iter().find(|name| !name.is_empty()) == Some("sql_query");
    spec.kind == Kind::Builtin && is_query && spec.entry.config.contains_key("database")
}

/// The operator's database that a definition names.
pub fn database_named(spec: &ToolSpec) -> Option<&str> {
    names_database(spec).then(|| spec.entry.config.get("database")?.as_str())?
}

struct SqlContext {
    outbound: Outbound,
    databases: BTreeMap<String, Secret>,
}

/// The settings in a definition's entry.
struct SqlSettings {
    /// One of the operator's databases; `None` for the one in the credential.
    database: Option<String>,
    write: bool,
}

impl SqlSettings {
    fn read(spec: &ToolSpec) -> Result<Self, Error> {
        let wrong = |what: &str| Error::new(ErrorKind::InvalidDefinition, what);
        let config = &spec.entry.config;
        let database = match config.get("database") {
            None => None,
            Some(Value::String(name)) => Some(name.clone()),
            Some(_) => return Err(wrong("`entry.database` must be the name of a database")),
        };
        let write = match config.get("write") {
            None => false,
            Some(Value::Bool(write)) => *write,
            Some(_) => return Err(wrong("`entry.write` must be true or false")),
        };
        if write && spec.behaviour.read_only {
            return Err(wrong("a tool with `entry.write: true` is not `read_only`"));
        }
        Ok(Self { database, write })
    }
}

struct SqlQuery {
    shared: Arc<SqlContext>,
    settings: SqlSettings,
}

/// A statement and the limits of its result.
#[derive(Clone)]
struct Question {
    sql: String,
    write: bool,
    max_rows: usize,
    max_bytes: usize,
    until: Instant,
}

/// A database that can be queried.
enum Database {
    Sqlite(PathBuf),
    Postgres { address: Secret, guarded: bool },
}

impl SqlQuery {
    async fn run(&self, call: &Call) -> Result<Output, Error> {
        let sql = call.argument("query").and_then(Value::as_str).unwrap_or_default().trim();
        if sql.is_empty() || sql.len() > MAX_QUERY {
            let why = format!("`query` must have 1 to {MAX_QUERY} bytes");
            return Err(Error::new(ErrorKind::InvalidArguments, why));
        }
        let rows = call.argument("max_rows").and_then(Value::as_u64).unwrap_or(DEFAULT_ROWS as u64);
        let question = Question {
            sql: sql.to_owned(),
            write: self.settings.write,
            max_rows: usize::try_from(rows).unwrap_or(MAX_ROWS).clamp(1, MAX_ROWS),
            max_bytes: MAX_RESULT_BYTES,
            until: call.deadline().min(Instant::now() + MAX_TIME),
        };
        let found = match self.database(call)? {
            Database::Sqlite(path) => lite::ask(&call.caller().tenant, path, question).await?,
            Database::Postgres { address, guarded } => {
                let guard = guarded.then_some(&self.shared.outbound);
                pg::ask(&address, guard, &question).await?
            }
        };
        Ok(describe(&found))
    }

    fn database(&self, call: &Call) -> Result<Database, Error> {
        let refused = |why: String| Error::new(ErrorKind::CredentialInvalid, why);
        if let Some(name) = &self.settings.database {
            // A tool defined by a tenant must not use the operator's databases.
            if call.tool().owner().is_some() {
                let why = "a tenant's own tool cannot use the operator's databases";
                return Err(Error::new(ErrorKind::Denied, why));
            }
            let Some(address) = self.shared.databases.get(name) else {
                return Err(refused(format!(
                    "there is no database `{name}`; the operator sets it in `outbound.databases`"
                )));
            };
            return match address.expose().strip_prefix("sqlite:") {
                Some(path) => Ok(Database::Sqlite(path.trim_start_matches("//").into())),
                None => Ok(Database::Postgres { address: address.clone(), guarded: false }),
            };
        }
        match call.secret("url") {
            Some(address) if is_postgres(address) => {
                Ok(Database::Postgres { address: address.clone(), guarded: true })
            }
            Some(_) => Err(refused(
                "the credential's `url` must begin with `postgres://`; other databases are the \
                 operator's to name"
                    .to_owned(),
            )),
            None => Err(refused(
                "no database is set: store a credential of the provider `database`, or name one of \
                 the operator's in `entry.database`"
                    .to_owned(),
            )),
        }
    }
}

impl Executor for SqlQuery {
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        Box::pin(self.run(call))
    }
}

fn is_postgres(address: &Secret) -> bool {
    let text = address.expose();
    text.starts_with("postgres://") || text.starts_with("postgresql://")
}

fn describe(found: &Rows) -> Output {
    Output::json(json!({
        "columns": found.columns,
        "rows": found.rows,
        "row_count": found.rows.len(),
        "truncated": found.truncated,
        "affected_rows": found.affected,
    }))
}

/// The error of a statement that the database rejected.
fn rejected(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::UpstreamRejected, why)
}

fn too_slow() -> Error {
    Error::new(ErrorKind::Timeout, "the query took too long and was stopped; ask for less")
}
