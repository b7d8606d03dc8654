//! Windlass runs the tool calls of AI agents.
//!
//! One engine takes what a model asks for, checks it, runs it, records it and
//! answers: exactly one result for every call, whatever goes wrong.
//!
//! ```text
//! CallRequest ─ resolve ─ inject ─ validate ─ admit ─ execute ─ convert ─ close ─► CallResult
//!                  │                                               │         │
//!               Registry                                        Executor   Journal ─► record, event
//! ```

// The macro's code names this crate by its public name, also in our own tests.
#[allow(unused_extern_crates, reason = "used by what the macro writes")]
extern crate self as windlass;

pub mod definition;
pub mod duration;
pub mod hook;
pub mod native;

mod approval;
mod cache;
mod call;
mod clock;
mod content;
mod context;
mod credential;
mod engine;
mod error;
mod event;
mod executor;
mod fingerprint;
mod grace;
mod groups;
mod journal;
mod lane;
mod library;
mod load;
mod name;
mod nested;
mod output_tool;
mod pointer;
mod providers;
mod record;
mod registry;
mod schedule;
mod search;
mod search_tool;
mod secret;
mod session_shares;
mod stage;
mod sub_agent;
mod text;
mod tool;
mod trace;
mod turn;
mod usage;

pub use approval::{
    ApprovalRule, ApprovalRules, Approvals, ArgumentRule, ArgumentTest, BehaviourTest, Decision,
    SuspendedAgent, SuspendedCall, Verdict,
};
pub use call::{Call, CallRequest, CallResult};
pub use content::{Body, Content, Data, Facts, Output, Truncated};
pub use context::{Agent, Caller, CallerType, Context, Objects};
pub use credential::CredentialSource;
pub use engine::{Batch, Engine, EngineBuilder, Settings};
pub use error::{Error, ErrorKind, KindInfo, Violation};
pub use event::{CallInfo, Emitter, Event, EventBody, QueueEvent, Subscription};
pub use executor::{BoxFuture, Executor};
pub use grace::Grace;
pub use groups::{GroupInfo, Groups, Session};
pub use hook::Hook;
pub use library::Library;
pub use load::{FolderWatch, LoadReport, WatchOptions};
pub use name::{BatchId, CallId, MAX_TOOL_NAME, TenantId, ToolName};
pub use native::{FromCall, Inject, IntoOutput, Json};
pub use nested::Tools;
pub use output_tool::OutputScope;
pub use providers::Providers;
pub use record::{
    Begun, BriefSummary, CallRecord, Details, FailedAttempt, Histogram, IdempotencyKey, Intent,
    MemoryStore, OutputPart, OwnerId, PageRequest, RecordFilter, RecordPage, RecordStore,
    RecordedError, Statistics, Status, Summary, ToolStatistics, rate,
};
pub use registry::Registry;
pub use schedule::{
    BreakerSettings, BucketMetrics, CallQuota, CallQuotas, LimitMetrics, LimitSettings, QuotaScope,
    QuotaUse, RetryBudget, RetryPolicy, Strategy, TenantLoad, UnderWay,
};
pub use schemars::{self, JsonSchema};
pub use search::{Embedder, ToolIndex};
pub use search_tool::SearchScope;
pub use secret::{Secret, Veil};
pub use sub_agent::{CallDetail, ExecutionSummary, SubAgent};
pub use text::{Lang, Text};
pub use tokio_util::sync::CancellationToken;
pub use tool::{
    Approval, Behaviour, Category, Entry, Exposure, FilledBy, InputKind, Kind, Parameter, Preset,
    Source, Tool, ToolBuilder, ToolSpec, empty_object_schema,
};
pub use trace::TraceContext;
pub use turn::{
    ModelCall, OpenTurn, SseDecoder, SseEvent, Turn, TurnAnswer, TurnFormat, failure_reason,
    lenient_json, replace_lone_surrogates,
};
pub use usage::Usage;
pub use windlass_macros::tool;

/// What the code that `#[tool]` writes needs. Not for use by hand.
#[doc(hidden)]
pub mod __private {
    pub use crate::native::{PlainReturn, ReturnValue, SerializeReturn, run_blocking, schema_of};
    pub use {schemars, serde, serde_json};
}
