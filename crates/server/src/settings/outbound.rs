//! What tools may reach outside of the program: the network, a folder of files,
//! databases.
//!
//! The section `outbound` of `windlass.yaml` fills it. Its keys are the names
//! of the fields here and in [`OutboundPolicy`]; what follows says how each is
//! written:
//!
//! | key | written as | default |
//! |---|---|---|
//! | `allow` | list of texts, each `.parse::<Allowed>()`: `localhost:8080`, `*.internal`, `10.0.0.0/8` | none |
//! | `deny` | list of texts, each `.parse::<Network>()` | none |
//! | `proxy` | text, `.parse::<Proxy>()`; a secret: it may hold a password | none |
//! | `connect_timeout`, `read_timeout`, `total_timeout`, `idle_timeout` | durations | 3s, 10s, 300s, 30s |
//! | `max_redirects`, `idle_per_host`, `max_connections` | counts | 5, 20, 200 |
//! | `max_response_bytes`, `max_header_bytes` | bytes | 10 MiB, 64 KiB |
//! | `ca_files` | list of paths, relative to the file | none |
//! | `user_agent` | text | `windlass/VERSION` |
//! | `files.folder` | path, relative to the file | none: the file tools are refused |
//! | `files.max_bytes` | bytes | 1 MiB |
//! | `databases` | mapping of a name to an address: `postgres://…` or `sqlite:PATH`; secrets | none |

use std::collections::BTreeMap;
use std::fmt;

use windlass::Secret;
use windlass_executors::files::FileSettings;
use windlass_executors::outbound::OutboundPolicy;

/// The section `outbound`, resolved.
#[derive(Clone, Default)]
pub(crate) struct OutboundSettings {
    /// What requests may reach, and how much of it.
    pub(crate) policy: OutboundPolicy,
    /// The folder that the file tools work in.
    pub(crate) files: FileSettings,
    /// Databases that definitions of `sql_query` may name in `entry.database`.
    /// An address may hold a password.
    pub(crate) databases: BTreeMap<String, Secret>,
}

impl fmt::Debug for OutboundSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboundSettings")
            .field("policy", &self.policy)
            .field("files", &self.files)
            .field("databases", &self.databases.keys())
            .finish()
    }
}
