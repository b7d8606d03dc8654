//! Reads `windlass.yaml`, and reports all errors at once, each with its line and a
//! hint.
//!
//! The section of a setting is the part of its name before the dot. The limits may
//! also stand under `concurrency` or `limits`, where people look for them.

mod tree;

use std::collections::VecDeque;
use std::path::Path;

use windlass::definition;

use super::raw::Raw;
use super::table::{self, ROWS, SettingRow};
use super::value::{SettingInput, WrittenValue};
use crate::cli::exit::Failure;
use crate::cli::output::nearest;
use tree::{YamlEntry, YamlItem, YamlNode};

/// What to do about a broken file.
pub(super) const HINT: &str =
    "`windlass init` in an empty folder writes a file that explains every key";

/// Other names for the place where limits are.
const LIMITS: [&str; 2] = ["concurrency", "limits"];

/// Reads the file.
pub(super) fn text(path: &Path) -> Result<String, Failure> {
    definition::read_file(path, &definition::DefinitionLimits::default())
        .map_err(|error| Failure::usage(error.to_string()))
}

/// What is wrong, and in which line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileFault {
    pub(super) line: usize,
    pub(super) why: String,
}

/// What a file set, each with its line, and what is wrong with it.
#[derive(Default)]
pub(super) struct ReadSettings {
    pub(super) set: Vec<(&'static SettingRow, usize)>,
    pub(super) faults: Vec<FileFault>,
}

/// Writes what a file says over what there is. Paths begin at `base`.
pub(super) fn apply(text: &str, base: &Path, raw: &mut Raw) -> ReadSettings {
    let entries = match tree::read(text) {
        Ok(entries) => entries,
        Err(fault) => return ReadSettings { faults: vec![fault], ..ReadSettings::default() },
    };
    let mut reading = FileReader { raw, base, read: ReadSettings::default(), seen: Vec::new() };
    reading.section(KeyLevel::Top, entries);
    reading.read
}

/// Where a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyLevel {
    Top,
    /// `concurrency`, or `limits`.
    Limits,
    Section(&'static str),
}

impl KeyLevel {
    /// The place that a key opens here, if it does.
    fn opened_by(self, key: &str) -> Option<Self> {
        if self == Self::Top && LIMITS.contains(&key) {
            return Some(Self::Limits);
        }
        let name = self.full_name(key);
        table::sections().into_iter().find(|section| **section == *name).map(Self::Section)
    }

    fn takes(self, row: &SettingRow) -> bool {
        match self {
            Self::Top => row.section().is_none(),
            Self::Limits => row.is_limit,
            Self::Section(name) => row.section() == Some(name),
        }
    }

    fn row(self, key: &str) -> Option<&'static SettingRow> {
        ROWS.iter().find(|row| self.takes(row) && row.key() == key)
    }

    /// The keys that it takes.
    fn keys(self) -> Vec<&'static str> {
        let own = ROWS.iter().filter(|row| self.takes(row)).map(SettingRow::key);
        let sections = table::sections().into_iter();
        match self {
            Self::Top => {
                own.chain(LIMITS).chain(sections.filter(|name| !name.contains('.'))).collect()
            }
            Self::Limits => own.collect(),
            Self::Section(outer) => {
                let inner = |name: &'static str| name.strip_prefix(outer)?.strip_prefix('.');
                own.chain(sections.filter_map(inner)).collect()
            }
        }
    }

    /// The name by which a key is known everywhere.
    fn full_name(self, key: &str) -> String {
        match self {
            Self::Top | Self::Limits => key.to_owned(),
            Self::Section(section) => format!("{section}.{key}"),
        }
    }
}

/// The file so far, and what was set where.
struct FileReader<'a> {
    raw: &'a mut Raw,
    base: &'a Path,
    read: ReadSettings,
    seen: Vec<(String, usize)>,
}

