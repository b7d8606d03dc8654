//! Queries to PostgreSQL.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::types::Type;
use tokio_postgres::{CancelToken, Client, Config, SimpleQueryMessage, SimpleQueryRow};
use tokio_postgres_rustls::MakeRustlsConnect;
use windlass::{Error, ErrorKind, Secret};

use super::capped::Capped;
use super::rows::Rows;
use super::{Question, rejected, too_slow};
use crate::outbound::Outbound;

const CONNECT: Duration = Duration::from_secs(3);
/// Timeout for cancelling a statement on the server.
const FAREWELL: Duration = Duration::from_secs(3);
/// Rows in one fetch.
const STEP: usize = 100;
/// Maximum bytes received for one query: a single value may have a gigabyte.
const MAX_WIRE: usize = 64 * 1024 * 1024;

/// Runs a query on a connection of its own, so that session settings do not outlive it.
pub(super) async fn ask(
    address: &Secret,
    guard: Option<&Outbound>,
    question: &Question,
) -> Result<Rows, Error> {
    let target = Target::read(address, guard)?;
    let until = tokio::time::Instant::from_std(question.until);
    let work = async {
        let client = target.open().await?;
        let mut stop = Stop { target: Some(target.clone()), token: client.cancel_token() };
        let rows = run(&client, question).await;
        stop.target = None;
        rows
    };
    tokio::time::timeout_at(until, work).await.unwrap_or_else(|_| Err(too_slow()))
}

async fn run(client: &Client, question: &Question) -> Result<Rows, Error> {
    let left = question.until.saturating_duration_since(Instant::now());
    let access = if question.write { "READ WRITE" } else { "READ ONLY" };
    let begin = format!(
        "SET statement_timeout = {0}; SET idle_in_transaction_session_timeout = {0}; \
         SET default_transaction_read_only = {1}; BEGIN {access}",
        left.as_millis().max(1),
        if question.write { "off" } else { "on" },
    );
    client.batch_execute(&begin).await.map_err(fault)?;
    if question.write { change(client, question).await } else { look(client, question).await }
}

/// Runs a read-only query. A cursor accepts only queries, and the extended protocol only
/// a single statement: the server rejects anything else.
async fn look(client: &Client, question: &Question) -> Result<Rows, Error> {
    let sql = question.sql.trim_end().trim_end_matches(';');
    // On a line of its own, in case the statement ends with a comment.
    let declare = format!("DECLARE windlass NO SCROLL CURSOR WITHOUT HOLD FOR\n{sql}\n");
    let declared = client.prepare(&declare).await.map_err(fault)?;
    if !declared.params().is_empty() {
        return Err(rejected("the query has parameters ($1); write the values into it"));
    }
    client.execute(&declared, &[]).await.map_err(fault)?;
    let shape = client.prepare("FETCH FORWARD 1 FROM windlass").await.map_err(fault)?;
    let types: Vec<Type> = shape.columns().iter().map(|column| column.type_().clone()).collect();
    let names = shape.columns().iter().map(|column| column.name().to_owned()).collect();
    let mut found = Rows::new(names);
    loop {
        let step = found.step(question, STEP);
        let fetch = format!("FETCH FORWARD {step} FROM windlass");
        let messages = client.simple_query(&fetch).await.map_err(fault)?;
        let mut came = 0;
        for message in &messages {
            let SimpleQueryMessage::Row(row) = message else { continue };
            came += 1;
            if !found.take(cells(row, &types), question) {
                return Ok(found);
            }
        }
        if came < step {
            return Ok(found);
        }
    }
}

async fn change(client: &Client, question: &Question) -> Result<Rows, Error> {
    let statement = client.prepare(&question.sql).await.map_err(fault)?;
    // Prepared only to make sure that it is a single statement; the result is fetched as
    // text.
    let types: Vec<Type> = statement.columns().iter().map(|one| one.type_().clone()).collect();
    let names = statement.columns().iter().map(|one| one.name().to_owned()).collect();
    let mut found = Rows::new(names);
    let messages = client.simple_query(&question.sql).await.map_err(fault)?;
    for message in &messages {
        match message {
            SimpleQueryMessage::Row(row) => drop(found.take(cells(row, &types), question)),
            SimpleQueryMessage::CommandComplete(rows) => found.affected = Some(*rows),
            _ => {}
        }
    }
    client.batch_execute("COMMIT").await.map_err(fault)?;
    Ok(found)
}

