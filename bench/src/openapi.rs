//! API documents: importing a large one, and the overhead of a REST tool on its request.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;
use axum::Router;
use axum::routing::get;
use serde_json::{Value, json};
use windlass::definition::{Definition, Format, Parsed, export};
use windlass::{CallRequest, Engine, Kind, Lang};
use windlass_executors::outbound::{Outbound, OutboundPolicy};
use windlass_executors::rest::{ImportOptions, Origin, Rest, import};

use crate::report::Figure;

/// The argument that makes this program import a document and print its cost.
pub(crate) const IMPORT: &str = "--import=";
/// The largest document of the corpus: GitHub's.
const DOCUMENT: &str = "../shared/corpora/openapi/real/github-3.0.json";
/// The competitor and its package.
const PEER: &str = "fastmcp==4.0.11";
const SECONDS: f64 = 1.0;
const MEGABYTES: f64 = 300.0;
const CALLS: usize = 6_000;

/// The competitor's equivalent: parses the document, makes tools and lists them.
const SCRIPT: &str = r#"
import asyncio, json, resource, sys, time
import httpx2
from fastmcp import FastMCP
start = time.perf_counter()
document = json.load(open(sys.argv[1]))
client = httpx2.AsyncClient(base_url="https://x.example")
server = FastMCP.from_openapi(openapi_spec=document, client=client)
async def main():
    return [tool.to_mcp_tool().model_dump_json() for tool in await server.list_tools()]
tools = asyncio.run(main())
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"seconds": seconds, "megabytes": peak, "tools": len(tools)}))
"#;

