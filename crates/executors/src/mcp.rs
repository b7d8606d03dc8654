//! MCP client: the tools of servers that speak the Model Context Protocol.
//!
//! ```text
//! ProviderSpec.mcp ─ Servers ─► Server ─ keeper ─► Connection ─ Tap ─► stdio │ http
//!                                  │                   │
//!            Registry ◄─ tools ────┘     tools/call ───┘◄─── Executor ◄─── Call
//! ```
//!
//! [`Servers`] follows the providers of an engine. Each [`Server`] has a keeper, a
//! supervisor task that connects when the server is first needed, lists its tools,
//! registers them with the engine as `server/tool`, and reconnects when the connection is
//! lost. A call borrows the connection; it never starts or stops a process itself, so a
//! slow or dead server delays nobody else.
//!
//! Both eras of the protocol are supported: the one with `initialize`, and the stateless
//! one of 2026-07-28 without. `handshake` detects which one a server speaks.
//!
//! The types of `rmcp` stay in this folder and in that of the MCP server, which shares
//! `convert`. Deliberately left out: the HTTP+SSE transport of 2024 (`sse`), and tasks.

mod accounts;
mod ask;
mod authorize;
mod call;
mod connect;
mod connection;
pub mod convert;
mod descendants;
mod environment;
mod events;
mod expand;
mod failure;
mod handler;
mod handshake;
mod http;
mod in_flight;
mod inputs;
mod keeper;
mod list;
mod logins;
mod message;
mod notebook;
mod process;
mod publish;
mod quarantine;
mod secrets;
mod server;
mod servers;
mod start_queue;
mod stdio;
mod tap;
mod tokens;
mod tools;
mod watchdog;
mod watching;

pub use ask::{Answers, Asker, Askers, Questions};
pub use authorize::{Login, LoginOptions};
pub use failure::{ProtocolError, ToolFailure};
pub use keeper::Start;
pub use notebook::{MemoryNotebook, Note, Notebook, Offers};
pub use quarantine::{ChangedPart, ToolChange};
pub use secrets::{has_secrets, short_secret};
pub use server::{News, Server, State};
pub use servers::Servers;
pub use tokens::{Account, MemoryTokens, Tokens};
pub use tools::declared;
pub use watching::Watching;
