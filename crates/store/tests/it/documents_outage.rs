//! Document stores during outages, and what only a file or only a server does.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::sleep;
use windlass::{ErrorKind, RecordStore, TenantId};
use windlass_store::{
    Documents, EventFilter, Expect, NewEvent, Options, PostgresDocuments, PostgresOptions, Put,
    SqliteDocuments, SqliteStore,
};

use crate::documents_place::next;
use crate::outage::lock;
use crate::postgres::{Database, eventually};
use crate::postgres_outage::server;
use crate::sample::call;

fn tenant() -> TenantId {
    TenantId::default()
}

fn put(id: &str) -> Put {
    Put::new("keys", tenant(), id, json!(1))
}

fn event() -> NewEvent {
    NewEvent {
        tenant: tenant(),
        conversation: None,
        batch: None,
        name: "started".to_owned(),
        body: json!(null),
    }
}

fn impatient(path: &Path) -> SqliteDocuments {
    let options = Options { busy_timeout: Duration::from_millis(20), ..Options::default() };
    SqliteDocuments::open_with(path, options).unwrap()
}

async fn connect(database: &Database) -> PostgresDocuments {
    let url = database.url().parse().unwrap();
    PostgresDocuments::connect_to(&url, PostgresOptions::default()).await.unwrap()
}

#[tokio::test]
async fn a_locked_file_is_refused_and_recovered_from() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let documents = impatient(&path);
    documents.put(put("a"), Expect::Absent).await.unwrap();
    let lock = lock(&path);
    for error in [
        documents.put(put("b"), Expect::Absent).await.unwrap_err(),
        documents.delete("keys", &tenant(), "a", Expect::Anything).await.unwrap_err(),
        documents.append_events(vec![event()]).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::StorageUnavailable);
        assert!(error.message().contains("is locked by another process"), "{error}");
    }
    assert!(documents.get("keys", &tenant(), "a").await.unwrap().is_some());
    lock.execute_batch("COMMIT").unwrap();
    assert_eq!(documents.put(put("b"), Expect::Absent).await.unwrap(), Some(1));
    documents.append_events(vec![event()]).await.unwrap();
    assert_eq!(documents.events(0, EventFilter::default(), 9).await.unwrap().len(), 1);
}

/// Records are written all the time; those who listen for changes of documents
/// hear nothing of it.
#[tokio::test]
async fn records_beside_documents_are_no_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let (store, documents) = (SqliteStore::open(&path).unwrap(), impatient(&path));
    let mut changes = documents.changes();
    for second in 0..10 {
        store.append(call(second));
        store.flush().await.unwrap();
        sleep(Duration::from_millis(50)).await;
    }
    assert!(changes.try_recv().is_err());
    let other = impatient(&path);
    other.put(put("a"), Expect::Absent).await.unwrap();
    assert_eq!(next(&mut changes).await.id, "a");
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_recover_when_the_server_is_back() {
    let (mut cluster, database) = server().await;
    let (documents, other) = (connect(&database).await, connect(&database).await);
    documents.put(put("a"), Expect::Absent).await.unwrap();
    documents.append_events(vec![event()]).await.unwrap();
    for (round, mode) in ["fast", "immediate"].into_iter().enumerate() {
        let mut changes = other.changes();
        cluster.stop(mode).unwrap();
        let asked = Instant::now();
        for error in [
            documents.put(put("b"), Expect::Anything).await.unwrap_err(),
            documents.delete("keys", &tenant(), "a", Expect::Version(9)).await.unwrap_err(),
            documents.append_events(vec![event()]).await.unwrap_err(),
            documents.get("keys", &tenant(), "a").await.unwrap_err(),
            documents.event_range().await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::StorageUnavailable);
            assert!(error.message().contains("127.0.0.1:"), "{error}");
        }
        assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
        sleep(Duration::from_millis(1500)).await;

        cluster.resume().unwrap();
        let back = async || documents.put(put("a"), Expect::Anything).await.is_ok();
        assert!(eventually(10, back).await, "documents did not recover");
        // Whoever listens is told that something may have been missed, after what was
        // still on its way.
        while !next(&mut changes).await.space.is_empty() {}
        documents.put(put(&format!("new-{round}")), Expect::Absent).await.unwrap();
        while next(&mut changes).await.id != format!("new-{round}") {}
        let mut new_events = other.new_events();
        documents.append_events(vec![event()]).await.unwrap();
        let (_, newest) = other.event_range().await.unwrap();
        let heard = new_events.wait_for(|heard| *heard >= newest);
        tokio::time::timeout(Duration::from_secs(5), heard).await.unwrap().unwrap();
    }
    assert!(documents.get("keys", &tenant(), "a").await.unwrap().is_some());
}

