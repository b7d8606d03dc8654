//! Contract tests: what every document store must do.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::sleep;
use windlass::{ErrorKind, TenantId};
use windlass_store::{Documents, Expect, Put, SpaceSize};

use crate::documents_place::{Place, next};
use crate::postgres::eventually;

documents_contract! {
    a_document_comes_back_as_it_was
    versions_count_changes
    expectations_are_kept
    one_of_many_is_first
    no_update_is_lost
    aliases_are_unique_over_tenants
    expired_documents_are_gone
    expired_documents_are_not_in_the_way
    lists_are_in_order_and_have_no_gaps
    what_begins_alike_is_found_together
    tenants_are_kept_apart
    the_size_of_a_space_is_that_of_what_a_tenant_has_in_it
    whoever_makes_a_document_stays_its_owner
    changes_are_heard_by_all
    many_changes_are_heard_or_said_to_be_missed
    hostile_text_is_kept_or_refused
}

const SPACE: &str = "keys";

fn tenant() -> TenantId {
    TenantId::default()
}

fn put(id: &str, body: Value) -> Put {
    Put::new(SPACE, tenant(), id, body)
}

fn with_alias(put: Put, alias: &str) -> Put {
    Put { alias: Some(alias.to_owned()), ..put }
}

fn expiring(put: Put, millis: i64) -> Put {
    Put { expires_at: Some(Timestamp::now() + SignedDuration::from_millis(millis)), ..put }
}

async fn ids(documents: &dyn Documents, after: Option<&str>, limit: usize) -> Vec<String> {
    let found = documents.list(SPACE, &tenant(), after, limit).await.unwrap();
    found.into_iter().map(|document| document.id).collect()
}

async fn the_size_of_a_space_is_that_of_what_a_tenant_has_in_it(place: &Place) {
    let documents = place.open().await;
    let size = async || documents.size_of(SPACE, &tenant(), None).await.unwrap();
    assert_eq!(size().await, SpaceSize::default());
    let body = json!({"text": "naïve\u{0} 天气", "size": 7});
    documents.put(put("k-1", body.clone()), Expect::Absent).await.unwrap();
    let one = size().await;
    assert_eq!(one.count, 1);
    assert!((30..100).contains(&one.bytes), "{one:?}");
    documents.put(put("k-2", body.clone()), Expect::Absent).await.unwrap();
    documents.put(expiring(put("k-3", body.clone()), -1000), Expect::Absent).await.unwrap();
    let other = TenantId::new("other");
    documents.put(Put::new(SPACE, other, "k-1", body.clone()), Expect::Absent).await.unwrap();
    documents.put(Put::new("tools", tenant(), "k-1", body), Expect::Absent).await.unwrap();
    assert_eq!(size().await, SpaceSize { count: 2, bytes: 2 * one.bytes, first_end: None });
    documents.put(put("k-2", json!({})), Expect::Anything).await.unwrap();
    documents.delete(SPACE, &tenant(), "k-1", Expect::Anything).await.unwrap();
    assert_eq!(size().await, SpaceSize { count: 1, bytes: 2, first_end: None });
}

