//! PostgreSQL databases to test with, and what only PostgreSQL does.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio_postgres::{Client, NoTls};
use windlass::{Begun, CallId, CallRecord, Intent, RecordFilter, RecordStore, Status, TenantId};
use windlass_store::{PostgresOptions, PostgresStore};

use crate::contract_intents::keyed;
use crate::sample::{any, by, call, of, of_tenant};

#[path = "../../../../xtask/src/postgres/cluster.rs"]
pub(crate) mod cluster;

/// Where the server is.
pub(crate) fn server() -> String {
    std::env::var("WINDLASS_TEST_POSTGRES").unwrap_or_else(|_| {
        panic!("run `cargo xtask test`, or set WINDLASS_TEST_POSTGRES=postgres://…")
    })
}

/// A database of its own, which goes at the end of its test.
pub(crate) struct Database {
    server: String,
    name: String,
}

impl Database {
    pub(crate) async fn new() -> Self {
        Self::on(server()).await
    }

    /// On a server that the test has started.
    pub(crate) async fn on(server: String) -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("windlass_test_{}_{number}", std::process::id());
        let client = raw(&server).await;
        // A crashed run may have had the same number.
        client.batch_execute(&format!("DROP DATABASE IF EXISTS {name}")).await.unwrap();
        client
            .batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'"))
            .await
            .unwrap();
        Self { server, name }
    }

    pub(crate) fn url(&self) -> String {
        let (server, _) = self.server.rsplit_once('/').unwrap();
        format!("{server}/{}", self.name)
    }

    pub(crate) async fn store(&self) -> PostgresStore {
        self.store_with(PostgresOptions::default()).await
    }

    pub(crate) async fn store_with(&self, options: PostgresOptions) -> PostgresStore {
        PostgresStore::connect(&self.url(), options).await.unwrap()
    }

    /// A connection past the store.
    pub(crate) async fn raw(&self) -> Client {
        raw(&self.url()).await
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        let remove = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let client = connect(&server).await?;
                client.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await?;
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
            })
        };
        // A test may have stopped the server.
        let _ = std::thread::spawn(remove).join();
    }
}

async fn raw(url: &str) -> Client {
    connect(url).await.unwrap()
}