/// Connections that the server ends, as an administrator does.
#[tokio::test]
async fn lost_connections_are_made_again() {
    let database = Database::new().await;
    let (documents, other) = (connect(&database).await, connect(&database).await);
    let mut changes = other.changes();
    documents.put(put("a"), Expect::Absent).await.unwrap();
    assert_eq!(next(&mut changes).await.id, "a");
    let raw = database.raw().await;
    raw.batch_execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    .await
    .unwrap();
    assert_eq!(next(&mut changes).await.space, "");
    let back = async || documents.get("keys", &tenant(), "a").await.is_ok();
    assert!(eventually(5, back).await);
    let back = async || documents.put(put("b"), Expect::Anything).await.is_ok();
    assert!(eventually(5, back).await);
    while next(&mut changes).await.id != "b" {}
}

/// The runtime that made them may end; connections live on their own.
#[test]
fn documents_outlive_the_runtime_that_made_them() {
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let database = runtime().block_on(Database::new());
    let documents = runtime().block_on(connect(&database));
    let version = runtime().block_on(documents.put(put("a"), Expect::Absent)).unwrap();
    assert_eq!(version, Some(1));
    assert!(runtime().block_on(documents.get("keys", &tenant(), "a")).unwrap().is_some());
}

/// Whoever is given a position first is committed first.
#[tokio::test]
async fn positions_wait_for_those_before_them() {
    let database = Database::new().await;
    let documents = connect(&database).await;
    let slow = database.raw().await;
    slow.batch_execute(
        "BEGIN; UPDATE windlass.totals SET value = value + 1 WHERE name = 'events';
         INSERT INTO windlass.events (position, tenant, name, body)
         SELECT value, 'slow', 'slow', 'null' FROM windlass.totals WHERE name = 'events'",
    )
    .await
    .unwrap();
    let mut append = documents.append_events(vec![event()]);
    tokio::time::timeout(Duration::from_millis(300), &mut append).await.unwrap_err();
    assert_eq!(documents.event_range().await.unwrap(), (0, 0));
    slow.batch_execute("COMMIT").await.unwrap();
    append.await.unwrap();
    let kept = documents.events(0, EventFilter::default(), 9).await.unwrap();
    let names: Vec<_> = kept.iter().map(|kept| (kept.position, &*kept.event.name)).collect();
    assert_eq!(names, [(1, "slow"), (2, "started")]);
}

/// A change whose maker stopped waiting is made and heard of all the same.
#[tokio::test]
async fn a_change_outlives_its_caller() {
    let database = Database::new().await;
    let documents = connect(&database).await;
    documents.put(put("a"), Expect::Absent).await.unwrap();
    let raw = database.raw().await;
    raw.batch_execute("BEGIN; LOCK windlass.documents IN EXCLUSIVE MODE").await.unwrap();
    let mut changes = documents.changes();
    let given = documents.put(put("a"), Expect::Version(1));
    tokio::time::timeout(Duration::from_millis(300), given).await.unwrap_err();
    raw.batch_execute("COMMIT").await.unwrap();
    assert_eq!(next(&mut changes).await.id, "a");
    let found = documents.get("keys", &tenant(), "a").await.unwrap().unwrap();
    assert_eq!(found.version, 2);
}
