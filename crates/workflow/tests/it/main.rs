//! Workflows as tools of an engine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failure here should stop the run"
)]

mod dify;
mod durable;
mod dying;
mod guide;
mod native;
mod setup;
