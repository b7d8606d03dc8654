//! Events: numbered, bounded, and never blocking a call.

use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass::{CallRequest, Engine, Event, EventBody, ToolBuilder};

fn engine(capacity: usize) -> Engine {
    Engine::builder()
        .tool(ToolBuilder::from_fn("ok", |_: Value| async { "ok" }))
        .tool(ToolBuilder::from_fn("fail", |_: Value| async { Err::<(), _>("broken") }))
        .settings(|settings| settings.event_capacity = capacity)
        .build()
        .unwrap()
}

async fn call(engine: &Engine, tool: &str) {
    engine.call(CallRequest::new(tool, json!({}))).await;
}

#[tokio::test]
async fn events_are_numbered_without_gaps() {
    let engine = engine(64);
    let mut events = engine.events();
    call(&engine, "ok").await;
    call(&engine, "fail").await;
    call(&engine, "nobody").await;
    let mut seen = Vec::new();
    for number in 1..=5 {
        let event = events.next().await.unwrap();
        assert_eq!(event.sequence, number);
        seen.push(event.body.name());
    }
    assert_eq!(
        seen,
        [
            "execution_started",
            "execution_completed",
            "execution_started",
            "execution_failed",
            "execution_failed"
        ]
    );
}

#[tokio::test]
async fn a_slow_subscriber_is_told_what_it_missed() {
    let engine = engine(4);
    let mut events = engine.events();
    for _ in 0..10 {
        call(&engine, "ok").await;
    }
    let first = events.next().await.unwrap();
    let EventBody::Missed { count } = first.body else { panic!("{first:?}") };
    assert_eq!(count, 16);
    for number in 17..=20 {
        assert_eq!(events.next().await.unwrap().sequence, number);
    }
}

#[tokio::test]
async fn callbacks_that_panic_or_dawdle_harm_nobody() {
    let engine = engine(64);
    engine.subscribe(|_| panic!("the callback's own fault")).unwrap();
    engine.subscribe(|_| std::thread::sleep(Duration::from_secs(3600))).unwrap();
    let (send, receive) = mpsc::channel::<Event>();
    engine.subscribe(move |event| send.send(event.clone()).unwrap()).unwrap();
    for _ in 0..5 {
        call(&engine, "ok").await;
    }
    for _ in 0..10 {
        receive.recv_timeout(Duration::from_secs(10)).unwrap();
    }
    // When the engine is gone, the callback's thread ends and lets go.
    drop(engine);
    assert!(receive.recv_timeout(Duration::from_secs(10)).is_err());
}

#[test]
fn events_have_the_documents_json_form() {
    let body = EventBody::LoadError { source: "x.yaml".into(), error: "bad".into(), tenant: None };
    let event = Event { sequence: 7, at: jiff::Timestamp::UNIX_EPOCH, body };
    assert_eq!(
        serde_json::to_value(event).unwrap(),
        json!({
            "sequence": 7,
            "at": "1970-01-01T00:00:00Z",
            "event_type": "load_error",
            "source": "x.yaml",
            "error": "bad",
        })
    );
}