async fn whoever_makes_a_document_stays_its_owner(place: &Place) {
    let documents = place.open().await;
    let of = |id: &str, owner: &str| Put { owner: Some(owner.to_owned()), ..put(id, json!({})) };
    documents.put(of("a", "one"), Expect::Absent).await.unwrap();
    documents.put(of("a", "two"), Expect::Anything).await.unwrap();
    documents.put(of("a", "two"), Expect::Version(2)).await.unwrap();
    documents.put(expiring(of("b", "one"), 60_000), Expect::Absent).await.unwrap();
    documents.put(expiring(of("c", "one"), -1000), Expect::Absent).await.unwrap();
    documents.put(of("c", "two"), Expect::Absent).await.unwrap();
    documents.put(put("d", json!({})), Expect::Absent).await.unwrap();
    documents.put(of("d", "one"), Expect::Anything).await.unwrap();
    let owner = async |id: &str| documents.get(SPACE, &tenant(), id).await.unwrap().unwrap().owner;
    assert_eq!(owner("a").await.as_deref(), Some("one"));
    assert_eq!(owner("c").await.as_deref(), Some("two"), "what has expired is made anew");
    assert_eq!(owner("d").await, None, "nobody knows who made it");
    let size = documents.size_of(SPACE, &tenant(), Some("one")).await.unwrap();
    assert_eq!((size.count, size.bytes), (2, 4));
    assert!(size.first_end.is_some_and(|end| end > Timestamp::now()), "{size:?}");
    let mut ids = documents.owned_by(SPACE, &tenant(), "one").await.unwrap();
    ids.sort();
    assert_eq!(ids, ["a", "b"]);
    assert_eq!(documents.size_of(SPACE, &tenant(), None).await.unwrap().count, 4);
}

async fn a_document_comes_back_as_it_was(place: &Place) {
    let documents = place.open().await;
    let end = Timestamp::from_microsecond(4_000_000_000_123_456).unwrap();
    let body = json!({"z": 1, "a": [null, true, 1.5, u64::MAX, "naïve\u{0} 天气 🦀"]});
    let given = Put { expires_at: Some(end), ..with_alias(put("k-1", body.clone()), "hash") };
    let before = Timestamp::now() - SignedDuration::from_millis(1);
    assert_eq!(documents.put(given, Expect::Absent).await.unwrap(), Some(1));

    let other = place.open().await;
    let found = other.get(SPACE, &tenant(), "k-1").await.unwrap().unwrap();
    assert_eq!((&found.tenant, &*found.id), (&tenant(), "k-1"));
    assert_eq!((found.alias.as_deref(), found.version), (Some("hash"), 1));
    assert_eq!((&found.body, found.expires_at), (&body, Some(end)));
    assert_eq!(found.body.to_string(), body.to_string(), "keys stay in their order");
    let text = other.body_text(SPACE, &tenant(), "k-1").await.unwrap().unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap().to_string(), body.to_string());
    assert_eq!(other.body_text(SPACE, &tenant(), "k-2").await.unwrap(), None);
    assert!(found.updated_at >= before && found.updated_at <= Timestamp::now());
    assert_eq!(other.find(SPACE, "hash").await.unwrap(), Some(found.clone()));
    assert_eq!(other.list(SPACE, &tenant(), None, 9).await.unwrap(), std::slice::from_ref(&found));
    assert_eq!(other.all(SPACE).await.unwrap(), [found]);
    assert_eq!(other.get("tools", &tenant(), "k-1").await.unwrap(), None);
    assert_eq!(other.find("tools", "hash").await.unwrap(), None);
    assert!(other.all("tools").await.unwrap().is_empty());
}

async fn versions_count_changes(place: &Place) {
    let documents = place.open().await;
    for version in 1..=3 {
        let end = documents.put(put("a", json!(version)), Expect::Anything).await.unwrap();
        assert_eq!(end, Some(version));
    }
    let end = documents.put(put("a", json!("new")), Expect::Version(3)).await.unwrap();
    assert_eq!(end, Some(4));
    let found = documents.get(SPACE, &tenant(), "a").await.unwrap().unwrap();
    assert_eq!((found.version, found.body), (4, json!("new")));
    assert!(documents.delete(SPACE, &tenant(), "a", Expect::Anything).await.unwrap());
    assert_eq!(documents.put(put("a", json!(0)), Expect::Anything).await.unwrap(), Some(1));
}

