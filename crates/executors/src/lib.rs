//! The kinds of tools that [`windlass`] can run.
//!
//! Each kind is a module behind a cargo feature of the same name; kinds never
//! import each other. A kind turns a [`windlass::ToolSpec`] into a
//! [`windlass::Executor`] and knows nothing of HTTP servers or databases.
//!
//! | module | feature | runs |
//! |---|---|---|
//! | [`builtin`] | `builtin` | what Windlass ships: arithmetic, dates, text, arrays, objects |
//! | [`mcp`] | `mcp` | tools of servers that speak the Model Context Protocol |
//!
//! ```
//! # #[cfg(feature = "builtin")] {
//! use windlass::{ToolName, ToolSpec};
//!
//! let spec = ToolSpec::new(ToolName::new("calculator")?);
//! let executor = windlass_executors::builtin::bind(&spec)?;
//! # drop(executor);
//! # }
//! # Ok::<(), windlass::Error>(())
//! ```

#[cfg(feature = "builtin")]
pub mod builtin;
#[cfg(feature = "mcp")]
pub mod mcp;

#[cfg(feature = "outbound")]
pub mod outbound;
