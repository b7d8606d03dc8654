//! Intents and idempotency keys, including two stores on one database.

use std::sync::Arc;

use windlass::{Begun, IdempotencyKey, Intent, RecordStore, TenantId};

use crate::postgres::{Database, intent};
use crate::sample::{by, call, of_tenant};

fn keyed(key: &str, fingerprint: u8) -> Intent {
    let key = IdempotencyKey { key: key.into(), fingerprint: [fingerprint; 32] };
    Intent { key: Some(key), ..intent(&call(1)) }
}

#[tokio::test]
async fn calls_with_one_key_are_one() {
    let database = Database::new().await;
    let store = database.store().await;
    let first = keyed("a", 1);
    assert_eq!(store.begin(first.clone()).await.unwrap(), Begun::New);
    // Asked again, as after a commit that nobody heard of.
    assert_eq!(store.begin(first.clone()).await.unwrap(), Begun::New);
    assert_eq!(store.begin(keyed("a", 1)).await.unwrap(), Begun::Duplicate(first.id));
    assert_eq!(store.begin(keyed("a", 2)).await.unwrap(), Begun::OtherArguments(first.id));
    assert_eq!(store.begin(keyed("b", 2)).await.unwrap(), Begun::New);
    let other = Intent { caller: Arc::new(of_tenant("acme")), ..keyed("a", 1) };
    assert_eq!(store.begin(other).await.unwrap(), Begun::New);

    // Its record does not free it.
    let mut record = call(1);
    record.id = first.id;
    store.append(record);
    store.flush().await.unwrap();
    assert_eq!(store.begin(keyed("a", 1)).await.unwrap(), Begun::Duplicate(first.id));
    let long = "k\0".repeat(9000);
    assert_eq!(store.begin(keyed(&long, 1)).await.unwrap(), Begun::New);
    assert!(matches!(store.begin(keyed(&long, 1)).await.unwrap(), Begun::Duplicate(_)));
}

#[tokio::test]
async fn of_many_with_one_key_one_is_new() {
    let database = Database::new().await;
    let stores = [Arc::new(database.store().await), Arc::new(database.store().await)];
    for round in 0..10 {
        let key = format!("key-{round}");
        let asked: Vec<_> = (0..20)
            .map(|n| {
                let (store, intent) = (Arc::clone(&stores[n % 2]), keyed(&key, 1));
                tokio::spawn(async move { (intent.id, store.begin(intent).await.unwrap()) })
            })
            .collect();
        let mut new = Vec::new();
        let mut twins = Vec::new();
        for asked in asked {
            match asked.await.unwrap() {
                (id, Begun::New) => new.push(id),
                (_, Begun::Duplicate(id)) => twins.push(id),
                (_, other) => panic!("{other:?}"),
            }
        }
        assert_eq!(new.len(), 1, "{new:?}");
        assert_eq!(twins, vec![new[0]; 19]);
    }
}

#[tokio::test]
async fn a_record_takes_its_intent_along() {
    let database = Database::new().await;
    let store = database.store().await;
    let records = [call(1), by(of_tenant("acme"), call(2))];
    for record in &records {
        assert_eq!(store.begin(intent(record)).await.unwrap(), Begun::New);
    }
    let raw = database.raw().await;
    let left = async || -> i64 {
        raw.query_one("SELECT count(*) FROM windlass.intents", &[]).await.unwrap().get(0)
    };
    assert_eq!(left().await, 2);
    records.iter().for_each(|record| store.append(record.clone()));
    store.flush().await.unwrap();
    assert_eq!(left().await, 0);
    drop(store);
    let owners = raw.query_one("SELECT count(*) FROM windlass.owners", &[]).await.unwrap();
    assert_eq!(owners.get::<_, i64>(0), 0, "who ends says so");
}

#[tokio::test]
async fn old_keys_go_but_not_those_of_calls_that_run() {
    let database = Database::new().await;
    let store = database.store().await;
    let (done, runs) = (keyed("done", 1), keyed("runs", 1));
    // A run that was cut off may go on for longer.
    let of_a_run = keyed("run:0a.1.0", 1);
    for intent in [&done, &runs, &of_a_run] {
        assert_eq!(store.begin(intent.clone()).await.unwrap(), Begun::New);
    }
    for id in [done.id, of_a_run.id] {
        let mut record = call(1);
        record.id = id;
        store.append(record);
    }
    store.flush().await.unwrap();
    let raw = database.raw().await;
    raw.batch_execute("UPDATE windlass.keys SET kept_at = kept_at - interval '25 hours'")
        .await
        .unwrap();
    let kept = async || -> Vec<String> {
        let rows = raw.query("SELECT key FROM windlass.keys ORDER BY key", &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    };
    let left = ["run:0a.1.0", "runs"];
    assert!(crate::postgres::eventually(5, async || kept().await == left).await);
    assert_eq!(store.begin(keyed("done", 2)).await.unwrap(), Begun::New);
    assert_eq!(store.statistics(&TenantId::default()).await.unwrap().total.calls, 2);
    raw.batch_execute("UPDATE windlass.keys SET kept_at = kept_at - interval '7 days'")
        .await
        .unwrap();
    assert!(crate::postgres::eventually(5, async || !kept().await.contains(&left[0].into())).await);
}
