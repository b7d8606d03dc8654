//! Quota stage: counts calls and cost against quotas, and reports usage.

use std::sync::Arc;

use super::Engine;
use crate::call::context::Context;
use crate::call::{Call, CallOptions};
use crate::error::Error;
use crate::schedule::{CallQuota, QuotaScope, QuotaUse};
use crate::tool::Tool;
use crate::value::name::TenantId;
use crate::value::usage::Usage;

impl Engine {
    /// Counts a call against its quotas, or refuses it. A resumed call was
    /// counted when it was received.
    pub(super) fn take_quota(
        &self,
        request: &CallOptions,
        context: &Context,
        tool: &Tool,
    ) -> Result<(), Error> {
        let quotas = &self.0.quotas;
        if !quotas.is_set() || request.approved().is_some() {
            return Ok(());
        }
        quotas.take(&context.caller, context.begun_by.as_ref(), tool.name().as_str())
    }

    /// Counts the model cost of a call against its quotas.
    pub(super) fn spend_quota(&self, call: &Call, own: &Usage) {
        if self.0.quotas.is_set() {
            let (caller, key) = (call.caller(), call.context.begun_by.as_ref());
            self.0.quotas.spend(caller, key, call.tool.name().as_str(), own.cost_usd);
        }
    }

    /// Quota usage of a tenant; zero if no quota is set.
    pub fn quota_use(&self, tenant: &TenantId, scope: QuotaScope<'_>) -> QuotaUse {
        self.0.quotas.used(tenant, scope)
    }

    /// Today's usage per tenant and key in this process, for programs that
    /// persist or share it.
    pub fn quota_uses(&self) -> Vec<(TenantId, Option<Arc<str>>, QuotaUse)> {
        self.0.quotas.of_today()
    }

    /// Sets today's usage per tenant and key in other processes, replacing the
    /// previous values. It counts against the quotas.
    pub fn set_quota_uses(&self, elsewhere: &[(TenantId, Option<Arc<str>>, QuotaUse)]) {
        self.0.quotas.set_elsewhere(elsewhere);
    }

    /// Sets the quota of one initiator (see [`Context::begun_by`]): what is unset in it
    /// is that of all. `None` removes it.
    ///
    /// [`Context::begun_by`]: crate::Context::begun_by
    pub fn set_key_quota(&self, key: &str, quota: Option<CallQuota>) {
        self.0.quotas.set_key(key, quota);
    }
}
