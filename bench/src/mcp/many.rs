//! Many servers of others at once: how long until all of them can be used, against the
//! slowest of them alone.
//!
//! Nothing is quicker than the slowest alone, or than all that the processes compute,
//! spread over the processors: the larger of the two is the baseline. With few processors
//! that is the second, because a server of others computes for half a second to start.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Map, Value, json};
use windlass::{Engine, TenantId};
use windlass_executors::mcp::{MemoryNotebook, MemoryTokens, Notebook, Servers, Start};
use windlass_executors::outbound::OutboundPolicy;

use crate::report::Figure;

/// Environment variable with the servers that `cargo xtask bench` installs.
const VARIABLE: &str = "WINDLASS_TEST_MCP";
const SERVERS: usize = 33;
const ROUNDS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(120);
/// Clock ticks of `/proc` in a second.
const TICKS: f64 = 100.0;

/// Measures the first use of 33 servers, a later one, and a call among their starts.
pub(super) fn run() -> anyhow::Result<Vec<Figure>> {
    let folder = std::env::var_os(VARIABLE).context("servers: run `cargo xtask bench`")?;
    let work = tempfile::tempdir()?;
    let kinds = kinds(&PathBuf::from(folder), work.path());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut slowest, mut computed, mut last_alone) = (0.0, 0.0, 0.0);
        for (number, kind) in kinds.iter().enumerate() {
            let alone = Map::from_iter([("alone".to_owned(), kind.clone())]);
            let began = quickest(&alone).await?;
            slowest = f64::max(slowest, began.seconds);
            let copies = (number..SERVERS).step_by(kinds.len()).count();
            computed += began.computed * copies as f64;
            if number == (SERVERS - 1) % kinds.len() {
                last_alone = began.seconds;
            }
        }
        let all: Map<String, Value> = (0..SERVERS)
            .map(|number| (format!("s{number}"), kinds[number % kinds.len()].clone()))
            .collect();
        let processors = std::thread::available_parallelism()?.get() as f64;
        println!(
            "the slowest alone takes {slowest:.2} s; all compute {computed:.1} s, on {processors} \
             processors"
        );
        let together = quickest(&all).await?;
        let called = last_called(&all).await?;
        Ok(vec![
            Figure::new(
                "33 servers, first use / bound",
                "s",
                together.seconds,
                f64::max(slowest, computed / processors),
            )
            .at_most(1.5),
            Figure::new("- known, again / slowest alone", "s", together.again, slowest)
                .at_most(1.5),
            Figure::new("- the last, called first / alone", "s", called, last_alone).at_most(1.5),
        ])
    })
}

/// Servers of others, as clients configure them.
fn kinds(programs: &Path, work: &Path) -> Vec<Value> {
    let modules = programs.join("npm/node_modules");
    let node = |script: &str, args: &[&str]| {
        let script = modules.join("@modelcontextprotocol").join(script).join("dist/index.js");
        let args: Vec<String> = std::iter::once(script.display().to_string())
            .chain(args.iter().map(|arg| (*arg).to_owned()))
            .collect();
        json!({"command": modules.join("node/bin/node"), "args": args, "cwd": work})
    };
    let python = |folder: &str, program: &str, args: &[&str]| {
        json!({"command": programs.join(folder).join("bin").join(program), "args": args,
            "cwd": work})
    };
    let place = work.display().to_string();
    vec![
        python("apart/calculator", "mcp-server-calculator", &[]),
        node("server-everything", &["stdio"]),
        python("apart/editor", "mcp-text-editor", &[]),
        python("apart/excel", "excel-mcp-server", &["stdio"]),
        node("server-filesystem", &[&place]),
        python("apart/sqlite", "mcp-server-sqlite", &["--db-path", "own.db"]),
        python("apart/timeserver", "mcp-simple-timeserver", &[]),
        node("server-memory", &[]),
        python("apart/word", "word_mcp_server", &[]),
        python("py", "mcp-server-time", &[]),
        node("server-sequential-thinking", &[]),
        python("py", "mcp-server-git", &[]),
    ]
}

/// A start of servers.
struct Began {
    /// Until the tools of all were known.
    seconds: f64,
    /// The same where they are remembered.
    again: f64,
    /// What their processes computed, in seconds of a processor.
    computed: f64,
}

/// The quickest of some rounds.
async fn quickest(servers: &Map<String, Value>) -> anyhow::Result<Began> {
    let mut best: Option<Began> = None;
    for _ in 0..ROUNDS {
        let next = start(servers).await?;
        best = Some(match best {
            Some(best) => Began {
                seconds: best.seconds.min(next.seconds),
                again: best.again.min(next.again),
                computed: best.computed.min(next.computed),
            },
            None => next,
        });
    }
    best.context("there were no rounds")
}

async fn start(servers: &Map<String, Value>) -> anyhow::Result<Began> {
    let notebook: Arc<dyn Notebook> = Arc::new(MemoryNotebook::default());
    let before = computed_by_children()?;
    let seconds = listing(servers, &notebook).await?;
    let computed = computed_by_children()? - before;
    let again = listing(servers, &notebook).await?;
    Ok(Began { seconds, again, computed })
}

/// The seconds until the tools of all are known.
async fn listing(
    servers: &Map<String, Value>,
    notebook: &Arc<dyn Notebook>,
) -> anyhow::Result<f64> {
    let engine = engine(servers)?;
    let begin = Instant::now();
    let upstream = follow(&engine, Arc::clone(notebook));
    let errors = upstream.listed(PATIENCE).await;
    let seconds = begin.elapsed().as_secs_f64();
    upstream.stop().await;
    ensure!(errors.is_empty(), "{errors:?}");
    Ok(seconds)
}

/// The seconds until a server can be used that is needed while all others start.
async fn last_called(servers: &Map<String, Value>) -> anyhow::Result<f64> {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let engine = engine(servers)?;
        let begin = Instant::now();
        let upstream = follow(&engine, Arc::new(MemoryNotebook::default()));
        let last = upstream.get_for(&TenantId::default(), &format!("s{}", SERVERS - 1));
        last.context("it is not there")?.listed().await?;
        best = best.min(begin.elapsed().as_secs_f64());
        upstream.stop().await;
    }
    Ok(best)
}

fn engine(servers: &Map<String, Value>) -> anyhow::Result<Engine> {
    let engine = Engine::builder().build()?;
    let loaded = engine.load_text("servers.json", &json!({"mcpServers": servers}).to_string());
    ensure!(loaded.errors.is_empty(), "{:?}", loaded.errors);
    Ok(engine)
}

fn follow(engine: &Engine, notebook: Arc<dyn Notebook>) -> Servers {
    let tokens = Arc::<MemoryTokens>::default();
    Servers::follow(engine, notebook, tokens, OutboundPolicy::default(), Start::Unknown)
}

/// What processes that have ended computed for this one, in seconds.
fn computed_by_children() -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, facts) = stat.rsplit_once(')').context("/proc/self/stat")?;
    // After the name, `cutime` and `cstime` are the 14th and 15th.
    let ticks = facts.split_whitespace().skip(13).take(2).map(str::parse::<f64>);
    Ok(ticks.sum::<Result<f64, _>>()? / TICKS)
}
