//! Contract tests: what every record store must do.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};
use windlass::{
    CallId, CallRecord, Caller, Content, Details, ErrorKind, FailedAttempt, MemoryStore, Output,
    PageRequest, RecordFilter, RecordStore, RecordedError, Status, TenantId, Truncated, Usage,
};

use crate::sample::{
    any, by, call, detailed, failed, in_conversation, of, of_tenant, shown, start,
};

contract! {
    a_record_comes_back_as_it_was
    deep_json_spoils_no_page
    filters_choose
    pages_are_newest_first
    paging_has_no_gaps_and_no_duplicates_while_records_arrive
    limits_of_pages_are_kept
    tenants_do_not_see_each_other
    a_summary_counts_a_conversation
    statistics_count_and_rank
    what_models_took_adds_up
    nothing_is_asked_of_an_empty_store
    outputs_are_read_in_parts
    an_output_is_replaced
    an_output_that_is_too_large_is_refused
    a_flush_of_many_appenders
}

fn tenant() -> TenantId {
    TenantId::default()
}

async fn ids(store: &dyn RecordStore, filter: &RecordFilter) -> Vec<CallId> {
    let page = store.query(&tenant(), filter, PageRequest::first(1000)).await.unwrap();
    assert_eq!(page.next, None);
    page.records.iter().map(|record| record.id).collect()
}

async fn a_record_comes_back_as_it_was(store: &dyn RecordStore) {
    let output = Output {
        content: vec![
            Content::text("hello").with_meta("title", "t").saved_as("v"),
            Content::json(json!({"z": 1, "a": [null, true, 1.5, u64::MAX]})),
            Content::blob([0, 255], "application/octet-stream"),
        ],
        structured: Some(Box::new(json!({"b": 1, "a": 2}))),
        metadata: serde_json::Map::from_iter([("cost".to_owned(), json!(0.25))]).into(),
        truncated: Some(Box::new(Truncated {
            handle: Some("h".into()),
            total_bytes: 10,
            shown_bytes: 5,
        })),
    };
    let full = CallRecord {
        call_ref: Some("toolu_01".into()),
        result: Some(Arc::new(output)),
        attempts: 3,
        details: Some(Box::new(Details {
            failed_attempts: vec![
                FailedAttempt {
                    error: RecordedError {
                        kind: ErrorKind::Network,
                        message: "no route".into(),
                        feedback: Some("Try \"again\".".into()),
                    },
                    // Not every reader of numbers gets this one right.
                    execution_time: 31.245270191439438,
                    delay: 1.0e-7,
                },
                FailedAttempt {
                    error: RecordedError {
                        kind: ErrorKind::Timeout,
                        message: String::new(),
                        feedback: None,
                    },
                    execution_time: 0.5,
                    delay: 0.0,
                },
            ],
            idempotency_key: Some("order-17".into()),
            same_as: Some(CallId::at(start())),
            approval: Some(windlass::Verdict::refuse("ann").comment("not \"now\"")),
            trace: Some(windlass::TraceContext::new(7, 9, true)),
            usage: Some(used(3)),
            total_usage: Some(used(4)),
        })),
        ..by(detailed(), call(1))
    };
    let mut told = failed(ErrorKind::ToolError, call(4));
    told.error.as_mut().unwrap().feedback = Some("问 the user".into());
    told.details = Some(Box::default());
    let records = [full, call(2), failed(ErrorKind::Timeout, call(3)), told];
    for record in &records {
        store.append(record.clone());
    }
    for record in &records {
        let found = store.get(&tenant(), record.id).await.unwrap().unwrap();
        assert_eq!(shown(&found), shown(record));
    }
    assert!(store.get(&tenant(), CallId::at(start())).await.unwrap().is_none());
}

async fn deep_json_spoils_no_page(store: &dyn RecordStore) {
    let deep = (0..200).fold(json!(1), |inner, _| Value::Array(vec![inner]));
    store.append(CallRecord {
        arguments: Arc::new(deep.clone()),
        result: Some(Arc::new(Output::json(deep))),
        ..call(1)
    });
    store.append(call(2));
    assert_eq!(ids(store, &any()).await.len(), 2);
}

