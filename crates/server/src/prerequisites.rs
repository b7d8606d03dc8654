//! Hides built-in tools whose configuration is missing, such as a web search without
//! an API key or file tools without a folder.
//!
//! A model that is shown such a tool would try it and fail. These tools stay
//! callable by name; they are only left out of lists. Tools that somebody defined or
//! imported are always listed: whoever added them wants them seen.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use windlass::{Engine, Error, TenantId, Tool};
use windlass_executors::files;

use crate::settings::Settings;
use crate::state::vault::Credentials;
use crate::wiring::SHIPPED;

/// What there is to tell whether a tool can work.
#[derive(Clone)]
pub(crate) struct Prerequisites {
    credentials: Arc<Credentials>,
    /// Whether a folder is granted.
    folder: bool,
}

/// What a tool needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// A credential of this provider.
    Credential(String),
    /// A granted folder.
    Folder,
}

impl Prerequisites {
    pub(crate) fn new(credentials: Arc<Credentials>, settings: &Settings) -> Self {
        Self { credentials, folder: settings.outbound.files.folder.is_some() }
    }

    /// The tools that cannot work for a tenant yet, by what they need.
    pub(crate) async fn missing(
        &self,
        engine: &Engine,
        tenant: &TenantId,
    ) -> Result<BTreeMap<Need, Vec<String>>, Error> {
        let tools = engine.registry().list_for(tenant);
        let mut wanted: Vec<(Need, String)> = Vec::new();
        for tool in tools.iter().filter(|tool| tool.source().starts_with(SHIPPED)) {
            wanted.extend(need(engine, tenant, tool).map(|need| (need, tool.name().to_string())));
        }
        let held = match wanted.iter().any(|(need, _)| matches!(need, Need::Credential(_))) {
            true => self.credentials.providers_of(tenant).await?,
            false => HashSet::new(),
        };
        let mut missing: BTreeMap<Need, Vec<String>> = BTreeMap::new();
        for (need, name) in wanted {
            let is_met = match &need {
                Need::Credential(provider) => held.contains(provider),
                // A single folder cannot isolate tenants.
                Need::Folder => self.folder && *tenant == TenantId::default(),
            };
            if !is_met {
                missing.entry(need).or_default().push(name);
            }
        }
        Ok(missing)
    }
}

fn need(engine: &Engine, tenant: &TenantId, tool: &Tool) -> Option<Need> {
    if files::is_file_tool(tool.spec()) {
        return Some(Need::Folder);
    }
    let name = tool.spec().provider.as_deref()?;
    let provider = engine.providers().get_for(tenant, name)?;
    let required = provider.credentials.iter().any(|field| field.required);
    required.then(|| Need::Credential(name.to_owned()))
}