async fn expectations_are_kept(place: &Place) {
    let documents = place.open().await;
    let keep = async |expect| documents.put(put("a", json!(0)), expect).await.unwrap();
    let delete = async |expect| documents.delete(SPACE, &tenant(), "a", expect).await.unwrap();
    assert_eq!(keep(Expect::Version(1)).await, None);
    for expect in [Expect::Anything, Expect::Absent, Expect::Version(1)] {
        assert!(!delete(expect).await);
    }
    assert_eq!(keep(Expect::Absent).await, Some(1));
    assert_eq!(keep(Expect::Absent).await, None);
    assert_eq!(keep(Expect::Version(2)).await, None);
    assert_eq!(keep(Expect::Version(u64::MAX)).await, None);
    assert_eq!(keep(Expect::Version(1)).await, Some(2));
    assert!(!delete(Expect::Version(1)).await);
    assert!(!delete(Expect::Absent).await);
    assert!(delete(Expect::Version(2)).await);
    assert_eq!(documents.get(SPACE, &tenant(), "a").await.unwrap(), None);
}

async fn one_of_many_is_first(place: &Place) {
    let servers = [place.open().await, place.open().await];
    for round in 0..5 {
        // One name, one alias, or both.
        let tries: Vec<_> = (0..20)
            .map(|number| {
                let server = Arc::clone(&servers[number % 2]);
                let id = if round % 2 == 0 { "same".to_owned() } else { format!("id-{number}") };
                let given = put(&format!("{round}-{id}"), json!(number));
                let given = if round == 0 { given } else { with_alias(given, &round.to_string()) };
                tokio::spawn(async move { server.put(given, Expect::Absent).await.unwrap() })
            })
            .collect();
        let mut winners = Vec::new();
        for (number, end) in tries.into_iter().enumerate() {
            if let Some(version) = end.await.unwrap() {
                assert_eq!(version, 1);
                winners.push(number);
            }
        }
        assert_eq!(winners.len(), 1, "round {round}");
        let kept = servers[0].list(SPACE, &tenant(), Some(&format!("{round}-")), 1).await.unwrap();
        assert_eq!(kept[0].body, json!(winners[0]));
    }
}

async fn no_update_is_lost(place: &Place) {
    let servers = [place.open().await, place.open().await];
    servers[0].put(put("count", json!(0)), Expect::Absent).await.unwrap();
    let add = async |server: Arc<dyn Documents>| {
        loop {
            let found = server.get(SPACE, &tenant(), "count").await.unwrap().unwrap();
            let more = json!(found.body.as_u64().unwrap() + 1);
            let expect = Expect::Version(found.version);
            if server.put(put("count", more), expect).await.unwrap().is_some() {
                return;
            }
        }
    };
    let adders = (0..8).map(|number| {
        let server = Arc::clone(&servers[number % 2]);
        tokio::spawn(async move {
            for _ in 0..5 {
                add(Arc::clone(&server)).await;
            }
        })
    });
    for adder in adders.collect::<Vec<_>>() {
        adder.await.unwrap();
    }
    let found = servers[1].get(SPACE, &tenant(), "count").await.unwrap().unwrap();
    assert_eq!((found.body, found.version), (json!(40), 41));
}

async fn aliases_are_unique_over_tenants(place: &Place) {
    let documents = place.open().await;
    let other = TenantId::new("other");
    let first = with_alias(put("a", json!(1)), "hash");
    assert_eq!(documents.put(first.clone(), Expect::Absent).await.unwrap(), Some(1));
    // It may be kept again under its own name, and in another space.
    assert_eq!(documents.put(first.clone(), Expect::Version(1)).await.unwrap(), Some(2));
    assert_eq!(documents.put(first.clone(), Expect::Anything).await.unwrap(), Some(3));
    let elsewhere = Put { space: "tools", ..first.clone() };
    assert_eq!(documents.put(elsewhere, Expect::Absent).await.unwrap(), Some(1));

    let theirs = Put { tenant: other.clone(), ..first.clone() };
    for expect in [Expect::Absent, Expect::Anything] {
        assert_eq!(documents.put(theirs.clone(), expect).await.unwrap(), None);
    }
    let free = Put { alias: None, ..theirs.clone() };
    assert_eq!(documents.put(free, Expect::Absent).await.unwrap(), Some(1));
    assert_eq!(documents.put(theirs.clone(), Expect::Version(1)).await.unwrap(), None);
    assert_eq!(documents.find(SPACE, "hash").await.unwrap().unwrap().tenant, tenant());

    // An alias that is given up, or whose document is deleted, is free.
    let without = Put { alias: None, ..first.clone() };
    assert_eq!(documents.put(without, Expect::Anything).await.unwrap(), Some(4));
    assert_eq!(documents.find(SPACE, "hash").await.unwrap(), None);
    assert_eq!(documents.put(theirs, Expect::Version(1)).await.unwrap(), Some(2));
    assert_eq!(documents.find(SPACE, "hash").await.unwrap().unwrap().tenant, other);
    assert!(documents.delete(SPACE, &other, "a", Expect::Version(2)).await.unwrap());
    assert_eq!(documents.put(first, Expect::Version(4)).await.unwrap(), Some(5));
}

