//! Origins that an import sends requests and credentials to.
//!
//! A document may send some operations, with the same credential, to another host than
//! the rest. That is often intended, but must never go unnoticed.

use std::collections::{BTreeMap, BTreeSet};

use url::Url;
use windlass::{Kind, ToolSpec};

use super::ImportedTool;
use crate::rest::entry::{self, Shape};
use crate::rest::plan::{Credential, Plan};
use crate::rest::schema::brief;

/// Maximum number of other origins in the warning.
const MAX_NAMED: usize = 20;

/// The origins to which a tool sends requests or its client secret.
pub fn origins(spec: &ToolSpec) -> BTreeSet<String> {
    let Some(plan) = plan(spec) else { return BTreeSet::new() };
    let flows = plan.security.iter().flatten().filter_map(|credential| match credential {
        Credential::OAuth2 { flow, .. } => flow.as_ref(),
        _ => None,
    });
    let tokens = flows.flat_map(|flow| {
        std::iter::once(flow.token_url.as_str()).chain(flow.refresh_url.as_deref())
    });
    std::iter::once(plan.base_url.as_str())
        .chain(tokens)
        .filter_map(|url| Some(Url::parse(url).ok()?.origin().ascii_serialization()))
        .collect()
}

/// Whether a tool cannot be called without a credential. Only known for REST tools; for
/// any other, `true`.
pub fn needs_credential(spec: &ToolSpec) -> bool {
    spec.kind != Kind::Rest
        || plan(spec).is_some_and(|plan| {
            !plan.security.is_empty() && !plan.security.iter().any(Vec::is_empty)
        })
}

/// Warnings about tools that use another origin than most.
pub(super) fn notes(tools: &[ImportedTool]) -> Vec<String> {
    let mut at: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for tool in tools {
        for origin in origins(&tool.spec) {
            at.entry(origin).or_default().push(&tool.operation);
        }
    }
    let main = at.iter().max_by_key(|(_, tools)| tools.len()).map(|(origin, _)| origin.clone());
    let others = at.into_iter().filter(|(origin, _)| Some(origin) != main.as_ref());
    let told = others.take(MAX_NAMED).map(|(origin, operations)| {
        let first = brief(operations.first().copied().unwrap_or_default(), 100);
        let more = match operations.len() {
            1 => String::new(),
            all => format!(" and {} more", all - 1),
        };
        let origin = brief(&origin, 100);
        format!("`{origin}` gets requests or credentials, too: {first}{more}")
    });
    told.collect()
}

fn plan(spec: &ToolSpec) -> Option<Plan> {
    match entry::read(spec).ok()? {
        Shape::Planned(plan) | Shape::Open(plan) => Some(plan),
    }
}
