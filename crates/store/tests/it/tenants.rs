//! What tenants share, and none takes from another: connections that read and write, and
//! the room of the stores in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::task::JoinSet;
use windlass::{
    Begun, CallId, CallRecord, IdempotencyKey, Intent, MemoryStore, PageRequest, RecordStore,
    TenantId,
};
use windlass_store::{Documents, Expect, PostgresDocuments, PostgresOptions, Put};
use windlass_store::{SqliteDocuments, SqliteStore};

use crate::postgres::Database;
use crate::sample::{any, by, call, of_tenant, start};

/// What the noisy tenant asks for at once.
const FLOOD: usize = 400;
/// What may be answered to it before the quiet one: what is under way, and its turns.
const BEFORE: usize = 40;

fn noisy() -> TenantId {
    TenantId::new("noisy")
}

fn quiet() -> TenantId {
    TenantId::new("quiet")
}

/// How many questions of a flood are answered until one of somebody else is.
async fn answered_before<F: Future<Output = ()> + Send + 'static>(
    flood: impl Fn(usize) -> F,
    question: impl Future<Output = ()>,
) -> usize {
    let answered = Arc::<AtomicUsize>::default();
    let begun = Arc::<AtomicUsize>::default();
    let mut all = JoinSet::new();
    for at in 0..FLOOD {
        let (asked, begun, answered) = (flood(at), Arc::clone(&begun), Arc::clone(&answered));
        all.spawn(async move {
            begun.fetch_add(1, Ordering::SeqCst);
            asked.await;
            answered.fetch_add(1, Ordering::SeqCst);
        });
    }
    while begun.load(Ordering::SeqCst) < FLOOD {
        tokio::task::yield_now().await;
    }
    let before = answered.load(Ordering::SeqCst);
    question.await;
    let passed = answered.load(Ordering::SeqCst) - before;
    while let Some(ended) = all.join_next().await {
        ended.unwrap();
    }
    passed
}

async fn readers_of_records_are_shared(store: Arc<dyn RecordStore>) {
    for second in 0..200 {
        let tenant = if second % 100 == 0 { "quiet" } else { "noisy" };
        store.append(by(of_tenant(tenant), call(second)));
    }
    store.flush().await.unwrap();
    let flood = |_| {
        let store = Arc::clone(&store);
        async move {
            let page = PageRequest { after: None, limit: PageRequest::MAX };
            assert_eq!(store.query(&noisy(), &any(), page).await.unwrap().records.len(), 198);
        }
    };
    let own = async {
        assert_eq!(store.statistics(&quiet()).await.unwrap().total.calls, 2);
    };
    let before = answered_before(flood, own).await;
    assert!(before < BEFORE, "{before} of {FLOOD} questions came first");
}

async fn readers_and_writers_of_documents_are_shared(documents: Arc<dyn Documents>) {
    let put = |tenant: TenantId, at: usize| Put::new("things", tenant, at.to_string(), json!({}));
    for at in 0..50 {
        documents.put(put(noisy(), at), Expect::Anything).await.unwrap();
    }
    documents.put(put(quiet(), 0), Expect::Anything).await.unwrap();
    let own = async {
        assert!(documents.get("things", &quiet(), "0").await.unwrap().is_some());
    };
    let flood = |_| {
        let documents = Arc::clone(&documents);
        async move {
            assert_eq!(documents.list("things", &noisy(), None, 99).await.unwrap().len(), 50);
        }
    };
    let before = answered_before(flood, own).await;
    assert!(before < BEFORE, "{before} of {FLOOD} reads came first");

    let own = async {
        documents.put(put(quiet(), 1), Expect::Absent).await.unwrap().unwrap();
    };
    let flood = |at| {
        let (documents, put) = (Arc::clone(&documents), put(noisy(), at));
        async move {
            documents.put(put, Expect::Anything).await.unwrap().unwrap();
        }
    };
    let before = answered_before(flood, own).await;
    assert!(before < BEFORE, "{before} of {FLOOD} writes came first");
}

#[tokio::test]
async fn nobody_takes_all_readers_and_writers_of_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    readers_of_records_are_shared(Arc::new(SqliteStore::open(&path).unwrap())).await;
    let documents = Arc::new(SqliteDocuments::open(&path).unwrap());
    readers_and_writers_of_documents_are_shared(documents).await;
}

