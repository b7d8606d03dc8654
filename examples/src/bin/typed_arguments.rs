//! Structs, enums and lists as parameters, the methods of a struct as tools,
//! and a closure without the macro.
//!
//! Run it: `cargo run -p windlass-examples --bin typed_arguments`

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::json;
// The derive macro of `JsonSchema` refers to `schemars`: import both.
use windlass::{Behaviour, CallRequest, Engine, JsonSchema, Lang, ToolBuilder, schemars, tool};

/// One thing that is ordered.
#[derive(Deserialize, JsonSchema)]
struct Item {
    /// The article number
    article: String,
    /// How many
    #[schemars(range(min = 1, max = 99))]
    count: u64,
}

/// How fast an order travels.
#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Speed {
    Standard,
    Express,
}

#[derive(Serialize)]
struct Receipt {
    number: u64,
    pieces: u64,
    articles: Vec<String>,
    speed: Speed,
}

#[derive(Default)]
struct Shop {
    orders: AtomicU64,
}

#[tool(prefix = "shop_")]
impl Shop {
    /// Orders articles.
    #[tool]
    async fn order(
        &self,
        /// What to order
        items: Vec<Item>,
        /// How fast it should come
        #[param(default = Speed::Standard)]
        speed: Speed,
    ) -> Receipt {
        Receipt {
            number: self.orders.fetch_add(1, Ordering::Relaxed) + 1,
            pieces: items.iter().map(|item| item.count).sum(),
            articles: items.into_iter().map(|item| item.article).collect(),
            speed,
        }
    }

    /// Counts the orders so far.
    #[tool(read_only, inline)]
    fn count_orders(&self) -> u64 {
        self.orders.load(Ordering::Relaxed)
    }
}

#[derive(Deserialize, JsonSchema)]
struct Convert {
    /// An amount in euros
    euros: f64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let convert =
        ToolBuilder::from_fn(
            "to_cents",
            |input: Convert| async move { (input.euros * 100.0).round() },
        )
        .description("Converts euros to cents.")
        .behaviour(Behaviour::READ_ONLY);
    let engine = Engine::builder().tools(Shop::default().tools()).tool(convert).build()?;
    let tool = engine.registry().get("shop_order").ok_or("not registered")?;
    println!("the model sees: {}\n", tool.model_schema());

    let arguments =
        json!({"items": [{"article": "A-7", "count": 2}, {"article": "B-1", "count": 1}]});
    let receipt = engine.call(CallRequest::new("shop_order", arguments)).await;
    println!("{}", receipt.to_text(Lang::En));
    let value = receipt.output().and_then(|output| output.value()).ok_or("no value")?;
    assert_eq!((&value["pieces"], &value["speed"]), (&json!(3), &json!("standard")));

    // Errors in nested values have their path.
    let arguments = json!({"items": [{"article": "A-7", "count": 500}], "speed": "warp"});
    let refused = engine.call(CallRequest::new("shop_order", arguments)).await;
    println!("{}", refused.to_text(Lang::En));
    let paths: Vec<&str> = (refused.error().iter().flat_map(|error| error.violations()))
        .map(|violation| violation.path.as_str())
        .collect();
    assert_eq!(paths, ["/items/0/count", "/speed"]);

    let count = engine.call(CallRequest::new("shop_count_orders", json!({}))).await;
    assert_eq!(count.to_text(Lang::En), "1");
    let cents = engine.call(CallRequest::new("to_cents", json!({"euros": "12.34"}))).await;
    println!("{}", cents.to_text(Lang::En));
    assert_eq!(cents.to_text(Lang::En), "1234.0");
    Ok(())
}
