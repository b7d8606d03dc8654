//! Queries on many records, against the same on few.
//!
//! Conversations have the same length in both stores, so both return full pages, and all
//! are written concurrently: the records of a page are as far apart as they can be.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use jiff::Timestamp;
use serde_json::json;
use tokio::runtime::Runtime;
use windlass::{
    CallId, CallRecord, Caller, CallerType, ErrorKind, Output, PageRequest, RecordFilter,
    RecordStore, RecordedError, Status, TenantId,
};
use windlass_store::SqliteStore;

use crate::report::{Figure, medians, timed};

const MANY: usize = 1_000_000;
const FEW: usize = 10_000;
const PER_CONVERSATION: usize = 500;
const TOOLS: usize = 20;
const CALLERS: usize = 50;
const PAGE: usize = 50;
/// Queries in a round.
const QUESTIONS: usize = 20;
const ROUNDS: usize = 50;

/// Measures the newest page of a conversation, and the statistics.
pub(crate) fn run() -> anyhow::Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let few = SqliteStore::open(folder.path().join("few.db"))?;
    let many = SqliteStore::open(folder.path().join("many.db"))?;
    runtime.block_on(fill(&few, FEW))?;
    runtime.block_on(fill(&many, MANY))?;
    let (mut of_few, mut of_many) = (Rng::with_seed(7), Rng::with_seed(7));
    let [few_page, many_page] = medians(
        ROUNDS,
        [&mut || pages(&runtime, &few, FEW, &mut of_few), &mut || {
            pages(&runtime, &many, MANY, &mut of_many)
        }],
    );
    let [few_all, many_all] = medians(
        ROUNDS,
        [&mut || statistics(&runtime, &few, FEW), &mut || statistics(&runtime, &many, MANY)],
    );
    let each = |seconds: f64| seconds * 1e6 / QUESTIONS as f64;
    Ok(vec![
        Figure::new("page, 1,000,000 / 10,000 records", "us", each(many_page), each(few_page))
            .at_most(2.0),
        Figure::new("statistics, the same", "us", each(many_all), each(few_all)).at_most(2.0),
    ])
}

/// The newest pages of random conversations.
fn pages(runtime: &Runtime, store: &SqliteStore, records: usize, rng: &mut Rng) -> Duration {
    let tenant = TenantId::default();
    let chosen = || conversation(rng.usize(..records / PER_CONVERSATION));
    let chosen: Vec<String> = std::iter::repeat_with(chosen).take(QUESTIONS).collect();
    timed(|| {
        for conversation in chosen {
            let conversation = Some(conversation);
            let filter = RecordFilter { conversation, ..RecordFilter::default() };
            let page = runtime.block_on(store.query(&tenant, &filter, PageRequest::first(PAGE)));
            assert_eq!(page.unwrap().records.len(), PAGE);
        }
    })
}

fn statistics(runtime: &Runtime, store: &SqliteStore, records: usize) -> Duration {
    timed(|| {
        for _ in 0..QUESTIONS {
            let statistics = runtime.block_on(store.statistics(&TenantId::default())).unwrap();
            assert_eq!(statistics.total.calls, records as u64);
        }
    })
}

fn conversation(at: usize) -> String {
    format!("conversation-{at}")
}

/// Appends records as the engine does, with backpressure.
async fn fill(store: &SqliteStore, count: usize) -> anyhow::Result<()> {
    let mut records = Records::new(count / PER_CONVERSATION);
    for at in 0..count {
        if !store.keeps_up() {
            store.caught_up().await;
        }
        store.append(records.next(at));
    }
    Ok(store.flush().await?)
}

/// Generates records.
struct Records {
    rng: Rng,
    /// One for each conversation.
    callers: Vec<Arc<Caller>>,
    tools: Vec<Arc<str>>,
    arguments: Arc<serde_json::Value>,
    result: Arc<Output>,
}

impl Records {
    fn new(conversations: usize) -> Self {
        let caller = |at: usize| Caller {
            caller_id: Some(format!("agent-{}", at % CALLERS).into()),
            caller_type: CallerType::ConversationAgent,
            conversation: Some(conversation(at).into()),
            ..Caller::default()
        };
        Self {
            rng: Rng::with_seed(42),
            callers: (0..conversations).map(|at| Arc::new(caller(at))).collect(),
            tools: (0..TOOLS).map(|at| format!("tool_{at}").into()).collect(),
            arguments: Arc::new(json!({"query": "the weather in Kyiv tomorrow", "limit": 10})),
            result: Arc::new(Output::text("Mostly sunny, 21 degrees, a light wind from the west.")),
        }
    }

    /// Every conversation gets the same number of records. Each tool has a typical run
    /// time, which few calls exceed by far. One call in thirty fails: soon, or at its
    /// deadline.
    fn next(&mut self, at: usize) -> CallRecord {
        let tool = self.rng.usize(..TOOLS);
        let (status, spread) = match self.rng.u32(..60) {
            0 => (Status::Failed, self.rng.f64()),
            1 => (Status::TimedOut, 10.0),
            _ => (Status::Succeeded, (0..4).map(|_| self.rng.f64()).sum()),
        };
        let failed = status != Status::Succeeded;
        let created_at = Timestamp::now();
        CallRecord {
            id: CallId::at(created_at),
            call_ref: None,
            tool_name: Arc::clone(&self.tools[tool]),
            arguments: Arc::clone(&self.arguments),
            result: (!failed).then(|| Arc::clone(&self.result)),
            status,
            error: failed.then(|| {
                Box::new(RecordedError {
                    kind: ErrorKind::UpstreamFailed,
                    message: "the other side does not answer".to_owned(),
                    feedback: None,
                })
            }),
            caller: Arc::clone(&self.callers[at % self.callers.len()]),
            attempts: 1,
            queue_wait: Duration::ZERO,
            run_time: Duration::from_millis(2 + tool as u64).mul_f64(spread.exp2()),
            created_at,
            details: None,
        }
    }
}
