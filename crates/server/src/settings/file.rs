//! `windlass.yaml`: every fault at once, each with its line and what to write.
//!
//! The file is a flat list of keys with one value each, so it is read from the
//! parser's events; types are decided by the key, not by how a value looks.

use std::path::{Path, PathBuf};
use std::time::Duration;

use granit_parser::{Event, Parser, ScalarStyle};
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
            let lines: Vec<String> = faults
                .iter()
                .map(|fault| format!("{place}:{}: {}", fault.line, fault.why))
                .collect();
            Failure::usage(lines.join("\n"))
                .hint("`windlass init` in an empty folder writes a file that explains every key")
        })
    }

    fn parse(text: &str) -> Result<Self, Vec<Fault>> {
        let mut file = Self::default();
        let mut faults = Vec::new();
        let mut seen: Vec<(String, usize)> = Vec::new();
        for Entry { key, value, line } in entries(text).map_err(|fault| vec![fault])? {
            let set = match (seen.iter().find(|(known, _)| *known == key), value) {
                (Some((_, first)), _) => Err(format!("`{key}` is already set in line {first}")),
                // A key without a value is a key that is not set.
                (None, None) if KEYS.contains(&key.as_str()) => Ok(()),
                (None, value) => file.set(&key, &value.unwrap_or_default()),
            };
            faults.extend(set.err().map(|why| Fault { line, why }));
            seen.push((key, line));
        }
        if faults.is_empty() { Ok(file) } else { Err(faults) }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
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
    line: usize,
    why: String,
}

/// A key, its value where it has one, and the line of the key.
struct Entry {
    key: String,
    value: Option<String>,
    line: usize,
}

/// Reads the keys and values of the one mapping that the file is.
fn entries(text: &str) -> Result<Vec<Entry>, Fault> {
    const DEPTH: usize = 8;
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: DEPTH,
        block_nesting_limit: DEPTH,
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut entries = Vec::new();
    let mut inside = false;
    let mut key: Option<(String, usize)> = None;
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.map_err(|error| Fault {
            line: error.marker().line(),
            why: format!("not valid YAML: {}", error.info()),
        })?;
        let line = span.start.line();
        match event {
            Event::MappingStart(..) if !inside => inside = true,
            Event::Scalar(text, style, ..) if inside => match key.take() {
                None => key = Some((text.into_owned(), line)),
                Some((key, line)) => {
                    let value = (!is_null(&text, style)).then(|| text.into_owned());
                    entries.push(Entry { key, value, line });
                }
            },
            Event::Scalar(text, style, ..) if is_null(&text, style) => {}
            Event::Scalar(..) | Event::SequenceStart(..) if !inside => {
                return Err(Fault { line, why: "expected `key: value`".to_owned() });
            }
            Event::MappingStart(..) | Event::SequenceStart(..) | Event::Alias(_) => {
                let key = key.map(|(key, _)| key).unwrap_or_default();
                return Err(Fault { line, why: format!("`{key}` takes one plain value") });
            }
            _ => {}
        }
    }
    Ok(entries)
}

fn is_null(text: &str, style: ScalarStyle) -> bool {
    style == ScalarStyle::Plain && matches!(text, "" | "~" | "null")
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

fn text(key: &str, value: &str) -> Result<String, String> {
    if value.is_empty() { Err(format!("`{key}` is empty")) } else { Ok(value.to_owned()) }
}

fn flag(key: &str, value: &str) -> Result<bool, String> {
    value.parse().map_err(|_| format!("`{key}` is true or false, found `{value}`"))
}

fn count(key: &str, value: &str, least: usize) -> Result<usize, String> {
    let digits = value.replace('_', "");
    let number = digits.parse().ok().filter(|number| *number >= least);
    number.ok_or_else(|| format!("`{key}` is a whole number from {least}, found `{value}`"))
}

fn span(key: &str, value: &str) -> Result<Duration, String> {
    duration::parse(value).map_err(|why| format!("`{key}`: {why}"))
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
        let lines: Vec<usize> = faults.iter().map(|fault| fault.line).collect();
        assert_eq!(lines, [1, 2, 4, 5, 6]);
        assert!(faults[0].why.contains("did you mean `max_concurrent`"), "{faults:?}");
        assert!(faults[4].why.contains("the keys are tools_directory"), "{faults:?}");
    }

    #[test]
    fn what_is_not_a_mapping_is_refused() {
        let twice = "lang: en\nlang: zh\n";
        for text in ["- a\n", "just text\n", twice, "a: [1\n", "? [a]\n: b\n", "lang: {a: b}\n"] {
            let faults = File::parse(text).unwrap_err();
            assert!(faults[0].line >= 1 && !faults[0].why.is_empty(), "{faults:?}");
        }
    }
}
