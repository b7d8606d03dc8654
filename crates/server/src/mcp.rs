//! The Model Context Protocol, from both sides: the servers whose tools this
//! engine runs, and this engine as a server.
//!
//! ```text
//! client ─ stdio │ endpoint ─► handler ─ catalogue ─► Engine::call ─► Reply
//!                                 │                       │
//!           offering, library ◄───┤     reports, asking ◄─┘
//!                     changes ◄───┘
//! ```
//!
//! `McpHandler` is the protocol's side of the engine, and `handler` its methods.
//! Everything that a client calls goes the way of every other call: limits,
//! approvals, records, hidden secrets.

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
