//! Tools that are visible to a model: active groups and deferred tools that it
//! has found.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Engine;
use crate::call::context::Caller;
use crate::fair_map::FairMap;
use crate::tool::groups::Session;
use crate::tool::search_tool;
use crate::tool::{Exposure, Tool, ToolSpec};
use crate::value::name::{TenantId, ToolName};
use crate::value::secret::Secret;

/// Maximum number of remembered sessions.
const MAX_SESSIONS: usize = 10_000;
/// The credential field that holds the API key.
const KEY_FIELD: &str = "api_key";
/// Maximum number of tools that a session has found.
const MAX_ACTIVATED: usize = 1_000;

/// Deferred tools that were activated, per session.
pub(crate) struct ActivatedTools(Mutex<FairMap<Session, HashSet<ToolName>>>);

impl Default for ActivatedTools {
    fn default() -> Self {
        Self(Mutex::new(FairMap::new(MAX_SESSIONS)))
    }
}

impl Engine {
    /// The tools visible to a model in a session, by name: tools of active
    /// groups that are exposed directly or were found in the session. Without a
    /// session, only the tools shared by all tenants.
    pub fn active_tools(&self, session: Option<&Session>) -> Vec<Arc<Tool>> {
        let tools = match session {
            Some(session) => self.0.registry.list_for(session.tenant()),
            None => self.0.registry.list(),
        };
        self.only_active(tools, session)
    }

    /// The tools visible to a tenant outside of conversations.
    pub fn active_tools_for(&self, tenant: &TenantId) -> Vec<Arc<Tool>> {
        self.only_active(self.0.registry.list_for(tenant), None)
    }

    /// Activates deferred tools in a session.
    pub fn activate<'n>(&self, session: &Session, names: impl Iterator<Item = &'n ToolName>) {
        let mut sessions = self.0.activated.0.lock();
        let own = sessions.of(session.tenant(), session, HashSet::new);
        for name in names {
            if own.len() < MAX_ACTIVATED {
                own.insert(name.clone());
            }
        }
    }

    /// The tools that a search may return: all that are not hidden.
    pub(crate) fn findable_tools(
        &self,
        tenant: &TenantId,
        session: Option<&Session>,
    ) -> Vec<Arc<Tool>> {
        let mut tools = self.0.registry.list_for(tenant);
        tools.retain(|tool| {
            tool.spec().exposure != Exposure::Hidden && self.is_active(tool, session)
        });
        tools
    }

    /// Ranks tools by relevance to a query, best first: by keywords, and by
    /// meaning if the engine has an embedder.
    pub async fn find_tools(&self, tools: Vec<Arc<Tool>>, question: &str) -> Vec<Arc<Tool>> {
        let key = match self.0.finder.provider() {
            Some(provider) => self.operators_key(provider).await,
            None => None,
        };
        self.0.finder.find(tools, question, key.as_ref()).await
    }

    /// The stored API key of a provider for the embedder.
    async fn operators_key(&self, provider: &str) -> Option<Secret> {
        let source = self.0.credentials.as_ref()?;
        let mut asks = ToolSpec::new(ToolName::new(search_tool::NAME).ok()?);
        asks.provider = Some(provider.to_owned());
        let operator = Caller::default();
        match source.secrets(&asks, &operator, None).await {
            Ok(found) => {
                found.into_iter().find(|(field, _)| field == KEY_FIELD).map(|(_, key)| key)
            }
            Err(error) => {
                tracing::warn!(%error, provider, "the key of the embedding model cannot be read");
                None
            }
        }
    }

    fn is_active(&self, tool: &Tool, session: Option<&Session>) -> bool {
        let group = tool.spec().group.as_ref();
        group.is_none_or(|group| self.0.groups.is_active(group, session))
    }

    fn only_active(&self, mut tools: Vec<Arc<Tool>>, session: Option<&Session>) -> Vec<Arc<Tool>> {
        tools.retain(|tool| self.is_active(tool, session));
        let is_deferred = |tool: &Arc<Tool>| tool.spec().exposure == Exposure::Deferred;
        if !tools.iter().any(is_deferred) {
            tools.retain(|tool| tool.spec().exposure == Exposure::Direct);
            return tools;
        }
        let mut sessions = self.0.activated.0.lock();
        let found = session.and_then(|session| sessions.touch(session));
        let is_found =
            |tool: &Tool| found.as_ref().is_some_and(|found| found.contains(tool.name()));
        // The search tool is listed only if there are deferred tools.
        tools.retain(|tool| match tool.spec().exposure {
            Exposure::Direct => true,
            Exposure::Deferred => is_found(tool),
            Exposure::Hidden => tool.name().as_str() == search_tool::NAME,
        });
        tools
    }
}
