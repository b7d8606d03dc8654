//! Contract tests: what every event log must do.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use windlass::TenantId;
use windlass_store::{Documents, EventFilter, NewEvent};

use crate::documents_place::{KEEP_EVENTS, Place};
use crate::postgres::eventually;

documents_contract! {
    events_come_back_in_order
    filters_choose_events
    no_smaller_position_appears_later
    new_events_wake_all
    the_oldest_events_go
    the_events_of_quiet_tenants_stay
    positions_go_on_after_a_restart
    hostile_events_are_kept
}

fn event(name: &str) -> NewEvent {
    NewEvent {
        tenant: TenantId::default(),
        conversation: None,
        batch: None,
        name: name.to_owned(),
        body: json!({ "says": name }),
    }
}

fn of(tenant: &str, conversation: &str, batch: &str) -> NewEvent {
    NewEvent {
        tenant: TenantId::new(tenant),
        conversation: Some(conversation.to_owned()),
        batch: Some(batch.to_owned()),
        ..event("started")
    }
}

async fn positions(documents: &dyn Documents, after: u64) -> Vec<u64> {
    let found = documents.events(after, EventFilter::default(), usize::MAX).await.unwrap();
    found.iter().map(|kept| kept.position).collect()
}

async fn events_come_back_in_order(place: &Place) {
    let documents = place.open().await;
    assert_eq!(documents.event_range().await.unwrap(), (0, 0));
    assert_eq!(*documents.new_events().borrow(), 0);
    documents.append_events(Vec::new()).await.unwrap();
    assert!(documents.events(0, EventFilter::default(), 9).await.unwrap().is_empty());
    let given: Vec<_> = (0..10).map(|number| event(&number.to_string())).collect();
    documents.append_events(given[..4].to_vec()).await.unwrap();
    documents.append_events(given[4..].to_vec()).await.unwrap();

    let other = place.open().await;
    let kept = other.events(0, EventFilter::default(), 100).await.unwrap();
    assert_eq!(
        kept.iter().map(|kept| &kept.event).collect::<Vec<_>>(),
        given.iter().collect::<Vec<_>>()
    );
    assert!(kept.windows(2).all(|pair| pair[0].position < pair[1].position));
    let (first, last) = (kept[0].position, kept[9].position);
    assert_eq!(other.event_range().await.unwrap(), (first, last));
    assert_eq!(*other.new_events().borrow(), last);
    // A reader goes on after what it has seen.
    let mut after = 0;
    let mut seen = Vec::new();
    loop {
        let page = other.events(after, EventFilter::default(), 3).await.unwrap();
        let Some(last) = page.last() else { break };
        after = last.position;
        seen.extend(page);
    }
    assert_eq!(seen, kept);
    assert!(other.events(u64::MAX, EventFilter::default(), 9).await.unwrap().is_empty());
    assert!(other.events(0, EventFilter::default(), 0).await.unwrap().is_empty());
}

async fn filters_choose_events(place: &Place) {
    let documents = place.open().await;
    let given = [
        of("a", "c1", "b1"),
        of("a", "c1", "b2"),
        of("a", "c2", "b3"),
        of("b", "c1", "b1"),
        event("x"),
    ];
    documents.append_events(given.to_vec()).await.unwrap();
    let (a, b, c) = (TenantId::new("a"), TenantId::new("b"), TenantId::new("c"));
    let by = |tenant, conversation, batch| EventFilter { tenant, conversation, batch };
    let cases: [(EventFilter<'_>, &[usize]); 9] = [
        (by(None, None, None), &[0, 1, 2, 3, 4]),
        (by(Some(&a), None, None), &[0, 1, 2]),
        (by(Some(&b), None, None), &[3]),
        (by(Some(&c), None, None), &[]),
        (by(Some(&a), Some("c1"), None), &[0, 1]),
        (by(Some(&a), Some("c1"), Some("b2")), &[1]),
        (by(Some(&a), None, Some("b3")), &[2]),
        (by(None, Some("c1"), None), &[0, 1, 3]),
        (by(None, None, Some("b1")), &[0, 3]),
    ];
    for (filter, wanted) in cases {
        let found = documents.events(0, filter, 100).await.unwrap();
        let wanted: Vec<_> = wanted.iter().map(|index| &given[*index]).collect();
        assert_eq!(found.iter().map(|kept| &kept.event).collect::<Vec<_>>(), wanted, "{filter:?}");
    }
}

async fn no_smaller_position_appears_later(place: &Place) {
    let servers = [place.open().await, place.open().await, place.open().await];
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let server = Arc::clone(&servers[writer % 2]);
            tokio::spawn(async move {
                for number in 0..25 {
                    let event = |part| event(&format!("{writer}-{number}-{part}"));
                    server.append_events(vec![event(0), event(1)]).await.unwrap();
                }
            })
        })
        .collect();
    // A reader that follows sees everything that there is in the end.
    let (mut after, mut seen) = (0, Vec::new());
    loop {
        let done = writers.iter().all(|writer| writer.is_finished());
        let page = servers[2].events(after, EventFilter::default(), 7).await.unwrap();
        match page.last() {
            Some(last) => after = last.position,
            None if done => break,
            None => tokio::task::yield_now().await,
        }
        seen.extend(page);
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let all = servers[0].events(0, EventFilter::default(), usize::MAX).await.unwrap();
    assert_eq!((seen.len(), &seen), (200, &all));
    // What was appended together stays together.
    for pair in seen.chunks(2) {
        let [first, second] = pair else { panic!("an odd one") };
        assert_eq!(first.event.name.strip_suffix('0'), second.event.name.strip_suffix('1'));
    }
}

