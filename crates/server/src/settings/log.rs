//! The section `log`.

use serde_json::{Value as Json, json};
use tracing_subscriber::EnvFilter;

use super::value::{SettingInput, SettingValue};

/// What a server logs, and how.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogSettings {
    /// None: as much as the flags say.
    pub(crate) level: Option<LogLevel>,
    pub(crate) format: LogFormat,
}

/// How much is logged: a level, or levels for parts of the program.
#[derive(Clone, Debug)]
pub(crate) struct LogLevel(pub(crate) String);

/// How it is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// For people on a terminal, JSON otherwise.
    #[default]
    Auto,
    Human,
    Json,
}

impl SettingValue for LogLevel {
    const FORM: &'static str = "a level, or levels for parts of the program";

    fn read(given: &SettingInput<'_>) -> Result<Self, String> {
        let text = given.text()?;
        // A single word that is no level would be parsed as a target.
        let levels = ["off", "error", "warn", "info", "debug", "trace"];
        let level = text.to_ascii_lowercase();
        let plain = !text.contains(['=', ',', '[']);
        match EnvFilter::try_new(text) {
            Ok(_) if !plain || levels.contains(&level.as_str()) => Ok(Self(text.to_owned())),
            _ => Err(given.wrong("error, warn, info, debug, trace, off, or PART=LEVEL,…")),
        }
    }

    fn show(&self) -> Json {
        json!(self.0)
    }
}

impl SettingValue for LogFormat {
    const FORM: &'static str = "auto, human or json";

    fn read(given: &SettingInput<'_>) -> Result<Self, String> {
        match given.text()? {
            "auto" => Ok(Self::Auto),
            "human" => Ok(Self::Human),
            "json" => Ok(Self::Json),
            _ => Err(given.wrong(Self::FORM)),
        }
    }

    fn show(&self) -> Json {
        json!(match self {
            Self::Auto => "auto",
            Self::Human => "human",
            Self::Json => "json",
        })
    }
}
