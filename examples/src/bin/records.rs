//! Records: every call is stored, here in a SQLite file, and can be queried.
//!
//! Run it: `cargo run -p windlass-examples --bin records`

use std::error::Error;

use serde_json::json;
use windlass::{
    CallRequest, Context, Engine, PageRequest, RecordFilter, RecordStore, Status, TenantId, tool,
};
use windlass_store::SqliteStore;

/// Divides one number by another.
#[tool(read_only, inline)]
fn divide(
    /// What is divided
    a: i64,
    /// By what
    b: i64,
) -> Result<i64, String> {
    a.checked_div(b).ok_or_else(|| format!("{a} cannot be divided by {b}"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("windlass.db");
    let tenant = TenantId::default();
    {
        let store = SqliteStore::open(&file)?;
        let engine = Engine::builder().tool(divide::tool()).store(store).build()?;
        let context = Context::for_conversation("maths-agent", "conversation-1");
        for arguments in [json!({"a": 84, "b": 2}), json!({"a": 1, "b": 0}), json!({"a": 1})] {
            engine.call(CallRequest::new("divide", arguments).context(context.clone())).await;
        }
        engine.records().flush().await?;
    }

    // Reopen the file, as another process would: the records are there.
    let store = SqliteStore::open(&file)?;
    let filter = RecordFilter { conversation: Some("conversation-1".into()), ..Default::default() };
    let page = store.query(&tenant, &filter, PageRequest::first(10)).await?;
    for record in &page.records {
        let what = match &record.error {
            Some(error) => format!("{}: {}", error.kind, error.message),
            None => record.result.as_ref().map(|output| output.to_text()).unwrap_or_default(),
        };
        println!("{} {:<9} {} -> {what}", record.id, record.status, record.arguments);
    }
    assert_eq!(page.records.len(), 3);

    let refused = RecordFilter { status: Some(Status::Refused), ..Default::default() };
    let refused = store.query(&tenant, &refused, PageRequest::first(10)).await?;
    assert_eq!(refused.records.len(), 1);

    let summary = store.summary(&tenant, "conversation-1").await?;
    println!("\nfor a final answer: {}", summary.to_brief());
    assert_eq!((summary.total_calls, summary.successful_calls), (3, 1));

    let statistics = store.statistics(&tenant).await?;
    println!("statistics: {}", serde_json::to_string(&statistics.tools["divide"].by_status)?);
    assert_eq!(statistics.total.calls, 3);
    Ok(())
}
