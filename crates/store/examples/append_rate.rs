//! How fast records are kept, next to bare inserts into the same table, and
//! how long questions take then.
//!
//! `cargo run --release -p windlass-store --example append_rate -- 1000000`

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use windlass::{
    CallId, CallRecord, Caller, CallerType, ErrorKind, Output, PageRequest, RecordFilter,
    RecordStore, RecordedError, Status, TenantId,
};
use windlass_store::bare::{connect, insert_records};
use windlass_store::{Options, SqliteStore};

/// As in the other benchmarks. The writer frees what the callers allocated, so
/// the allocator shows in the result.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Rows that a bare insert commits together, and that are made at once.
const CHUNK: usize = 8192;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let records = std::env::args().nth(1).map_or(Ok(1_000_000), |count| count.parse())?;
    let folder = tempfile::tempdir()?;
    for round in 1..=2 {
        let bare = bare(&folder.path().join(format!("bare-{round}.db")), records)?;
        println!("bare insert   {:>9.0} rows/s", records as f64 / bare.as_secs_f64());
        let path = folder.path().join(format!("store-{round}.db"));
        let (kept, appending) = appended(&path, records).await?;
        println!(
            "append        {:>9.0} rows/s, {:.0} % of it; {:.0} ns in each append",
            records as f64 / kept.as_secs_f64(),
            bare.as_secs_f64() / kept.as_secs_f64() * 100.0,
            appending.as_nanos() as f64 / records as f64,
        );
    }
    for records in [10_000, records] {
        let path = folder.path().join(format!("ask-{records}.db"));
        appended(&path, records).await?;
        ask(&path, records).await?;
    }
    Ok(())
}

fn bare(path: &std::path::Path, records: usize) -> Result<Duration, Box<dyn std::error::Error>> {
    let mut connection = connect(path, &Options::default())?;
    let mut time = Duration::ZERO;
    for begin in (0..records).step_by(CHUNK) {
        let chunk: Vec<_> = (begin..records.min(begin + CHUNK)).map(record).collect();
        let began = Instant::now();
        let transaction = connection.transaction()?;
        insert_records(&transaction, &chunk)?;
        transaction.commit()?;
        time += began.elapsed();
    }
    Ok(time)
}

/// The time until all records were kept, and the time spent in `append`.
async fn appended(
    path: &std::path::Path,
    records: usize,
) -> Result<(Duration, Duration), windlass::Error> {
    let store = SqliteStore::open(path)?;
    let began = Instant::now();
    let mut appending = Duration::ZERO;
    for number in 0..records {
        if !store.keeps_up() {
            store.caught_up().await;
        }
        let record = record(number);
        let begin = Instant::now();
        store.append(record);
        appending += begin.elapsed();
    }
    store.flush().await?;
    Ok((began.elapsed(), appending))
}

async fn ask(path: &std::path::Path, records: usize) -> Result<(), windlass::Error> {
    let store = SqliteStore::open(path)?;
    let tenant = TenantId::default();
    let page = PageRequest::first(50);
    let conversation = "conversation-0007".to_owned();
    let filter = RecordFilter { conversation: Some(conversation.clone()), ..Default::default() };
    let rare = RecordFilter { status: Some(Status::TimedOut), ..Default::default() };
    for round in ["first", "again"] {
        let began = Instant::now();
        store.statistics(&tenant).await?;
        let statistics = began.elapsed();
        store.query(&tenant, &filter, page).await?;
        let of_conversation = began.elapsed() - statistics;
        store.query(&tenant, &rare, page).await?;
        let of_status = began.elapsed() - statistics - of_conversation;
        let begin = Instant::now();
        store.summary(&tenant, &conversation).await?;
        println!(
            "{records} records, {round}: statistics {statistics:?}, page of a conversation {of_conversation:?}, of a status {of_status:?}, summary {:?}",
            begin.elapsed()
        );
    }
    Ok(())
}

/// About 500 bytes, as a record of a small tool is.
fn record(number: usize) -> CallRecord {
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let created_at = Timestamp::UNIX_EPOCH
        + SignedDuration::from_micros(1_760_000_000_000_000 + number as i64 * 50);
    let failed = spread.is_multiple_of(50);
    let error = || RecordedError {
        kind: ErrorKind::Network,
        message: "no route to host".into(),
        feedback: None,
    };
    CallRecord {
        id: CallId::at(created_at),
        call_ref: Some(format!("toolu_{spread:024x}").into()),
        tool_name: format!("tool_{}", spread % 20).into(),
        arguments: Arc::new(json!({
            "query": "weather in Berlin tomorrow",
            "limit": 10,
            "number": number,
            "filters": {"lang": "de", "safe": true},
        })),
        result: (!failed).then(|| {
            Arc::new(Output::text(
                "Berlin: 21 degrees, light rain in the afternoon, wind from the west with gusts of up to 40 km/h; sunset at 20:41.",
            ))
        }),
        status: if failed { Status::Failed } else { Status::Succeeded },
        error: failed.then(error),
        caller: Arc::new(Caller {
            caller_id: Some(format!("agent-{}", spread % 100).into()),
            caller_type: CallerType::ConversationAgent,
            conversation: (!spread.is_multiple_of(4))
                .then(|| format!("conversation-{:04}", number / 2000 * 50 + spread % 50).into()),
            ..Caller::default()
        }),
        attempts: 1,
        queue_wait: Duration::from_micros(12),
        run_time: Duration::from_micros((spread % 50_000) as u64),
        created_at,
        details: None,
    }
}
