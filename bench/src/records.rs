//! Recording in SQLite: its cost for the caller, and its sustained rate.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass::{
    Behaviour, CallId, CallRecord, CallRequest, Context, Engine, EngineBuilder, PageRequest,
    RecordFilter, TenantId, ToolBuilder,
};
use windlass_store::bare::{connect, insert_records, rusqlite};
use windlass_store::{Options, SqliteStore};

use crate::adder::call_all;
use crate::report::{Figure, medians, timed};

const BURST: usize = 10_000;
const SUSTAINED: usize = 1_000_000;
const ROUND: usize = 100_000;
const CHUNK: usize = 1_000;
/// The same size as in the store's writer.
const TRANSACTION: usize = 8_192;

/// An engine with a read-only tool, so that no call waits for the disk: its record is
/// written later (write-behind).
fn engine(builder: EngineBuilder) -> anyhow::Result<Engine> {
    Ok(builder.tool(greeter().behaviour(Behaviour::READ_ONLY)).build()?)
}

/// A tool that may have side effects.
pub(crate) fn greeter() -> ToolBuilder {
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
    })
}

pub(crate) fn requests(count: usize) -> Vec<CallRequest> {
    let context = Arc::new(Context::for_conversation("agent-7", "conversation-42"));
    let name: Arc<str> = "greet".into();
    (0..count)
        .map(|_| {
            let arguments = json!({"name": "Ada", "times": 3, "loud": true});
            CallRequest::new(Arc::clone(&name), arguments).context(Arc::clone(&context))
        })
        .collect()
}

/// A burst of calls with records in SQLite, against records in memory.
pub(crate) fn burst() -> anyhow::Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let memory = engine(Engine::builder())?;
    let sqlite =
        engine(Engine::builder().store(SqliteStore::open(folder.path().join("burst.db"))?))?;
    let once = |engine: &Engine| {
        let requests = requests(BURST);
        let time = timed(|| runtime.block_on(call_all(engine, requests)));
        assert!(runtime.block_on(engine.records().flush()).is_ok());
        time
    };
    let [memory, sqlite] =
        medians(15, [&mut || once(&memory), &mut || once(&sqlite)]).map(|seconds| seconds * 1e3);
    Ok(vec![Figure::new("10,000 calls, SQLite / memory", "ms", sqlite, memory).at_most(1.3)])
}

/// A million calls, against a bare multi-row insert of the same records; both databases
/// grow in turn, so that a slow phase of the machine affects both.
pub(crate) fn sustained() -> anyhow::Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let store = SqliteStore::open(folder.path().join("sustained.db"))?;
    let engine = engine(Engine::builder().store(store))?;
    let template = runtime.block_on(example(&engine))?;
    let mut bare = Bare::open(&folder.path().join("bare.db"), &Options::default(), template)?;
    let before = resident_mb();
    let mut peak = before;
    let (mut through_engine, mut by_hand) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..SUSTAINED / ROUND {
        for _ in 0..ROUND / CHUNK {
            let requests = requests(CHUNK);
            through_engine += timed(|| runtime.block_on(call_all(&engine, requests)));
            peak = peak.max(resident_mb());
        }
        through_engine += timed(|| assert!(runtime.block_on(engine.records().flush()).is_ok()));
        by_hand += bare.write(ROUND, TRANSACTION)?;
    }
    let rate = |time: Duration| SUSTAINED as f64 / time.as_secs_f64();
    let (through_engine, by_hand) = (rate(through_engine), rate(by_hand));
    Ok(vec![
        Figure::new("1,000,000 calls / bare insert", "rows/s", through_engine, by_hand)
            .at_least(0.8),
        Figure::new("memory while sustained / before", "MB", peak, before),
    ])
}

/// The record of a call.
pub(crate) async fn example(engine: &Engine) -> anyhow::Result<CallRecord> {
    call_all(engine, requests(1)).await;
    let (all, newest) = (RecordFilter::default(), PageRequest::first(1));
    Ok(engine.records().query(&TenantId::default(), &all, newest).await?.records.remove(0))
}

/// SQLite without queue, writer thread and statistics.
pub(crate) struct Bare {
    connection: rusqlite::Connection,
    template: CallRecord,
}

impl Bare {
    pub(crate) fn open(
        path: &Path,
        options: &Options,
        template: CallRecord,
    ) -> anyhow::Result<Self> {
        // Opening the store creates the tables.
        drop(SqliteStore::open(path)?);
        Ok(Self { connection: connect(path, options)?, template })
    }

    /// The time to insert this many records, in transactions of this size.
    pub(crate) fn write(&mut self, count: usize, transaction: usize) -> anyhow::Result<Duration> {
        let mut busy = Duration::ZERO;
        for begin in (0..count).step_by(transaction) {
            let records: Vec<CallRecord> = (begin..count.min(begin + transaction))
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

/// Resident memory of this process.
fn resident_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse::<f64>().ok());
    kilobytes.unwrap_or_default() / 1024.0
}