impl FileReader<'_> {
    fn section(&mut self, place: KeyLevel, entries: Vec<YamlEntry>) {
        for YamlEntry { key, line, node } in entries {
            let name = place.full_name(&key);
            if let Err(why) = self.entry(place, &key, &name, line, node) {
                self.read.faults.push(FileFault { line, why });
            }
            self.seen.push((name, line));
        }
    }

    fn entry(
        &mut self,
        place: KeyLevel,
        key: &str,
        name: &str,
        line: usize,
        node: YamlNode,
    ) -> Result<(), String> {
        let (row, inner) = (place.row(key), place.opened_by(key));
        if row.is_none() && inner.is_none() {
            return Err(unknown_key(place, key));
        }
        if let Some((_, first)) = self.seen.iter().find(|(known, _)| known == name) {
            return Err(format!("`{name}` is already set in line {first}"));
        }
        let alone =
            |inner: KeyLevel| ROWS.iter().find(|row| row.stands_for_section && inner.takes(row));
        match (node, row, inner) {
            (YamlNode::Null, ..) => Ok(()),
            (YamlNode::Section(entries), _, Some(inner)) => {
                self.section(inner, entries);
                Ok(())
            }
            (YamlNode::Section(entries), Some(row), None) if row.is_map => {
                self.map(row, line, entries);
                Ok(())
            }
            (YamlNode::List(items), Some(row), _) if row.is_list => {
                self.list(row, line, &items);
                Ok(())
            }
            (YamlNode::Value(_) | YamlNode::List(_), Some(row), _) if row.is_map => {
                Err(format!("`{name}` takes {}", (row.form)(self.raw)))
            }
            (YamlNode::Value(_) | YamlNode::Section(_), Some(row), _) if row.is_list => {
                Err(format!("`{name}` takes {}", (row.form)(self.raw)))
            }
            (YamlNode::Value(value), Some(row), _) => {
                self.set(row, name, line, WrittenValue::One(&value))
            }
            (YamlNode::List(items), Some(row), _) => match tree::plain(items) {
                Some(values) => self.set(row, name, line, WrittenValue::Several(&values)),
                None => Err(format!("`{name}` takes one plain value")),
            },
            (YamlNode::Value(value), None, Some(inner)) if alone(inner).is_some() => {
                match alone(inner) {
                    Some(row) => self.set(row, name, line, WrittenValue::One(&value)),
                    None => Ok(()),
                }
            }
            (YamlNode::Value(_) | YamlNode::List(_), None, Some(inner)) => {
                Err(format!("`{name}` takes keys of its own: {}", inner.keys().join(", ")))
            }
            (YamlNode::Section(_) | YamlNode::List(_) | YamlNode::Value(_), ..) => {
                Err(format!("`{name}` takes one plain value"))
            }
        }
    }

    fn set(
        &mut self,
        row: &'static SettingRow,
        name: &str,
        line: usize,
        said: WrittenValue<'_>,
    ) -> Result<(), String> {
        let given = SettingInput { name, said, base: self.base, least: row.least };
        (row.set)(self.raw, &given)?;
        self.read.set.push((row, line));
        Ok(())
    }

    /// Things with keys of their own.
    fn list(&mut self, row: &'static SettingRow, line: usize, items: &[YamlItem]) {
        let mut texts = Vec::new();
        for item in items {
            // Each value is checked separately first, so that errors name its line.
            let text = [item.json.to_string()];
            let said = WrittenValue::Several(&text);
            let given = SettingInput { name: row.name, said, base: self.base, least: row.least };
            match (row.set)(self.raw, &given) {
                Ok(()) => texts.extend(text),
                Err(why) => self.read.faults.push(FileFault { line: item.line, why }),
            }
        }
        if let Err(why) = self.set(row, row.name, line, WrittenValue::Several(&texts)) {
            self.read.faults.push(FileFault { line, why });
        }
    }

    /// Keys that are the user's own names, each with one value.
    fn map(&mut self, row: &'static SettingRow, line: usize, entries: Vec<YamlEntry>) {
        let mut pairs = Vec::new();
        let mut left: VecDeque<YamlEntry> = entries.into();
        while let Some(YamlEntry { key, line, node }) = left.pop_front() {
            let name = format!("{}.{key}", row.name);
            let mut fault = |why| self.read.faults.push(FileFault { line, why });
            match node {
                YamlNode::Null => {}
                YamlNode::Section(inner) if row.is_deep => {
                    let inner = inner.into_iter().rev();
                    inner.for_each(|own| {
                        left.push_front(YamlEntry { key: format!("{key}.{}", own.key), ..own });
                    });
                }
                YamlNode::Value(value) => {
                    // Each value is checked separately first, so that errors name its line.
                    let pair = [format!("{key}={value}")];
                    let said = WrittenValue::Several(&pair);
                    let given =
                        SettingInput { name: &name, said, base: self.base, least: row.least };
                    match (row.set)(self.raw, &given) {
                        Ok(()) => pairs.extend(pair),
                        Err(why) => fault(why),
                    }
                }
                _ => fault(format!("`{name}` takes one plain value")),
            }
        }
        let given = SettingInput {
            name: row.name,
            said: WrittenValue::Several(&pairs),
            base: self.base,
            least: row.least,
        };
        match (row.set)(self.raw, &given) {
            Ok(()) => self.read.set.push((row, line)),
            Err(why) => self.read.faults.push(FileFault { line, why }),
        }
    }
}

