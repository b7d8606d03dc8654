//! What the slot of a call counts against: tenant, agent, category, tool.

use std::sync::Arc;

use crate::call::context::{Caller, CallerType};
use crate::tool::Tool;
use crate::value::name::TenantId;

/// What the slot of a call counts against: tenant, agent, category, tool.
#[derive(Clone, Copy)]
pub(crate) struct Demand<'a> {
    pub(crate) tool: &'a Arc<Tool>,
    pub(crate) caller: &'a Arc<Caller>,
}

/// Owned form of [`Demand`], kept while a call waits or is counted.
pub(crate) struct OwnDemand {
    pub(super) tool: Arc<Tool>,
    pub(super) caller: Arc<Caller>,
}

impl OwnDemand {
    pub(crate) fn as_demand(&self) -> Demand<'_> {
        Demand { tool: &self.tool, caller: &self.caller }
    }
}

impl<'a> Demand<'a> {
    pub(crate) fn own(self) -> OwnDemand {
        OwnDemand { tool: Arc::clone(self.tool), caller: Arc::clone(self.caller) }
    }

    pub(super) fn tenant(self) -> &'a TenantId {
        &self.caller.tenant
    }

    /// The agent whose calls are limited together, with its tenant.
    pub(super) fn agent(self) -> Option<(&'a TenantId, &'a Arc<str>)> {
        match (self.caller.caller_type, &self.caller.caller_id) {
            (CallerType::ConversationAgent, Some(agent)) => Some((self.tenant(), agent)),
            _ => None,
        }
    }

    /// Calls of workflow nodes take no slot, because their workflow has one.
    pub(super) fn bypasses(self) -> bool {
        self.caller.caller_type == CallerType::WorkflowNode
    }
}
