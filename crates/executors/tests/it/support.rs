//! Small servers on loopback, and engines whose tools may reach them.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use windlass::{CallRequest, CallResult, Context, Engine, Kind, Secret};
use windlass_executors::builtin::Builtins;
use windlass_executors::files::{self, FileSettings};
use windlass_executors::outbound::{Outbound, OutboundPolicy};
use windlass_executors::{network, sql};

/// A request as a server got it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) target: String,
    /// By name in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A server that answers each request and remembers it.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Site {
    pub(crate) async fn start(answer: impl Fn(&Seen) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::at("127.0.0.1:0", answer).await
    }

    pub(crate) async fn at(
        address: &str,
        answer: impl Fn(&Seen) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let (kept, answer) = (Arc::clone(&seen), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
                tokio::spawn(async move {
                    while let Some(request) = read(&mut stream).await {
                        let answer = answer(&request);
                        kept.lock().unwrap().push(request);
                        if stream.write_all(&answer).await.is_err() {
                            return;
                        }
                        if String::from_utf8_lossy(&answer).contains("connection: close") {
                            return;
                        }
                    }
                });
            }
        });
        Self { address, seen }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }
}

/// A server that does what it wants with each connection.
pub(crate) async fn raw<F>(serve: impl Fn(TcpStream) -> F + Send + Sync + 'static) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    address
}

/// Reads one request; nothing at the end of the connection.
pub(crate) async fn read(stream: &mut TcpStream) -> Option<Seen> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length = headers.get("content-length").map_or(0, |text| text.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(Seen { method, target, headers, body })
}

/// An answer with a body.
pub(crate) fn reply(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let own: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!("HTTP/1.1 {status} Status\r\ncontent-length: {}\r\n{own}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

pub(crate) fn text(body: &str) -> Vec<u8> {
    reply(200, &[("content-type", "text/plain")], body)
}

pub(crate) fn json(status: u16, body: &Value) -> Vec<u8> {
    reply(status, &[("content-type", "application/json")], body.to_string())
}

pub(crate) fn redirect(status: u16, to: &str) -> Vec<u8> {
    reply(status, &[("location", to)], "")
}

/// A policy that opens these.
pub(crate) fn allowing(rules: &[&str]) -> OutboundPolicy {
    let allow = rules.iter().map(|rule| rule.parse().unwrap()).collect();
    OutboundPolicy { allow, ..OutboundPolicy::default() }
}

/// An engine with all built-in tools.
pub(crate) struct Desk {
    pub(crate) engine: Engine,
}

impl Desk {
    /// Tools that may reach these addresses, and no files or databases.
    pub(crate) fn new(rules: &[&str]) -> Self {
        Self::with(allowing(rules), FileSettings::default(), &[])
    }

    pub(crate) fn with_folder(folder: &Path, max_bytes: u64) -> Self {
        let files = FileSettings { folder: Some(folder.to_owned()), max_bytes };
        Self::with(OutboundPolicy::default(), files, &[])
    }

    pub(crate) fn with(
        policy: OutboundPolicy,
        files: FileSettings,
        databases: &[(&str, &str)],
    ) -> Self {
        let outbound = Outbound::new(policy);
        let databases = databases
            .iter()
            .map(|(name, address)| ((*name).to_owned(), Secret::new(*address)))
            .collect();
        let builtins = Builtins::default()
            .with(network::toolbox(&outbound))
            .with(files::toolbox(&files))
            .with(sql::toolbox(&outbound, databases));
        let definitions = builtins.definitions();
        let engine = Engine::builder()
            .kind(Kind::Builtin, move |spec| builtins.bind(spec))
            .settings(|settings| settings.retry.backoff = std::time::Duration::from_millis(5))
            .build()
            .unwrap();
        for (file, text) in definitions {
            let report = engine.load_text(file, text);
            assert!(report.errors.is_empty(), "{:?}", report.errors);
        }
        Self { engine }
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> CallResult {
        self.engine.call(CallRequest::new(tool, arguments)).await
    }

    /// Calls with credentials.
    pub(crate) async fn call_as(
        &self,
        secrets: &[(&str, &str)],
        tool: &str,
        arguments: Value,
    ) -> CallResult {
        let context = secrets
            .iter()
            .fold(Context::default(), |context, (name, value)| context.secret(name, *value));
        self.engine.call(CallRequest::new(tool, arguments).context(context)).await
    }
}

/// The data of a result that must be a success.
pub(crate) fn value(result: &CallResult) -> Value {
    match &result.outcome {
        Ok(output) => output.value().unwrap().clone(),
        Err(error) => panic!("{error:?}"),
    }
}

/// The kind of an error that must be one.
pub(crate) fn kind(result: &CallResult) -> &'static str {
    match &result.outcome {
        Ok(output) => panic!("{}", output.to_text()),
        Err(error) => error.kind().name(),
    }
}