async fn expired_documents_are_gone(place: &Place) {
    let documents = place.open().await;
    let short = with_alias(expiring(put("short", json!(1)), 400), "hash");
    documents.put(short, Expect::Absent).await.unwrap();
    documents.put(expiring(put("long", json!(1)), 60_000), Expect::Absent).await.unwrap();
    assert_eq!(ids(&*documents, None, 9).await, ["long", "short"]);
    sleep(Duration::from_millis(450)).await;
    assert_eq!(documents.get(SPACE, &tenant(), "short").await.unwrap(), None);
    assert_eq!(documents.find(SPACE, "hash").await.unwrap(), None);
    assert_eq!(ids(&*documents, None, 9).await, ["long"]);
    assert_eq!(documents.all(SPACE).await.unwrap().len(), 1);
    assert!(!documents.delete(SPACE, &tenant(), "short", Expect::Anything).await.unwrap());
    let late = documents.put(put("short", json!(2)), Expect::Version(1)).await.unwrap();
    assert_eq!(late, None);
    assert!(eventually(5, async || place.rows().await.is_none_or(|rows| rows == 1)).await);
}

async fn expired_documents_are_not_in_the_way(place: &Place) {
    let documents = place.open().await;
    let other = TenantId::new("other");
    // Expired from the start: no sweep has come by.
    for expect in [Expect::Absent, Expect::Anything] {
        let old = with_alias(expiring(put("a", json!("old")), -10), "hash");
        assert!(documents.put(old, Expect::Anything).await.unwrap().is_some());
        // The same alias under another name, then the same name.
        let theirs = Put { tenant: other.clone(), ..with_alias(put("b", json!(1)), "hash") };
        assert_eq!(documents.put(theirs, expect).await.unwrap(), Some(1), "{expect:?}");
        assert!(documents.delete(SPACE, &other, "b", Expect::Anything).await.unwrap());
        let old = expiring(put("a", json!("old")), -10);
        assert_eq!(documents.put(old, Expect::Anything).await.unwrap(), Some(1));
        let new = with_alias(put("a", json!("new")), "hash");
        assert_eq!(documents.put(new, expect).await.unwrap(), Some(1), "{expect:?}");
        assert_eq!(documents.find(SPACE, "hash").await.unwrap().unwrap().body, json!("new"));
        assert!(documents.delete(SPACE, &tenant(), "a", Expect::Anything).await.unwrap());
    }
}