/// Numbers, booleans and JSON keep their type; the rest is the server's text.
fn cells(row: &SimpleQueryRow, types: &[Type]) -> Vec<Value> {
    let cell = |(at, kind): (usize, &Type)| {
        let Some(text) = row.get(at) else { return Value::Null };
        let own = match *kind {
            Type::INT2 | Type::INT4 | Type::INT8 | Type::OID => {
                text.parse::<i64>().ok().map(Value::from)
            }
            Type::FLOAT4 | Type::FLOAT8 => text.parse::<f64>().ok().map(Value::from),
            Type::BOOL => Some(Value::from(text == "t")),
            Type::JSON | Type::JSONB => serde_json::from_str(text).ok(),
            _ => None,
        };
        own.filter(|value| !value.is_null()).unwrap_or_else(|| text.into())
    };
    types.iter().enumerate().map(cell).collect()
}

/// A server and how to reach it.
#[derive(Clone)]
struct Target {
    config: Config,
    host: String,
    port: u16,
    guard: Option<Outbound>,
    tls: MakeRustlsConnect,
}

impl Target {
    fn read(address: &Secret, guard: Option<&Outbound>) -> Result<Self, Error> {
        // The driver's error message may contain the password.
        let wrong = |why: &str| Error::new(ErrorKind::CredentialInvalid, why);
        let config: Config =
            address.expose().parse().map_err(|_| wrong("the database's address cannot be read"))?;
        let host = match config.get_hosts() {
            [Host::Tcp(host)] if config.get_hostaddrs().is_empty() => host.clone(),
            _ => return Err(wrong("a database's address names one host")),
        };
        let port = config.get_ports().first().copied().unwrap_or(5432);
        let tls = tls(config.get_ssl_mode())?;
        Ok(Self { config, host, port, guard: guard.cloned(), tls })
    }

    async fn stream(&self) -> Result<Capped, Error> {
        Ok(Capped { stream: self.tcp().await?, left: MAX_WIRE })
    }

    async fn tcp(&self) -> Result<TcpStream, Error> {
        if let Some(guard) = &self.guard {
            return guard.connect(&self.host, self.port).await;
        }
        let connect = TcpStream::connect((self.host.as_str(), self.port));
        match tokio::time::timeout(CONNECT, connect).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(cause)) => {
                let why = "the database server cannot be reached";
                Err(Error::new(ErrorKind::Network, why).nothing_done().with_source(cause))
            }
            Err(_) => {
                let why = "connecting to the database took too long";
                Err(Error::new(ErrorKind::Timeout, why).nothing_done())
            }
        }
    }

    async fn open(&self) -> Result<Client, Error> {
        let stream = self.stream().await?;
        let connected = self.config.connect_raw(stream, self.greeting()?).await;
        let (client, connection) = connected.map_err(|cause| fault(cause).nothing_done())?;
        // This task ends when the client is dropped.
        drop(tokio::spawn(connection));
        Ok(client)
    }

    fn greeting(&self) -> Result<<MakeRustlsConnect as MakeTlsConnect<Capped>>::TlsConnect, Error> {
        MakeTlsConnect::<Capped>::make_tls_connect(&mut self.tls.clone(), &self.host).map_err(
            |cause| {
                Error::new(ErrorKind::Network, "no secure connection to the database")
                    .with_source(cause)
            },
        )
    }
}

/// Cancels the statement on the server if it is dropped early.
struct Stop {
    target: Option<Target>,
    token: CancelToken,
}

impl Drop for Stop {
    fn drop(&mut self) {
        let (Some(target), token) = (self.target.take(), self.token.clone()) else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let stop = async move {
            let stream = target.stream().await?;
            let told = token.cancel_query_raw(stream, target.greeting()?).await;
            told.map_err(fault)
        };
        drop(runtime.spawn(tokio::time::timeout(FAREWELL, stop)));
    }
}

/// The system's CA certificates, loaded for the first TLS connection.
static ROOTS: LazyLock<Arc<RootCertStore>> = LazyLock::new(|| {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    Arc::new(roots)
});

fn tls(mode: SslMode) -> Result<MakeRustlsConnect, Error> {
    let roots = match mode {
        SslMode::Disable => Arc::new(RootCertStore::empty()),
        _ => Arc::clone(&ROOTS),
    };
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|cause| Error::new(ErrorKind::Network, "cannot set up TLS").with_source(cause))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn fault(error: tokio_postgres::Error) -> Error {
    let Some(said) = error.as_db_error() else {
        let why = "the connection to the database broke off";
        return Error::new(ErrorKind::Network, why).with_source(error);
    };
    let state = said.code();
    let is_access = [
        SqlState::INVALID_PASSWORD,
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
        SqlState::INVALID_CATALOG_NAME,
    ];
    match state {
        state if *state == SqlState::QUERY_CANCELED => too_slow(),
        state if is_access.contains(state) => {
            Error::new(ErrorKind::CredentialInvalid, "the database refused the credential")
        }
        state if *state == SqlState::READ_ONLY_SQL_TRANSACTION => {
            Error::new(ErrorKind::Denied, "this tool only reads")
        }
        _ => rejected(format!("the database refused the query: {}", said.message())),
    }
}
