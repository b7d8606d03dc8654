//! Workflows as tools of an engine.

mod durable;
mod native;
mod setup;
