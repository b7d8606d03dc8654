//! The HTTP and MCP server of Windlass as a library, and its command line.
//!
//! [`Server`] serves the tools of a program of one's own over HTTP and MCP, with
//! everything that `windlass serve` has; [`serve_mcp`] serves them to one MCP
//! client over a pair of streams, such as standard input and output. That is all
//! that is stable here.
//!
//! The rooms, in the order of a start:
//!
//! ```text
//!  cli ─► settings ─► installation ─► wiring ─► Engine ─┬─► http ─► front ─► routes
//!                                                       │     └─► document
//!                                                       └─► mcp
//!         state: what a server keeps          human: what a person is asked
//! ```
//!
//! - `cli`: the commands and what only they use: arguments, output, exit codes.
//! - `settings`: flags, environment and `windlass.yaml` become one `Settings`.
//! - `installation`: what a process works with, each part opened once: database,
//!   vault, grants, the guarded way out, engine, MCP servers.
//! - `wiring`: the one table of the kinds of tools.
//! - `http`: the API. `http/front` is what every request passes, `http/routes`
//!   has a file for each resource, `http/document` describes them, and
//!   `http/cluster` is what servers on one database know of each other.
//! - `mcp`: the engine as a server of the Model Context Protocol.
//! - `human`: approvals, questions, consents, and calls that wait for answers.
//! - `state`: vault, API keys, imports, runs, quotas and the audit log.
//! - `telemetry`, `logging`: what operators see.

mod cli;
mod installation;
mod settings;
mod wiring;

mod http;
mod mcp;

mod human;
mod state;

mod logging;
mod prerequisites;
mod random;
mod server;
mod telemetry;

#[doc(hidden)]
pub use cli::command_line;
pub use server::{Server, ServerBuilder, ServerError, serve_mcp};
