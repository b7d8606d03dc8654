//! Who talks to a server: API keys, and what each role may do.
//!
//! A key is a random text that is shown once. Only its hash is kept, and it is
//! found by that hash. It says which tenant the bearer belongs to and which role
//! they have; [`Role::may`] is the one table of what that allows.

mod bearers;
mod cache;
mod key;
mod keys;
mod role;
mod tool_view;

pub(crate) use bearers::{Bearers, OAuthSettings};
pub(crate) use key::{ApiKey, NewKey};
pub(crate) use keys::{KeyRequest, Keys};
pub(crate) use role::{Action, Role};
pub(crate) use tool_view::ToolView;

use windlass::TenantId;

/// Whoever holds a valid key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Whose tools, credentials and records they see.
    pub(crate) tenant: TenantId,
    /// The key that they hold.
    pub(crate) key_id: String,
    /// What they may do.
    pub(crate) role: Role,
    /// What the key is called.
    pub(crate) name: String,
    /// Which tools they see; all where nobody said.
    pub(crate) tools: Option<ToolView>,
}

impl Identity {
    /// Whether they may do this. What concerns all tenants is for the tenant
    /// that the installation begins with: whoever runs it.
    pub(crate) fn may(&self, action: Action) -> bool {
        self.role.may(action) && (!action.concerns_all() || self.tenant == TenantId::default())
    }
}
