//! Outages of SQLite: another process holds the lock.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use tokio::time::{sleep, timeout};
use windlass::{CallId, ErrorKind, PageRequest, RecordStore, TenantId};
use windlass_store::{Options, SqliteStore};

use crate::sample::{any, call, start};

fn tenant() -> TenantId {
    TenantId::default()
}

/// A store with little patience and a short queue.
pub(crate) fn open(path: &Path) -> SqliteStore {
    let options =
        Options { queue: 8, busy_timeout: Duration::from_millis(20), ..Options::default() };
    SqliteStore::open_with(path, options).unwrap()
}

pub(crate) fn lock(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(5)).unwrap();
    connection.execute_batch("BEGIN EXCLUSIVE").unwrap();
    connection
}

#[tokio::test]
async fn records_survive_an_outage_and_appear_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let store = open(&path);
    let lock = lock(&path);
    let records: Vec<_> = (0..6).map(call).collect();
    for record in &records[..3] {
        store.append(record.clone());
    }
    let error = store.flush().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageUnavailable);
    assert!(error.message().contains("is locked by another process"), "{error}");
    for record in &records[3..] {
        store.append(record.clone());
    }
    // Beyond several attempts of the writer.
    sleep(Duration::from_millis(300)).await;
    assert!(store.get(&tenant(), records[0].id).await.is_err(), "not kept, so not known");
    let error = store.keep_output(&tenant(), CallId::at(start()), vec![1]).await.unwrap_err();
    assert!(error.message().contains("is locked by another process"), "{error}");

    lock.execute_batch("COMMIT").unwrap();
    timeout(Duration::from_secs(5), store.flush()).await.unwrap().unwrap();
    let page = store.query(&tenant(), &any(), PageRequest::first(100)).await.unwrap();
    let found: Vec<_> = page.records.iter().rev().map(|record| record.id).collect();
    assert_eq!(found, records.iter().map(|record| record.id).collect::<Vec<_>>());
    assert_eq!(store.statistics(&tenant()).await.unwrap().total.calls, 6);
}

#[tokio::test]
async fn a_full_queue_holds_back_until_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let store = open(&path);
    let lock = lock(&path);
    (0..7).for_each(|second| store.append(call(second)));
    assert!(store.keeps_up());
    timeout(Duration::from_millis(100), store.caught_up()).await.unwrap();
    store.append(call(7));
    assert!(!store.keeps_up());
    // It takes more all the same: calls that run already must be recorded.
    store.append(call(8));
    let mut waiting = store.caught_up();
    timeout(Duration::from_millis(200), &mut waiting).await.unwrap_err();

    lock.execute_batch("COMMIT").unwrap();
    timeout(Duration::from_secs(5), waiting).await.unwrap();
    assert!(store.keeps_up());
    assert_eq!(store.statistics(&tenant()).await.unwrap().total.calls, 9);
}

#[tokio::test]
async fn an_outage_that_ends_while_the_store_closes_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let options = Options { busy_timeout: Duration::from_secs(5), ..Options::default() };
    let store = SqliteStore::open_with(&path, options).unwrap();
    let lock = lock(&path);
    (0..20).for_each(|second| store.append(call(second)));
    let closing = std::thread::spawn(move || drop(store));
    sleep(Duration::from_millis(100)).await;
    assert!(!closing.is_finished());
    lock.execute_batch("COMMIT").unwrap();
    closing.join().unwrap();
    assert_eq!(open(&path).statistics(&tenant()).await.unwrap().total.calls, 20);
}
