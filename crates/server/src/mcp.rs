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
//! `Service` is the protocol's side of the engine, and `handler` its methods.
//! Everything that a client calls goes the way of every other call: limits,
//! approvals, records, hidden secrets.

pub(crate) mod asking;
mod calling;
mod catalogue;
mod changes;
mod endpoint;
mod fetching;
mod finder;
#[cfg(feature = "fixtures")]
pub(crate) mod fixture_client;
#[cfg(feature = "fixtures")]
pub(crate) mod fixtures;
mod gathered;
mod handler;
mod introduction;
mod library;
mod malformed;
mod notebook;
mod offering;
mod plain;
mod reply;
mod reports;
mod requests;
pub(crate) mod running;
mod service;
mod sessions;
pub(crate) mod shares;
mod tokens;
mod upstream;
mod who;

pub(crate) use asking::pick;
pub(crate) use endpoint::{Endpoint, EndpointLimits};
pub(crate) use notebook::KeptNotebook;
pub(crate) use service::{MAX_TOOLS, Service, Shared};
pub(crate) use sessions::{MAX_SESSIONS, Sessions};
pub(crate) use tokens::KeptTokens;
pub(crate) use upstream::Upstream;
pub(crate) use who::{View, Who};
