//! One binary for all integration tests of the engine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failure here should stop the run"
)]

mod admission;
mod approvals;
mod batch;
mod cache;
mod cancel;
mod credentials;
mod definition;
mod durable;
mod effects;
mod events;
mod fairness;
mod groups;
mod hooks;
mod idempotency;
mod macros;
mod names;
mod nested;
mod pipeline;
mod queue_events;
mod quotas;
mod random;
mod reload;
mod requirements;
mod retry;
mod search;
mod shares;
mod sub_agent;
mod support;
mod tenants;
mod turn;
