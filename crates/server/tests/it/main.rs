//! The program as people and scripts run it, in folders of its own.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "the helpers are part of the tests"
)]

mod agents;
mod batching;
mod calling;
mod catalogue;
mod checking;
mod config;
mod doctor;
mod embedded;
mod http;
mod looking_back;
mod mcp;
mod operating;
mod postgres;
mod process;
mod project;
mod providers;
mod reaching_out;
#[cfg(unix)]
mod screens;
mod settings;
mod upstream;
