//! Methods of an object as tools, and a renamed engine crate.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use windlass::{Call, CallRequest, Engine, tool};

use super::{Unit, text};

struct Counter {
    count: AtomicU64,
}

#[tool(prefix = "counter_", group = "counting")]
impl Counter {
    const STEP: u64 = 2;

    /// Adds to the count.
    #[tool]
    fn add(&self, #[param(default = Self::STEP)] amount: u64) -> u64 {
        self.count.fetch_add(amount, Ordering::Relaxed) + amount
    }

    /// Reads the count.
    #[windlass::tool(name = "read", read_only, group = "reading")]
    async fn get(&self, call: &Call) -> Result<u64, std::fmt::Error> {
        assert_eq!(call.tool().name().as_str(), "counter_read");
        Ok(self.count.load(Ordering::Relaxed) + self.helper())
    }

    /// Says what is counted.
    #[tool(inline)]
    fn about(unit: Unit) -> String {
        format!("{unit:?}")
    }

    /// Is not there.
    #[tool]
    #[cfg(any())]
    fn absent(&self) {}

    fn helper(&self) -> u64 {
        0
    }
}

#[tokio::test]
async fn methods_of_an_object_share_it() {
    let counter = Arc::new(Counter { count: 40.into() });
    let builders = Counter::shared_tools(Arc::clone(&counter));
    let named: Vec<_> = (builders.iter())
        .map(|builder| (builder.spec().name.as_str(), builder.spec().group.as_deref().unwrap()))
        .collect();
    assert_eq!(
        named,
        [("counter_add", "counting"), ("counter_read", "reading"), ("counter_about", "counting")]
    );
    assert_eq!(
        builders[0].spec().input["properties"]["amount"],
        json!({"type": "integer", "minimum": 0, "default": 2})
    );

    let engine = (Engine::builder().tools(builders))
        .group("counting", "", true)
        .group("reading", "", true)
        .build()
        .unwrap();
    let ask = async |name: &str, arguments: Value| {
        engine.call(CallRequest::new(name, arguments)).await.outcome.unwrap().to_text()
    };
    assert_eq!(ask("counter_add", json!({})).await, "42");
    assert_eq!(ask("counter_add", json!({"amount": 8})).await, "50");
    assert_eq!(ask("counter_read", json!({})).await, "50");
    assert_eq!(ask("counter_about", json!({"unit": "celsius"})).await, "Celsius");
    assert_eq!(counter.add(1), 51);
    assert_eq!(Counter { count: 0.into() }.tools().len(), 3);
}

mod renamed {
    //! A program that has the engine under another name.
    pub(crate) use windlass as engine;

    /// Adds two numbers.
    #[engine::tool(crate = "crate::macros::methods::renamed::engine")]
    pub(crate) fn add(a: i64, b: i64) -> i64 {
        a + b
    }
}

#[tokio::test]
async fn the_engine_may_have_another_name() {
    assert_eq!(text(renamed::add::tool(), json!({"a": 1, "b": 2})).await, "3");
    assert_eq!(renamed::add(1, 2), 3);
}
