//! Progress events: a tool reports its progress, and subscribers get events of
//! every call.
//!
//! Run it: `cargo run -p windlass-examples --bin progress_events`

use std::error::Error;
use std::time::Duration;

use serde_json::json;
use windlass::{CallRequest, CancellationToken, Emitter, Engine, EventBody, Lang, Status, tool};

/// Copies pages, one after the other.
#[tool]
async fn copy_pages(
    /// How many pages
    pages: u32,
    emitter: Emitter,
) -> String {
    for page in 1..=pages {
        tokio::time::sleep(Duration::from_millis(20)).await;
        emitter.emit(format!("page {page} of {pages}"));
    }
    format!("{pages} pages copied")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let engine = Engine::builder().tool(copy_pages::tool()).build()?;
    let mut events = engine.events();

    let caller = engine.clone();
    let call = tokio::spawn(async move {
        caller.call(CallRequest::new("copy_pages", json!({"pages": 3}))).await
    });
    let mut names = Vec::new();
    while let Some(event) = events.next().await {
        let detail = match &event.body {
            EventBody::ExecutionProgress { progress, .. } => progress.to_text(),
            body => body.call().map(|call| call.tool_name.to_string()).unwrap_or_default(),
        };
        println!("{:>2} {:<20} {detail}", event.sequence, event.body.name());
        names.push(event.body.name());
        if matches!(event.body, EventBody::ExecutionCompleted { .. }) {
            break;
        }
    }
    println!("result: {}\n", call.await?.to_text(Lang::En));
    assert_eq!(names.first(), Some(&"execution_started"));
    assert_eq!(names.iter().filter(|name| **name == "execution_progress").count(), 3);

    // A cancelled call stops, and has its event and its record like any other.
    let stop = CancellationToken::new();
    let request = CallRequest::new("copy_pages", json!({"pages": 1000})).cancel_token(stop.clone());
    let caller = engine.clone();
    let call = tokio::spawn(async move { caller.call(request).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    stop.cancel();
    let cancelled = call.await?;
    println!("cancelled: {}", cancelled.to_text(Lang::En));
    assert_eq!(
        cancelled.error().map(|error| Status::of(error.kind(), true)),
        Some(Status::Cancelled)
    );

    // So is one that takes too long.
    let request = CallRequest::new("copy_pages", json!({"pages": 1000}));
    let late = engine.call(request.timeout(Duration::from_millis(50))).await;
    println!("too slow:  {}", late.to_text(Lang::En));
    assert_eq!(late.error().map(|error| Status::of(error.kind(), true)), Some(Status::TimedOut));
    Ok(())
}