fn unknown_key(place: KeyLevel, key: &str) -> String {
    let known = place.keys();
    if let Some(near) = nearest(key, known.iter().copied()) {
        return format!("unknown key `{key}`; did you mean `{near}`?");
    }
    // Suggests the section in which the key is known.
    match ROWS.iter().find(|row| row.key() == key).map(SettingRow::section) {
        Some(None) => format!("unknown key `{key}` here; it stands alone"),
        Some(Some(section)) => format!("unknown key `{key}` here; it belongs under `{section}`"),
        None => format!("unknown key `{key}`; the keys are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::PathBuf;
    use std::time::Duration;

    use windlass::{Lang, Strategy};

    use super::*;

    fn parse(text: &str) -> Result<Raw, Vec<FileFault>> {
        let mut raw = Raw::default();
        let read = apply(text, Path::new(""), &mut raw);
        if read.faults.is_empty() { Ok(raw) } else { Err(read.faults) }
    }

    #[test]
    fn every_key_is_read() {
        let text = "tools_directory: t\ndatabase: d.db\nauto_reload: false\nreload_interval: 2.5\n\
                    watch_for_changes: true\nstrict_validation: true\nmax_concurrent: 3\n\
                    queue_size: 0\ndefault_timeout: 5s\nmax_output_bytes: 10\nlang: zh-CN\n\
                    cache_entries: 0\nbreaker: off\nretry: 5\n";
        let file = parse(text).unwrap();
        assert_eq!(file.reload_interval, Duration::from_millis(2500));
        assert_eq!(file.engine.default_timeout, Duration::from_secs(5));
        assert_eq!((file.engine.limits.max_concurrent, file.engine.limits.queue_size), (3, 0));
        assert_eq!(file.lang, Lang::Zh);
        assert_eq!(file.tools_directory, [PathBuf::from("t")]);
        assert_eq!((file.engine.cache_entries, file.engine.retry.attempts), (0, 5));
        assert!(file.engine.breaker.is_none());
    }

    #[test]
    fn sections_are_read() {
        let text = "concurrency:\n  max_concurrent: 7\n  strategy: priority\n  \
                    bucket_limits: {http: 5, ai: 2}\n  per_tenant: 4\n  per_agent: 3\n  \
                    reserved_slots: 2\n  calls_per_second: 1_000\n  ageing: 2s\n  \
                    max_parallel: 6\n  max_batch: 20\n  max_depth: 0\n\
                    retry: {attempts: 4, backoff: 100ms, multiplier: 1.5, max_backoff: 5s}\n";
        let engine = parse(text).unwrap().engine;
        let limits = &engine.limits;
        assert_eq!((limits.max_concurrent, limits.strategy), (7, Strategy::Priority));
        assert_eq!((limits.bucket_limits["http"], limits.bucket_limits["ai"]), (5, 2));
        assert_eq!((limits.per_tenant, limits.per_agent), (Some(4), Some(3)));
        assert_eq!((limits.reserved_slots, limits.calls_per_second), (Some(2), Some(1000)));
        assert_eq!(limits.ageing, Duration::from_secs(2));
        assert_eq!((engine.max_parallel, engine.max_batch, engine.max_depth), (6, 20, 0));
        assert_eq!((engine.retry.attempts, engine.retry.multiplier), (4, 1.5));
        assert_eq!(engine.retry.max_backoff, Duration::from_secs(5));
        let flat = parse("strategy: reject\nbucket_limits:\n  ai: 1\n").unwrap().engine;
        assert_eq!(flat.limits.strategy, Strategy::Reject);
        assert_eq!(flat.limits.bucket_limits.len(), 1);
        assert_eq!(parse("limits: {queue_size: 9}").unwrap().engine.limits.queue_size, 9);
    }

    #[test]
    fn an_empty_file_sets_nothing() {
        for text in ["", "# only a comment\n", "lang:\n", "{}", "concurrency:\n", "retry: {}\n"] {
            let mut raw = Raw::default();
            let read = apply(text, Path::new(""), &mut raw);
            assert!(read.faults.is_empty() && read.set.is_empty(), "{text:?}: {:?}", read.faults);
        }
    }

    #[test]
    fn all_faults_are_told_with_their_lines() {
        let text = "max_concurent: 3\nqueue_size: many\n\nlang: fr\ndefault_timeout: 0\nzzz: 1\n";
        let faults = parse(text).unwrap_err();
        let lines: Vec<usize> = faults.iter().map(|fault| fault.line).collect();
        assert_eq!(lines, [1, 2, 4, 5, 6]);
        assert!(faults[0].why.contains("did you mean `max_concurrent`"), "{faults:?}");
        assert!(faults[4].why.contains("the keys are tools_directory"), "{faults:?}");
    }

    #[test]
    fn faults_in_sections_are_told_with_their_lines() {
        for (text, line, part) in [
            ("concurrency:\n  queue_sise: 3\n", 2, "did you mean `queue_size`?"),
            ("concurrency:\n  lang: en\n", 2, "unknown key `lang` here; it stands alone"),
            ("concurrency:\n  attempts: 3\n", 2, "it belongs under `retry`"),
            ("attempts: 3\n", 1, "it belongs under `retry`"),
            ("retry:\n  attempts: 0\n", 2, "`retry.attempts` is a whole number from 1"),
            ("retry:\n  multiplier: 0.5\n", 2, "`retry.multiplier` is a number from 1"),
            ("retry:\n\n  backof: 1s\n", 3, "did you mean `backoff`?"),
            ("bucket_limits:\n  http: 0\n", 2, "`bucket_limits.http` is a whole number from 1"),
            ("bucket_limits: 5\n", 1, "{http: 5, ai: 2}"),
            ("concurrency: 5\n", 1, "takes keys of its own: max_concurrent"),
            ("retry: [1, {a: b}]\nlang: en\n", 1, "attempts, backoff"),
            ("strategy: lifo\n", 1, "fifo, priority or reject, found `lifo`"),
            ("queue_size: 1\nconcurrency:\n  queue_size: 2\n", 3, "already set in line 1"),
            ("limits: {queue_size: 1}\nconcurrency: {queue_size: 2}\n", 2, "already set in line 1"),
            ("calls_per_second: 99999999999\n", 1, "whole number"),
            ("reserved_slots: -1\n", 1, "`reserved_slots` is a whole number from 0"),
            ("breaker: maybe\n", 1, "true or false"),
        ] {
            let faults = parse(text).unwrap_err();
            assert_eq!((faults.len(), faults[0].line), (1, line), "{text:?}: {faults:?}");
            assert!(faults[0].why.contains(part), "{text:?}: {faults:?}");
        }
    }

    #[test]
    fn what_is_not_a_mapping_is_refused() {
        let twice = "lang: en\nlang: zh\n";
        for text in ["- a\n", "just text\n", twice, "a: [1\n", "? [a]\n: b\n", "lang: {a: b}\n"] {
            let faults = parse(text).unwrap_err();
            assert!(faults[0].line >= 1 && !faults[0].why.is_empty(), "{faults:?}");
        }
    }

    /// What `windlass init` writes, with every key set to what is behind it.
    #[test]
    fn the_template_explains_every_key_with_its_default() {
        let template = include_str!("../cli/templates/windlass.yaml");
        let is_key = |line: &str| {
            let (key, _) = line.trim_start().split_once(':').unwrap_or_default();
            !key.is_empty() && key.chars().all(|c| c.is_ascii_lowercase() || c == '_')
        };
        let set: Vec<&str> = template
            .lines()
            .filter_map(|line| line.strip_prefix("# "))
            .filter(|line| is_key(line))
            .collect();
        let text = set.join("\n");
        let mut raw = Raw::default();
        let read = apply(&text, Path::new(""), &mut raw);
        assert!(read.faults.is_empty(), "{:?} in\n{text}", read.faults);
        let explained: HashSet<&str> = read.set.iter().map(|(row, _)| row.name).collect();
        for row in ROWS {
            assert!(explained.contains(row.name), "{} is not explained", row.name);
        }
        let mut engine = raw.engine;
        let defaults = windlass::EngineSettings::default();
        // These have no default that could be written; the template shows examples.
        engine.limits.bucket_limits.clear();
        engine.limits.per_tenant = None;
        engine.limits.per_agent = None;
        engine.limits.reserved_slots = None;
        engine.limits.calls_per_second = None;
        assert_eq!(format!("{engine:?}"), format!("{defaults:?}"));
        let defaults = Raw::default();
        assert_eq!(format!("{:?}", raw.records), format!("{:?}", defaults.records));
        assert_eq!(raw.server.listen, defaults.server.listen);
        assert_eq!(raw.server.http.drain, defaults.server.http.drain);
        assert_eq!(raw.server.http.approvals_expire, defaults.server.http.approvals_expire);
        assert_eq!(raw.server.http.tenant_commands, defaults.server.http.tenant_commands);
        assert_eq!(raw.server.http.event_listener_ttl, defaults.server.http.event_listener_ttl);
        assert_eq!(raw.server.http.header_timeout, defaults.server.http.header_timeout);
        assert_eq!(raw.server.http.body_timeout, defaults.server.http.body_timeout);
        assert_eq!(raw.server.http.reader_timeout, defaults.server.http.reader_timeout);
        assert_eq!(raw.server.http.max_connections, defaults.server.http.max_connections);
        let connections = |http: &crate::http::HttpSettings| {
            (http.max_connections_per_address, http.max_connections_per_key, http.max_waiting)
        };
        assert_eq!(connections(&raw.server.http), connections(&defaults.server.http));
        assert_eq!(raw.server.http.idle_timeout, defaults.server.http.idle_timeout);
        assert_eq!(raw.server.http.connection_timeout, defaults.server.http.connection_timeout);
        assert_eq!(raw.server.http.max_requests, defaults.server.http.max_requests);
        assert_eq!(raw.server.http.max_mcp_sessions, defaults.server.http.max_mcp_sessions);
        assert_eq!(raw.server.http.max_body_bytes, defaults.server.http.max_body_bytes);
        assert_eq!(raw.log.format, defaults.log.format);
    }

    #[test]
    fn rules_are_read_with_their_lines() {
        let text = "approvals:\n  default: ask\n  rules:\n    - tool: delete_*\n      then: deny\n    \
                    - provider: shop\n      behaviour: [not_read_only]\n      arguments:\n        \
                    - {pointer: /n, equals: 5}\n        - {pointer: /to, equals: \"5\"}\n      \
                    then: ask\n";
        let rules = parse(text).unwrap().approvals;
        assert_eq!((rules.default, rules.rules.len()), (windlass::Approval::Ask, 2));
        let arguments = serde_json::to_value(&rules.rules[1].arguments).unwrap();
        assert_eq!((&arguments[0]["equals"], &arguments[1]["equals"]), (&5.into(), &"5".into()));
        for (text, line, part) in [
            ("approvals:\n  rules: ask\n", 2, "takes a list of rules"),
            ("approvals:\n  rules: {tool: a}\n", 2, "takes a list of rules"),
            (
                "approvals:\n  rules:\n    - {tool: a, then: ask}\n    - {tol: a, then: ask}\n",
                4,
                "`tol`",
            ),
            ("approvals:\n  rules:\n    - {tool: a, then: maybe}\n", 3, "`maybe`"),
            ("approvals:\n  rules:\n    - {tool: a, tool: b, then: ask}\n", 3, "twice"),
            ("approvals:\n  default: maybe\n", 2, "allow, deny or ask, found `maybe`"),
        ] {
            let faults = parse(text).unwrap_err();
            assert_eq!((faults.len(), faults[0].line), (1, line), "{text:?}: {faults:?}");
            assert!(faults[0].why.contains(part), "{text:?}: {faults:?}");
        }
    }

    #[test]
    fn lists_may_be_written_as_lists() {
        for text in [
            "server:\n  hosts: a.example, b.example\n",
            "server:\n  hosts: [a.example, b.example]\n",
            "server:\n  hosts:\n    - a.example\n    - b.example\n",
        ] {
            assert_eq!(parse(text).unwrap().server.http.hosts, ["a.example", "b.example"]);
        }
        for (text, part) in [
            ("server:\n  hosts: [[a]]\n", "`server.hosts` takes one plain value"),
            ("server:\n  listen: [a]\n", "`server.listen` takes one plain value"),
            ("server: 5\n", "takes keys of its own: listen, hosts"),
            ("log:\n  level: loud\n", "`log.level` is error, warn"),
            ("telemetry:\n  endpoint: localhost:4318\n", "is a URL such as"),
            ("telemetry:\n  sample_ratio: 2\n", "a number from 0 to 1"),
            ("telemetry:\n  headers: [hunter2]\n", "is a list of NAME=VALUE"),
            ("drain: 3s\n", "it belongs under `server`"),
        ] {
            let faults = parse(text).unwrap_err();
            assert!(faults[0].why.contains(part), "{text:?}: {faults:?}");
            assert!(!faults[0].why.contains("hunter2"), "{faults:?}");
        }
    }
}
