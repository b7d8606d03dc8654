use serde_json::json;
use windlass_store::MemoryDocuments;

use super::*;

fn happened(action: &str) -> Happened {
    Happened {
        actor: Actor::server(),
        action: action.to_owned(),
        target: Some("key_1".to_owned()),
        status: Some(201),
        details: Some(json!({"b": 1, "a": {"d": [1, 2], "c": null}})),
    }
}

async fn log(entries: usize) -> (Arc<MemoryDocuments>, Audit, TenantId) {
    let documents = Arc::new(MemoryDocuments::new());
    let audit = Audit::new(documents.clone());
    let tenant = TenantId::new("acme");
    for at in 0..entries {
        audit.add(&tenant, happened(&format!("action-{at}"))).await.unwrap();
    }
    (documents, audit, tenant)
}

#[tokio::test]
async fn a_log_that_nobody_touched_is_intact() {
    let (_, audit, tenant) = log(1200).await;
    let checked = audit.verify(&tenant).await.unwrap();
    assert_eq!((checked.intact, checked.entries, checked.problem), (true, 1200, None));
    let (head, _) = audit.head(&tenant).await.unwrap();
    assert_eq!((head.number, head.hash), (1200, checked.last_hash));
    assert!(audit.verify(&TenantId::default()).await.unwrap().intact, "an empty one, too");
}

#[tokio::test]
async fn entries_of_several_servers_are_one_chain() {
    let (documents, _, tenant) = log(0).await;
    let servers: Vec<_> = (0..4).map(|_| Arc::new(Audit::new(documents.clone()))).collect();
    let mut tasks = Vec::new();
    for server in servers {
        let tenant = tenant.clone();
        tasks.push(tokio::spawn(async move {
            for at in 0..25 {
                server.add(&tenant, happened(&at.to_string())).await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let checked = Audit::new(documents).verify(&tenant).await.unwrap();
    assert_eq!((checked.intact, checked.entries), (true, 100), "{checked:?}");
}

/// Any change of an entry is detected and located.
#[tokio::test]
async fn every_change_to_an_entry_is_found() {
    for field in ["at", "action", "target", "status", "actor", "details", "previous", "hash"] {
        let (documents, audit, tenant) = log(5).await;
        let kept = documents.get(SPACE, &tenant, &id(3)).await.unwrap().unwrap();
        let mut body = kept.body;
        body[field] = match field {
            "at" => json!("2026-01-01T00:00:00Z"),
            "status" => json!(403),
            "actor" => json!({"type": "command"}),
            _ => json!("x"),
        };
        let put = Put::new(SPACE, tenant.clone(), id(3), body);
        documents.put(put, Expect::Anything).await.unwrap();
        let checked = audit.verify(&tenant).await.unwrap();
        assert!(!checked.intact, "{field}");
        assert!(checked.problem.as_deref().unwrap().contains("entry 3"), "{field}: {checked:?}");
    }
}

#[tokio::test]
async fn entries_that_are_missing_or_cut_off_are_found() {
    for (gone, told) in [(3, "after entry 2 comes entry 4"), (1, "after entry 0"), (5, "and had 5")]
    {
        let (documents, audit, tenant) = log(5).await;
        documents.delete(SPACE, &tenant, &id(gone), Expect::Anything).await.unwrap();
        let checked = audit.verify(&tenant).await.unwrap();
        assert!(checked.problem.as_deref().unwrap().contains(told), "{checked:?}");
    }
}

/// A server may end between an entry and the note where the chain ends.
#[tokio::test]
async fn a_note_of_the_end_that_is_behind_is_moved_on() {
    let (documents, audit, tenant) = log(3).await;
    let old = Head { number: 2, hash: audit.entry(&tenant, 2).await.unwrap().unwrap().hash };
    let put = Put::of(HEADS, tenant.clone(), HEAD, &old).unwrap();
    documents.put(put, Expect::Anything).await.unwrap();
    audit.add(&tenant, happened("next")).await.unwrap();
    let checked = audit.verify(&tenant).await.unwrap();
    assert_eq!((checked.intact, checked.entries), (true, 4), "{checked:?}");
}

#[tokio::test]
async fn nobody_waits_for_what_another_tenant_writes() {
    let (_, audit, tenant) = log(1).await;
    let held = audit.turn(&tenant).await;
    let soon = std::time::Duration::from_secs(5);
    let other = TenantId::new("other");
    tokio::time::timeout(soon, audit.add(&other, happened("theirs"))).await.unwrap().unwrap();
    let waits = tokio::time::timeout(std::time::Duration::from_millis(50), audit.turn(&tenant));
    assert!(waits.await.is_err());
    drop(held);
    audit.add(&tenant, happened("ours")).await.unwrap();
    assert!(audit.writing.lock().len() <= 2);
}