async fn filters_choose(store: &dyn RecordStore) {
    let records = [
        by(in_conversation("c-1"), call(0)),
        of("search", by(in_conversation("c-1"), call(10))),
        of("search", failed(ErrorKind::Network, by(in_conversation("c-2"), call(20)))),
        failed(
            ErrorKind::Denied,
            by(Caller { caller_id: Some("bob".into()), ..Caller::default() }, call(30)),
        ),
        by(detailed(), call(40)),
    ];
    for record in &records {
        store.append(record.clone());
    }
    let at = |second| Some(start() + SignedDuration::from_secs(second));
    let text = |text: &str| Some(text.to_owned());
    let cases: [(RecordFilter, &[usize]); 14] = [
        (any(), &[4, 3, 2, 1, 0]),
        (RecordFilter { conversation: text("c-1"), ..any() }, &[4, 1, 0]),
        (RecordFilter { conversation: text("none"), ..any() }, &[]),
        (RecordFilter { tool: text("search"), ..any() }, &[2, 1]),
        (RecordFilter { caller_id: text("bob"), ..any() }, &[3]),
        (RecordFilter { status: Some(Status::Succeeded), ..any() }, &[4, 1, 0]),
        (RecordFilter { status: Some(Status::Failed), ..any() }, &[2]),
        (RecordFilter { status: Some(Status::Refused), ..any() }, &[3]),
        (RecordFilter { since: at(20), ..any() }, &[4, 3, 2]),
        (RecordFilter { until: at(20), ..any() }, &[1, 0]),
        (RecordFilter { since: at(10), until: at(30), ..any() }, &[2, 1]),
        (RecordFilter { tool: text("search"), since: at(11), ..any() }, &[2]),
        (RecordFilter { conversation: text("c-1"), tool: text("search"), ..any() }, &[1]),
        (
            RecordFilter {
                conversation: text("c-1"),
                tool: text("add"),
                caller_id: text("agent-7"),
                status: Some(Status::Succeeded),
                since: at(40),
                until: at(41),
            },
            &[4],
        ),
    ];
    for (filter, wanted) in cases {
        let wanted: Vec<_> = wanted.iter().map(|&index| records[index].id).collect();
        assert_eq!(ids(store, &filter).await, wanted, "{filter:?}");
    }
}

async fn pages_are_newest_first(store: &dyn RecordStore) {
    let records: Vec<_> = (0..10).map(call).collect();
    // Calls end in another order than they begin in.
    for index in [3, 0, 9, 1, 2, 8, 4, 7, 5, 6] {
        store.append(records[index].clone());
    }
    let wanted: Vec<_> = records.iter().rev().map(|record| record.id).collect();
    assert_eq!(ids(store, &any()).await, wanted);
}

async fn paging_has_no_gaps_and_no_duplicates_while_records_arrive(store: &dyn RecordStore) {
    let old: BTreeSet<CallId> = (0..100)
        .map(|second| {
            let record = of(if second % 3 == 0 { "search" } else { "add" }, call(second));
            store.append(record.clone());
            record.id
        })
        .collect();
    let mut seen = Vec::new();
    let mut page = PageRequest::first(7);
    loop {
        let found = store.query(&tenant(), &any(), page).await.unwrap();
        assert!(found.records.len() <= 7);
        seen.extend(found.records.iter().map(|record| record.id));
        store.append(call(1000 + seen.len() as i64));
        match found.next {
            Some(next) => page.after = Some(next),
            None => break,
        }
    }
    assert!(seen.is_sorted_by(|newer, older| newer > older));
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), old);
}

async fn limits_of_pages_are_kept(store: &dyn RecordStore) {
    for second in 0..1001 {
        store.append(call(second));
    }
    let page = store.query(&tenant(), &any(), PageRequest::first(usize::MAX)).await.unwrap();
    assert_eq!(page.records.len(), PageRequest::MAX);
    let rest = PageRequest { limit: 1000, after: page.next };
    let rest = store.query(&tenant(), &any(), rest).await.unwrap();
    assert_eq!((rest.records.len(), rest.next), (1, None));
    let one = store.query(&tenant(), &any(), PageRequest::first(0)).await.unwrap();
    assert_eq!(one.records.len(), 1);
    let exact = RecordFilter { since: Some(start() + SignedDuration::from_secs(991)), ..any() };
    let exact = store.query(&tenant(), &exact, PageRequest::first(10)).await.unwrap();
    assert_eq!((exact.records.len(), exact.next), (10, None));
}

