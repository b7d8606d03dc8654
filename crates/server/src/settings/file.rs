//! `windlass.yaml`: every fault at once, each with its line and what to write.
//!
//! | section | what is in it |
//! |---|---|
//! | (none) | where things are, what is checked, and all of `concurrency` |
//! | `concurrency` | how many calls run at once; `limits` is the same |
//! | `bucket_limits` | how many calls of a category run at once |
//! | `server` | how `windlass serve` listens |
//! | `retry` | how often a call is tried; a number alone is its `attempts` |

mod tree;
mod values;

use std::path::{Path, PathBuf};
use std::time::Duration;

use windlass::{BreakerSettings, Lang, definition};

use crate::exit::Failure;
use crate::output::nearest;
use tree::{Entry, Node};
pub(super) use values::strategy_name;
use values::{address, count, factor, flag, names, span, strategy, text};

use super::server::ServerFile;

/// The settings file, read.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) tools_directory: Option<PathBuf>,
    pub(super) database: Option<String>,
    pub(super) auto_reload: Option<bool>,
    pub(super) reload_interval: Option<Duration>,
    pub(super) watch_for_changes: Option<bool>,
    pub(super) lang: Option<Lang>,
    /// The engine's defaults, with what the file sets.
    pub(super) engine: windlass::Settings,
    pub(super) server: ServerFile,
}

const KEYS: [&str; 14] = [
    "tools_directory",
    "database",
    "auto_reload",
    "reload_interval",
    "watch_for_changes",
    "strict_validation",
    "max_output_bytes",
    "cache_entries",
    "breaker",
    "lang",
    "concurrency",
    "limits",
    "retry",
    "server",
];

const CONCURRENCY: [&str; 13] = [
    "max_concurrent",
    "queue_size",
    "default_timeout",
    "strategy",
    "bucket_limits",
    "per_tenant",
    "per_agent",
    "reserved_slots",
    "calls_per_second",
    "ageing",
    "max_parallel",
    "max_batch",
    "max_depth",
];

const RETRY: [&str; 4] = ["attempts", "backoff", "multiplier", "max_backoff"];

const SERVER: [&str; 9] = [
    "listen",
    "hosts",
    "origins",
    "tls_certificate",
    "tls_key",
    "max_body_bytes",
    "max_requests",
    "drain",
    "approvals_expire",
];

/// Where a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    Top,
    Concurrency,
    Buckets,
    Retry,
    Server,
}

impl Section {
    /// The section that a key opens here, if it does.
    fn opened_by(self, key: &str) -> Option<Self> {
        match (self, key) {
            (Self::Top, "concurrency" | "limits") => Some(Self::Concurrency),
            (Self::Top, "retry") => Some(Self::Retry),
            (Self::Top, "server") => Some(Self::Server),
            (Self::Top | Self::Concurrency, "bucket_limits") => Some(Self::Buckets),
            _ => None,
        }
    }

