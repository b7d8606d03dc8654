//! Dependency injection and presets: an object of the program, a secret, and
//! parameters that are filled on behalf of the model.
//!
//! Run it: `cargo run -p windlass-examples --bin inject_and_presets`

use std::collections::HashMap;
use std::error::Error;

use serde_json::json;
use windlass::{
    CallRequest, Context, Engine, Inject, Lang, PageRequest, Preset, RecordFilter, Secret,
    TenantId, tool,
};

/// Stands in for a database of the program that embeds the engine.
struct Orders {
    places: HashMap<u64, &'static str>,
}

/// Tells where an order is.
#[tool(read_only)]
async fn track_order(
    /// The number of the order
    order: u64,
    /// The language of the answer, such as en or de
    language: String,
    /// The customer that asks
    customer: String,
    orders: Inject<Orders>,
    carrier_key: Secret,
) -> Result<String, String> {
    let place = orders.places.get(&order).ok_or_else(|| format!("there is no order {order}"))?;
    // A real tool would send the key to the carrier; here its length is enough.
    let key = carrier_key.expose().len();
    Ok(format!("[{language}] {customer}'s order {order} is in {place} (key of {key} letters)"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let engine = Engine::builder()
        .object(Orders { places: HashMap::from([(7, "Rotterdam")]) })
        .tool(
            track_order::tool()
                // The model sees this parameter and may set it.
                .preset("language", Preset::value("en").overridable())
                // The model does not see this one; it comes from the caller's context.
                .preset("customer", Preset::variable("customer")),
        )
        .build()?;

    let tool = engine.registry().get("track_order").ok_or("not registered")?;
    println!("the model sees: {}\n", tool.model_schema());
    let seen = tool.model_schema()["properties"].as_object().ok_or("no properties")?;
    assert_eq!(seen.keys().collect::<Vec<_>>(), ["order", "language"]);

    let context = Context::for_conversation("support-agent", "conversation-1")
        .variable("customer", "Ada")
        .secret("carrier_key", "not-for-the-model");
    let call = |arguments| CallRequest::new("track_order", arguments).context(context.clone());

    let found = engine.call(call(json!({"order": 7}))).await;
    println!("{}", found.to_text(Lang::En));
    assert!(found.to_text(Lang::En).starts_with("[en] Ada's order 7 is in Rotterdam"));

    let in_german = engine.call(call(json!({"order": 7, "language": "de"}))).await;
    println!("{}", in_german.to_text(Lang::En));
    assert!(in_german.to_text(Lang::En).starts_with("[de]"));

    // A call in which the model sets a hidden parameter is refused.
    let refused = engine.call(call(json!({"order": 7, "customer": "Eve"}))).await;
    println!("{}", refused.to_text(Lang::En));
    assert!(!refused.is_success());

    // What is hidden from the model is hidden in the records, too.
    let filter = RecordFilter::default();
    let page =
        engine.records().query(&TenantId::default(), &filter, PageRequest::first(10)).await?;
    let recorded = &page.records[2].arguments;
    println!("\nrecorded: {recorded}");
    assert_eq!(recorded["customer"], "[hidden]");
    assert!(!recorded.to_string().contains("not-for-the-model"));
    Ok(())
}
