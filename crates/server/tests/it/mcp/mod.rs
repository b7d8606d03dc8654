//! The engine as a server of the Model Context Protocol, over its two wires, and
//! servers of others behind it.

mod bearers;
mod http;
mod login;
mod played;
mod real;
mod stdio;
mod through;
mod views;
