//! What a server keeps besides records: credentials, API keys, imported providers,
//! runs of agents, quotas and the audit log.
//!
//! All of it lives in versioned JSON documents, which the servers on a database
//! share.

pub(crate) mod audit;
pub(crate) mod credential_source;
#[allow(dead_code, unused_imports, reason = "the HTTP layer uses what commands do not")]
pub(crate) mod identity;
pub(crate) mod imports;
#[allow(dead_code, reason = "the HTTP layer uses what commands do not")]
pub(crate) mod last_used;
pub(crate) mod quota;
pub(crate) mod runs;
#[allow(dead_code, unused_imports, reason = "the HTTP layer uses what commands do not")]
pub(crate) mod vault;
pub(crate) mod workflow_runs;
