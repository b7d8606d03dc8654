//! Tests of the whole crate, against data that nobody here wrote.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failure here should stop the run"
)]

mod dry_run;
mod fixtures;
mod oracle;
mod properties;
mod reading;
mod runs;
mod steps;
mod vectors;
