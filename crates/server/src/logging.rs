//! Log output of a server: text on a terminal, JSON lines otherwise.
//!
//! Some libraries log whole headers and SQL statements, with keys and passwords in
//! them, at their lowest levels. They are capped at levels that are safe unless
//! `log.level` names them. `rmcp` logs whole messages of clients and servers at
//! every level, so it is switched off: every error that it could log is also in the
//! result of a call or in the state of a server.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::cli::output::Screen;
use crate::settings::{LogFormat, LogSettings};

/// Parts whose lower levels may hold what others sent.
const TALKATIVE: [&str; 8] =
    ["h2", "hyper", "hyper_util", "reqwest", "rustls", "tokio_postgres", "tower", "tungstenite"];

/// Parts whose every level may.
const INDISCREET: [&str; 1] = ["rmcp"];

/// Begins to log to stderr.
pub(crate) fn start(settings: &LogSettings, screen: Screen) {
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter(settings, screen))
        .with_writer(io::stderr)
        // It would be said on stderr, too, and panic: a log that cannot be written,
        // as on a full disk, ends no request.
        .log_internal_errors(false)
        .with_ansi(io::stderr().is_terminal());
    let human = match settings.format {
        LogFormat::Auto => io::stderr().is_terminal() && !screen.json,
        LogFormat::Human => true,
        LogFormat::Json => false,
    };
    // Another subscriber, as in tests, stays.
    let _ = match human {
        true => log.try_init(),
        false => log.json().flatten_event(true).try_init(),
    };
}

fn filter(settings: &LogSettings, screen: Screen) -> EnvFilter {
    let level = match (&settings.level, screen.quiet, screen.verbose) {
        (Some(level), ..) => level.0.as_str(),
        (None, true, _) => "error",
        (None, _, true) => "debug",
        (None, ..) => "info",
    };
    let named = |part: &str| {
        level.split(',').any(|one| {
            let name = one.split(['=', '[', ':']).next().unwrap_or_default().trim();
            name == part
        })
    };
    let capped = TALKATIVE.iter().map(|part| (part, "warn"));
    let capped = capped.chain(INDISCREET.iter().map(|part| (part, "off")));
    let capped = capped.filter(|(part, _)| !named(part));
    capped.fold(EnvFilter::new(level), |filter, (part, most)| {
        match format!("{part}={most}").parse() {
            Ok(directive) => filter.add_directive(directive),
            Err(_) => filter,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::LogLevel;

    fn shown(level: &str) -> String {
        let settings =
            LogSettings { level: Some(LogLevel(level.to_owned())), ..LogSettings::default() };
        let screen = Screen { json: false, quiet: false, verbose: false };
        filter(&settings, screen).to_string()
    }

    #[test]
    fn what_may_tell_secrets_is_kept_quiet_unless_it_is_named() {
        let trace = shown("trace");
        for part in TALKATIVE {
            assert!(trace.contains(&format!("{part}=warn")), "{trace}");
        }
        for part in INDISCREET {
            assert!(trace.contains(&format!("{part}=off")), "{trace}");
        }
        let named = shown("trace,h2=trace");
        assert!(named.contains("h2=trace") && !named.contains("h2=warn"), "{named}");
        assert!(named.contains("hyper=warn"), "{named}");
    }
}
