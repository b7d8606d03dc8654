//! How fast records are kept, next to bare inserts into the same table, and
//! how long questions take then.
//!
//! `cargo run --release -p windlass-store --example append_rate -- 1000000`

mod common;

use std::time::{Duration, Instant};

use common::record;
use windlass::{PageRequest, RecordFilter, RecordStore, Status, TenantId};
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
