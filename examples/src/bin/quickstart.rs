//! A Rust function becomes a tool; every call of it ends in one result.
//!
//! Run it: `cargo run -p windlass-examples --bin quickstart`

use std::error::Error;

use serde_json::json;
use windlass::definition::export;
use windlass::{CallRequest, Engine, ErrorKind, Lang, TurnFormat, tool};

/// Splits a bill evenly among people.
#[tool(read_only)]
fn split_bill(
    /// The amount of the bill, in cents
    total: u64,
    /// Among how many people
    #[param(default = 2)]
    people: u64,
) -> Result<String, String> {
    if people == 0 {
        return Err("nobody is there to pay".to_owned());
    }
    Ok(format!("{} cents each, {} left over", total / people, total % people))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let engine = Engine::builder().tool(split_bill::tool()).build()?;

    // The tool declarations for the `tools` of a request to a model.
    let tools = engine.active_tools(None);
    let declared = export(tools.iter().map(|tool| &**tool), TurnFormat::Anthropic, Lang::En);
    println!("the model sees: {declared}\n");

    for arguments in [
        json!({"total": 1000, "people": 3}),
        // Models write numbers as text: an unambiguous value is repaired.
        json!({"total": "1000"}),
        // The tool's own error is a result that the model can read.
        json!({"total": 1000, "people": 0}),
        // All validation errors at once.
        json!({"total": -5, "people": "a few"}),
    ] {
        let result = engine.call(CallRequest::new("split_bill", arguments.clone())).await;
        println!("{arguments}\n  -> {}", result.to_text(Lang::En));
    }

    let good = engine.call(CallRequest::new("split_bill", json!({"total": "1000"}))).await;
    assert_eq!(good.to_text(Lang::En), "500 cents each, 0 left over");
    let unknown = engine.call(CallRequest::new("splitbill", json!({}))).await;
    assert_eq!(unknown.error().map(windlass::Error::kind), Some(ErrorKind::ToolNotFound));
    println!("\na name that is wrong\n  -> {}", unknown.to_text(Lang::En));
    Ok(())
}
