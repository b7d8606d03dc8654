//! One binary for all integration tests of the executors.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::zombie_processes,
    reason = "a failure here should stop the run"
)]

mod agent;
mod definitions;
mod files;
mod guard;
mod http_request;
mod mcp;
mod requirements;
mod rest;
mod services;
mod sql;
mod sql_postgres;
mod support;
mod webscraper;
