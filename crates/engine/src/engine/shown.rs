//! Which tools a model is told of.

use std::sync::Arc;

use super::Engine;
use crate::groups::Session;
use crate::name::TenantId;
use crate::tool::{Exposure, Tool};

impl Engine {
    /// The tools that a model sees in a session: those of active groups that
    /// are exposed directly, by name. A session has the tools of its tenant;
    /// without one, these are the tools that everybody has.
    pub fn active_tools(&self, session: Option<&Session>) -> Vec<Arc<Tool>> {
        let tools = match session {
            Some(session) => self.0.registry.list_for(session.tenant()),
            None => self.0.registry.list(),
        };
        self.only_active(tools, session)
    }

    /// The same for a tenant outside of every conversation.
    pub fn active_tools_for(&self, tenant: &TenantId) -> Vec<Arc<Tool>> {
        self.only_active(self.0.registry.list_for(tenant), None)
    }

    fn only_active(&self, mut tools: Vec<Arc<Tool>>, session: Option<&Session>) -> Vec<Arc<Tool>> {
        tools.retain(|tool| {
            let spec = tool.spec();
            let active =
                spec.group.as_ref().is_none_or(|group| self.0.groups.is_active(group, session));
            active && spec.exposure == Exposure::Direct
        });
        tools
    }
}
