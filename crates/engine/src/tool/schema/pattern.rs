//! Regular expressions in schemas: estimated when a schema is read, compiled on
//! first match, and shared between schemas.
//!
//! A compiled pattern takes between a few kilobytes and megabytes, and an
//! imported document may have thousands. Its size is estimated from the syntax
//! tree in microseconds, and too large a pattern is refused by the estimate.
//! Compiled patterns share one bounded cache.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

use fancy_regex::Expr;
use jsonschema::paths::Location;
use jsonschema::{Keyword, ValidationError, Validator};
use parking_lot::Mutex;
use regex_syntax::hir::{Class, HirKind};
use serde_json::{Map, Value, json};

use super::SchemaError;
use super::clock_cache::{CacheSlot, ClockCache};
use crate::value::pointer;

/// Maximum number of automaton states: `.{1,1024}` has 8,192.
const MAX_STATES: u64 = 9_500;
/// Estimated bytes per state in all automata of a pattern.
const BYTES_PER_STATE: usize = 192;
/// Minimum size of a pattern, with its match caches.
const BASE_BYTES: usize = 16 * 1024;
/// States for a non-ASCII character: byte sequences of its ranges.
const STATES_OF_ANY: u64 = 8;

/// Keywords whose values are data, not schemas.
const DATA: [&str; 4] = ["default", "const", "enum", "examples"];

/// Process-wide cache of compiled patterns.
static COMPILED: ClockCache<Validator> = ClockCache::new(64 * 1024 * 1024);
/// Patterns in use, by text.
static BY_TEXT: LazyLock<Mutex<PatternTable>> = LazyLock::new(Mutex::default);

/// Estimated size of a pattern.
pub(super) enum Weight {
    /// Bytes when compiled.
    Bytes(usize),
    TooLarge,
    /// Not a valid regular expression.
    Unreadable,
}

pub(super) fn weigh(pattern: &str) -> Weight {
    if jsonschema_regex::analyze_pattern(pattern).is_some() {
        return Weight::Bytes(pattern.len());
    }
    let Ok(translated) = jsonschema_regex::to_rust_regex(pattern) else {
        return Weight::Unreadable;
    };
    let Ok(tree) = Expr::parse_tree(&translated) else { return Weight::Unreadable };
    match states(&tree.expr) {
        None => Weight::Unreadable,
        Some(states) if states > MAX_STATES => Weight::TooLarge,
        Some(states) => Weight::Bytes(BASE_BYTES + states as usize * BYTES_PER_STATE),
    }
}

/// Finds a pattern of a schema that cannot be compiled, with its location.
pub(super) fn check(schema: &Value) -> Result<(), SchemaError> {
    check_at(schema, &mut String::new())
}

fn check_at(schema: &Value, place: &mut String) -> Result<(), SchemaError> {
    let length = place.len();
    match schema {
        Value::Object(map) => {
            for (key, value) in map.iter().filter(|(key, _)| !DATA.contains(&key.as_str())) {
                place.push('/');
                place.push_str(&pointer::escape(key));
                match value {
                    Value::String(pattern) if key == "pattern" => usable(pattern, place)?,
                    value => check_at(value, place)?,
                }
                place.truncate(length);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                place.push_str(&format!("/{index}"));
                check_at(value, place)?;
                place.truncate(length);
            }
        }
        _ => {}
    }
    Ok(())
}

fn usable(pattern: &str, place: &str) -> Result<(), SchemaError> {
    let why = match weigh(pattern) {
        Weight::Bytes(_) => return Ok(()),
        Weight::TooLarge => "is too large: it repeats too much",
        Weight::Unreadable => "is no regular expression",
    };
    let shown: String = pattern.chars().take(60).collect();
    let why = format!("the schema is not valid at {place}: the pattern `{shown}` {why}");
    Err(SchemaError { why, place: Some(place.to_owned()) })
}

/// Number of states of an expression; `None` if a character class in it cannot
/// be parsed.
fn states(expr: &Expr) -> Option<u64> {
    Some(match expr {
        Expr::Any { .. } => STATES_OF_ANY,
        Expr::Literal { val, .. } => val.len() as u64,
        Expr::Delegate { inner, .. } => class(inner)?,
        Expr::Repeat { child, lo, hi, .. } => {
            let times = if *hi == usize::MAX { *lo } else { *hi };
            states(child)?.saturating_mul(times.max(1) as u64)
        }
        Expr::Concat(all) | Expr::Alt(all) => sum(all)?,
        Expr::Group(inner) => states(inner)?.saturating_add(1),
        Expr::LookAround(inner, _) | Expr::AtomicGroup(inner) => states(inner)?.saturating_add(1),
        Expr::Conditional { condition, true_branch, false_branch } => {
            let branches = states(true_branch)?.saturating_add(states(false_branch)?);
            states(condition)?.saturating_add(branches)
        }
        // ECMAScript does not have these.
        Expr::Absent(_) | Expr::DefineGroup { .. } | Expr::AstNode(..) => return None,
        _ => 1,
    })
}

