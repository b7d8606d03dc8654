//! Retention: what is deleted when there is too much.

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

/// How many records a tenant has.
fn records_of(path: &Path, tenant: &str) -> u32 {
    let connection = Connection::open(path).unwrap();
    let sql = "SELECT count(*) FROM calls WHERE tenant = ?";
    connection.query_row(sql, [tenant], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn the_tenant_with_the_most_records_gives_up_its_oldest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let store = open(&path, 100);
    let of = |tenant: &str, second| by(of_tenant(tenant), call(second));
    // Quiet tenants come first, and in the middle.
    (0..10).for_each(|second| store.append(of("early", second)));
    let noisy: Vec<CallRecord> = (10..1510).map(|second| of("noisy", second)).collect();
    for (at, part) in noisy.chunks(100).enumerate() {
        part.iter().for_each(|record| store.append(record.clone()));
        store.append(of("regular", 2000 + i64::try_from(at).unwrap()));
        store.flush().await.unwrap();
        assert!(count(&path, "calls") <= 100);
    }
    assert_eq!((records_of(&path, "early"), records_of(&path, "regular")), (10, 15));
    assert_eq!((records_of(&path, "noisy"), total(&path)), (75, 100));
    let kept: Vec<CallId> = noisy[1425..].iter().map(|record| record.id).collect();
    let left: Vec<CallId> = ids(&path).into_iter().filter(|id| kept.contains(id)).collect();
    assert_eq!(left, kept, "the newest of the noisy one");
    // Many equal ones share.
    for second in 3000..4000 {
        store.append(of(&format!("tenant-{}", second % 20), second));
    }
    store.flush().await.unwrap();
    (0..5).for_each(|at| store.append(of("late", 5000 + at)));
    store.flush().await.unwrap();
    assert_eq!((count(&path, "calls"), total(&path)), (100, 100));
    assert_eq!(records_of(&path, "late"), 5);
    // Statistics are of all time.
    let statistics = store.statistics(&TenantId::new("noisy")).await.unwrap();
    assert_eq!(statistics.total.calls, 1500);
}

/// Also for a tenant whose keys are among those of a noisy one.
#[tokio::test]
async fn keys_and_their_records_outlive_any_number_of_calls() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let store = open(&path, 50);
    let of = |tenant: &str, second| by(of_tenant(tenant), call(second));
    let quiet: Vec<CallRecord> = (0..5).map(|second| of("quiet", second)).collect();
    let keyed_noise: Vec<CallRecord> = (10..130).map(|second| of("noisy", second)).collect();
    for (number, record) in quiet.iter().chain(&keyed_noise).enumerate() {
        let intent = keyed(&format!("k-{number}"), 1, intent_of(record));
        assert_eq!(store.begin(intent).await.unwrap(), Begun::New);
        store.append(record.clone());
    }
    for second in 1000..3000 {
        store.append(of("noisy", second));
        if second % 250 == 0 {
            store.flush().await.unwrap();
        }
    }
    store.flush().await.unwrap();
    for (number, first) in quiet.iter().chain(&keyed_noise).enumerate() {
        let tenant = &first.caller.tenant;
        let again = by(of_tenant(tenant.as_str()), call(9000));
        let intent = keyed(&format!("k-{number}"), 1, intent_of(&again));
        assert_eq!(store.begin(intent).await.unwrap(), Begun::Duplicate(first.id), "key {number}");
        assert!(store.get(tenant, first.id).await.unwrap().is_some(), "the result of {number}");
    }
    assert_eq!(records_of(&path, "quiet"), 5);
    assert!(count(&path, "calls") <= 125 + 50, "{}", count(&path, "calls"));
    // Once the keys are too old, their records go like others.
    let connection = Connection::open(&path).unwrap();
    connection.execute("UPDATE keys SET created_us = 0", []).unwrap();
    drop(store);
    let store = open(&path, 50);
    for second in 10_000..10_010 {
        let record = of("noisy", second);
        store.begin(keyed(&format!("n-{second}"), 1, intent_of(&record))).await.unwrap();
        store.append(record);
        store.flush().await.unwrap();
    }
    assert!(count(&path, "calls") <= 60, "{}", count(&path, "calls"));
    assert_eq!(records_of(&path, "quiet"), 5);
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
async fn outputs_go_with_their_records_but_not_those_of_open_calls_or_with_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let store = open(&path, 10);
    let tenant = TenantId::default();
    let (open_call, with_key, without) = (call(0), call(1), call(2));
    store.begin(intent_of(&open_call)).await.unwrap();
    store.begin(keyed("ended", 1, intent_of(&with_key))).await.unwrap();
    for record in [&open_call, &with_key, &without] {
        store.keep_output(&tenant, record.id, vec![1; 10]).await.unwrap();
    }
    store.append(with_key.clone());
    store.append(without.clone());
    (3..30).for_each(|second| store.append(call(second)));
    store.flush().await.unwrap();

    assert!(store.read_output(&tenant, without.id, 0, 1).await.unwrap().is_none());
    assert!(store.read_output(&tenant, open_call.id, 0, 1).await.unwrap().is_some());
    assert!(store.read_output(&tenant, with_key.id, 0, 1).await.unwrap().is_some());
    let again = store.begin(keyed("ended", 1, intent_of(&call(99)))).await.unwrap();
    assert_eq!(again, Begun::Duplicate(with_key.id));
    let connection = Connection::open(&path).unwrap();
    let bytes: u32 =
        connection.query_row("SELECT bytes FROM output_total", [], |row| row.get(0)).unwrap();
    assert_eq!(bytes, 20);
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
    assert_eq!(patient.begin(again).await.unwrap(), Begun::Duplicate(ended.id));

    std::thread::sleep(Duration::from_millis(20));
    let hasty = open(Duration::from_millis(10));
    let again = keyed("running", 1, intent_of(&call(2)));
    assert_eq!(hasty.begin(again).await.unwrap(), Begun::Duplicate(running.id));
    // Free again, although it may not have been cleared away yet.
    let (third, fourth) = (call(3), call(4));
    let again = keyed("ended", 2, intent_of(&third));
    assert_eq!(hasty.begin(again).await.unwrap(), Begun::New);
    let again = keyed("ended", 2, intent_of(&fourth));
    assert_eq!(hasty.begin(again).await.unwrap(), Begun::Duplicate(third.id));
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
    assert_eq!(again("run:0a.1.0", 3).await.unwrap(), Begun::Duplicate(first.id));
    // For a week, and no longer.
    let connection = Connection::open(&path).unwrap();
    let week = i64::try_from(windlass_store::KEEP_RUNS.as_micros()).unwrap();
    connection.execute("UPDATE keys SET created_us = created_us - ?", [week + 1_000_000]).unwrap();
    assert_eq!(again("run:0a.1.0", 4).await.unwrap(), Begun::New);
}
