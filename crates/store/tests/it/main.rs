//! Tests of the record stores.
//!
//! `contract` and `contract_intents` hold what every store must do and run
//! against each of them; the other modules hold what only a store on a disk, or
//! behind a network, can do wrong.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failure here should stop the run"
)]

mod chaos;
mod contract;
mod contract_intents;
mod crash;
mod disk;
mod engine;
mod full_disk;
mod intents;
mod outage;
mod owners;
mod postgres;
mod postgres_intents;
mod postgres_outage;
mod postgres_owners;
mod postgres_start;
mod retention;
mod sample;