async fn tenants_do_not_see_each_other(store: &dyn RecordStore) {
    let (acme, globex) = (TenantId::new("acme"), TenantId::new("globex"));
    let caller = Caller {
        conversation: Some("c-1".into()),
        caller_id: Some("a".into()),
        ..of_tenant("acme")
    };
    let record = failed(ErrorKind::ToolError, by(caller, call(1)));
    store.append(record.clone());
    store.keep_output(&acme, record.id, b"secret".to_vec()).await.unwrap();

    assert!(store.get(&acme, record.id).await.unwrap().is_some());
    assert!(store.get(&globex, record.id).await.unwrap().is_none());
    assert!(store.read_output(&globex, record.id, 0, 10).await.unwrap().is_none());
    assert_eq!(store.summary(&globex, "c-1").await.unwrap().total_calls, 0);
    assert_eq!(store.statistics(&globex).await.unwrap().total.calls, 0);
    let text = |text: &str| Some(text.to_owned());
    for filter in [
        any(),
        RecordFilter { conversation: text("c-1"), ..any() },
        RecordFilter { tool: text("add"), ..any() },
        RecordFilter { caller_id: text("a"), ..any() },
        RecordFilter { status: Some(Status::Failed), ..any() },
        RecordFilter { since: Some(start()), ..any() },
    ] {
        let page = PageRequest::first(10);
        assert_eq!(store.query(&acme, &filter, page).await.unwrap().records.len(), 1);
        assert_eq!(store.query(&globex, &filter, page).await.unwrap().records.len(), 0);
    }
}

async fn a_summary_counts_a_conversation(store: &dyn RecordStore) {
    for second in 0..3 {
        store.append(by(in_conversation("c-1"), call(second)));
    }
    store.append(of("search", failed(ErrorKind::Timeout, by(in_conversation("c-1"), call(4)))));
    store.append(by(in_conversation("c-2"), call(5)));
    store.append(call(6));
    let summary = store.summary(&tenant(), "c-1").await.unwrap();
    assert_eq!(
        serde_json::to_value(summary).unwrap(),
        json!({
            "conversation_id": "c-1",
            "total_calls": 4,
            "successful_calls": 3,
            "failed_calls": 1,
            "success_rate": 75.0,
            "tool_usage": {"add": 3, "search": 1},
        })
    );
}

async fn statistics_count_and_rank(store: &dyn RecordStore) {
    for millis in 1..=100 {
        store.append(CallRecord { run_time: Duration::from_millis(millis), ..call(0) });
    }
    // Counted in several commits.
    store.flush().await.unwrap();
    for kind in [ErrorKind::Timeout, ErrorKind::Timeout, ErrorKind::Denied] {
        store
            .append(of("search", failed(kind, CallRecord { run_time: Duration::ZERO, ..call(1) })));
    }
    for _ in 0..25 {
        store.append(CallRecord { run_time: Duration::from_millis(50), ..call(2) });
    }
    let statistics = store.statistics(&tenant()).await.unwrap();
    let add = &statistics.tools["add"];
    assert_eq!((add.calls, add.successful, add.success_rate), (125, 125, 100.0));
    for (found, wanted) in [(add.p50_ms, 50.0), (add.p95_ms, 94.0), (add.p99_ms, 99.0)] {
        assert!((found - wanted).abs() / wanted < 0.04, "{found} {wanted}");
    }
    let search = &statistics.tools["search"];
    assert_eq!((search.calls, search.successful, search.p99_ms), (3, 0, 0.0));
    assert_eq!(search.by_status, [(Status::Refused, 1), (Status::TimedOut, 2)].into());
    assert_eq!((statistics.total.calls, statistics.total.successful), (128, 125));
    assert_eq!(statistics.tools.len(), 2);
}

fn used(tokens: u64) -> Usage {
    Usage {
        input_tokens: tokens,
        output_tokens: 2 * tokens,
        cache_read_tokens: 1,
        cache_write_tokens: 0,
        cost_usd: 0.5,
    }
}

async fn what_models_took_adds_up(store: &dyn RecordStore) {
    for at in 1..=4 {
        let details = Details {
            usage: Some(used(10)),
            // It is counted where it was used.
            total_usage: Some(used(1000)),
            ..Details::default()
        };
        let record = CallRecord { details: Some(Box::new(details)), ..of("agent", call(at)) };
        store.append(if at > 1 { by(in_conversation("talk"), record) } else { record });
    }
    store.append(of("add", by(in_conversation("talk"), call(9))));
    store.flush().await.unwrap();
    let statistics = store.statistics(&tenant()).await.unwrap();
    let agent = statistics.tools["agent"].usage;
    assert_eq!((agent.input_tokens, agent.output_tokens, agent.cache_read_tokens), (40, 80, 4));
    assert_eq!((agent.cost_usd, statistics.total.usage), (2.0, agent));
    assert!(statistics.tools["add"].usage.is_zero());
    let summary = store.summary(&tenant(), "talk").await.unwrap();
    assert_eq!((summary.total_calls, summary.usage.input_tokens), (4, 30));
    let other = TenantId::new("globex");
    assert!(store.statistics(&other).await.unwrap().total.usage.is_zero());
}

