//! What recording in SQLite costs the caller, and how fast it can go on.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass::{
    CallId, CallRecord, CallRequest, Context, Engine, PageRequest, RecordFilter, TenantId,
    ToolBuilder,
};
use windlass_store::bare::{connect, insert_records, rusqlite};
use windlass_store::{Options, SqliteStore};

use crate::report::{Figure, medians, timed};

const BURST: usize = 10_000;
const SUSTAINED: usize = 1_000_000;
const ROUND: usize = 100_000;
const CHUNK: usize = 1_000;
const TRANSACTION: usize = 8_192;

fn engine(builder: windlass::EngineBuilder) -> anyhow::Result<Engine> {
    Ok(builder
        .tool(
            ToolBuilder::from_fn("greet", |input: Value| async move {
                format!("Hello, {}!", input["name"].as_str().unwrap_or_default())
            })
            .with(|spec| {
                spec.input = json!({
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"},
                        "times": {"type": "integer"},
                        "loud": {"type": "boolean"},
                    },
                    "required": ["name"],
                });
            }),
        )
        .build()?)
}

fn requests(count: usize) -> Vec<CallRequest> {
    let context = Arc::new(Context::for_conversation("agent-7", "conversation-42"));
    let name: Arc<str> = "greet".into();
    (0..count)
        .map(|_| {
            let arguments = json!({"name": "Ada", "times": 3, "loud": true});
            CallRequest::new(Arc::clone(&name), arguments).context(Arc::clone(&context))
        })
        .collect()
}

async fn run(engine: &Engine, requests: Vec<CallRequest>) {
    for request in requests {
        assert!(engine.call(request).await.is_success());
    }
}

/// A burst of calls with records in SQLite, beside records in memory.
pub(crate) fn burst() -> anyhow::Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let memory = engine(Engine::builder())?;
    let sqlite =
        engine(Engine::builder().store(SqliteStore::open(folder.path().join("burst.db"))?))?;
    let once = |engine: &Engine| {
        let requests = requests(BURST);
        let time = timed(|| runtime.block_on(run(engine, requests)));
        assert!(runtime.block_on(engine.records().flush()).is_ok());
        time
    };
    let [memory, sqlite] =
        medians(15, [&mut || once(&memory), &mut || once(&sqlite)]).map(|seconds| seconds * 1e3);
    Ok(vec![Figure::new("10,000 calls, SQLite / memory", "ms", sqlite, memory).at_most(1.3)])
}

/// A million calls, beside a bare multi-row insert of the same records; both
/// databases grow in turn, so that a slow spell of the machine hits both.
pub(crate) fn sustained() -> anyhow::Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let store = SqliteStore::open(folder.path().join("sustained.db"))?;
    let engine = engine(Engine::builder().store(store))?;
    runtime.block_on(run(&engine, requests(1)));
    let template = runtime
        .block_on(engine.records().query(
            &TenantId::default(),
            &RecordFilter::default(),
            PageRequest::first(1),
        ))?
        .records
        .remove(0);
    let mut bare = Bare::open(&folder.path().join("bare.db"), template)?;
    let before = resident_mb();
    let mut peak = before;
    let (mut through_engine, mut by_hand) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..SUSTAINED / ROUND {
        for _ in 0..ROUND / CHUNK {
            let requests = requests(CHUNK);
            through_engine += timed(|| runtime.block_on(run(&engine, requests)));
            peak = peak.max(resident_mb());
        }
        through_engine += timed(|| assert!(runtime.block_on(engine.records().flush()).is_ok()));
        by_hand += bare.write(ROUND)?;
    }
    let rate = |time: Duration| SUSTAINED as f64 / time.as_secs_f64();
    let (through_engine, by_hand) = (rate(through_engine), rate(by_hand));
    Ok(vec![
        Figure::new("1,000,000 calls / bare insert", "rows/s", through_engine, by_hand)
            .at_least(0.8),
        Figure::new("memory while sustained / before", "MB", peak, before),
    ])
}

/// SQLite without queue, writer thread and statistics.
struct Bare {
    connection: rusqlite::Connection,
    template: CallRecord,
}

impl Bare {
    fn open(path: &Path, template: CallRecord) -> anyhow::Result<Self> {
        // Opening the store makes the tables.
        drop(SqliteStore::open(path)?);
        Ok(Self { connection: connect(path, &Options::default())?, template })
    }

    /// The time that so many records take, in transactions as large as those
    /// of the store's writer.
    fn write(&mut self, count: usize) -> anyhow::Result<Duration> {
        let mut busy = Duration::ZERO;
        for begin in (0..count).step_by(TRANSACTION) {
            let records: Vec<CallRecord> = (begin..count.min(begin + TRANSACTION))
                .map(|_| CallRecord { id: CallId::at(Timestamp::now()), ..self.template.clone() })
                .collect();
            let start = Instant::now();
            let transaction = self.connection.transaction()?;
            insert_records(&transaction, &records)?;
            transaction.commit()?;
            busy += start.elapsed();
        }
        Ok(busy)
    }
}

/// The memory that this process holds.
fn resident_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse::<f64>().ok());
    kilobytes.unwrap_or_default() / 1024.0
}
