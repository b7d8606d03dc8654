//! Settings before they are resolved. `Default` has the default of every setting;
//! files, variables and flags are written over it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use windlass::{ApprovalRules, Lang, WatchOptions};
use windlass_executors::model::ModelSettings;
use windlass_workflow::RunLimits;

use super::tenant_quotas::TenantOverrides;
use super::{DatabaseLocation, LogSettings, OutboundSettings, TelemetrySettings};
use crate::http::HttpSettings;
use crate::state::quota::QuotaSettings;

#[derive(Debug)]
pub(super) struct Raw {
    /// None: the folder `tools` beside the settings file.
    pub(super) tools_directory: Vec<PathBuf>,
    /// None: a file beside the settings file, or in the user's data.
    pub(super) database: Option<DatabaseLocation>,
    pub(super) auto_reload: bool,
    pub(super) reload_interval: Duration,
    pub(super) watch_for_changes: bool,
    pub(super) lang: Lang,
    pub(super) engine: windlass::EngineSettings,
    pub(super) server: RawServer,
    pub(super) outbound: OutboundSettings,
    pub(super) records: RecordSettings,
    pub(super) key_file: Option<PathBuf>,
    pub(super) log: LogSettings,
    pub(super) telemetry: TelemetrySettings,
    pub(super) models: ModelSettings,
    pub(super) search: SearchSettings,
    pub(super) approvals: ApprovalRules,
    pub(super) quotas: QuotaSettings,
    pub(super) workflows: RunLimits,
    pub(super) tenant_quotas: TenantOverrides,
}

/// How tools are found.
#[derive(Clone, Debug, Default)]
pub(crate) struct SearchSettings {
    /// The embedding model whose order is fused with that of the words.
    pub(crate) embedding_model: Option<String>,
}

/// The section `server`.
#[derive(Debug)]
pub(super) struct RawServer {
    pub(super) listen: SocketAddr,
    pub(super) tls_certificate: Option<PathBuf>,
    pub(super) tls_key: Option<PathBuf>,
    pub(super) http: HttpSettings,
}

/// What is kept of the past, and how much.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordSettings {
    pub(crate) keep: u64,
    pub(crate) keep_keys: Duration,
    pub(crate) keep_outputs_bytes: u64,
    pub(crate) keep_events: u64,
}

impl Default for RecordSettings {
    fn default() -> Self {
        let store = windlass_store::Options::default();
        Self {
            keep: store.keep_records,
            keep_keys: store.keep_keys,
            keep_outputs_bytes: store.keep_outputs_bytes,
            keep_events: store.keep_events,
        }
    }
}

impl Default for Raw {
    fn default() -> Self {
        Self {
            tools_directory: Vec::new(),
            database: None,
            auto_reload: true,
            reload_interval: WatchOptions::default().interval,
            watch_for_changes: false,
            lang: Lang::default(),
            engine: windlass::EngineSettings::default(),
            server: RawServer {
                listen: SocketAddr::from(([127, 0, 0, 1], 7700)),
                tls_certificate: None,
                tls_key: None,
                http: HttpSettings::default(),
            },
            outbound: OutboundSettings::default(),
            records: RecordSettings::default(),
            key_file: None,
            log: LogSettings::default(),
            telemetry: TelemetrySettings::default(),
            models: ModelSettings::default(),
            search: SearchSettings::default(),
            approvals: ApprovalRules::default(),
            quotas: QuotaSettings::default(),
            workflows: RunLimits::default(),
            tenant_quotas: TenantOverrides::default(),
        }
    }
}
