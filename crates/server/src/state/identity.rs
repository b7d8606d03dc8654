//! Identity: API keys, bearer tokens, and the permissions of roles.
//!
//! A key is a random text that is shown once. Only its hash is stored, and it is
//! looked up by that hash. It names the tenant and the role of its bearer;
//! [`Role::may`] is the one table of permissions.

mod bearers;
mod cache;
mod key;
mod keys;
mod role;
mod tool_view;

pub(crate) use bearers::{Bearers, OAuthSettings};
pub(crate) use key::{ApiKey, NewKey};
pub(crate) use keys::{ApiKeys, KeyRequest, works};
pub(crate) use role::{Permission, Role};
pub(crate) use tool_view::ToolView;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
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

/// The identity of an authenticated client.
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
    /// The tools that they see; all if unset.
    pub(crate) tools: Option<ToolView>,
    /// The user on whose behalf they call, if the key is restricted.
    pub(crate) user: Option<UserBinding>,
}

/// The people on whose behalf the bearer of a key may call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub(crate) enum UserBinding {
    /// Whomever a request names: for a program that serves many people.
    Anybody,
    /// This person, whether a request says so or not.
    One(Arc<str>),
}

/// How [`UserBinding::Anybody`] is written.
pub(crate) const ANYBODY: &str = "*";

impl From<String> for UserBinding {
    fn from(name: String) -> Self {
        if name == ANYBODY { Self::Anybody } else { Self::One(name.into()) }
    }
}

impl From<UserBinding> for String {
    fn from(binding: UserBinding) -> Self {
        match binding {
            UserBinding::Anybody => ANYBODY.to_owned(),
            UserBinding::One(user) => user.to_string(),
        }
    }
}

impl Identity {
    /// Whether they may do this. What concerns all tenants is for the tenant
    /// that the installation begins with: whoever runs it.
    pub(crate) fn may(&self, action: Permission) -> bool {
        self.role.may(action) && (!action.concerns_all() || self.tenant == TenantId::default())
    }

    /// The one person on whose behalf they call.
    pub(crate) fn bound_user(&self) -> Option<&Arc<str>> {
        match &self.user {
            Some(UserBinding::One(user)) => Some(user),
            Some(UserBinding::Anybody) | None => None,
        }
    }

    /// Whether they may call on behalf of this person, and so use what that
    /// person has stored or agreed to.
    pub(crate) fn may_act_for(&self, user: &str) -> bool {
        match &self.user {
            Some(UserBinding::One(own)) => **own == *user,
            Some(UserBinding::Anybody) => true,
            None => self.may(Permission::ActForUsers),
        }
    }
}
