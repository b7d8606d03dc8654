//! The keys `retry` and `cache`.

use std::time::Duration;

use serde_json::Value;

use super::node::Node;
use super::reader::{self, FaultReport, MapFields};
use crate::schedule::RetryPolicy;
use crate::tool::ToolSpec;

/// TTL of cached results for `cache: true`.
const DEFAULT_CACHE: Duration = Duration::from_secs(300);

const MAX_ATTEMPTS: u64 = RetryPolicy::MAX_ATTEMPTS as u64;

/// Reads `retry: 5` or `retry: {attempts: 5, backoff: 1s, multiplier: 2,
/// max_backoff: 30s}`.
pub(super) fn retry(node: &Node, report: &mut FaultReport<'_>) -> Option<RetryPolicy> {
    let mut policy = RetryPolicy::default();
    if node.to_json().is_number() {
        policy.attempts = attempts(node, "retry", report)?;
        return Some(policy);
    }
    let mut fields = MapFields::of(node, "`retry`", report)?;
    if let Some(node) = fields.get("attempts") {
        policy.attempts = attempts(node, "attempts", report)?;
    }
    if let Some(node) = fields.get("backoff") {
        policy.backoff = reader::span(node, "backoff", report)?;
    }
    if let Some(node) = fields.get("max_backoff") {
        policy.max_backoff = reader::span(node, "max_backoff", report)?;
    }
    if let Some(node) = fields.get("multiplier") {
        match node.to_json().as_f64().filter(|factor| (1.0..=100.0).contains(factor)) {
            Some(factor) => policy.multiplier = factor,
            None => report.add(node.at, "`multiplier` must be a number from 1 to 100"),
        }
    }
    fields.finish(report);
    Some(policy)
}

/// Reads `cache: true` or `cache: 10m`.
pub(super) fn cache(
    node: &Node,
    spec: &ToolSpec,
    report: &mut FaultReport<'_>,
) -> Option<Duration> {
    let keep = match node.to_json() {
        Value::Bool(wanted) => wanted.then_some(DEFAULT_CACHE),
        _ => reader::span(node, "cache", report),
    };
    if keep.is_some() && !spec.behaviour.read_only {
        let why = "`cache` needs a tool that changes nothing";
        report.hinted(node.at, why, "add `behaviour: {read_only: true}` if that is so");
        return None;
    }
    keep
}

fn attempts(node: &Node, what: &str, report: &mut FaultReport<'_>) -> Option<u32> {
    let attempts = reader::count(node, what, report)?;
    if (1..=MAX_ATTEMPTS).contains(&attempts) {
        return u32::try_from(attempts).ok();
    }
    report.hinted(
        node.at,
        format!("`{what}` must be from 1 to {MAX_ATTEMPTS}"),
        "1 means that a call is tried once",
    );
    None
}
