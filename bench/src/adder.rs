//! The native tool with three parameters that several benchmarks call.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use windlass::{Behaviour, CallRequest, Context, Engine, JsonSchema, ToolBuilder};

/// The tool's name.
pub(crate) const NAME: &str = "add";

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Add {
    /// The first number.
    a: i64,
    /// The second number.
    b: i64,
    /// What the numbers count.
    unit: String,
}

pub(crate) fn add(input: &Add) -> i64 {
    input.a + input.b + input.unit.len() as i64
}

pub(crate) fn arguments() -> Value {
    json!({"a": 20, "b": 22, "unit": "apples"})
}

/// The tool, which is read-only.
pub(crate) fn tool() -> ToolBuilder {
    ToolBuilder::from_fn(NAME, |input: Add| async move { add(&input) })
        .description("Adds two numbers.")
        .behaviour(Behaviour::READ_ONLY)
}

/// Calls as an agent makes them in a conversation.
pub(crate) fn requests(count: usize) -> Vec<CallRequest> {
    let context = Arc::new(Context::for_conversation("agent-7", "conversation-42"));
    let name: Arc<str> = NAME.into();
    (0..count)
        .map(|_| CallRequest::new(Arc::clone(&name), arguments()).context(Arc::clone(&context)))
        .collect()
}

/// Makes the calls one after the other.
pub(crate) async fn call_all(engine: &Engine, requests: Vec<CallRequest>) {
    for request in requests {
        assert!(engine.call(request).await.is_success());
    }
}