    /// The keys that it takes; none where any name is one.
    fn keys(self) -> Option<Vec<&'static str>> {
        match self {
            Self::Top => Some(KEYS.iter().chain(&CONCURRENCY).copied().collect()),
            Self::Concurrency => Some(CONCURRENCY.to_vec()),
            Self::Retry => Some(RETRY.to_vec()),
            Self::Server => Some(SERVER.to_vec()),
            Self::Buckets => None,
        }
    }

    /// The name by which a key is known in all sections. What `concurrency`
    /// takes may also stand outside of it, and is the same setting.
    fn full_name(self, key: &str) -> String {
        match self {
            Self::Top | Self::Concurrency => key.to_owned(),
            Self::Buckets => format!("bucket_limits.{key}"),
            Self::Retry => format!("retry.{key}"),
            Self::Server => format!("server.{key}"),
        }
    }
}

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
        let entries = tree::read(text).map_err(|fault| vec![fault])?;
        let mut reading = Reading::default();
        reading.section(Section::Top, entries);
        if reading.faults.is_empty() { Ok(reading.file) } else { Err(reading.faults) }
    }

    /// Sets a key to a plain value.
    fn set(&mut self, section: Section, name: &str, value: &str) -> Result<(), String> {
        let engine = &mut self.engine;
        let limits = &mut engine.limits;
        if section == Section::Buckets {
            let most = count(name, value, 1)?;
            let category = name.trim_start_matches("bucket_limits.").to_owned();
            limits.bucket_limits.insert(category, most);
            return Ok(());
        }
        match name {
            "tools_directory" => self.tools_directory = Some(text(name, value)?.into()),
            "database" => self.database = Some(text(name, value)?),
            "auto_reload" => self.auto_reload = Some(flag(name, value)?),
            "reload_interval" => self.reload_interval = Some(span(name, value)?),
            "watch_for_changes" => self.watch_for_changes = Some(flag(name, value)?),
            "lang" => self.lang = Some(text(name, value)?.parse()?),
            "strict_validation" => engine.strict_validation = flag(name, value)?,
            "max_output_bytes" => engine.max_output_bytes = count(name, value, 1)?,
            "cache_entries" => engine.cache_entries = count(name, value, 0)?,
            "breaker" => engine.breaker = flag(name, value)?.then(BreakerSettings::default),
            "max_concurrent" => limits.max_concurrent = count(name, value, 1)?,
            "queue_size" => limits.queue_size = count(name, value, 0)?,
            "strategy" => limits.strategy = strategy(name, value)?,
            "per_tenant" => limits.per_tenant = Some(count(name, value, 1)?),
            "per_agent" => limits.per_agent = Some(count(name, value, 1)?),
            "reserved_slots" => limits.reserved_slots = Some(count(name, value, 0)?),
            "calls_per_second" => limits.calls_per_second = Some(count(name, value, 1)?),
            "ageing" => limits.ageing = span(name, value)?,
            "default_timeout" => engine.default_timeout = span(name, value)?,
            "max_parallel" => engine.max_parallel = count(name, value, 1)?,
            "max_batch" => engine.max_batch = count(name, value, 1)?,
            "max_depth" => engine.max_depth = count(name, value, 0)?,
            "retry" | "retry.attempts" => engine.retry.attempts = count(name, value, 1)?,
            "retry.backoff" => engine.retry.backoff = span(name, value)?,
            "retry.multiplier" => engine.retry.multiplier = factor(name, value)?,
            "server.listen" => self.server.listen = Some(address(name, value)?),
            "server.hosts" => self.server.hosts = names(name, value)?,
            "server.origins" => self.server.origins = names(name, value)?,
            "server.tls_certificate" => {
                self.server.tls_certificate = Some(text(name, value)?.into());
            }
            "server.tls_key" => self.server.tls_key = Some(text(name, value)?.into()),
            "server.max_body_bytes" => self.server.max_body_bytes = Some(count(name, value, 1)?),
            "server.max_requests" => self.server.max_requests = Some(count(name, value, 1)?),
            "server.drain" => self.server.drain = Some(span(name, value)?),
            "server.approvals_expire" => self.server.approvals_expire = Some(span(name, value)?),
            "retry.max_backoff" => engine.retry.max_backoff = span(name, value)?,
            _ => return Err(format!("`{name}` takes keys of its own: {}", inside(name))),
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

/// The file so far, what is wrong with it, and what was set where.
#[derive(Default)]
struct Reading {
    file: File,
    faults: Vec<Fault>,
    seen: Vec<(String, usize)>,
}

impl Reading {
    fn section(&mut self, section: Section, entries: Vec<Entry>) {
        for Entry { key, line, node } in entries {
            let name = section.full_name(&key);
            if let Err(why) = self.entry(section, &key, &name, node) {
                self.faults.push(Fault { line, why });
            }
            self.seen.push((name, line));
        }
    }

    fn entry(&mut self, section: Section, key: &str, name: &str, node: Node) -> Result<(), String> {
        if section.keys().is_some_and(|known| !known.contains(&key)) {
            return Err(unknown_key(section, key));
        }
        if let Some((_, first)) = self.seen.iter().find(|(known, _)| known == name) {
            return Err(format!("`{name}` is already set in line {first}"));
        }
        match (node, section.opened_by(key)) {
            (Node::Null, _) => Ok(()),
            (Node::Value(value), _) => self.file.set(section, name, &value),
            (Node::Section(entries), Some(inner)) => {
                self.section(inner, entries);
                Ok(())
            }
            (Node::Section(_) | Node::List, None) => Err(format!("`{name}` takes one plain value")),
            (Node::List, Some(_)) => {
                Err(format!("`{name}` takes keys of its own: {}", inside(name)))
            }
        }
    }
}

/// What a section looks like.
fn inside(section: &str) -> String {
    match section {
        "bucket_limits" => "{http: 5, ai: 2}".to_owned(),
        "retry" => RETRY.join(", "),
        "server" => SERVER.join(", "),
        _ => CONCURRENCY.join(", "),
    }
}

fn unknown_key(section: Section, key: &str) -> String {
    let known = section.keys().unwrap_or_default();
    if let Some(near) = nearest(key, known.iter().copied()) {
        return format!("unknown key `{key}`; did you mean `{near}`?");
    }
    // Where it would be known, if not here.
    let elsewhere = [(&KEYS[..], "stands alone"), (&RETRY, "belongs under `retry`")];
    match elsewhere.iter().find(|(keys, _)| keys.contains(&key)) {
        Some((_, place)) => format!("unknown key `{key}` here; it {place}"),
        None => format!("unknown key `{key}`; the keys are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use windlass::Strategy;

    use super::*;

    #[test]
    fn every_key_is_read() {
        let text = "tools_directory: t\ndatabase: d.db\nauto_reload: false\nreload_interval: 2.5\n\
                    watch_for_changes: true\nstrict_validation: true\nmax_concurrent: 3\n\
                    queue_size: 0\ndefault_timeout: 5s\nmax_output_bytes: 10\nlang: zh-CN\n\
                    cache_entries: 0\nbreaker: off\nretry: 5\n";
        let file = File::parse(text).unwrap();
        assert_eq!(file.reload_interval, Some(Duration::from_millis(2500)));
        assert_eq!(file.engine.default_timeout, Duration::from_secs(5));
        assert_eq!((file.engine.limits.max_concurrent, file.engine.limits.queue_size), (3, 0));
        assert_eq!(file.lang, Some(Lang::Zh));
        assert_eq!(file.tools_directory.as_deref(), Some(Path::new("t")));
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
        let engine = File::parse(text).unwrap().engine;
        let limits = &engine.limits;
        assert_eq!((limits.max_concurrent, limits.strategy), (7, Strategy::Priority));
        assert_eq!((limits.bucket_limits["http"], limits.bucket_limits["ai"]), (5, 2));
        assert_eq!((limits.per_tenant, limits.per_agent), (Some(4), Some(3)));
        assert_eq!((limits.reserved_slots, limits.calls_per_second), (Some(2), Some(1000)));
        assert_eq!(limits.ageing, Duration::from_secs(2));
        assert_eq!((engine.max_parallel, engine.max_batch, engine.max_depth), (6, 20, 0));
        assert_eq!((engine.retry.attempts, engine.retry.multiplier), (4, 1.5));
        assert_eq!(engine.retry.max_backoff, Duration::from_secs(5));
        let flat = File::parse("strategy: reject\nbucket_limits:\n  ai: 1\n").unwrap().engine;
        assert_eq!(flat.limits.strategy, Strategy::Reject);
        assert_eq!(flat.limits.bucket_limits.len(), 1);
        assert_eq!(File::parse("limits: {queue_size: 9}").unwrap().engine.limits.queue_size, 9);
    }

    #[test]
    fn an_empty_file_sets_nothing() {
        for text in ["", "# only a comment\n", "lang:\n", "{}", "concurrency:\n", "retry: {}\n"] {
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
            let faults = File::parse(text).unwrap_err();
            assert_eq!((faults.len(), faults[0].line), (1, line), "{text:?}: {faults:?}");
            assert!(faults[0].why.contains(part), "{text:?}: {faults:?}");
        }
    }

    #[test]
    fn what_is_not_a_mapping_is_refused() {
        let twice = "lang: en\nlang: zh\n";
        for text in ["- a\n", "just text\n", twice, "a: [1\n", "? [a]\n: b\n", "lang: {a: b}\n"] {
            let faults = File::parse(text).unwrap_err();
            assert!(faults[0].line >= 1 && !faults[0].why.is_empty(), "{faults:?}");
        }
    }

    /// What `windlass init` writes, with every key set to what is behind it.
    #[test]
    fn the_template_explains_every_key_with_its_default() {
        let template = include_str!("../templates/windlass.yaml");
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
        let file = File::parse(&text).unwrap_or_else(|faults| panic!("{faults:?} in\n{text}"));
        for key in KEYS.iter().filter(|key| **key != "limits").chain(&CONCURRENCY).chain(&RETRY) {
            assert!(text.contains(&format!("{key}:")), "{key} is not explained");
        }
        let mut engine = file.engine;
        let defaults = windlass::Settings::default();
        // These have no default that could be written; the template shows examples.
        engine.limits.bucket_limits.clear();
        engine.limits.per_tenant = None;
        engine.limits.per_agent = None;
        engine.limits.reserved_slots = None;
        engine.limits.calls_per_second = None;
        assert_eq!(format!("{engine:?}"), format!("{defaults:?}"));
    }
}
