//! REST client: every operation of an HTTP API is a tool.
//!
//! ```text
//! OpenAPI, Swagger ─ document ─► Api ─ import ─► Import: ProviderSpec, ToolSpecs
//!                                                              │ entry
//! a definition by hand ────────────────────────────────────────┤
//!                                                              ▼
//! Call ─ executor ─► Plan + arguments ─ request ─► auth ─► Outbound ─ response ─► Output
//! ```
//!
//! A tool's request is plain data in its `entry`: no API document is read when a call is
//! made.

mod auth;
mod document;
mod entry;
mod executor;
mod flaws;
mod import;
mod media;
mod plan;
mod preview;
mod request;
mod response;
mod schema;

pub use auth::{AskConsent, Consent};
pub use document::{DocumentLimits, ReadFile};
pub use executor::Rest;
pub use flaws::flaws;
pub use import::{
    Auth, Import, ImportOptions, ImportedTool, Names, Origin, Selector, Unsupported, import,
    import_beside, needs_credential, origins,
};
pub use preview::{Preview, preview};