async fn lists_are_in_order_and_have_no_gaps(place: &Place) {
    let documents = place.open().await;
    let mut names: Vec<String> = (0..30).map(|number| format!("n{}", number * 7 % 30)).collect();
    let odd = ["", " ", "A", "Z", "a", "ä", "z", "天", "🦀", "a-b", "a_b", "\u{1}", "\u{1a}0"];
    names.extend(odd.map(str::to_owned));
    for name in &names {
        documents.put(put(name, json!(0)), Expect::Absent).await.unwrap();
    }
    names.sort();
    assert_eq!(ids(&*documents, None, 1000).await, names);
    assert_eq!(ids(&*documents, None, usize::MAX).await, names);
    assert!(ids(&*documents, None, 0).await.is_empty());
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = ids(&*documents, after.as_deref(), 7).await;
        if page.is_empty() {
            break;
        }
        after = page.last().cloned();
        seen.extend(page);
        // What comes and goes behind the cursor does not move it.
        documents.delete(SPACE, &tenant(), &seen[0], Expect::Anything).await.unwrap();
    }
    assert_eq!(seen, names);
    // A cursor need not be a name.
    assert_eq!(ids(&*documents, Some("a\0"), 1).await, ["a-b"]);
    assert!(ids(&*documents, Some(&"\u{10ffff}".repeat(5000)), 9).await.is_empty());
}

async fn what_begins_alike_is_found_together(place: &Place) {
    let documents = place.open().await;
    let mut names = vec![String::new(), "a".to_owned(), "b".to_owned(), "b;".to_owned()];
    names.extend((0..100).map(|number| format!("a:{number:03}")));
    names.extend((0..7).map(|number| format!("b:{number}")));
    for name in &names {
        documents.put(put(name, json!(0)), Expect::Absent).await.unwrap();
    }
    names.sort();
    for beginning in ["", "a:", "a:09", "b", "b:", "c", "天"] {
        let goes_on = |name: &&String| name.starts_with(beginning) && *name != beginning;
        let mut wanted: Vec<&String> = names.iter().filter(goes_on).collect();
        if beginning.is_empty() {
            wanted.insert(0, &names[0]);
        }
        let found = documents.of_tenant(SPACE, &tenant(), beginning).await.unwrap();
        assert_eq!(found.iter().map(|one| &one.id).collect::<Vec<_>>(), wanted, "{beginning}");
    }
    let nobody = documents.of_tenant(SPACE, &TenantId::new("other"), "").await.unwrap();
    assert!(nobody.is_empty());
}

async fn tenants_are_kept_apart(place: &Place) {
    let documents = place.open().await;
    let tenants = ["a", "b", "A", "a ", "a%"].map(TenantId::new);
    for tenant in &tenants {
        let given = Put::new(SPACE, tenant.clone(), "same", json!(tenant.as_str()));
        assert_eq!(documents.put(given, Expect::Absent).await.unwrap(), Some(1));
    }
    for tenant in &tenants {
        let found = documents.get(SPACE, tenant, "same").await.unwrap().unwrap();
        assert_eq!((&found.tenant, found.body), (tenant, json!(tenant.as_str())));
        let list = documents.list(SPACE, tenant, None, 9).await.unwrap();
        assert_eq!(list.iter().map(|found| &found.tenant).collect::<Vec<_>>(), [tenant]);
    }
    assert!(documents.delete(SPACE, &tenants[0], "same", Expect::Anything).await.unwrap());
    assert_eq!(documents.all(SPACE).await.unwrap().len(), 4);
    assert_eq!(documents.names(SPACE).await.unwrap().len(), 4);
    assert_eq!(documents.get(SPACE, &tenants[0], "same").await.unwrap(), None);
    assert!(documents.get(SPACE, &tenants[1], "same").await.unwrap().is_some());
}

