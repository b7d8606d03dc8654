//! `windlass serve` as operators know it: how it ends, what it tells.

mod drain;
mod kill;
mod logs;
mod outage;
mod server;
mod traces;
mod vault;
