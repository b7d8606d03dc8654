//! One binary for all integration tests of the engine.

mod definition;
mod events;
mod groups;
mod hooks;
mod macros;
mod pipeline;
mod random;
mod reload;