/// Measures importing and calls.
pub(crate) fn run() -> anyhow::Result<Vec<Figure>> {
    let document = Path::new(DOCUMENT);
    anyhow::ensure!(document.exists(), "{DOCUMENT} is missing: the corpora stand beside the clone");
    let python = peer()?;
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    // In turn, each in a process of its own, so that memory can be attributed.
    for _ in 0..3 {
        let own = std::env::current_exe()?;
        ours.push(told(Command::new(own).arg(format!("{IMPORT}{DOCUMENT}")))?);
        theirs.push(told(Command::new(&python).args(["-c", SCRIPT]).arg(document))?);
    }
    let middle = |all: &[Value], key: &str| {
        let mut values: Vec<f64> = all.iter().filter_map(|one| one[key].as_f64()).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let (seconds, megabytes) = (middle(&ours, "seconds"), middle(&ours, "megabytes"));
    anyhow::ensure!(ours[0]["tools"].as_u64() >= theirs[0]["tools"].as_u64(), "{} tools", ours[0]);
    let mut figures = vec![
        Figure::new("GitHub's API, import and list / 1 s", "s", seconds, SECONDS).at_most(1.0),
        Figure::new("the same, memory / 300 MB", "MB", megabytes, MEGABYTES).at_most(1.0),
        Figure::new("import and list / FastMCP", "s", seconds, middle(&theirs, "seconds"))
            .at_most(0.1),
        Figure::new("the same, memory / FastMCP", "MB", megabytes, middle(&theirs, "megabytes")),
    ];
    figures.push(calls()?);
    Ok(figures)
}

/// Imports a document, loads and lists its tools, and prints the cost.
pub(crate) fn import_and_list(path: &str) -> anyhow::Result<()> {
    let start = Instant::now();
    let text = std::fs::read_to_string(path)?;
    let read = import("github", &text, &ImportOptions::default(), Origin::default())?;
    drop(text);
    let engine = engine(OutboundPolicy::default())?;
    let tools = read.tools.into_iter().map(|tool| Definition::from(tool.spec)).collect();
    let parsed = Parsed { tools, providers: vec![read.provider], ..Parsed::default() };
    let report = engine.load_parsed(None, "github", parsed);
    anyhow::ensure!(report.errors.is_empty(), "{:?}", report.errors.first());
    let tools = engine.registry().list();
    let listed = export(tools.iter().map(|tool| &**tool), Format::Mcp, Lang::En);
    let bytes = serde_json::to_vec(&listed)?.len();
    let seconds = start.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    let megabytes = peak.context("the peak of memory is not told")? / 1024.0;
    let tools = report.tools;
    println!(
        "{}",
        json!({"seconds": seconds, "megabytes": megabytes, "tools": tools, "bytes": bytes})
    );
    Ok(())
}

fn told(command: &mut Command) -> anyhow::Result<Value> {
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().last().unwrap_or_default();
    serde_json::from_str(line)
        .with_context(|| format!("{line}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Python with the competitor, in a virtual environment under `target`.
fn peer() -> anyhow::Result<PathBuf> {
    let folder = Path::new("target/fastmcp");
    let python = folder.join("bin/python");
    let is_there = Command::new(&python).args(["-c", "import fastmcp, httpx2"]).output();
    if is_there.is_ok_and(|output| output.status.success()) {
        return Ok(python);
    }
    let made = Command::new("python3").args(["-m", "venv"]).arg(folder).status()?;
    anyhow::ensure!(made.success(), "install Python 3 with its venv module");
    let installed =
        Command::new(folder.join("bin/pip")).args(["install", "--quiet", PEER]).status()?;
    anyhow::ensure!(installed.success(), "{PEER} cannot be installed");
    Ok(python)
}

fn engine(policy: OutboundPolicy) -> anyhow::Result<Engine> {
    let rest = Rest::new(Outbound::new(policy));
    Ok(Engine::builder().kind(Kind::Rest, move |spec| rest.bind(spec)).build()?)
}

/// A call of a tool, against the same request by a bare client.
fn calls() -> anyhow::Result<Figure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    listener.set_nonblocking(true)?;
    std::thread::spawn(move || serve(listener));
    let document = json!({
        "openapi": "3.0.3", "info": {"title": "x"}, "servers": [{"url": format!("http://{address}")}],
        "paths": {"/items/{id}": {"get": {"operationId": "item", "parameters": [
            {"name": "id", "in": "path", "required": true, "schema": {"type": "string"}},
            {"name": "limit", "in": "query", "schema": {"type": "integer"}}]}}},
    });
    let read = import("x", &document.to_string(), &ImportOptions::default(), Origin::default())?;
    let policy = OutboundPolicy {
        allow: vec!["127.0.0.1".parse().map_err(anyhow::Error::msg)?],
        ..OutboundPolicy::default()
    };
    let engine = engine(policy)?;
    let tools = read.tools.into_iter().map(|tool| Definition::from(tool.spec)).collect();
    engine.load_parsed(None, "x", Parsed { tools, ..Parsed::default() });
    let client = reqwest::Client::builder().no_proxy().build()?;
    let url = format!("http://{address}/items/a?limit=5");
    let bare = async || {
        let answer = client.get(&url).send().await.unwrap();
        let value: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
        assert_eq!(value["id"], "a");
    };
    let tool = async || {
        let request = CallRequest::new("item", json!({"id": "a", "limit": 5}));
        let result = engine.call(request).await;
        assert_eq!(result.output().unwrap().value().unwrap()["id"], "a");
    };
    let [bare, tool] = runtime.block_on(typical(bare, tool)).map(|time| time.as_secs_f64() * 1e6);
    Ok(Figure::new("REST call, p50 / bare reqwest", "µs", tool, bare).at_most(1.15))
}

/// Medians of two alternating pieces of work, so that the machine is the same for both.
async fn typical(one: impl AsyncFn(), other: impl AsyncFn()) -> [Duration; 2] {
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..CALLS {
        for turn in [round % 2, (round + 1) % 2] {
            let start = Instant::now();
            match turn {
                0 => one().await,
                _ => other().await,
            }
            times[turn].push(start.elapsed());
        }
    }
    times.map(|mut times| {
        times.sort();
        times[times.len() / 2]
    })
}

fn serve(listener: std::net::TcpListener) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let app = Router::new().route(
            "/items/{id}",
            get(async || {
                axum::Json(json!({"id": "a", "name": "An item", "tags": ["x", "y"], "size": 12.5}))
            }),
        );
        use axum::serve::ListenerExt;
        let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
        axum::serve(listener, app).await.unwrap();
    });
}