fn sum(all: &[Expr]) -> Option<u64> {
    all.iter().try_fold(1_u64, |sum, one| Some(sum.saturating_add(states(one)?)))
}

/// The number of states of a character class.
fn class(text: &str) -> Option<u64> {
    let hir = regex_syntax::parse(text).ok()?;
    Some(match hir.kind() {
        HirKind::Class(Class::Unicode(class)) if class.is_ascii() => 1,
        HirKind::Class(Class::Unicode(class)) => STATES_OF_ANY + class.ranges().len() as u64 / 2,
        _ => STATES_OF_ANY,
    })
}

/// Implements the keyword `pattern`.
pub(super) fn keyword<'a>(
    _parent: &'a Map<String, Value>,
    value: &'a Value,
    _location: Location,
) -> Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'a>> {
    match value.as_str() {
        Some(text) => Ok(Box::new(BY_TEXT.lock().get(text))),
        None => Err(ValidationError::custom("a pattern is text")),
    }
}

/// A pattern of a schema.
struct Pattern {
    shared: Arc<SharedPattern>,
}

struct SharedPattern {
    text: Arc<str>,
    slot: Arc<CacheSlot<Validator>>,
}

/// Patterns by their text.
#[derive(Default)]
struct PatternTable {
    patterns: HashMap<Arc<str>, Weak<SharedPattern>>,
    /// Size at which unused patterns are removed.
    sweep_at: usize,
}

impl PatternTable {
    fn get(&mut self, text: &str) -> Pattern {
        if let Some(shared) = self.patterns.get(text).and_then(Weak::upgrade) {
            return Pattern { shared };
        }
        if self.patterns.len() >= self.sweep_at {
            self.patterns.retain(|_, shared| shared.strong_count() > 0);
            self.sweep_at = 2 * self.patterns.len() + 64;
        }
        let shared = Arc::new(SharedPattern { text: text.into(), slot: Arc::default() });
        self.patterns.insert(Arc::clone(&shared.text), Arc::downgrade(&shared));
        Pattern { shared }
    }
}

impl SharedPattern {
    /// Runs on the compiled pattern; `None` if it cannot be compiled.
    fn with<R>(&self, run: impl FnOnce(&Validator) -> R) -> Option<R> {
        let compiled = COMPILED.get(&self.slot, || {
            let Weight::Bytes(weight) = weigh(&self.text) else { return Err(()) };
            let schema = json!({"pattern": &*self.text});
            let compiled = jsonschema::options()
                .with_pattern_options(super::pattern_options())
                .offline()
                .build(&schema)
                .map_err(drop)?;
            Ok::<_, ()>((compiled, weight))
        });
        compiled.ok().map(|compiled| run(&compiled))
    }
}

impl<'i> Keyword<'i> for Pattern {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        if !instance.is_string() {
            return Ok(());
        }
        match self.shared.with(|compiled| compiled.validate(instance)) {
            Some(outcome) => outcome,
            None => Err(ValidationError::custom("the pattern cannot be compiled")),
        }
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        !instance.is_string()
            || self.shared.with(|compiled| compiled.is_valid(instance)).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_compiles_and_weighs_no_less_than_it_takes() {
        for pattern in [
            r"^[a-z0-9-]{1,63}$",
            r"^(?!\s*$).+",
            r"^.{1,1024}$",
            r"[\p{L}\p{N}_]{1,16}",
            r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==)?$",
            r"^(\d+)-\1$",
            r"^arn:(aws|aws-cn):[\u0020-\uD7FF\uE000-\uFFFD]{1,50}$",
        ] {
            let Weight::Bytes(weight) = weigh(pattern) else { panic!("{pattern} is refused") };
            assert!((BASE_BYTES..8 * 1024 * 1024).contains(&weight), "{pattern}: {weight}");
            let shared = BY_TEXT.lock().get(pattern).shared;
            assert!(shared.with(|_| ()).is_some(), "{pattern} does not compile");
        }
    }

    #[test]
    fn what_cannot_be_compiled_is_refused_by_its_syntax() {
        for pattern in ["(", "[z-a]", r"(\w{100}){100}{100}", r"\p{Nothing}x", "a{2,1}"] {
            assert!(!matches!(weigh(pattern), Weight::Bytes(_)), "{pattern}");
        }
    }

    #[test]
    fn patterns_of_the_same_text_are_one() {
        let a = BY_TEXT.lock().get("^x+$");
        let b = BY_TEXT.lock().get("^x+$");
        assert!(Arc::ptr_eq(&a.shared, &b.shared));
    }
}