async fn new_events_wake_all(place: &Place) {
    let (here, there) = (place.open().await, place.open().await);
    let (mut own, mut theirs) = (here.new_events(), there.new_events());
    for _ in 0..3 {
        here.append_events(vec![event("a"), event("b")]).await.unwrap();
        let (_, newest) = here.event_range().await.unwrap();
        assert_eq!(*own.borrow_and_update(), newest);
        let heard = timeout(Duration::from_secs(5), theirs.wait_for(|heard| *heard >= newest));
        assert_eq!(*heard.await.unwrap().unwrap(), newest);
    }
}

async fn the_oldest_events_go(place: &Place) {
    let documents = place.open().await;
    let keep = usize::try_from(KEEP_EVENTS).unwrap();
    for _ in 0..13 {
        documents.append_events(vec![event("x"); 100]).await.unwrap();
    }
    let (_, newest) = documents.event_range().await.unwrap();
    let is_small = async || positions(&*documents, 0).await.len() <= keep;
    assert!(eventually(8, is_small).await);
    let left = positions(&*documents, 0).await;
    assert_eq!(left.len(), keep);
    assert_eq!(documents.event_range().await.unwrap(), (left[0], newest));
    assert_eq!(left.last(), Some(&newest));
    documents.append_events(vec![event("x")]).await.unwrap();
    assert_eq!(positions(&*documents, newest).await, [newest + 1]);
}

async fn the_events_of_quiet_tenants_stay(place: &Place) {
    let documents = place.open().await;
    let keep = usize::try_from(KEEP_EVENTS).unwrap();
    documents.append_events(vec![of("quiet", "c", "b"); 20]).await.unwrap();
    for _ in 0..13 {
        documents.append_events(vec![of("noisy", "c", "b"); 100]).await.unwrap();
        documents.append_events(vec![of("quiet", "c", "b")]).await.unwrap();
    }
    let (_, newest) = documents.event_range().await.unwrap();
    let is_small = async || positions(&*documents, 0).await.len() <= keep;
    assert!(eventually(8, is_small).await);
    let (quiet, noisy) = (TenantId::new("quiet"), TenantId::new("noisy"));
    let of_tenant = async |tenant| {
        let filter = EventFilter { tenant: Some(tenant), ..EventFilter::default() };
        documents.events(0, filter, usize::MAX).await.unwrap()
    };
    let left = of_tenant(&noisy).await;
    assert_eq!((of_tenant(&quiet).await.len(), left.len()), (33, keep - 33));
    assert_eq!(documents.event_range().await.unwrap(), (1, newest));
    // Whoever resumes is told what is missing: nothing of the quiet one.
    assert_eq!(documents.forgotten_events(&quiet).await.unwrap(), 0);
    let gone = documents.forgotten_events(&noisy).await.unwrap();
    let first = left[0].position;
    assert!(gone < first && first - gone <= 2, "{gone} is just before {first}");
    assert_eq!(documents.forgotten_events(&TenantId::new("other")).await.unwrap(), 0);
    // It is remembered.
    drop(documents);
    let documents = place.open().await;
    assert_eq!(documents.forgotten_events(&noisy).await.unwrap(), gone);
}

async fn positions_go_on_after_a_restart(place: &Place) {
    let documents = place.open().await;
    documents.append_events(vec![event("x"); 3]).await.unwrap();
    let (_, newest) = documents.event_range().await.unwrap();
    drop(documents);
    let documents = place.open().await;
    assert_eq!(*documents.new_events().borrow(), newest);
    documents.append_events(vec![event("y")]).await.unwrap();
    assert_eq!(positions(&*documents, newest).await, [newest + 1]);
}

async fn hostile_events_are_kept(place: &Place) {
    let documents = place.open().await;
    let long = "天\u{0}".repeat(5000);
    let noise: String = (0..20_000_u32).map(|n| char::from(33 + (n * n % 89) as u8)).collect();
    for hostile in ["", "\0", "a\0b", "\u{1a}0", "'; DROP TABLE events; --", "🦀", &long, &noise]
    {
        let tenant = TenantId::new(hostile);
        let given = NewEvent {
            tenant: tenant.clone(),
            conversation: Some(hostile.to_owned()),
            batch: Some(hostile.to_owned()),
            name: hostile.to_owned(),
            body: json!({ hostile: hostile }),
        };
        documents.append_events(vec![given.clone(), of(hostile, "c", "b")]).await.unwrap();
        let filter = EventFilter {
            tenant: Some(&tenant),
            conversation: Some(hostile),
            batch: Some(hostile),
        };
        let found = documents.events(0, filter, 9).await.unwrap();
        assert_eq!(found.iter().map(|kept| &kept.event).collect::<Vec<_>>(), [&given]);
    }
    // One that is too deep to be read spoils no page.
    let deep = (0..200).fold(json!(1), |inner, _| Value::Array(vec![inner]));
    documents.append_events(vec![NewEvent { body: deep, ..event("deep") }]).await.unwrap();
    assert_eq!(positions(&*documents, 0).await.len(), 17);
}