async fn nothing_is_asked_of_an_empty_store(store: &dyn RecordStore) {
    assert!(store.keeps_up());
    store.caught_up().await;
    store.flush().await.unwrap();
    assert_eq!(ids(store, &any()).await, []);
    assert_eq!(store.summary(&tenant(), "c").await.unwrap().success_rate, 0.0);
    assert_eq!(store.statistics(&tenant()).await.unwrap().total.p99_ms, 0.0);
    assert!(store.read_output(&tenant(), CallId::at(start()), 0, 1).await.unwrap().is_none());
}

async fn outputs_are_read_in_parts(store: &dyn RecordStore) {
    let id = CallId::at(start());
    let bytes: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    store.keep_output(&tenant(), id, bytes.clone()).await.unwrap();
    let end = bytes.len() as u64;
    for (offset, limit) in [
        (0, 10),
        (0, end),
        (0, u64::MAX),
        (777_777, 100_000),
        (end - 1, 5),
        (end, 5),
        (u64::MAX, u64::MAX),
        (3, 0),
    ] {
        let part = store.read_output(&tenant(), id, offset, limit).await.unwrap().unwrap();
        let begin = offset.min(end);
        let wanted = &bytes[begin as usize..(begin + limit.min(end - begin)) as usize];
        assert!(part.bytes == wanted, "{offset} {limit}");
        assert_eq!(part.total_bytes, end);
    }
}

async fn an_output_is_replaced(store: &dyn RecordStore) {
    let id = CallId::at(start());
    store.keep_output(&tenant(), id, b"first".to_vec()).await.unwrap();
    store.keep_output(&tenant(), id, Vec::new()).await.unwrap();
    store.keep_output(&tenant(), id, b"second".to_vec()).await.unwrap();
    let part = store.read_output(&tenant(), id, 0, 100).await.unwrap().unwrap();
    assert_eq!(part.bytes, b"second");
    // Another tenant forgets nothing of it.
    store.forget_output(&TenantId::new("globex"), id).await.unwrap();
    assert!(store.read_output(&tenant(), id, 0, 1).await.unwrap().is_some());
    for _ in 0..2 {
        store.forget_output(&tenant(), id).await.unwrap();
        assert!(store.read_output(&tenant(), id, 0, 1).await.unwrap().is_none());
    }
}

async fn an_output_that_is_too_large_is_refused(store: &dyn RecordStore) {
    let id = CallId::at(start());
    let error = store.keep_output(&tenant(), id, vec![0; (64 << 20) + 1]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageUnavailable);
    assert!(error.message().contains("67108865 bytes"), "{error}");
    assert!(store.read_output(&tenant(), id, 0, 1).await.unwrap().is_none());
}

async fn a_flush_of_many_appenders(store: &dyn RecordStore) {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..250).for_each(|second| store.append(call(second))));
        }
    });
    store.flush().await.unwrap();
    assert_eq!(ids(store, &any()).await.len(), 1000);
}

#[tokio::test]
async fn memory_forgets_the_oldest() {
    let store = MemoryStore::with_capacity(3);
    let records: Vec<_> = (0..5).map(call).collect();
    records.iter().for_each(|record| store.append(record.clone()));
    let newest: Vec<_> = records[2..].iter().rev().map(|record| record.id).collect();
    assert_eq!(ids(&store, &any()).await, newest);
    assert_eq!(store.statistics(&tenant()).await.unwrap().total.calls, 3);
    assert!(store.get(&tenant(), records[0].id).await.unwrap().is_none());

    let outputs: Vec<_> = (0..3).map(|_| CallId::at(start())).collect();
    for &id in &outputs {
        store.keep_output(&tenant(), id, vec![1; 30 << 20]).await.unwrap();
    }
    assert!(store.read_output(&tenant(), outputs[0], 0, 1).await.unwrap().is_none());
    assert!(store.read_output(&tenant(), outputs[1], 0, 1).await.unwrap().is_some());
}
