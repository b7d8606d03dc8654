//! One native tool with three parameters, through the whole pipeline, against the floor
//! and against a competitor.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rig_agent::tool::ToolSet;
use rig_core::tool::{PortableTool, ToolContext};
use serde_json::Value;
use tokio::sync::Semaphore;
use windlass::{Behaviour, CallRequest, Engine};

use crate::adder::{self, Add, add, arguments};
use crate::report::{Figure, medians, timed};

/// Small enough for the arguments of a batch to stay in the CPU cache.
const CALLS: usize = 500;
const ROUNDS: usize = 1_000;

type Boxed = Pin<Box<dyn Future<Output = i64> + Send>>;
type BoxedTool = Box<dyn Fn(&Value) -> Boxed>;

/// The floor: the least that such a call can cost. A boxed async call, validation of the
/// same arguments, a timeout and a semaphore permit.
struct Floor {
    tools: HashMap<&'static str, BoxedTool>,
    validator: jsonschema::Validator,
    slots: Semaphore,
}

impl Floor {
    fn new(schema: &Value) -> anyhow::Result<Self> {
        let tool: BoxedTool = Box::new(|arguments| {
            let sum = arguments["a"].as_i64().unwrap_or_default()
                + arguments["b"].as_i64().unwrap_or_default()
                + arguments["unit"].as_str().unwrap_or_default().len() as i64;
            Box::pin(async move { sum })
        });
        Ok(Self {
            tools: HashMap::from([("add", tool)]),
            validator: jsonschema::validator_for(schema)?,
            slots: Semaphore::new(10),
        })
    }

    async fn call(&self, name: &str, arguments: &Value) -> Option<i64> {
        if !self.validator.is_valid(arguments) {
            return None;
        }
        let _slot = self.slots.acquire().await.ok()?;
        let work = (self.tools.get(name)?)(arguments);
        tokio::time::timeout(Duration::from_secs(30), work).await.ok()
    }
}

struct RigAdd;

impl PortableTool for RigAdd {
    const NAME: &'static str = "add";
    type Args = Add;
    type Output = i64;
    type Error = Infallible;

    fn description(&self) -> String {
        "Adds two numbers.".to_owned()
    }

    fn parameters(&self) -> Value {
        windlass::native::schema_of::<Add>()
    }

    async fn call(&self, input: Add) -> Result<i64, Infallible> {
        Ok(add(&input))
    }
}

/// Measures single calls on one thread.
pub(crate) fn run() -> anyhow::Result<Vec<Figure>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let engine = Engine::builder().tool(adder::tool()).build()?;
    let changing = Engine::builder().tool(adder::tool().behaviour(Behaviour::default())).build()?;
    let schema = windlass::native::schema_of::<Add>();
    let floor = Floor::new(&schema)?;
    let rig = ToolSet::from_tools(vec![RigAdd]);
    let name: Arc<str> = adder::NAME.into();
    let text = arguments().to_string();
    let values: Vec<Value> = std::iter::repeat_with(arguments).take(CALLS).collect();
    // Requests are built outside the measured time, as are the arguments of floor and
    // competitor.
    let requests = |arguments: &dyn Fn() -> Value| -> Vec<CallRequest> {
        (0..CALLS).map(|_| CallRequest::new(Arc::clone(&name), arguments())).collect()
    };
    let windlass = |engine: &Engine, requests: Vec<CallRequest>| {
        timed(|| {
            runtime.block_on(async {
                for request in requests {
                    assert!(engine.call(request).await.is_success());
                }
            });
        })
    };
    let by_floor = || {
        timed(|| {
            runtime.block_on(async {
                for value in &values {
                    assert_eq!(floor.call("add", value).await, Some(48));
                }
            });
        })
    };
    let each = |seconds: f64| seconds * 1e9 / CALLS as f64;
    let [least, by_value, by_text, rig] = medians(
        ROUNDS,
        [
            &mut { by_floor },
            &mut || windlass(&engine, requests(&arguments)),
            &mut || windlass(&engine, requests(&|| Value::String(text.clone()))),
            &mut || {
                let texts = vec![text.clone(); CALLS];
                timed(|| {
                    runtime.block_on(async {
                        let mut context = ToolContext::new();
                        for text in texts {
                            let result = rig.execute("add", text, &mut context).await;
                            assert!(result.is_success());
                        }
                    });
                })
            },
        ],
    )
    .map(each);
    // Measured separately: the records of two engines do not fit into the CPU cache
    // together.
    let [least_again, changing] =
        medians(ROUNDS, [&mut { by_floor }, &mut || windlass(&changing, requests(&arguments))])
            .map(each);
    Ok(vec![
        Figure::new("call / floor", "ns", by_value, least).at_most(3.5),
        Figure::new("call / rig ToolSet", "ns", by_value, rig).at_most(1.0),
        Figure::new("call with JSON text / rig ToolSet", "ns", by_text, rig).at_most(1.0),
        Figure::new("call that changes something / floor", "ns", changing, least_again),
    ])
}
