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

use std::sync::Arc;

use windlass::TenantId;

/// What the name of a tenant may be, in words and as a pattern.
pub(crate) const TENANT_NAME: &str =
    "1 to 64 letters, digits and `.`, `_`, `-`, of which a point is not the first";
pub(crate) const TENANT_PATTERN: &str = "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$";

/// Whether a new tenant may be called this: names become parts of addresses,
/// labels of metrics and keys of stores.
pub(crate) fn is_tenant_name(name: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=64).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(is_sign)
}

/// Whoever holds a valid key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Whose tools, credentials and records they see.
    pub(crate) tenant: TenantId,
    /// The key that they hold.
    pub(crate) key_id: Arc<str>,
    /// What they may do.
    pub(crate) role: Role,
    /// What the key is called.
    pub(crate) name: Arc<str>,
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
