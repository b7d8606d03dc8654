//! The Model Context Protocol server: the engine's tools, prompts and resources for
//! MCP clients. The client side, for MCP servers whose tools the engine runs, is in
//! `windlass_executors`.
//!
//! ```text
//! client ─ stdio │ endpoint ─► handler ─ catalogue ─► Engine::call ─► McpReply
//!                                 │                       │
//!           offering, library ◄───┤    reports, mailbox ◄─┘
//!                     changes ◄───┘
//! ```
//!
//! `McpHandler` is the state of one client's connection, and `handler` implements
//! the protocol's methods on it. Every request becomes an ordinary call, with rate
//! limits, approvals, records and redaction of secrets.

mod aggregate;
mod calling;
mod catalogue;
mod changes;
mod client;
mod command_servers;
mod endpoint;
mod fast_path;
mod fetching;
mod finder;
#[cfg(feature = "fixtures")]
pub(crate) mod fixture_client;
#[cfg(feature = "fixtures")]
pub(crate) mod fixtures;
mod handler;
mod introduction;
mod library;
pub(crate) mod mailbox;
mod malformed;
mod notebook;
mod offering;
mod reply;
mod reports;
mod requests;
pub(crate) mod running;
mod service;
mod sessions;
pub(crate) mod shares;
mod tokens;

pub(crate) use client::{ClientAuth, ServedTools};
pub(crate) use command_servers::CommandServers;
pub(crate) use endpoint::{EndpointLimits, McpEndpoint};
pub(crate) use mailbox::pick;
pub(crate) use notebook::StoredNotebook;
pub(crate) use service::{MAX_TOOLS, McpHandler, McpState};
pub(crate) use sessions::{MAX_SESSIONS, Sessions};
pub(crate) use tokens::VaultTokens;
