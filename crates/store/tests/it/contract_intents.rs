//! Contract tests for intents and idempotency keys.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use windlass::{
    Begun, BoxFuture, CallRecord, Details, IdempotencyKey, Intent, RecordStore, TenantId,
};

use crate::sample::{by, call, detailed, of_tenant, shown};

contract! {
    calls_without_a_key_are_all_new
    a_key_is_claimed_once
    tenants_do_not_share_keys
    of_many_begins_with_one_key_one_is_new
    the_record_of_a_keyed_call_is_found
    a_call_that_never_ran_gives_its_key_back
    a_record_needs_no_intent_and_an_intent_no_listener
    nothing_is_interrupted_in_a_new_store
    a_call_that_has_a_record_does_not_begin_again
}

/// What a call was about to do before it left this record.
pub(crate) fn intent_of(record: &CallRecord) -> Intent {
    Intent {
        id: record.id,
        call_ref: record.call_ref.clone(),
        tool_name: Arc::clone(&record.tool_name),
        arguments: Arc::clone(&record.arguments),
        caller: Arc::clone(&record.caller),
        created_at: record.created_at,
        key: None,
    }
}

/// The same intent with a key, for arguments that a number stands for.
pub(crate) fn keyed(key: &str, arguments: u8, intent: Intent) -> Intent {
    let key = IdempotencyKey { key: key.into(), fingerprint: [arguments; 32] };
    Intent { key: Some(key), ..intent }
}

/// Runs futures side by side and returns their results in order.
pub(crate) async fn together<T>(mut futures: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    let mut ends: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, end) in futures.iter_mut().zip(&mut ends) {
            if end.is_none()
                && let Poll::Ready(value) = future.as_mut().poll(context)
            {
                *end = Some(value);
            }
        }
        if ends.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    ends.into_iter().flatten().collect()
}

/// Asks, and goes away before the answer comes.
pub(crate) async fn ask_and_leave(future: BoxFuture<'_, Result<Begun, windlass::Error>>) {
    let mut future = pin!(future);
    poll_fn(|context| {
        let _ = future.as_mut().poll(context);
        Poll::Ready(())
    })
    .await;
}

async fn begin(store: &dyn RecordStore, intent: Intent) -> Begun {
    store.begin(intent).await.unwrap()
}

async fn calls_without_a_key_are_all_new(store: &dyn RecordStore) {
    for second in 0..3 {
        assert_eq!(begin(store, intent_of(&by(detailed(), call(second)))).await, Begun::New);
    }
}

async fn a_key_is_claimed_once(store: &dyn RecordStore) {
    let first = call(1);
    let again = || intent_of(&call(2));
    assert_eq!(begin(store, keyed("k", 1, intent_of(&first))).await, Begun::New);
    assert_eq!(begin(store, keyed("k", 1, again())).await, Begun::Duplicate(first.id));
    assert_eq!(begin(store, keyed("k", 2, again())).await, Begun::OtherArguments(first.id));
    assert_eq!(begin(store, keyed("K", 2, again())).await, Begun::New);
    assert_eq!(begin(store, keyed("k ", 1, again())).await, Begun::New);
    // Those that were refused have left nothing.
    assert_eq!(begin(store, keyed("k", 1, again())).await, Begun::Duplicate(first.id));
}

async fn tenants_do_not_share_keys(store: &dyn RecordStore) {
    let (ours, theirs) = (call(1), by(of_tenant("acme"), call(2)));
    assert_eq!(begin(store, keyed("k", 1, intent_of(&ours))).await, Begun::New);
    assert_eq!(begin(store, keyed("k", 2, intent_of(&theirs))).await, Begun::New);
    assert_eq!(begin(store, keyed("k", 1, intent_of(&call(3)))).await, Begun::Duplicate(ours.id));
    let again = by(of_tenant("acme"), call(4));
    assert_eq!(begin(store, keyed("k", 2, intent_of(&again))).await, Begun::Duplicate(theirs.id));
}

