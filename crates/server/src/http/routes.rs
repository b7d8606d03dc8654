//! The routes: a file for each resource, with its rows of the table and its
//! handlers; and what several resources share (pages, streams, call bodies).

pub(crate) mod agents;
pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod batches;
pub(crate) mod calls;
pub(crate) mod cancel;
pub(crate) mod context;
pub(crate) mod credentials;
pub(crate) mod definitions;
pub(crate) mod events;
pub(crate) mod files;
pub(crate) mod health;
pub(crate) mod imports;
pub(crate) mod keys;
pub(crate) mod mcp;
pub(crate) mod oauth;
pub(crate) mod operate;
pub(crate) mod own_tools;
pub(crate) mod page;
pub(crate) mod providers;
pub(crate) mod questions;
pub(crate) mod quotas;
pub(crate) mod stream;
pub(crate) mod tools;
pub(crate) mod turns;
pub(crate) mod view;
pub(crate) mod workflows;

use super::document::operation::{RouteSpec, tagged};

/// All routes.
pub(crate) fn rows() -> Vec<RouteSpec> {
    tagged("tools", tools::rows())
        .chain(tagged("tools", definitions::rows()))
        .chain(tagged("tools", own_tools::rows()))
        .chain(tagged("providers", providers::rows()))
        .chain(tagged("providers", imports::rows()))
        .chain(tagged("credentials", oauth::rows()))
        .chain(tagged("credentials", credentials::rows()))
        .chain(tagged("calls", calls::rows()))
        .chain(tagged("calls", cancel::rows()))
        .chain(tagged("calls", questions::rows()))
        .chain(tagged("batches", batches::rows()))
        .chain(tagged("turns", turns::rows()))
        .chain(tagged("agents", agents::rows()))
        .chain(tagged("workflows", workflows::rows()))
        .chain(tagged("approvals", approvals::rows()))
        .chain(tagged("operation", operate::rows()))
        .chain(tagged("operation", quotas::rows()))
        .chain(tagged("events", events::rows()))
        .chain(tagged("files", files::rows()))
        .chain(tagged("keys", keys::rows()))
        .chain(tagged("audit", audit::rows()))
        .chain(tagged("health", health::rows()))
        .collect()
}