#[tokio::test]
async fn nobody_takes_all_readers_and_writers_of_postgres() {
    let database = Database::new().await;
    readers_of_records_are_shared(Arc::new(database.store().await)).await;
    let url = database.url().parse().unwrap();
    let documents = PostgresDocuments::connect_to(&url, PostgresOptions::default()).await.unwrap();
    readers_and_writers_of_documents_are_shared(Arc::new(documents)).await;
}

#[tokio::test]
async fn a_noisy_tenant_evicts_only_its_own_records_from_memory() {
    let store = MemoryStore::with_capacity(100);
    let of = |tenant: &str, second| by(of_tenant(tenant), call(second));
    let early: Vec<CallRecord> = (0..30).map(|second| of("quiet", second)).collect();
    early.iter().for_each(|record| store.append(record.clone()));
    // On as many threads as there are shards, and more.
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let store = &store;
            scope.spawn(move || {
                (0..200).for_each(|at| store.append(of("noisy", thread * 200 + at)));
            });
        }
    });
    let page = PageRequest { after: None, limit: PageRequest::MAX };
    let of_quiet = store.query(&quiet(), &any(), page).await.unwrap().records;
    assert_eq!(of_quiet.len(), 30);
    assert_eq!(store.statistics(&quiet()).await.unwrap().total.calls, 30);
    assert!(store.get(&quiet(), early[0].id).await.unwrap().is_some());
    let of_noisy = store.query(&noisy(), &any(), page).await.unwrap().records;
    assert_eq!(of_noisy.len(), 70, "all others are its own");
    // A third one finds room, and the noisiest pays for it.
    (0..20).for_each(|second| store.append(of("third", second)));
    for (tenant, left) in [("quiet", 30), ("third", 20), ("noisy", 50)] {
        let total = store.statistics(&TenantId::new(tenant)).await.unwrap().total.calls;
        assert_eq!(total, left, "{tenant}");
    }
}

#[tokio::test]
async fn a_noisy_tenant_evicts_only_its_own_outputs_and_keys_from_memory() {
    let store = MemoryStore::with_capacity(100);
    let id = || CallId::at(start());
    let outputs: Vec<CallId> = (0..3).map(|_| id()).collect();
    for &id in &outputs {
        store.keep_output(&quiet(), id, vec![1; 5 << 20]).await.unwrap();
    }
    let mut flood = Vec::new();
    for _ in 0..20 {
        flood.push(id());
        store.keep_output(&noisy(), flood[flood.len() - 1], vec![1; 10 << 20]).await.unwrap();
    }
    for &id in &outputs {
        assert!(store.read_output(&quiet(), id, 0, 1).await.unwrap().is_some());
    }
    let is_left = async |id| store.read_output(&noisy(), id, 0, 1).await.unwrap().is_some();
    assert!(is_left(flood[19]).await && !is_left(flood[0]).await);

    let begin = async |tenant: &str, key: String| {
        let ended = by(of_tenant(tenant), call(0));
        let intent = Intent {
            id: ended.id,
            call_ref: None,
            tool_name: "add".into(),
            arguments: Arc::new(json!({})),
            caller: Arc::clone(&ended.caller),
            created_at: start(),
            key: Some(IdempotencyKey { key: key.into(), fingerprint: [0; 32] }),
        };
        let details = windlass::Details {
            idempotency_key: intent.key.as_ref().map(|key| Arc::clone(&key.key)),
            ..Default::default()
        };
        let begun = store.begin(intent).await.unwrap();
        if begun == Begun::New {
            store.append(CallRecord { details: Some(Box::new(details)), ..ended });
        }
        begun
    };
    assert_eq!(begin("quiet", "pay".to_owned()).await, Begun::New);
    for at in 0..500 {
        assert_eq!(begin("noisy", at.to_string()).await, Begun::New);
    }
    assert!(matches!(begin("quiet", "pay".to_owned()).await, Begun::Duplicate(_)));
    assert_eq!(begin("noisy", "0".to_owned()).await, Begun::New, "its own are evicted");
}
