//! Tests of kinds at the boundary of the engine, with the outside world real.

#[cfg(feature = "rest")]
mod rest;
