//! Executors: the kinds of tools that [`windlass`] can run.
//!
//! Each kind is a module behind a cargo feature of the same name; kinds never import each
//! other. A kind turns a [`windlass::ToolSpec`] into a [`windlass::Executor`] and knows
//! nothing of HTTP servers or databases.
//!
//! | module | feature | runs |
//! |---|---|---|
//! | [`agent`] | `agent` | models with tools |
//! | [`builtin`] | `builtin` | what Windlass ships: arithmetic, dates, text, arrays, objects |
//! | [`mcp`] | `mcp` | tools of servers that speak the Model Context Protocol |
//! | [`rest`] | `rest` | APIs over HTTP, from OpenAPI and Swagger documents or by hand |
//!
//! Built-in tools with side effects or network access come in groups of their own, which
//! are added to those of [`builtin::Builtins`]:
//!
//! | module | feature | tools |
//! |---|---|---|
//! | [`network`] | `network` | HTTP requests, web pages, search, weather, speech, notifications |
//! | [`files`] | `files` | the files of one folder |
//! | [`sql`] | `sql` | SQL queries to PostgreSQL and SQLite |
//!
//! Two modules are not kinds of tools: [`outbound`] is the HTTP client with SSRF
//! protection that all network access goes through, and [`model`] is the client for model
//! APIs on top of it.
//!
//! ```
//! # #[cfg(feature = "builtin")] {
//! use windlass::{ToolName, ToolSpec};
//!
//! let spec = ToolSpec::new(ToolName::new("calculator")?);
//! let executor = windlass_executors::builtin::Builtins::default().bind(&spec)?;
//! # drop(executor);
//! # }
//! # Ok::<(), windlass::Error>(())
//! ```

#[cfg(feature = "agent")]
pub mod agent;
#[cfg(feature = "builtin")]
pub mod builtin;
#[cfg(feature = "mcp")]
pub mod mcp;

#[cfg(feature = "files")]
pub mod files;
#[cfg(feature = "model")]
pub mod model;
#[cfg(feature = "network")]
pub mod network;
#[cfg(feature = "outbound")]
pub mod outbound;
#[cfg(feature = "rest")]
pub mod rest;
#[cfg(feature = "sql")]
pub mod sql;
