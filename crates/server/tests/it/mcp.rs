//! The engine as a server of the Model Context Protocol, over its two wires, and
//! servers of others behind it.

mod bearers;
pub(crate) mod http;
mod log;
mod login;
mod others;
mod played;
mod real;
mod sessions;
mod stdio;
mod through;
mod views;