async fn changes_are_heard_by_all(place: &Place) {
    let (here, there) = (place.open().await, place.open().await);
    let (mut own, mut theirs) = (here.changes(), there.changes());
    here.put(put("a", json!(1)), Expect::Absent).await.unwrap();
    here.put(put("a", json!(1)), Expect::Absent).await.unwrap();
    here.put(put("b", json!(1)), Expect::Absent).await.unwrap();
    here.delete(SPACE, &tenant(), "a", Expect::Anything).await.unwrap();
    here.delete(SPACE, &tenant(), "a", Expect::Anything).await.unwrap();
    for id in ["a", "b", "a"] {
        // One's own are there as soon as they are made.
        let change = own.try_recv().unwrap();
        assert_eq!((&*change.space, &change.tenant, &*change.id), (SPACE, &tenant(), id));
        assert_eq!(next(&mut theirs).await, change);
    }
    // Whoever has heard of a change sees it.
    there.put(put("c", json!(7)), Expect::Absent).await.unwrap();
    assert_eq!(next(&mut own).await.id, "c");
    let found = here.get(SPACE, &tenant(), "c").await.unwrap().unwrap();
    assert_eq!(found.body, json!(7));
    assert_eq!(next(&mut theirs).await.id, "c");
    // Each once.
    sleep(Duration::from_millis(600)).await;
    assert!(own.try_recv().is_err());
    assert!(theirs.try_recv().is_err());
}

async fn many_changes_are_heard_or_said_to_be_missed(place: &Place) {
    let (here, there) = (place.open().await, place.open().await);
    let mut changes = there.changes();
    let heard = tokio::spawn(async move {
        let mut heard = 0;
        while heard < 200 {
            let change = next(&mut changes).await;
            if change.space.is_empty() {
                return;
            }
            assert_eq!(change.id, heard.to_string());
            heard += 1;
        }
    });
    for number in 0..200 {
        here.put(put(&number.to_string(), json!(0)), Expect::Absent).await.unwrap();
    }
    heard.await.unwrap();
}

async fn hostile_text_is_kept_or_refused(place: &Place) {
    let documents = place.open().await;
    let long = "天\u{0}".repeat(5000);
    let noise: String = (0..20_000_u32).map(|n| char::from(33 + (n * n % 89) as u8)).collect();
    let whole = &noise[..1000];
    let good =
        ["", "'; DROP TABLE windlass.documents; --", "$1 \\x00 {a,\"b\"}", "🦀\u{1a}0", whole];
    let bad = ["\0", "a\0b", &long, &noise[..1001]];
    for hostile in good.into_iter().chain(bad) {
        // A tenant may be called anything, and so may what a body says.
        let tenant = TenantId::new(format!("{hostile}{hostile}"));
        let given = Put::new(SPACE, tenant.clone(), "id", json!({ hostile: hostile }));
        assert_eq!(documents.put(given, Expect::Absent).await.unwrap(), Some(1));
        let found = documents.get(SPACE, &tenant, "id").await.unwrap().unwrap();
        assert_eq!((&found.tenant, &found.body), (&tenant, &json!({ hostile: hostile })));
        assert!(documents.all(SPACE).await.unwrap().contains(&found));
        let name = (found.tenant.clone(), found.id.clone());
        assert!(documents.names(SPACE).await.unwrap().contains(&name));
    }
    for hostile in good {
        let given = with_alias(put(hostile, json!(1)), hostile);
        assert_eq!(documents.put(given, Expect::Absent).await.unwrap(), Some(1));
        let found = documents.find(SPACE, hostile).await.unwrap().unwrap();
        assert_eq!((&*found.id, found.alias.as_deref()), (hostile, Some(hostile)));
        assert!(documents.delete(SPACE, &tenant(), hostile, Expect::Anything).await.unwrap());
    }
    for hostile in bad {
        for given in [put(hostile, json!(1)), with_alias(put("id", json!(1)), hostile)] {
            let error = documents.put(given, Expect::Anything).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArguments, "{error}");
        }
        assert_eq!(documents.get(SPACE, &tenant(), hostile).await.unwrap(), None);
        assert_eq!(documents.find(SPACE, hostile).await.unwrap(), None);
        assert!(!documents.delete(SPACE, &tenant(), hostile, Expect::Anything).await.unwrap());
        documents.list(SPACE, &tenant(), Some(hostile), 9).await.unwrap();
    }
    let deep = (0..200).fold(json!(1), |inner, _| Value::Array(vec![inner]));
    assert!(documents.put(put("deep", deep), Expect::Anything).await.is_err());
}
