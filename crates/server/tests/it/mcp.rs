//! The MCP server over both transports, and third-party servers behind it.

mod bearers;
pub(crate) mod http;
mod inputs;
mod log;
mod login;
mod others;
pub(crate) mod played;
mod real;
mod sessions;
mod stdio;
mod through;
mod views;
