//! [`McpClient`]: who a client is, and which tools it is served.

use axum::http::request::Parts;
use rmcp::RoleServer;
use rmcp::model::{ErrorData, ProtocolVersion};
use rmcp::service::RequestContext;
use windlass::{Caller, CallerType, Context, OutputScope, TenantId, Tool};

use crate::state::identity::{Identity, Permission, Role};

/// The longest name of a client that records keep.
const MAX_CLIENT: usize = 100;

/// How a client is authenticated.
#[derive(Clone)]
pub(crate) enum ClientAuth {
    /// The user who started this program.
    Operator,
    /// By the API key of the request.
    Bearer,
}

/// Which tools an endpoint serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServedTools {
    /// All of its tenant.
    All,
    /// Those of one provider, under their own names: the provider's server as if
    /// it were there directly.
    Provider(String),
}

/// The client of one request.
pub(super) struct McpClient {
    pub(super) identity: Identity,
    pub(super) session: Option<String>,
    pub(super) name: Option<String>,
    pub(super) is_modern: bool,
}

impl ClientAuth {
    pub(super) fn client(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<McpClient, ErrorData> {
        let parts = context.extensions.get::<Parts>();
        let identity = match self {
            Self::Operator => Some(operator()),
            Self::Bearer => parts.and_then(|parts| parts.extensions.get::<Identity>()).cloned(),
        };
        let identity =
            identity.ok_or_else(|| ErrorData::invalid_request("this needs an API key", None))?;
        let session = parts
            .and_then(|parts| parts.headers.get("mcp-session-id"))
            .and_then(|id| id.to_str().ok())
            .map(str::to_owned);
        let name = context.client_info().map(|client| kept_name(client.name));
        let is_modern = context.protocol_version().is_some_and(|version| !version.has_initialize());
        Ok(McpClient { identity, session, name, is_modern })
    }
}

/// The user who starts the program has all permissions.
fn operator() -> Identity {
    Identity {
        tenant: TenantId::default(),
        key_id: "operator".into(),
        role: Role::Operator,
        name: "operator".into(),
        tools: None,
        user: None,
    }
}

/// What records keep of the name that a client gives itself.
fn kept_name(mut name: String) -> String {
    name.truncate(name.floor_char_boundary(MAX_CLIENT));
    name
}

impl McpClient {
    /// a client of the stateless protocol, which has no session.
    pub(super) fn modern(identity: Identity, name: String) -> Self {
        Self { identity, session: None, name: Some(kept_name(name)), is_modern: true }
    }

    /// Refuses what the client's role does not allow.
    pub(super) fn must(&self, action: Permission) -> Result<(), ErrorData> {
        if self.identity.role.may(action) {
            return Ok(());
        }
        let why = format!("the role {} may not do this", self.identity.role);
        Err(ErrorData::invalid_request(why, None))
    }

    /// Whether the client's key shows something of this name: a tool, a prompt, the
    /// address of a resource.
    pub(super) fn sees(&self, name: &str) -> bool {
        self.identity.tools.as_ref().is_none_or(|own| own.shows(name))
    }

    /// Whether it shows all that a server has. Only then does it show the server's
    /// prompts and resources, which have no names that a pattern could mean.
    pub(super) fn sees_all_of(&self, server: &str) -> bool {
        self.identity.tools.as_ref().is_none_or(|own| own.shows_all_of(server))
    }

    pub(super) fn tenant(&self) -> &TenantId {
        &self.identity.tenant
    }

    /// Which results a client may read that does not see all tools.
    pub(super) fn outputs(&self) -> Option<OutputScope> {
        let view = self.identity.tools.clone()?;
        Some(OutputScope::new(move |tool| view.shows(tool)))
    }

    /// What its calls carry.
    pub(super) fn context(&self) -> Context {
        let context = Context::new(self.caller());
        match self.outputs() {
            Some(scope) => context.object(scope),
            None => context,
        }
    }

    /// Who calls, for the engine. A session is a conversation: groups are
    /// switched for it alone.
    pub(super) fn caller(&self) -> Caller {
        Caller {
            tenant: self.identity.tenant.clone(),
            user: self.identity.bound_user().cloned(),
            caller_id: self.name.as_deref().map(Into::into),
            caller_type: match self.session {
                Some(_) => CallerType::ConversationAgent,
                None => CallerType::Direct,
            },
            conversation: self.session.as_deref().map(Into::into),
            ..Caller::default()
        }
    }
}

impl ServedTools {
    pub(super) fn shows(&self, tool: &Tool) -> bool {
        match self {
            Self::All => true,
            Self::Provider(name) => tool.spec().provider.as_deref() == Some(name),
        }
    }
}

/// The versions that are spoken here.
pub(super) const VERSIONS: &[ProtocolVersion] = ProtocolVersion::KNOWN_VERSIONS;
