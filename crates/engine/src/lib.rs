//! Windlass runs the tool calls of AI agents.
//!
//! An [`Engine`] takes what a model asks for, checks it, runs it, records it and
//! answers: exactly one result for every call, whatever goes wrong.
//!
//! ```
//! use serde_json::json;
//! use windlass::{CallRequest, Engine, Lang, tool};
//!
//! /// Tells the weather of the next days.
//! #[tool(read_only, timeout = "5s")]
//! async fn forecast(
//!     /// The city, such as Lisbon
//!     city: String,
//!     /// How many days
//!     #[param(default = 3)]
//!     days: u8,
//! ) -> String {
//!     format!("{days} days of sun in {city}")
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), windlass::Error> {
//! let engine = Engine::builder().tool(forecast::tool()).build()?;
//! let result = engine.call(CallRequest::new("forecast", json!({"city": "Lisbon"}))).await;
//! assert_eq!(result.to_text(Lang::En), "3 days of sun in Lisbon");
//! # Ok(())
//! # }
//! ```
//!
//! # The path of a call
//!
//! ```text
//! CallRequest ─ resolve ─ parse ─ inject ─ validate ─► Call
//!                  │                                    │
//!               Registry                 admit ─ execute ─ convert ─ close ─► CallResult
//!                                                  │                   │
//!                                               Executor            Journal ─► record, event
//! ```
//!
//! Each room below is a module: a file that says what the room is for, and a
//! folder of the same name. In reading order:
//!
//! 1. `call`: what goes in and comes out. [`CallRequest`] is what somebody asks
//!    for, [`Call`] has been validated, [`CallResult`] is the answer; with the
//!    [`Context`] that a call carries and the [`Output`] of a tool.
//! 2. `tool`: what can be called. [`ToolSpec`] is plain data, [`Tool`] is
//!    checked and compiled; the [`Registry`] finds tools by name, [`Groups`]
//!    switch them, [`ToolIndex`] searches them, and [`native`] makes them of
//!    Rust functions. [`Executor`] is the one method that a kind of tool brings.
//! 3. `engine`: [`Engine`] runs the pipeline; here it is a list of statements.
//! 4. `stage`: a function for each step of that list.
//! 5. `schedule`: when a call may run. Concurrency limits and the bounded
//!    queue, quotas, retries, circuit breakers, and the plan of a batch.
//! 6. `journal`: the only place where calls are opened and closed, each with
//!    one [`CallRecord`] and its [`Event`]s.
//! 7. `approval` and [`hook`]: who may intervene. A person approves a call, an
//!    embedder's [`Hook`] sees and rewrites it.
//! 8. `turn`: the message of a model in, the next message out, for each model
//!    API, whole or as it streams.
//! 9. `agent`: calls in the name of a [`SubAgent`], and tools that call tools.
//! 10. [`definition`]: tools as files. Text becomes [`ToolSpec`]s with every
//!     fault at its line; `load` keeps an engine up to date with a folder.
//!
//! Everything is written in the types of `value` (names, texts, durations,
//! secrets, ids of traces) and of `error`, whose one table says what each
//! [`ErrorKind`] means on every wire.
//!
//! What is not here: kinds of tools other than Rust functions, protocols, HTTP
//! and databases. They are crates that build on this one.

// Generated code refers to this crate by its public name, also in our own
// tests.
#[allow(unused_extern_crates, reason = "used by what the macro writes")]
extern crate self as windlass;

mod call;
mod tool;

mod engine;
mod schedule;
mod stage;

mod journal;

mod approval;
pub mod hook;

mod turn;

mod agent;

pub mod definition;

mod error;
mod fair_map;
mod fair_ring;
mod shards;
mod value;

pub use agent::nested::Tools;
pub use agent::sub_agent::{CallDetail, ExecutionSummary, SubAgent};
pub use approval::{
    ApprovalRule, ApprovalRules, Approvals, ArgumentRule, ArgumentTest, BehaviourTest, Decision,
    SuspendedAgent, SuspendedCall, Verdict,
};
pub use call::content::{Body, Content, Data, Facts, Output, Payload, Truncated};
pub use call::context::{Agent, Caller, CallerType, Context, Objects};
pub use call::credential::CredentialSource;
pub use call::grace::Grace;
pub use call::{Call, CallRequest, CallResult, ResultView};
pub use definition::load::{FolderWatch, LoadReport, WatchOptions};
pub use engine::{Batch, Engine, EngineBuilder, EngineSettings};
pub use error::{Error, ErrorKind, KindInfo, SettingFlaw, Violation};
pub use fair_map::FairMap;
pub use fair_ring::{FairRing, fair_level};
pub use hook::Hook;
pub use journal::event::{
    CallInfo, Emitter, Event, EventBody, EventSubject, QueueEvent, Subscription,
};
pub use journal::record::{
    Begun, BriefSummary, CallRecord, Details, FailedAttempt, Histogram, IdempotencyKey, Intent,
    MemoryStore, OutputPart, OwnerId, PageRequest, RecordFilter, RecordPage, RecordStore,
    RecordedError, Statistics, Status, Summary, ToolStatistics, rate,
};
pub use schedule::{
    BreakerSettings, BucketMetrics, CallQuota, CallQuotas, FairSlot, FairSlots, LimitMetrics,
    LimitSettings, QuotaScope, QuotaUse, RetryBudget, RetryPolicy, Strategy, TENANT_SHARE,
    TenantLoad, UnderWay,
};
pub use schemars::{self, JsonSchema};
pub use tokio_util::sync::CancellationToken;
pub use tool::executor::{BoxFuture, Executor};
pub use tool::groups::{GroupInfo, Groups, Session};
pub use tool::library::Library;
pub use tool::native::{self, FromCall, Inject, IntoOutput, Json};
pub use tool::output_tool::OutputScope;
pub use tool::providers::Providers;
pub use tool::registry::Registry;
pub use tool::search::{Embedder, ToolIndex};
pub use tool::search_tool::SearchScope;
pub use tool::{
    Approval, Behaviour, Category, Entry, Exposure, FilledBy, InputKind, Kind, Parameter, Preset,
    Source, Tool, ToolBuilder, ToolSpec, empty_object_schema,
};
pub use turn::{
    ModelCall, OpenTurn, SseDecoder, SseEvent, SseFields, SseReader, Turn, TurnAnswer, TurnFormat,
    failure_reason, lenient_json, replace_lone_surrogates,
};
pub use value::duration;
pub use value::name::{BatchId, CallId, MAX_TOOL_NAME, TenantId, ToolName};
pub use value::secret::{Secret, Veil};
pub use value::text::{Lang, Text};
pub use value::trace::TraceContext;
pub use value::usage::Usage;
pub use windlass_macros::tool;

/// Support for code generated by `#[tool]`. Not for direct use.
#[doc(hidden)]
pub mod __private {
    pub use crate::tool::native::{
        PlainReturn, ReturnValue, SerializeReturn, run_blocking, schema_of,
    };
    pub use {schemars, serde, serde_json};

    /// Attempts of `#[tool(retry = ..)]`, checked when they are compiled.
    ///
    /// ```compile_fail
    /// #[windlass::tool(retry = 101)]
    /// fn far_too_often() {}
    /// ```
    pub const fn attempts(attempts: u32) -> u32 {
        assert!(
            attempts <= crate::RetryPolicy::MAX_ATTEMPTS,
            "more than RetryPolicy::MAX_ATTEMPTS"
        );
        attempts
    }
}
