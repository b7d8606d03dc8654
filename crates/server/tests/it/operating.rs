//! Operating `windlass serve`: shutdown, logs, traces, outages.

mod drain;
mod kill;
mod logs;
mod outage;
mod server;
mod traces;
mod vault;
