//! Tests of the record stores.
//!
//! `contract` holds what every store must do and runs against each of them;
//! the other modules hold what only a store on a disk, or behind a network, can
//! do wrong.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failure here should stop the run"
)]

mod contract;
mod crash;
mod disk;
mod outage;
mod postgres;
mod postgres_intents;
mod postgres_outage;
mod postgres_owners;
mod postgres_start;
mod sample;
