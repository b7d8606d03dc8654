//! The engine as a proxy: its overhead on a call of a tool in another process.
//!
//! The tool is read-only, as in the other figures, and its annotation is trusted. The
//! same tool of an untrusted server may have side effects, so its calls also wait for the
//! disk, twice. That is shown beside it without a limit: it depends on the disk, which
//! the figure `durable` measures.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use windlass::{CallRequest, Engine};
use windlass_executors::mcp::{MemoryNotebook, MemoryTokens, Servers, Start};
use windlass_executors::outbound::OutboundPolicy;

use super::fastmcp::FastMcp;
use super::{BARE_STDIO, message};
use crate::http::{CONNECTIONS, Connection, Load, Server, client_runtime, closed_loop, median};
use crate::report::Figure;

const ROUNDS: usize = 20;
const CALLS: usize = 250;
/// Limits of the overhead in microseconds: in the same process, and over HTTP.
const ENGINE_MICROS: f64 = 50.0;
const HTTP_MICROS: f64 = 300.0;
const LOAD_ROUNDS: usize = 3;
const LOAD: Duration = Duration::from_secs(2);

/// Measures single calls, one after the other, and many at once.
pub(super) fn run() -> anyhow::Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    std::fs::create_dir(folder.path().join("tools"))?;
    std::fs::write(folder.path().join("tools/servers.json"), servers()?.to_string())?;
    let server = Server::start(folder.path())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let Times { bare, engine, served, written } = runtime.block_on(one_by_one(&server))?;
    let mut figures = vec![
        Figure::new("stdio tool, engine adds / 50 µs", "µs", engine - bare, ENGINE_MICROS)
            .at_most(1.0),
        Figure::new("stdio tool, /mcp adds / 300 µs", "µs", served - bare, HTTP_MICROS)
            .at_most(1.0),
        Figure::new("the same, untrusted / 300 µs", "µs", written - bare, HTTP_MICROS),
    ];
    let proxy = FastMcp::proxy(&json!({"mcpServers": {"bare": plain()?}}))?;
    let request = message::call(server.address, "bare__echo", &server.key);
    let peers = message::call(proxy.address, "echo", "none");
    let (mut own, mut peer) = (Vec::new(), Vec::new());
    client_runtime()?.block_on(async {
        message::answered(proxy.address, &peers).await?;
        for _ in 0..LOAD_ROUNDS {
            own.push(closed_loop(server.address, &request, CONNECTIONS, LOAD).await?);
            peer.push(closed_loop(proxy.address, &peers, CONNECTIONS, LOAD).await?);
        }
        anyhow::Ok(())
    })?;
    let rate = |loads: &[Load]| median(loads.iter().map(Load::per_second));
    figures.push(
        Figure::new("stdio tool over /mcp / FastMCP proxy", "req/s", rate(&own), rate(&peer))
            .at_least(10.0),
    );
    Ok(figures)
}

/// The server, as clients configure it.
fn plain() -> anyhow::Result<Value> {
    Ok(json!({"command": std::env::current_exe()?, "args": [BARE_STDIO]}))
}

/// The same server as the engine configures it: trusted, and not.
fn servers() -> anyhow::Result<Value> {
    let mut trusted = plain()?;
    trusted["trust_annotations"] = true.into();
    Ok(json!({"mcpServers": {"bare": trusted, "untrusted": plain()?}}))
}

/// Median times of calls, in microseconds.
struct Times {
    /// By a minimal client.
    bare: f64,
    /// Through an engine in this process.
    engine: f64,
    /// Over HTTP.
    served: f64,
    /// Over HTTP, for a tool that may have side effects.
    written: f64,
}

/// Measures them in turn, so that a slow phase of the machine affects all alike.
async fn one_by_one(server: &Server) -> anyhow::Result<Times> {
    let (client, mut child) = bare_client().await?;
    let engine = Engine::builder().build()?;
    let loaded = engine.load_text("servers.json", &servers()?.to_string());
    ensure!(loaded.errors.is_empty(), "{:?}", loaded.errors);
    let (notebook, tokens) = (Arc::<MemoryNotebook>::default(), Arc::<MemoryTokens>::default());
    let policy = OutboundPolicy::default();
    let upstream = Servers::follow(&engine, notebook, tokens, policy, Start::Unknown);
    let errors = upstream.listed(Duration::from_secs(30)).await;
    ensure!(errors.is_empty(), "{errors:?}");
    let request = message::call(server.address, "bare__echo", &server.key);
    message::answered(server.address, &request).await?;
    let untrusted = message::call(server.address, "untrusted__echo", &server.key);
    message::answered(server.address, &untrusted).await?;
    let mut connection = Connection::open(server.address).await?;
    let mut times: [Vec<f64>; 4] = Default::default();
    for _ in 0..ROUNDS {
        for _ in 0..CALLS {
            let start = Instant::now();
            let params = CallToolRequestParams::new("echo").with_arguments(arguments());
            client.peer().call_tool_once(params).await?;
            times[0].push(micros(start));
        }
        for _ in 0..CALLS {
            let start = Instant::now();
            let call = CallRequest::new("bare/echo", Value::Object(arguments()));
            ensure!(engine.call(call).await.is_success(), "a call failed");
            times[1].push(micros(start));
        }
        for (request, times) in [&request, &untrusted].into_iter().zip(&mut times[2..]) {
            for _ in 0..CALLS {
                let start = Instant::now();
                let answer = connection.ask(request).await?;
                ensure!(answer.status == 200, "a call failed: {}", answer.status);
                times.push(micros(start));
            }
        }
    }
    upstream.stop().await;
    client.cancel().await?;
    child.kill().await?;
    let [bare, engine, served, written] = times.map(|times| median(times.into_iter()));
    Ok(Times { bare, engine, served, written })
}

fn micros(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e6
}

fn arguments() -> serde_json::Map<String, Value> {
    serde_json::Map::from_iter([("message".to_owned(), "Is anybody there?".into())])
}

/// An `rmcp` client with the server as its child process, and nothing between.
async fn bare_client() -> anyhow::Result<(RunningService<RoleClient, ()>, Child)> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg(BARE_STDIO)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let input = child.stdin.take().context("the server has no input")?;
    let output = child.stdout.take().context("the server has no output")?;
    Ok((rmcp::serve_client((), (output, input)).await?, child))
}
