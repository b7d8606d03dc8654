//! Native tools: Rust functions.
//!
//! The `#[tool]` attribute builds on this module. [`ToolBuilder::from_fn`]
//! takes a closure with a typed argument:
//!
//! ```
//! use windlass::{JsonSchema, ToolBuilder, schemars};
//!
//! #[derive(serde::Deserialize, JsonSchema)]
//! struct Add { a: i64, b: i64 }
//!
//! let add = ToolBuilder::from_fn("add", |Add { a, b }| async move { a + b })
//!     .description("Adds two numbers.");
//! ```

mod convert;
mod extract;

use std::future::Future;
use std::marker::PhantomData;
use std::sync::{Arc, LazyLock};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use convert::{IntoOutput, IntoToolError, Json, PlainReturn, ReturnValue, SerializeReturn};
pub use extract::{FromCall, Inject};

use crate::call::Call;
use crate::call::content::Output;
use crate::error::{Error, ErrorKind};
use crate::schedule::FairSlots;
use crate::tool::ToolBuilder;
use crate::tool::executor::{BoxFuture, Executor};
use crate::value::name::TenantId;

impl ToolBuilder {
    /// Creates a tool from an async function of one typed argument, whose
    /// fields are the parameters.
    pub fn from_fn<A, F, R>(name: &str, function: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(A) -> R + Send + Sync + 'static,
        R: Future<Output: IntoOutput> + Send + 'static,
    {
        Self::native(
            name,
            schema_of::<A>(),
            Arc::new(FunctionExecutor(function, PhantomData::<fn(A)>)),
        )
    }

    /// Creates a tool from a blocking or CPU-bound function, which runs on a
    /// thread of its own. At the deadline its result is abandoned, but the
    /// thread runs until the function returns.
    pub fn from_blocking_fn<A, F, R>(name: &str, function: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(A) -> R + Send + Sync + 'static,
        R: IntoOutput + Send + 'static,
    {
        let executor = BlockingExecutor(Arc::new(function), PhantomData::<fn(A)>);
        Self::native(name, schema_of::<A>(), Arc::new(executor))
    }
}

struct FunctionExecutor<F, A>(F, PhantomData<fn(A)>);

impl<A, F, R> Executor for FunctionExecutor<F, A>
where
    A: DeserializeOwned + Send + 'static,
    F: Fn(A) -> R + Send + Sync + 'static,
    R: Future<Output: IntoOutput> + Send + 'static,
{
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        Box::pin(async move { (self.0)(call.parse()?).await.into_output() })
    }
}

struct BlockingExecutor<F, A>(Arc<F>, PhantomData<fn(A)>);

impl<A, F, R> Executor for BlockingExecutor<F, A>
where
    A: DeserializeOwned + Send + 'static,
    F: Fn(A) -> R + Send + Sync + 'static,
    R: IntoOutput + Send + 'static,
{
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        Box::pin(async move {
            let arguments: A = call.parse()?;
            let function = Arc::clone(&self.0);
            run_blocking(&call.caller().tenant, move || function(arguments).into_output()).await
        })
    }
}

/// Maximum number of blocking functions that run in this process. One that
/// outlives its call keeps its slot until it returns, so that threads do not
/// pile up.
const MAX_BLOCKING: usize = 256;
static BLOCKING: LazyLock<Arc<FairSlots>> = LazyLock::new(|| FairSlots::new(MAX_BLOCKING));

/// Runs blocking code for a tenant, on a thread for blocking work. Tenants share
/// these threads fairly.
pub async fn run_blocking<T: Send + 'static>(
    tenant: &TenantId,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let slot = BLOCKING.take(Some(tenant)).await;
    let work = move || {
        let done = work();
        drop(slot);
        done
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
        Err(failed) => Err(Error::new(ErrorKind::Cancelled, failed.to_string())),
    }
}

/// The JSON Schema of a type, in the form that models handle best: references
/// inlined where possible, no titles, no Rust number formats, and optional
/// fields simply not required.
pub fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    tidy(&mut schema);
    if let Value::Object(map) = &mut schema {
        map.entry("type").or_insert_with(|| "object".into());
        map.entry("properties").or_insert_with(|| Value::Object(serde_json::Map::new()));
        // The doc comment of an argument struct describes the struct, not the
        // tool.
        map.shift_remove("description");
    }
    schema
}

fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            // `title` may also be the name of a property, whose value is an object.
            if map.get("title").is_some_and(Value::is_string) {
                map.shift_remove("title");
            }
            let numeric = map.get("type").is_some_and(|kind| {
                ["integer", "number"].iter().any(|number| {
                    kind == number
                        || kind.as_array().is_some_and(|all| all.iter().any(|one| one == number))
                })
            });
            if numeric && map.get("format").is_some_and(Value::is_string) {
                map.shift_remove("format");
            }
            let required: Vec<String> = map
                .get("required")
                .and_then(Value::as_array)
                .map(|names| names.iter().filter_map(Value::as_str).map(str::to_owned).collect())
                .unwrap_or_default();
            if let Some(Value::Object(properties)) = map.get_mut("properties") {
                for (name, property) in properties {
                    if !required.contains(name) {
                        drop_null(property);
                    }
                }
            }
            // The values of these keywords are data, not schemas.
            let schemas = map.iter_mut().filter(|(key, _)| {
                !["default", "enum", "const", "examples"].contains(&key.as_str())
            });
            schemas.for_each(|(_, inner)| tidy(inner));
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

/// `["string", "null"]` → `"string"`, `anyOf: [X, null]` → `X`.
fn drop_null(property: &mut Value) {
    let Value::Object(map) = property else { return };
    if map.get("default").is_some_and(Value::is_null) {
        map.shift_remove("default");
    }
    if let Some(Value::Array(types)) = map.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            map.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(options)) = map.get_mut("enum") {
        options.retain(|option| !option.is_null());
    }
    if let Some(Value::Array(alternatives)) = map.get_mut("anyOf") {
        alternatives.retain(|one| one.get("type").is_none_or(|kind| kind != "null"));
        if alternatives.len() == 1
            && let Some(Value::Object(only)) = alternatives.pop()
        {
            map.shift_remove("anyOf");
            for (key, value) in only {
                map.entry(key).or_insert(value);
            }
        }
    }
}

/// Serialises a value to JSON.
fn to_json(value: &impl Serialize) -> Result<Value, Error> {
    serde_json::to_value(value).map_err(|error| {
        Error::new(ErrorKind::InvalidOutput, format!("the result has no JSON form: {error}"))
    })
}
