//! Owners: processes that die in the middle of a call.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::time::sleep;
use windlass::{Begun, CallId, IdempotencyKey, Intent, RecordStore, Status, TenantId};
use windlass_store::{PostgresOptions, PostgresStore};

use crate::postgres::{Database, eventually, intent};
use crate::sample::call;

/// Set in the process that is going to be killed.
const URL: &str = "WINDLASS_TEST_POSTGRES_VICTIM";
const CALLS: usize = 1200;

fn tenant() -> TenantId {
    TenantId::default()
}

/// The test runs itself as the process that it kills.
#[tokio::test]
async fn a_killed_process_leaves_interrupted_calls() {
    if let Ok(url) = std::env::var(URL) {
        return begin_until_killed(&url).await;
    }
    let database = Database::new().await;

    // Nobody else is there: the next start closes them.
    let begun = begin_and_kill(&database.url());
    let start = Instant::now();
    let store = database.store().await;
    closed(&store, &begun).await;
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());

    // Somebody else is there, and there is no next start.
    let begun = begin_and_kill(&database.url());
    let start = Instant::now();
    closed(&store, &begun).await;
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());

    assert_eq!(store.statistics(&tenant()).await.unwrap().total.calls, 2 * CALLS as u64);
    let raw = database.raw().await;
    let row = raw.query_one("SELECT count(*) FROM windlass.owners", &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 1);
}

/// Every call is handed out once, and has a record that says so.
async fn closed(store: &PostgresStore, begun: &[CallId]) {
    let mut handed_out = Vec::new();
    let all = async || {
        handed_out.extend(store.take_interrupted().into_iter().map(|record| record.id));
        handed_out.len() >= begun.len()
    };
    assert!(eventually(10, all).await, "{} of {}", handed_out.len(), begun.len());
    handed_out.sort();
    assert_eq!(handed_out, begun);
    let record = store.get(&tenant(), begun[0]).await.unwrap().unwrap();
    assert_eq!(record.status, Status::Interrupted);
    assert!(record.idempotency_key().unwrap().starts_with("key-"));
}

async fn begin_until_killed(url: &str) {
    let store = PostgresStore::connect(url, PostgresOptions::default()).await.unwrap();
    for n in 0..CALLS {
        let call = call(n as i64);
        let key = format!("key-{}-{n}", std::process::id()).into();
        let key = Some(IdempotencyKey { key, fingerprint: [0; 32] });
        let begun = store.begin(Intent { key, ..intent(&call) }).await.unwrap();
        assert_eq!(begun, Begun::New);
        writeln!(std::io::stdout().lock(), "begun {}", call.id).unwrap();
    }
    sleep(Duration::from_secs(600)).await;
}

fn begin_and_kill(url: &str) -> Vec<CallId> {
    let mut child: Child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "postgres_owners::a_killed_process_leaves_interrupted_calls"])
        .arg("--nocapture")
        .env(URL, url)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut begun: Vec<CallId> =
        lines.filter_map(|line| line.strip_prefix("begun ")?.parse().ok()).take(CALLS).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    begun.sort();
    assert_eq!(begun.len(), CALLS);
    begun
}

/// The locks and the connections of a store go, as in a failure of the
/// network, but not the store.
async fn cut(database: &Database) {
    let raw = database.raw().await;
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    raw.query(sql, &[]).await.unwrap();
}

#[tokio::test]
async fn a_lost_connection_costs_no_call() {
    let database = Database::new().await;
    let store = database.store().await;
    let record = call(1);
    store.begin(intent(&record)).await.unwrap();
    for _ in 0..3 {
        cut(&database).await;
        let witness = database.store().await;
        sleep(Duration::from_millis(300)).await;
        assert!(witness.take_interrupted().is_empty());
        assert!(witness.get(&tenant(), record.id).await.unwrap().is_none());
    }
    // It has a new connection, and holds its lock again.
    let witness = database.store().await;
    sleep(Duration::from_secs(4)).await;
    assert!(witness.take_interrupted().is_empty());
    store.append(record.clone());
    assert!(store.get(&tenant(), record.id).await.unwrap().unwrap().is_success());
}

#[tokio::test]
async fn a_call_that_ends_after_all_replaces_its_interruption() {
    let database = Database::new().await;
    let store = database.store().await;
    let record = call(1);
    store.begin(intent(&record)).await.unwrap();
    // Taken for dead: what a process looks like that was stopped for long.
    let raw = database.raw().await;
    let closed = async || {
        raw.batch_execute("UPDATE windlass.owners SET seen_at = '-infinity'").await.unwrap();
        cut(&database).await;
        let witness = database.store().await;
        !witness.take_interrupted().is_empty()
    };
    // The store may be back before the witness looks.
    assert!(eventually(20, closed).await);
    let found = store.get(&tenant(), record.id).await.unwrap().unwrap();
    assert_eq!(found.status, Status::Interrupted);

    store.append(record.clone());
    let found = store.get(&tenant(), record.id).await.unwrap().unwrap();
    assert_eq!(format!("{found:?}"), format!("{record:?}"));
    let statistics = store.statistics(&tenant()).await.unwrap();
    assert_eq!(statistics.total.by_status, [(Status::Succeeded, 1)].into());
    // And it begins calls as before.
    assert_eq!(store.begin(intent(&call(2))).await.unwrap(), Begun::New);
}

#[tokio::test]
async fn others_see_who_lives_and_leave_its_calls_alone() {
    let database = Database::new().await;
    let (first, second) = (database.store().await, database.store().await);
    let name = first.owner().await.unwrap().unwrap();
    assert!(!first.is_gone(&name).await.unwrap() && !second.is_gone(&name).await.unwrap());
    let (record, other) = (call(1), call(2));
    assert_eq!(first.begin(intent(&record)).await.unwrap(), Begun::New);
    let (twin, new) = tokio::join!(second.begin(intent(&record)), second.begin(intent(&other)));
    assert_eq!((twin.unwrap(), new.unwrap()), (Begun::Duplicate(record.id), Begun::New));
    assert!(second.get(&tenant(), record.id).await.unwrap().is_none(), "it still runs");

    // Closed in the middle of the call: whoever wants to run it hears what it came to.
    first.close().await.unwrap();
    assert!(eventually(10, async || second.is_gone(&name).await.unwrap()).await);
    assert_eq!(second.begin(intent(&record)).await.unwrap(), Begun::Duplicate(record.id));
    let closed = second.get(&tenant(), record.id).await.unwrap().unwrap();
    assert_eq!(closed.status, Status::Interrupted);
}
