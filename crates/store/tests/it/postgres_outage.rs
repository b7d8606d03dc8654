//! Outages of the PostgreSQL server.

use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};
use windlass::{Begun, CallId, ErrorKind, PageRequest, RecordStore, TenantId};
use windlass_store::{PostgresOptions, PostgresStore};

use crate::postgres::cluster::{self, Cluster};
use crate::postgres::{Database, eventually, intent};
use crate::sample::{any, call, start};

fn tenant() -> TenantId {
    TenantId::default()
}

/// A server that the test may stop.
pub(crate) async fn server() -> (Cluster, Database) {
    let programs = cluster::programs().expect("run `cargo xtask test`, which installs PostgreSQL");
    let cluster = Cluster::start(&programs).unwrap();
    let database = Database::on(cluster.url()).await;
    (cluster, database)
}

fn short_queue() -> PostgresOptions {
    PostgresOptions { queue: 8, ..PostgresOptions::default() }
}

async fn recovers(store: &PostgresStore) {
    let back = async || matches!(store.begin(intent(&call(99))).await, Ok(Begun::New));
    assert!(eventually(10, back).await, "the store did not recover");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_recovers_when_the_server_is_back() {
    let (mut cluster, database) = server().await;
    let store = database.store_with(short_queue()).await;
    let records: Vec<_> = (0..9).map(call).collect();
    store.begin(intent(&records[0])).await.unwrap();
    store.append(records[1].clone());
    store.flush().await.unwrap();

    for mode in ["fast", "immediate"] {
        cluster.stop(mode).unwrap();
        // A call that runs while the server goes away is recorded.
        store.append(records[0].clone());
        let error = store.flush().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageUnavailable);
        assert!(error.message().contains("cannot be reached"), "{error}");
        assert!(error.message().contains("127.0.0.1:"), "{error}");
        // New side effects are refused at once.
        let asked = Instant::now();
        let error = store.begin(intent(&records[2])).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageUnavailable);
        assert!(asked.elapsed() < Duration::from_millis(500), "{:?}", asked.elapsed());
        let tenant = tenant();
        assert!(store.get(&tenant, records[1].id).await.is_err());
        assert!(store.read_output(&tenant, records[1].id, 0, 1).await.is_err());
        let kept = store.keep_output(&tenant, CallId::at(start()), vec![1]);
        assert!(timeout(Duration::from_secs(10), kept).await.unwrap().is_err());
        sleep(Duration::from_millis(300)).await;

        cluster.resume().unwrap();
        recovers(&store).await;
        timeout(Duration::from_secs(5), store.flush()).await.unwrap().unwrap();
        assert!(store.get(&tenant, records[0].id).await.unwrap().is_some());
    }

    // The queue is bounded, and takes more all the same.
    cluster.stop("fast").unwrap();
    records[2..].iter().for_each(|record| store.append(record.clone()));
    assert!(store.keeps_up());
    store.append(call(20));
    store.append(call(21));
    assert!(!store.keeps_up());
    let mut waiting = store.caught_up();
    timeout(Duration::from_millis(200), &mut waiting).await.unwrap_err();
    cluster.resume().unwrap();
    timeout(Duration::from_secs(10), waiting).await.unwrap();
    let page = store.query(&tenant(), &any(), PageRequest::first(100)).await.unwrap();
    assert_eq!(page.records.len(), 11);
    assert_eq!(store.statistics(&tenant()).await.unwrap().total.calls, 11);
}

/// Kills the server again and again under load: what was acknowledged is
/// there, once.
#[tokio::test(flavor = "multi_thread")]
async fn commits_of_unknown_outcome_are_done_once() {
    let (mut cluster, database) = server().await;
    let store = std::sync::Arc::new(database.store().await);
    let load = {
        let store = std::sync::Arc::clone(&store);
        tokio::spawn(async move {
            let mut begun = Vec::new();
            let give_up = Instant::now() + Duration::from_secs(6);
            let mut second = 0;
            while Instant::now() < give_up {
                second += 1;
                let record = call(second);
                match store.begin(intent(&record)).await {
                    Ok(_) => {
                        begun.push(record.id);
                        store.append(record);
                    }
                    Err(_) => sleep(Duration::from_millis(20)).await,
                }
            }
            begun
        })
    };
    for _ in 0..3 {
        sleep(Duration::from_millis(700)).await;
        cluster.stop("immediate").unwrap();
        cluster.resume().unwrap();
    }
    let mut begun = load.await.unwrap();
    assert!(eventually(10, async || store.flush().await.is_ok()).await);
    let total = store.statistics(&tenant()).await.unwrap().total;
    assert_eq!((total.calls, total.successful), (begun.len() as u64, begun.len() as u64));
    let raw = database.raw().await;
    let rows = raw.query("SELECT id::text FROM windlass.calls ORDER BY id", &[]).await.unwrap();
    let mut found: Vec<CallId> =
        rows.iter().map(|row| row.get::<_, String>(0).parse().unwrap()).collect();
    found.sort();
    begun.sort();
    assert!(begun.len() > 100, "{} calls", begun.len());
    assert_eq!(found, begun);
    let row = raw.query_one("SELECT value FROM windlass.totals WHERE name = 'calls'", &[]).await;
    assert_eq!(row.unwrap().get::<_, i64>(0), begun.len() as i64);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_closes_without_its_server_ends() {
    let (mut cluster, database) = server().await;
    let store = database.store().await;
    cluster.stop("fast").unwrap();
    store.append(call(1));
    let closing = timeout(Duration::from_secs(10), store.close()).await.unwrap();
    assert_eq!(closing.unwrap_err().kind(), ErrorKind::StorageUnavailable);
}

/// Nothing can be written, but everything can be read: as when the disk is
/// full.
#[tokio::test]
async fn a_database_that_takes_no_more_is_still_read() {
    let database = Database::new().await;
    let store = database.store().await;
    let record = call(1);
    store.append(record.clone());
    store.flush().await.unwrap();
    let raw = database.raw().await;
    raw.batch_execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END $$;
         CREATE TRIGGER full_disk BEFORE INSERT ON windlass.intents
         FOR EACH STATEMENT EXECUTE FUNCTION refuse();",
    )
    .await
    .unwrap();
    let error = store.begin(intent(&call(2))).await.unwrap_err();
    assert!(error.message().contains("is full; free some space"), "{error}");
    assert!(store.get(&tenant(), record.id).await.unwrap().is_some());
    raw.batch_execute("DROP TRIGGER full_disk ON windlass.intents").await.unwrap();
    recovers(&store).await;
}
