//! What goes when there is too much of it.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use windlass::{Begun, CallId, CallRecord, PageRequest, RecordStore, TenantId};
use windlass_store::{Options, SqliteStore};

use crate::contract_intents::{intent_of, keyed};
use crate::intents::count;
use crate::sample::{any, by, call, of_tenant};

fn open(path: &Path, keep_records: u64) -> SqliteStore {
    SqliteStore::open_with(path, Options { keep_records, ..Options::default() }).unwrap()
}

/// All ids, oldest first.
fn ids(path: &Path) -> Vec<CallId> {
    let connection = Connection::open(path).unwrap();
    let mut statement = connection.prepare("SELECT id FROM calls ORDER BY id").unwrap();
    let ids = statement.query_map([], |row| row.get(0)).unwrap();
    ids.map(|id| uuid::Uuid::from_bytes(id.unwrap()).into()).collect()
}

fn total(path: &Path) -> u32 {
    let connection = Connection::open(path).unwrap();
    connection.query_row("SELECT records FROM record_total", [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn the_oldest_records_of_all_tenants_go_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let store = open(&path, 100);
    // Tenants take turns, some come late, and some are never heard of again.
    let records: Vec<CallRecord> = (0..450)
        .map(|second| {
            let tenant = match second {
                0..20 => "first".to_owned(),
                300.. => format!("late-{}", second % 4),
                _ => format!("tenant-{}", second % 7),
            };
            by(of_tenant(&tenant), call(second))
        })
        .collect();
    for part in records.chunks(33) {
        part.iter().for_each(|record| store.append(record.clone()));
        store.flush().await.unwrap();
        assert!(count(&path, "calls") <= 100);
    }
    let newest: Vec<_> = records[350..].iter().map(|record| record.id).collect();
    assert_eq!(ids(&path), newest);
    assert_eq!(total(&path), 100);
    // Statistics are of all time.
    let first = store.statistics(&TenantId::new("first")).await.unwrap();
    assert_eq!(first.total.calls, 20);
}

#[tokio::test]
async fn a_lower_limit_is_reached_in_steps() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let store = SqliteStore::open(&path).unwrap();
    (0..3500).for_each(|second| store.append(call(second)));
    drop(store);
    assert_eq!(total(&path), 3500);

    let store = open(&path, 50);
    let mut counts = Vec::new();
    for second in 4000..4005 {
        store.append(call(second));
        store.flush().await.unwrap();
        counts.push(count(&path, "calls"));
    }
    assert_eq!(counts, [2500, 1500, 500, 50, 50]);
    assert_eq!(total(&path), 50);
    // A record that comes twice does not count twice.
    let page = store.query(&TenantId::default(), &any(), PageRequest::first(1)).await.unwrap();
    store.append(page.records[0].clone());
    store.flush().await.unwrap();
    assert_eq!((count(&path, "calls"), total(&path)), (50, 50));
}

#[tokio::test]
async fn keys_and_outputs_go_with_their_records_but_not_those_of_open_calls() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let store = open(&path, 10);
    let tenant = TenantId::default();
    let (open_call, ended) = (call(0), call(1));
    for (key, record) in [("open", &open_call), ("ended", &ended)] {
        store.begin(keyed(key, 1, intent_of(record))).await.unwrap();
        store.keep_output(&tenant, record.id, vec![1; 10]).await.unwrap();
    }
    store.append(ended.clone());
    (2..30).for_each(|second| store.append(call(second)));
    store.flush().await.unwrap();

    assert!(store.read_output(&tenant, ended.id, 0, 1).await.unwrap().is_none());
    assert!(store.read_output(&tenant, open_call.id, 0, 1).await.unwrap().is_some());
    let again = |key| store.begin(keyed(key, 1, intent_of(&call(99))));
    assert_eq!(again("open").await.unwrap(), Begun::Twin(open_call.id));
    assert_eq!(again("ended").await.unwrap(), Begun::New);
    let connection = Connection::open(&path).unwrap();
    let bytes: u32 =
        connection.query_row("SELECT bytes FROM output_total", [], |row| row.get(0)).unwrap();
    assert_eq!(bytes, 10);
}

#[tokio::test]
async fn keys_expire_but_not_while_their_call_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let open = |keep_keys| {
        SqliteStore::open_with(&path, Options { keep_keys, ..Options::default() }).unwrap()
    };
    let patient = open(Duration::from_hours(1));
    let (running, ended) = (call(0), call(1));
    patient.begin(keyed("running", 1, intent_of(&running))).await.unwrap();
    for number in 0..300 {
        let record = call(10 + number);
        patient.begin(keyed(&format!("old-{number}"), 1, intent_of(&record))).await.unwrap();
        patient.append(record);
    }
    patient.begin(keyed("ended", 1, intent_of(&ended))).await.unwrap();
    patient.append(ended.clone());
    patient.flush().await.unwrap();
    let again = keyed("ended", 1, intent_of(&call(2)));
    assert_eq!(patient.begin(again).await.unwrap(), Begun::Twin(ended.id));

    std::thread::sleep(Duration::from_millis(20));
    let hasty = open(Duration::from_millis(10));
    let again = keyed("running", 1, intent_of(&call(2)));
    assert_eq!(hasty.begin(again).await.unwrap(), Begun::Twin(running.id));
    // Free again, although it may not have been cleared away yet.
    let (third, fourth) = (call(3), call(4));
    let again = keyed("ended", 2, intent_of(&third));
    assert_eq!(hasty.begin(again).await.unwrap(), Begun::New);
    let again = keyed("ended", 2, intent_of(&fourth));
    assert_eq!(hasty.begin(again).await.unwrap(), Begun::Twin(third.id));
    // And cleared away in a few steps.
    for number in 0..4 {
        hasty.begin(keyed(&format!("new-{number}"), 1, intent_of(&call(5)))).await.unwrap();
    }
    assert_eq!(count(&path, "keys"), 6, "running, ended, and four new ones");
}

#[tokio::test]
async fn keys_of_runs_are_kept_as_long_as_the_run_can_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let hasty = Options { keep_keys: Duration::from_millis(1), ..Options::default() };
    let store = SqliteStore::open_with(&path, hasty).unwrap();
    let (first, usual) = (call(0), call(1));
    for (key, record) in [("run:0a.1.0", &first), ("usual", &usual)] {
        store.begin(keyed(key, 1, intent_of(record))).await.unwrap();
        store.append(record.clone());
    }
    store.flush().await.unwrap();
    std::thread::sleep(Duration::from_millis(20));
    let again = |key, number| store.begin(keyed(key, 1, intent_of(&call(number))));
    assert_eq!(again("usual", 2).await.unwrap(), Begun::New);
    assert_eq!(again("run:0a.1.0", 3).await.unwrap(), Begun::Twin(first.id));
    // For a week, and no longer.
    let connection = Connection::open(&path).unwrap();
    let week = i64::try_from(windlass_store::KEEP_RUNS.as_micros()).unwrap();
    connection.execute("UPDATE keys SET created_us = created_us - ?", [week + 1_000_000]).unwrap();
    assert_eq!(again("run:0a.1.0", 4).await.unwrap(), Begun::New);
}
