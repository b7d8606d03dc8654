//! One binary for all integration tests of the executors.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failure here should stop the run"
)]

mod definitions;
mod files;
mod guard;
mod http_request;
mod rest;
mod services;
mod sql;
mod sql_postgres;
mod support;
mod webscraper;
