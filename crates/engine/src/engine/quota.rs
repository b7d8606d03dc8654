//! Call quotas: what a call takes of them, and what has been used.

use std::sync::Arc;

use super::Engine;
use crate::call::{Call, CallRequest};
use crate::error::Error;
use crate::schedule::{QuotaCounters, QuotaScope, QuotaUse};
use crate::tool::Tool;
use crate::value::name::TenantId;
use crate::value::usage::Usage;

impl Engine {
    /// Takes a call out of the quotas, or refuses it. One that waited for a person
    /// was counted when it came.
    pub(super) fn take_quota(&self, request: &CallRequest, tool: &Tool) -> Result<(), Error> {
        let Some(quotas) = &self.0.quotas else { return Ok(()) };
        if request.approved().is_some() {
            return Ok(());
        }
        let context = &*request.context;
        quotas.take(&context.caller, context.begun_by.as_ref(), tool.name().as_str())
    }

    /// Takes what models cost to answer a call out of the quotas.
    pub(super) fn spend_quota(&self, call: &Call, own: &Usage) {
        if let Some(quotas) = &self.0.quotas {
            let (caller, key) = (call.caller(), call.context.begun_by.as_ref());
            quotas.spend(caller, key, call.tool.name().as_str(), own.cost_usd);
        }
    }

    /// What has been used of a tenant's call quota; nothing where none is set.
    pub fn quota_use(&self, tenant: &TenantId, scope: QuotaScope<'_>) -> QuotaUse {
        let quotas = self.0.quotas.as_ref();
        quotas.map(|quotas| quotas.used(tenant, scope)).unwrap_or_default()
    }

    /// What tenants, and their keys, have used here today: for programs that keep
    /// it, or share it with others.
    pub fn quota_uses(&self) -> Vec<(TenantId, Option<Arc<str>>, QuotaUse)> {
        self.0.quotas.as_ref().map(QuotaCounters::of_today).unwrap_or_default()
    }

    /// What tenants, and their keys, have used elsewhere today. It counts, in place
    /// of what was said before.
    pub fn set_quota_uses(&self, elsewhere: &[(TenantId, Option<Arc<str>>, QuotaUse)]) {
        if let Some(quotas) = &self.0.quotas {
            quotas.set_elsewhere(elsewhere);
        }
    }
}
