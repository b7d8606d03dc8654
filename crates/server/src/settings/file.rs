//! `windlass.yaml`: every fault at once, each with its line and what to write.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use serde_saphyr::Spanned;
use windlass::{Lang, definition, duration};

use super::EngineSettings;
use crate::exit::Failure;

/// The settings file, read.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) tools_directory: Option<PathBuf>,
    pub(super) database: Option<String>,
    pub(super) auto_reload: Option<bool>,
    pub(super) reload_interval: Option<Duration>,
    pub(super) watch_for_changes: Option<bool>,
    pub(super) lang: Option<Lang>,
    pub(super) engine: EngineSettings,
}

const KEYS: [&str; 11] = [
    "tools_directory",
    "database",
    "auto_reload",
    "reload_interval",
    "watch_for_changes",
    "strict_validation",
    "max_concurrent",
    "queue_size",
    "default_timeout",
    "max_output_bytes",
    "lang",
];

impl File {
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let text = definition::read_file(path, &definition::Limits::default())
            .map_err(|error| Failure::usage(error.to_string()))?;
        Self::parse(&text).map_err(|faults| {
            let place = path.display();
            let lines: Vec<String> =
                faults.iter().map(|fault| format!("{place}:{}: {}", fault.line, fault.why)).collect();
            Failure::usage(lines.join("\n"))
                .hint("`windlass init` in an empty folder writes a file that explains every key")
        })
    }

    fn parse(text: &str) -> Result<Self, Vec<Fault>> {
        let entries: Option<BTreeMap<String, Spanned<Value>>> = serde_saphyr::from_str(text)
            .map_err(|error| {
                let line = error.location().map_or(1, |at| at.line());
                vec![Fault { line, why: plain_message(&error) }]
            })?;
        let mut file = Self::default();
        let mut faults = Vec::new();
        for (key, entry) in entries.unwrap_or_default() {
            // A key without a value is a key that is not set.
            if entry.value.is_null() && KEYS.contains(&key.as_str()) {
                continue;
            }
            if let Err(why) = file.set(&key, &entry.value) {
                faults.push(Fault { line: entry.referenced.line(), why });
            }
        }
        faults.sort_by_key(|fault| fault.line);
        if faults.is_empty() { Ok(file) } else { Err(faults) }
    }

    fn set(&mut self, key: &str, value: &Value) -> Result<(), String> {
        let engine = &mut self.engine;
        match key {
            "tools_directory" => self.tools_directory = Some(text(key, value)?.into()),
            "database" => self.database = Some(text(key, value)?),
            "auto_reload" => self.auto_reload = Some(flag(key, value)?),
            "reload_interval" => self.reload_interval = Some(span(key, value)?),
            "watch_for_changes" => self.watch_for_changes = Some(flag(key, value)?),
            "strict_validation" => engine.strict_validation = Some(flag(key, value)?),
            "max_concurrent" => engine.max_concurrent = Some(count(key, value, 1)?),
            "queue_size" => engine.queue_size = Some(count(key, value, 0)?),
            "default_timeout" => engine.default_timeout = Some(span(key, value)?),
            "max_output_bytes" => engine.max_output_bytes = Some(count(key, value, 1)?),
            "lang" => self.lang = Some(text(key, value)?.parse()?),
            unknown => return Err(unknown_key(unknown)),
        }
        Ok(())
    }
}

/// What is wrong, and in which line.
#[derive(Debug, PartialEq, Eq)]
struct Fault {
    line: u64,
    why: String,
}

/// The reader's own words without its picture of the place.
fn plain_message(error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    let first = first.trim_start_matches("error: ");
    first.split_once(": ").filter(|(at, _)| at.starts_with("line ")).map_or(first, |(_, why)| why).to_owned()
}

fn unknown_key(key: &str) -> String {
    let near = KEYS
        .iter()
        .map(|known| (strsim::jaro_winkler(key, known), known))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(likeness, _)| *likeness > 0.8);
    match near {
        Some((_, known)) => format!("unknown key `{key}`; did you mean `{known}`?"),
        None => format!("unknown key `{key}`; the keys are {}", KEYS.join(", ")),
    }
}

fn text(key: &str, value: &Value) -> Result<String, String> {
    match value.as_str() {
        Some("") | None => Err(format!("`{key}` is a text, found {value}")),
        Some(text) => Ok(text.to_owned()),
    }
}

fn flag(key: &str, value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| format!("`{key}` is true or false, found {value}"))
}

fn count(key: &str, value: &Value, least: usize) -> Result<usize, String> {
    value
        .as_u64()
        .and_then(|number| usize::try_from(number).ok())
        .filter(|number| *number >= least)
        .ok_or_else(|| format!("`{key}` is a whole number from {least}, found {value}"))
}

fn span(key: &str, value: &Value) -> Result<Duration, String> {
    let read = match value {
        Value::Number(number) => duration::from_seconds(number.as_f64().unwrap_or_default()),
        Value::String(text) => duration::parse(text),
        _ => Err(format!("{value} is not a duration; write 30s, 500ms or 2m")),
    };
    read.map_err(|why| format!("`{key}`: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read() {
        let text = "tools_directory: t\ndatabase: d.db\nauto_reload: false\nreload_interval: 2.5\n\
                    watch_for_changes: true\nstrict_validation: true\nmax_concurrent: 3\n\
                    queue_size: 0\ndefault_timeout: 5s\nmax_output_bytes: 10\nlang: zh-CN\n";
        assert_eq!(text.lines().count(), KEYS.len());
        let file = File::parse(text).unwrap();
        assert_eq!(file.reload_interval, Some(Duration::from_millis(2500)));
        assert_eq!(file.engine.default_timeout, Some(Duration::from_secs(5)));
        assert_eq!(file.engine.queue_size, Some(0));
        assert_eq!(file.lang, Some(Lang::Zh));
        assert_eq!(file.tools_directory.as_deref(), Some(Path::new("t")));
    }

    #[test]
    fn an_empty_file_sets_nothing() {
        for text in ["", "# only a comment\n", "lang:\n", "{}"] {
            assert!(File::parse(text).unwrap().lang.is_none(), "{text:?}");
        }
    }

    #[test]
    fn all_faults_are_told_with_their_lines() {
        let text = "max_concurent: 3\nqueue_size: many\n\nlang: fr\ndefault_timeout: 0\nzzz: 1\n";
        let faults = File::parse(text).unwrap_err();
        let lines: Vec<u64> = faults.iter().map(|fault| fault.line).collect();
        assert_eq!(lines, [1, 2, 4, 5, 6]);
        assert!(faults[0].why.contains("did you mean `max_concurrent`"), "{faults:?}");
        assert!(faults[4].why.contains("the keys are tools_directory"), "{faults:?}");
    }

    #[test]
    fn what_is_not_a_mapping_is_refused() {
        for text in ["- a\n", "just text\n", "a: 1\na: 2\n", "a: [1\n", "? [a]\n: b\n"] {
            let faults = File::parse(text).unwrap_err();
            assert!(faults[0].line >= 1 && !faults[0].why.is_empty(), "{faults:?}");
        }
    }
}
