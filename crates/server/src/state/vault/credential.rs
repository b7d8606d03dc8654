//! One credential: what is shown of it, and the document that is stored.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use windlass::{Error, ErrorKind, TenantId};
use windlass_store::{Document, Put};

use super::data_keys::Sealed;
use super::seal::AssociatedData;
use crate::random;

/// Where credentials are kept.
pub(super) const SPACE: &str = crate::state::quota::CREDENTIALS;
/// Signs of an id that say which provider and user it belongs to.
const SCOPE: usize = 12;
/// Random signs of an id.
const RANDOM: usize = 12;

/// A credential as it is shown: secrets are masked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct MaskedCredential {
    pub(crate) id: String,
    pub(crate) tenant: TenantId,
    pub(crate) provider: String,
    pub(crate) name: String,
    /// The user that it belongs to; the tenant's if missing.
    pub(crate) user: Option<String>,
    /// The fields in the order of the provider.
    pub(crate) fields: Map<String, Value>,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    /// When a call last used it, accurate to a minute.
    pub(crate) last_used_at: Option<Timestamp>,
    /// When it was made the default of its user or tenant, if it was. Of several
    /// the last one is.
    pub(crate) default_since: Option<Timestamp>,
    pub(crate) validation: Validation,
}

/// What is known of whether the provider accepts a credential.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(crate) enum Validation {
    /// These values were not validated yet.
    #[default]
    Unknown,
    /// It was accepted.
    Valid {
        at: Timestamp,
        /// How that was found out, such as the name of a tool.
        by: String,
    },
    /// It was rejected.
    Invalid {
        at: Timestamp,
        by: String,
        /// Why, in words that hold no secret.
        why: String,
    },
}

/// Whose credential it is, and for what.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) tenant: &'a TenantId,
    pub(super) provider: &'a str,
    pub(super) user: Option<&'a str>,
}

impl<'a> Scope<'a> {
    /// Two parts, so that a user called `tenant` is not the tenant.
    fn owner(self) -> [&'a str; 2] {
        match self.user {
            Some(user) => ["user", user],
            None => ["tenant", ""],
        }
    }

    /// What the ids of all its credentials begin with, so that they are found
    /// together.
    pub(super) fn prefix(self) -> String {
        let [kind, user] = self.owner();
        let all = AssociatedData::new(&["scope", self.tenant.as_str(), self.provider, kind, user]);
        format!("cred_{}", &all.fingerprint()[..SCOPE])
    }

    pub(super) fn new_id(self) -> Result<String, Error> {
        Ok(format!("{}{}", self.prefix(), *random::text(RANDOM)?))
    }

    /// What is unique for a name in this scope.
    pub(super) fn alias(self, name: &str) -> String {
        let [kind, user] = self.owner();
        AssociatedData::new(&["name", self.tenant.as_str(), self.provider, kind, user, name])
            .fingerprint()
    }

    /// What the values of a credential are bound to, besides the tenant.
    pub(super) fn bound(self, id: &'a str) -> [&'a str; 5] {
        let [kind, user] = self.owner();
        ["credential", self.provider, kind, user, id]
    }
}

/// A credential as it is kept.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct StoredCredential {
    pub(super) provider: String,
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) user: Option<String>,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) default_since: Option<Timestamp>,
    #[serde(default)]
    pub(super) validation: Validation,
    pub(super) sealed: Sealed,
}

impl StoredCredential {
    pub(super) fn read(document: &Document) -> Result<Self, Error> {
        // The parse error is not shown: it could quote the secret.
        Self::deserialize(&document.body).map_err(|_| {
            let message = format!("the credential `{}` is damaged; store it again", document.id);
            Error::new(ErrorKind::CredentialInvalid, message)
        })
    }

    pub(super) fn to_put(&self, tenant: &TenantId, id: &str) -> Result<Put, Error> {
        let alias = Some(self.scope(tenant).alias(&self.name));
        Ok(Put { alias, ..Put::of(SPACE, tenant.clone(), id, self)? })
    }

    pub(super) fn scope<'a>(&'a self, tenant: &'a TenantId) -> Scope<'a> {
        Scope { tenant, provider: &self.provider, user: self.user.as_deref() }
    }

    pub(super) fn is_in(&self, scope: Scope<'_>) -> bool {
        self.provider == scope.provider && self.user.as_deref() == scope.user
    }

    pub(super) fn describe(
        self,
        tenant: TenantId,
        id: String,
        fields: Map<String, Value>,
    ) -> MaskedCredential {
        MaskedCredential {
            id,
            tenant,
            provider: self.provider,
            name: self.name,
            user: self.user,
            fields,
            created_at: self.created_at,
            updated_at: self.updated_at,
            last_used_at: None,
            default_since: self.default_since,
            validation: self.validation,
        }
    }
}
