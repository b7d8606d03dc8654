//! Intents in the file: stored before a call runs, deleted with its record.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::time::{sleep, timeout};
use windlass::{Begun, ErrorKind, PageRequest, RecordStore, TenantId};
use windlass_store::{Options, SqliteStore, Synchronous};

use crate::contract_intents::{ask_and_leave, intent_of, keyed, together};
use crate::outage::{lock, open};
use crate::sample::{any, by, call, detailed};

fn tenant() -> TenantId {
    TenantId::default()
}

/// How many rows a table has, for somebody else.
pub(crate) fn count(path: &Path, table: &str) -> u32 {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(5)).unwrap();
    connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn an_intent_is_in_the_file_until_the_record_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let store = SqliteStore::open(&path).unwrap();
    assert!(store.keeps_intents());
    let (first, second) = (by(detailed(), call(1)), call(2));
    store.begin(intent_of(&first)).await.unwrap();
    store.begin(keyed("k", 1, intent_of(&second))).await.unwrap();
    // One that is refused is not kept.
    store.begin(keyed("k", 1, intent_of(&call(3)))).await.unwrap();
    assert_eq!((count(&path, "intents"), count(&path, "calls")), (2, 0));
    store.append(call(4));
    store.append(first);
    store.flush().await.unwrap();
    assert_eq!((count(&path, "intents"), count(&path, "calls")), (1, 2));
    store.append(second);
    store.flush().await.unwrap();
    assert_eq!((count(&path, "intents"), count(&path, "calls")), (0, 3));
}

#[tokio::test]
async fn whoever_leaves_early_leaves_no_intent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let store = SqliteStore::open(&path).unwrap();
    for second in 0..200 {
        let record = call(second);
        ask_and_leave(store.begin(intent_of(&record))).await;
        if second % 2 == 0 {
            // Now and then the writer is quicker.
            tokio::task::yield_now().await;
            std::thread::sleep(Duration::from_micros(second as u64 * 5));
        }
        store.append(record);
    }
    store.flush().await.unwrap();
    assert_eq!((count(&path, "intents"), count(&path, "calls")), (0, 200));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_durable_calls_share_their_commits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    // Nobody who waits is kept waiting for others to come.
    let options = Options {
        synchronous: Synchronous::Full,
        commit_interval: Duration::from_secs(3600),
        ..Options::default()
    };
    let store = Arc::new(SqliteStore::open_with(&path, options).unwrap());
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for second in 0..20 {
                    let record = call(second);
                    assert_eq!(store.begin(intent_of(&record)).await.unwrap(), Begun::New);
                    store.append(record);
                    store.flush().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        timeout(Duration::from_secs(60), task).await.unwrap().unwrap();
    }
    assert_eq!((count(&path, "intents"), count(&path, "calls")), (0, 1280));
    assert_eq!(store.statistics(&tenant()).await.unwrap().total.calls, 1280);
}

#[tokio::test]
async fn a_call_cannot_begin_while_the_database_is_locked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let store = open(&path);
    let before = call(0);
    store.append(before.clone());
    store.flush().await.unwrap();

    let locked = lock(&path);
    for second in 1..4 {
        let error = store.begin(keyed("k", 1, intent_of(&call(second)))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageUnavailable);
        assert!(error.message().contains("is locked by another process"), "{error}");
    }
    assert!(store.get(&tenant(), before.id).await.unwrap().is_some(), "reads are answered");
    locked.execute_batch("COMMIT").unwrap();

    // The first one after it, without waiting for the writer's next attempt.
    assert_eq!(store.begin(keyed("k", 1, intent_of(&call(4)))).await.unwrap(), Begun::New);
    assert_eq!((count(&path, "intents"), count(&path, "keys")), (1, 1));
}

#[tokio::test]
async fn a_begin_ends_an_outage_at_once_and_takes_the_records_along() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let store = open(&path);
    let locked = lock(&path);
    store.append(call(1));
    store.flush().await.unwrap_err();
    // Until the writer pauses for as long as it ever does.
    sleep(Duration::from_secs(4)).await;
    store.begin(intent_of(&call(2))).await.unwrap_err();
    locked.execute_batch("COMMIT").unwrap();
    let began = Instant::now();
    assert_eq!(store.begin(intent_of(&call(3))).await.unwrap(), Begun::New);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!((count(&path, "intents"), count(&path, "calls")), (1, 1));
}

#[tokio::test]
async fn no_more_calls_wait_to_begin_than_may() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let options = Options { queue: 8, ..Options::default() };
    let store = SqliteStore::open_with(&path, options).unwrap();
    let locked = lock(&path);
    let release = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        locked.execute_batch("COMMIT").unwrap();
    });
    let begins = (0..30).map(|second| store.begin(intent_of(&call(second)))).collect();
    let (kept, refused): (Vec<_>, Vec<_>) =
        together(begins).await.into_iter().partition(Result::is_ok);
    release.join().unwrap();
    // Those that the writer had taken before, and those that waited.
    assert!((8..=16).contains(&kept.len()), "{}", kept.len());
    for error in refused.into_iter().map(Result::unwrap_err) {
        assert_eq!(error.kind(), ErrorKind::StorageUnavailable);
        assert!(error.message().starts_with("8 calls wait for the record store"), "{error}");
    }
    assert_eq!(count(&path, "intents"), kept.len() as u32);
}

#[tokio::test]
async fn a_store_that_cannot_write_closes_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let options = Options {
        busy_timeout: Duration::from_secs(60),
        close_timeout: Duration::from_millis(500),
        ..Options::default()
    };
    let store = SqliteStore::open_with(&path, options).unwrap();
    let record = call(1);
    store.begin(intent_of(&record)).await.unwrap();
    let locked = lock(&path);
    store.append(record.clone());
    let began = Instant::now();
    tokio::task::spawn_blocking(move || drop(store)).await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(450), "it gave up early");
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    locked.execute_batch("COMMIT").unwrap();

    // Its record is lost, but not the call.
    let store = SqliteStore::open(&path).unwrap();
    let page = store.query(&tenant(), &any(), PageRequest::first(10)).await.unwrap();
    assert_eq!(page.records.len(), 1);
    assert_eq!(page.records[0].id, record.id);
    assert_eq!(page.records[0].status, windlass::Status::Interrupted);
}