async fn connect(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// What a call says before it runs.
pub(crate) fn intent(record: &CallRecord) -> Intent {
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

/// Waits until something is so.
pub(crate) async fn eventually(seconds: u64, mut is_so: impl AsyncFnMut() -> bool) -> bool {
    let give_up = std::time::Instant::now() + Duration::from_secs(seconds);
    while std::time::Instant::now() < give_up {
        if is_so().await {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    is_so().await
}

async fn ids(store: &PostgresStore, tenant: &TenantId, filter: &RecordFilter) -> Vec<CallId> {
    let page = store.query(tenant, filter, windlass::PageRequest::first(100)).await.unwrap();
    page.records.iter().map(|record| record.id).collect()
}

#[tokio::test]
async fn hostile_text_is_kept_and_found() {
    let database = Database::new().await;
    let store = database.store().await;
    let long = "天\u{0}".repeat(5000);
    let noise: String = (0..20_000_u32).map(|n| char::from(33 + (n * n % 89) as u8)).collect();
    for hostile in [
        "\0",
        "a\0b",
        "\u{1a}0",
        "'; DROP TABLE windlass.calls; --",
        "$1 \\x00 {a,\"b\"}",
        &long,
        &noise,
    ] {
        let caller = windlass::Caller {
            tenant: TenantId::new(hostile),
            user: Some(hostile.into()),
            caller_id: Some(hostile.into()),
            conversation: Some(hostile.into()),
            workflow: Some(hostile.into()),
            ..windlass::Caller::default()
        };
        let mut record = of(hostile, by(caller, call(1)));
        record.call_ref = Some(hostile.into());
        record.error = Some(Box::new(windlass::RecordedError {
            kind: windlass::ErrorKind::ToolError,
            message: hostile.to_owned(),
            feedback: Some(hostile.to_owned()),
        }));
        record.status = Status::Failed;
        assert_eq!(store.begin(intent(&record)).await.unwrap(), Begun::New);
        store.append(record.clone());
        let tenant = TenantId::new(hostile);
        let found = store.get(&tenant, record.id).await.unwrap().unwrap();
        assert_eq!(format!("{found:?}"), format!("{record:?}"));
        let text = Some(hostile.to_owned());
        for filter in [
            RecordFilter { conversation: text.clone(), ..any() },
            RecordFilter { caller_id: text.clone(), ..any() },
            RecordFilter { tool: text.clone(), ..any() },
        ] {
            assert_eq!(ids(&store, &tenant, &filter).await, [record.id]);
        }
        assert_eq!(store.summary(&tenant, hostile).await.unwrap().tool_usage[hostile], 1);
        assert_eq!(store.statistics(&tenant).await.unwrap().total.calls, 1);
        store.keep_output(&tenant, record.id, b"kept".to_vec()).await.unwrap();
        assert!(store.read_output(&tenant, record.id, 0, 9).await.unwrap().is_some());
    }
    // Beginnings alone do not make two names one.
    let tenant = TenantId::new(format!("{noise}."));
    assert_eq!(store.statistics(&tenant).await.unwrap().total.calls, 0);
}

#[tokio::test]
async fn details_and_feedback_come_back() {
    let database = Database::new().await;
    let store = database.store().await;
    let error = windlass::RecordedError {
        kind: windlass::ErrorKind::Network,
        message: "no route".to_owned(),
        feedback: Some("try later".to_owned()),
    };
    let record = CallRecord {
        error: Some(Box::new(error.clone())),
        status: Status::Failed,
        details: Some(Box::new(windlass::Details {
            failed_attempts: vec![windlass::FailedAttempt {
                error,
                execution_time: 0.5,
                delay: 0.25,
            }],
            idempotency_key: Some("k\0".into()),
            same_as: Some(call(0).id),
            approval: Some(windlass::Verdict::approve("b\0")),
            trace: None,
            usage: None,
            total_usage: None,
        })),
        ..call(1)
    };
    store.append(record.clone());
    let found = store.get(&TenantId::default(), record.id).await.unwrap().unwrap();
    assert_eq!(format!("{found:?}"), format!("{record:?}"));
}

#[tokio::test]
async fn a_record_that_comes_twice_counts_once() {
    let database = Database::new().await;
    let store = database.store().await;
    let record = call(1);
    store.append(record.clone());
    store.flush().await.unwrap();
    let twin = call(3);
    for record in [call(2), record, twin.clone(), twin] {
        store.append(record);
    }
    let tenant = TenantId::default();
    assert_eq!(ids(&store, &tenant, &any()).await.len(), 3);
    assert_eq!(store.statistics(&tenant).await.unwrap().total.calls, 3);
}

#[tokio::test]
async fn the_oldest_go_first() {
    let database = Database::new().await;
    let options = PostgresOptions {
        keep_records: 10,
        keep_outputs_bytes: 1000,
        ..PostgresOptions::default()
    };
    let store = database.store_with(options).await;
    let tenant = TenantId::default();
    let records: Vec<_> = (0..25).map(call).collect();
    for chunk in records.chunks(5) {
        chunk.iter().for_each(|record| store.append(record.clone()));
        store.flush().await.unwrap();
    }
    let newest: Vec<_> = records[15..].iter().rev().map(|record| record.id).collect();
    assert!(eventually(5, async || ids(&store, &tenant, &any()).await == newest).await);
    // Statistics are of everything that ever was.
    assert_eq!(store.statistics(&tenant).await.unwrap().total.calls, 25);

    for record in &records[..5] {
        store.keep_output(&tenant, record.id, vec![7; 300]).await.unwrap();
    }
    store.keep_output(&tenant, records[2].id, vec![8; 300]).await.unwrap();
    let mut kept = Vec::new();
    for record in &records[..5] {
        kept.push(store.read_output(&tenant, record.id, 0, 1).await.unwrap().is_some());
    }
    assert_eq!(kept, [false, false, true, true, true]);
    assert!(store.keep_output(&tenant, records[0].id, vec![0; 1001]).await.is_err());

    // A tenant that keeps much pushes out its own.
    let quiet = TenantId::new("quiet");
    store.keep_output(&quiet, records[0].id, vec![1; 200]).await.unwrap();
    for record in &records[5..] {
        store.keep_output(&tenant, record.id, vec![7; 300]).await.unwrap();
    }
    assert!(store.read_output(&quiet, records[0].id, 0, 1).await.unwrap().is_some());
}

/// A quiet tenant keeps what it has, and a key its call's result.
#[tokio::test]
async fn the_tenant_with_the_most_makes_room_and_keys_outlive_any_number_of_calls() {
    let database = Database::new().await;
    let options = PostgresOptions { keep_records: 50, ..PostgresOptions::default() };
    let store = database.store_with(options).await;
    let of = |tenant: &str, second| by(of_tenant(tenant), call(second));
    let quiet: Vec<_> = (0..5).map(|second| of("quiet", second)).collect();
    let noise: Vec<_> = (10..40).map(|second| of("noisy", second)).collect();
    for (number, record) in quiet.iter().chain(&noise).enumerate() {
        let intent = keyed(&format!("k-{number}"), 1, intent(record));
        assert_eq!(store.begin(intent).await.unwrap(), Begun::New);
        store.append(record.clone());
    }
    (50..55).for_each(|second| store.append(of("quiet", second)));
    for second in 1000..1600 {
        store.append(of("noisy", second));
        if second % 50 == 0 {
            store.flush().await.unwrap();
        }
    }
    store.flush().await.unwrap();
    let (loud, calm) = (TenantId::new("noisy"), TenantId::new("quiet"));
    // 30 with a key, and what is left of the limit.
    let kept = async || ids(&store, &loud, &any()).await.len();
    assert!(eventually(5, async || kept().await <= 40).await, "{}", kept().await);
    assert_eq!(ids(&store, &calm, &any()).await.len(), 10);
    for (number, first) in quiet.iter().chain(&noise).enumerate() {
        let tenant = &first.caller.tenant;
        let again = keyed(&format!("k-{number}"), 1, intent(&of(tenant.as_str(), 9000)));
        assert_eq!(store.begin(again).await.unwrap(), Begun::Duplicate(first.id), "key {number}");
        assert!(store.get(tenant, first.id).await.unwrap().is_some(), "the result of {number}");
    }
}

/// Dropping flushes, also where the runtime of the caller has ended.
#[test]
fn a_store_outlives_the_runtime_that_made_it() {
    let block_on = |work: std::pin::Pin<Box<dyn Future<Output = PostgresStore>>>| {
        tokio::runtime::Runtime::new().unwrap().block_on(work)
    };
    let database = tokio::runtime::Runtime::new().unwrap().block_on(Database::new());
    let url = database.url();
    let open = || {
        let url = url.clone();
        block_on(Box::pin(async move {
            PostgresStore::connect(&url, PostgresOptions::default()).await.unwrap()
        }))
    };
    let store = open();
    (0..100).for_each(|second| store.append(call(second)));
    drop(store);
    let store = open();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let statistics = runtime.block_on(store.statistics(&TenantId::default())).unwrap();
    assert_eq!(statistics.total.calls, 100);
    runtime.block_on(store.close()).unwrap();
}
