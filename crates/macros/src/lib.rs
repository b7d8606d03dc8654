//! The `#[tool]` attribute of windlass. Use it as `windlass::tool`.
//!
//! ```text
//! attribute.rs   what people wrote in `#[tool(..)]`, `#[param(..)]` and doc comments
//! reliability.rs `writes`, `retry`, `cache` and `safe_when` among it
//! text.rs        the rules for names, durations and doc comments
//! function.rs    a checked function: the only thing that code is generated from
//! parameter.rs   its parameters: who fills each of them
//! expand.rs      function -> the expression that builds its tool
//! item.rs        what is put beside a function or an impl block
//! ```
//!
//! Every mistake is a `syn::Error` at its location, and all are reported at
//! once. The item itself is always emitted, so that one mistake does not cause
//! further errors at its uses.

mod attribute;
mod expand;
mod function;
mod item;
mod parameter;
mod reliability;
mod text;

use proc_macro::TokenStream;

/// Makes a tool of a function, or of the marked methods of an impl block.
///
/// ```
/// use windlass::{Emitter, Engine, tool};
///
/// /// Greets a person.
/// #[tool(read_only)]
/// async fn greet(
///     /// Whom to greet
///     name: String,
///     /// How often
///     #[param(default = 1)]
///     times: u32,
///     greeting: Option<String>,
///     emitter: Emitter,
/// ) -> Result<String, std::io::Error> {
///     emitter.emit("thinking of something nice");
///     let greeting = greeting.unwrap_or_else(|| "Hello".to_owned());
///     Ok(format!("{greeting}, {name}! ").repeat(times as usize))
/// }
///
/// let engine = Engine::builder().tool(greet::tool()).build()?;
/// # Ok::<(), windlass::Error>(())
/// ```
///
/// The function is unchanged and can be called directly. A type of the same
/// name is generated, whose only use is `greet::tool()`: a `ToolBuilder`, to
/// which presets and other settings can be added.
///
/// # The function
///
/// | key | meaning |
/// |---|---|
/// | `name = "…"` | the tool's name, in place of the function's |
/// | `description = "…"` | in place of the doc comment; one of the two is needed |
/// | `read_only`, `concurrency_safe`, `idempotent`, `destructive` | its behaviour; each also takes `= false` |
/// | `timeout = "5s"` | how long one call may take |
/// | `writes = ["memory:{user_id}"]` | what it changes, with parameters in braces: calls that change different things run together in a batch |
/// | `safe_when(action = ["load"])` | the values of parameters with which it may run beside others |
/// | `retry = 5` | how often a call that failed is tried; also `retry(attempts = 5, backoff = "1s", multiplier = 2, max_backoff = "30s")` |
/// | `cache = "10m"` | how long a result is given again for the same arguments; without a time, five minutes. Only with `read_only` |
/// | `group = "…"`, `category = "…"` | where it belongs |
/// | `inline` | run a function that is not async in place, not on a thread for blocking work: only for quick ones |
/// | `crate = "path"` | where to find windlass, if not at `::windlass` |
///
/// It may return anything that is `Serialize` or `IntoOutput`, or a `Result`
/// of that whose error can be displayed.
///
/// # Its parameters
///
/// A parameter is filled by the model: its type is `Deserialize` and
/// `JsonSchema`, its doc comment is its description. An `Option` is not
/// required. `#[param(name = "…", description = "…", default = 3)]` says the
/// rest; a bare `default` is the type's own. For an `Option<T>` the default is
/// a `T`.
///
/// These are filled by the engine and are not in the schema: `Inject<T>`,
/// `Emitter`, `CallId`, `Tools`, `Arc<Agent>`, `Secret` (found by the parameter's name),
/// an `Option` of `Inject`, `Arc<Agent>` or `Secret`, the call itself as `&Call`
/// (but not on another thread: `async` and `inline` functions only), and
/// any `FromCall` type marked `#[inject]`.
///
/// # Methods
///
/// ```
/// use windlass::{Engine, tool};
///
/// struct Counter(std::sync::atomic::AtomicU64);
///
/// #[tool(prefix = "counter_")]
/// impl Counter {
///     /// Counts.
///     #[tool(inline)]
///     fn add(&self, amount: u64) -> u64 {
///         self.0.fetch_add(amount, std::sync::atomic::Ordering::Relaxed) + amount
///     }
/// }
///
/// let engine = Engine::builder().tools(Counter(0.into()).tools()).build()?;
/// # Ok::<(), windlass::Error>(())
/// ```
///
/// All tools share the object; `Counter::shared_tools(Arc<Counter>)` leaves the
/// caller a share. The block takes `prefix`, and `group`, `category` and
/// `crate` for all of its methods. A method takes `&self`, or no `self`.
#[proc_macro_attribute]
pub fn tool(attribute: TokenStream, item: TokenStream) -> TokenStream {
    item::expand(attribute.into(), &item.into()).into()
}

#[cfg(test)]
mod tests;