async fn of_many_begins_with_one_key_one_is_new(store: &dyn RecordStore) {
    for round in 0..5 {
        let records: Vec<_> = (0..40).map(call).collect();
        let key = format!("k-{round}");
        let begins =
            records.iter().map(|record| store.begin(keyed(&key, 1, intent_of(record)))).collect();
        let begun: Vec<_> = together(begins).await.into_iter().map(Result::unwrap).collect();
        let new: Vec<_> = (0..40).filter(|&index| begun[index] == Begun::New).collect();
        assert_eq!(new.len(), 1, "{begun:?}");
        let twin = Begun::Duplicate(records[new[0]].id);
        assert_eq!(begun.iter().filter(|&&begun| begun == twin).count(), 39, "{begun:?}");
    }
}

async fn the_record_of_a_keyed_call_is_found(store: &dyn RecordStore) {
    let details = Details { idempotency_key: Some("k".into()), ..Details::default() };
    let record = CallRecord { details: Some(Box::new(details)), ..by(detailed(), call(1)) };
    assert_eq!(begin(store, keyed("k", 1, intent_of(&record))).await, Begun::New);
    assert!(store.get(&TenantId::default(), record.id).await.unwrap().is_none());
    store.append(record.clone());
    store.flush().await.unwrap();
    let found = store.get(&TenantId::default(), record.id).await.unwrap().unwrap();
    assert_eq!(shown(&found), shown(&record));
    // The key outlives the call.
    assert_eq!(begin(store, keyed("k", 1, intent_of(&call(2)))).await, Begun::Duplicate(record.id));
    let other = keyed("k", 9, intent_of(&call(3)));
    assert_eq!(begin(store, other).await, Begun::OtherArguments(record.id));
}

async fn a_call_that_never_ran_gives_its_key_back(store: &dyn RecordStore) {
    let details = Details { idempotency_key: Some("k".into()), ..Details::default() };
    let mut record = CallRecord { details: Some(Box::new(details)), attempts: 0, ..call(1) };
    assert_eq!(begin(store, keyed("k", 1, intent_of(&record))).await, Begun::New);
    store.append(record.clone());
    store.flush().await.unwrap();
    (record.id, record.attempts) = (call(2).id, 1);
    assert_eq!(begin(store, keyed("k", 2, intent_of(&record))).await, Begun::New);
    store.append(record.clone());
    store.flush().await.unwrap();
    assert_eq!(begin(store, keyed("k", 2, intent_of(&call(3)))).await, Begun::Duplicate(record.id));
}

async fn a_record_needs_no_intent_and_an_intent_no_listener(store: &dyn RecordStore) {
    let (left, never) = (call(1), call(2));
    ask_and_leave(store.begin(intent_of(&left))).await;
    store.append(left.clone());
    store.append(never.clone());
    store.flush().await.unwrap();
    for record in [left, never] {
        assert!(store.get(&TenantId::default(), record.id).await.unwrap().is_some());
    }
    assert_eq!(store.statistics(&TenantId::default()).await.unwrap().total.calls, 2);
}

async fn nothing_is_interrupted_in_a_new_store(store: &dyn RecordStore) {
    begin(store, intent_of(&call(1))).await;
    assert!(store.take_interrupted().is_empty());
}

async fn a_call_that_has_a_record_does_not_begin_again(store: &dyn RecordStore) {
    let (ended, other) = (by(detailed(), call(1)), by(detailed(), call(2)));
    assert_eq!(begin(store, intent_of(&ended)).await, Begun::New);
    store.append(ended.clone());
    store.flush().await.unwrap();
    assert_eq!(begin(store, intent_of(&ended)).await, Begun::Duplicate(ended.id));
    let begins = [&ended, &other].map(|call| store.begin(intent_of(call)));
    let begun: Vec<_> = together(begins.into()).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(begun, [Begun::Duplicate(ended.id), Begun::New]);
    let kept = store.get(&ended.caller.tenant, ended.id).await.unwrap().unwrap();
    assert_eq!(shown(&kept), shown(&ended));
}
