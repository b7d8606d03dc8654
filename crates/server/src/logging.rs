//! Logs of a server: for people on a terminal, JSON otherwise.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::output::Screen;

/// Begins to log to stderr. `WINDLASS_LOG` says how much: `info` if nobody
/// says, `debug`, `trace`, or `windlass=debug,warn`.
pub(crate) fn start(screen: Screen) {
    let default = match (screen.quiet, screen.verbose) {
        (true, _) => "error",
        (_, true) => "debug",
        // The protocol's library tells of every request.
        _ => "info,rmcp=warn",
    };
    let filter = EnvFilter::try_from_env("WINDLASS_LOG").unwrap_or_else(|_| default.into());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    // Another subscriber, as in tests, stays.
    let _ = match io::stderr().is_terminal() && !screen.json {
        true => log.try_init(),
        false => log.json().flatten_event(true).try_init(),
    };
}
