//! How fast records are kept in PostgreSQL, how long an intent takes, and how
//! long questions take then.
//!
//! `cargo xtask with-postgres cargo run --release -p windlass-store --example postgres_rate -- 1000000`

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::record;
use windlass::{
    CallRecord, Error, Intent, PageRequest, RecordFilter, RecordStore, Status, TenantId,
};
use windlass_store::{PostgresOptions, PostgresStore};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("WINDLASS_TEST_POSTGRES")
        .map_err(|_| "run it by `cargo xtask with-postgres`")?;
    let records = std::env::args().nth(1).map_or(Ok(1_000_000), |count| count.parse())?;
    let store = Arc::new(PostgresStore::connect(&url, PostgresOptions::default()).await?);
    let mut kept = 0;
    for wanted in [10_000.min(records), records] {
        let began = Instant::now();
        for number in kept..wanted {
            if !store.keeps_up() {
                store.caught_up().await;
            }
            store.append(record(number));
        }
        store.flush().await?;
        let rate = (wanted - kept) as f64 / began.elapsed().as_secs_f64();
        println!("append to {wanted} records: {rate:.0} rows/s");
        kept = wanted;
        ask(&store).await?;
    }
    for callers in [1, 64] {
        begin(&store, callers).await?;
    }
    Ok(())
}

/// The median time of each question.
async fn ask(store: &PostgresStore) -> Result<(), Error> {
    let tenant = TenantId::default();
    let page = PageRequest::first(50);
    let conversation = "conversation-0007".to_owned();
    let of_conversation =
        RecordFilter { conversation: Some(conversation.clone()), ..RecordFilter::default() };
    let of_status = RecordFilter { status: Some(Status::TimedOut), ..RecordFilter::default() };
    let mut times = [const { Vec::new() }; 5];
    for _ in 0..21 {
        let began = Instant::now();
        store.statistics(&tenant).await?;
        times[0].push(began.elapsed());
        for (at, filter) in
            [RecordFilter::default(), of_conversation.clone(), of_status.clone()].iter().enumerate()
        {
            let began = Instant::now();
            store.query(&tenant, filter, page).await?;
            times[at + 1].push(began.elapsed());
        }
        let began = Instant::now();
        store.summary(&tenant, &conversation).await?;
        times[4].push(began.elapsed());
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort();
        times[times.len() / 2]
    };
    let [statistics, newest, conversation, status, summary] = times.each_mut().map(median);
    println!(
        "statistics {statistics:?}; page: newest {newest:?}, of a conversation {conversation:?}, of a rare status {status:?}; summary {summary:?}"
    );
    Ok(())
}

/// Calls that wait for their intent and for their record.
async fn begin(store: &Arc<PostgresStore>, callers: usize) -> Result<(), Error> {
    const CALLS: usize = 200;
    let began = Instant::now();
    let callers: Vec<_> = (0..callers)
        .map(|caller| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                let mut times = Vec::new();
                for number in 0..CALLS {
                    let record = record(caller * CALLS + number);
                    let began = Instant::now();
                    store.begin(intent(&record)).await?;
                    store.append(record);
                    store.flush().await?;
                    times.push(began.elapsed());
                }
                Ok::<_, Error>(times)
            })
        })
        .collect();
    let mut times = Vec::new();
    let count = callers.len();
    for caller in callers {
        times.extend(caller.await.map_err(|_| Error::tool("a caller panicked"))??);
    }
    times.sort();
    println!(
        "{count} callers: intent and record in {:?} (median), {:.0} calls/s",
        times[times.len() / 2],
        times.len() as f64 / began.elapsed().as_secs_f64()
    );
    Ok(())
}

fn intent(record: &CallRecord) -> Intent {
    Intent {
        id: record.id,
        call_ref: record.call_ref.clone(),
        tool_name: record.tool_name.clone(),
        arguments: record.arguments.clone(),
        caller: record.caller.clone(),
        created_at: record.created_at,
        key: None,
    }
}
