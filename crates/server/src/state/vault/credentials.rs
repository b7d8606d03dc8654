//! [`Credentials`]: stores, lists and decrypts the credentials of providers.
//!
//! Lists have masked values only; the values themselves are decrypted for one call
//! and zeroized after it.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use windlass::definition::ProviderSpec;
use windlass::{Error, ErrorKind, Secret, TenantId};
use windlass_store::{Document, Documents, Expect, Put};

use super::credential::{MaskedCredential, SPACE, Scope, StoredCredential, Validation};
use super::data_keys::Vault;
use super::definitions;
use super::fields::{CredentialFields, FieldValue};
use super::grants;
use crate::state::last_used::LastUsed;

/// Where it is kept when credentials were used.
const USES: &str = "credential_uses";
const MAX_NAME: usize = 200;
/// How many credentials of a provider one user or tenant may have.
const MAX_IN_SCOPE: usize = 100;
/// How often a change is tried where others change the same credential.
const ATTEMPTS: usize = 16;

/// A credential to store.
pub(crate) struct CredentialRequest {
    /// What people call it; unique for its provider and user.
    pub(crate) name: String,
    /// The user that it belongs to; the tenant's if missing.
    pub(crate) user: Option<String>,
    /// The values by field.
    pub(crate) values: Vec<(String, FieldValue)>,
}

/// What is to be changed of a credential, all of it or nothing.
#[derive(Default)]
pub(crate) struct CredentialChange {
    /// Values by field; one that is not given, or whose masked value comes back,
    /// stays as it is.
    pub(crate) values: Option<Vec<(String, FieldValue)>>,
    /// What people call it from now on.
    pub(crate) name: Option<String>,
    /// Whether calls get it from now on if they name none.
    pub(crate) is_default: bool,
}

/// Which credentials to list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CredentialFilter<'a> {
    pub(crate) provider: Option<&'a str>,
    pub(crate) user: Option<&'a str>,
}

/// Which credential a call uses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CredentialChoice<'a> {
    /// The one of this name, of the user or else of the tenant.
    pub(crate) name: Option<&'a str>,
    /// On whose behalf the call is made.
    pub(crate) user: Option<&'a str>,
}

/// The decrypted values for one call. They cannot be printed, and are zeroized on drop.
pub(crate) struct RevealedCredential {
    /// Which credential it was, for records and caches.
    pub(crate) id: String,
    pub(crate) values: Vec<(String, Secret)>,
}

/// The credentials of all tenants.
pub(crate) struct Credentials {
    documents: Arc<dyn Documents>,
    vault: Vault,
    uses: LastUsed,
}

impl Credentials {
    /// The credentials that are kept here. Needs a runtime, which notes when
    /// they are used.
    pub(crate) fn new(documents: Arc<dyn Documents>, vault: Vault) -> Self {
        let uses = LastUsed::new(Arc::clone(&documents), USES);
        Self { documents, vault, uses }
    }

    /// The keys behind them.
    pub(crate) fn vault(&self) -> &Vault {
        &self.vault
    }

    /// Stores a credential.
    pub(crate) async fn store(
        &self,
        tenant: &TenantId,
        provider: &ProviderSpec,
        request: CredentialRequest,
    ) -> Result<MaskedCredential, Error> {
        self.store_as(None, tenant, provider, request).await
    }

    /// Stores a credential that a key made.
    pub(crate) async fn store_as(
        &self,
        owner: Option<&str>,
        tenant: &TenantId,
        provider: &ProviderSpec,
        request: CredentialRequest,
    ) -> Result<MaskedCredential, Error> {
        let name = checked_name(&request.name)?;
        let user = request.user.as_deref().map(checked_name).transpose()?;
        let fields = CredentialFields::check(
            &provider.credentials,
            &request.values,
            &CredentialFields::default(),
        )?;
        let scope = Scope { tenant, provider: &provider.name, user: user.as_deref() };
        if self.in_scope(scope).await?.len() >= MAX_IN_SCOPE {
            return Err(refused(format!("there are {MAX_IN_SCOPE} credentials already")));
        }
        let id = scope.new_id()?;
        let sealed = self.vault.seal(tenant, &scope.bound(&id), &fields.to_bytes()).await?;
        let now = Timestamp::now();
        let stored = StoredCredential {
            provider: provider.name.clone(),
            name,
            user: user.clone(),
            created_at: now,
            updated_at: now,
            default_since: None,
            validation: Validation::Unknown,
            sealed,
        };
        let put = Put { owner: owner.map(str::to_owned), ..stored.to_put(tenant, &id)? };
        if self.documents.put(put, Expect::Absent).await?.is_none() {
            return Err(taken(&stored));
        }
        Ok(stored.describe(tenant.clone(), id, fields.masked()))
    }

    /// What calls would get of these values, if they were stored.
    pub(crate) fn try_values(
        &self,
        provider: &ProviderSpec,
        values: &[(String, FieldValue)],
    ) -> Result<Vec<(String, Secret)>, Error> {
        let fields =
            CredentialFields::check(&provider.credentials, values, &CredentialFields::default())?;
        Ok(fields.reveal(&provider.credentials))
    }

    /// Replaces values of a credential. A field that is not given, or whose
    /// masked value comes back, stays as it is.
    pub(crate) async fn rotate(
        &self,
        tenant: &TenantId,
        provider: &ProviderSpec,
        id: &str,
        values: Vec<(String, FieldValue)>,
    ) -> Result<MaskedCredential, Error> {
        let wanted = CredentialChange { values: Some(values), ..CredentialChange::default() };
        self.update(tenant, provider, id, wanted).await
    }

    /// Changes a credential, in one step: what cannot be done in full is not
    /// begun.
    pub(crate) async fn update(
        &self,
        tenant: &TenantId,
        provider: &ProviderSpec,
        id: &str,
        wanted: CredentialChange,
    ) -> Result<MaskedCredential, Error> {
        let name = wanted.name.as_deref().map(checked_name).transpose()?;
        for _ in 0..ATTEMPTS {
            let (version, mut stored) = self.read(tenant, id).await?;
            if stored.provider != provider.name {
                return Err(missing(id));
            }
            let mut fields = self.open(tenant, id, &stored).await?;
            let now = Timestamp::now();
            if let Some(values) = &wanted.values {
                fields = CredentialFields::check(&provider.credentials, values, &fields)?;
                let bytes = fields.to_bytes();
                stored.sealed =
                    self.vault.seal(tenant, &stored.scope(tenant).bound(id), &bytes).await?;
                stored.validation = Validation::Unknown;
                stored.updated_at = now;
            }
            if let Some(name) = &name {
                stored.name.clone_from(name);
                stored.updated_at = now;
                self.is_free(tenant, id, &stored).await?;
            }
            if wanted.is_default {
                stored.default_since = Some(now);
            }
            if self.replace(tenant, id, version, &stored).await? {
                return Ok(stored.describe(tenant.clone(), id.to_owned(), fields.masked()));
            }
        }
        Err(busy(id))
    }

    /// Calls a credential something else.
    pub(crate) async fn rename(
        &self,
        tenant: &TenantId,
        id: &str,
        name: &str,
    ) -> Result<MaskedCredential, Error> {
        let name = checked_name(name)?;
        let (_, mut wanted) = self.read(tenant, id).await?;
        wanted.name.clone_from(&name);
        self.is_free(tenant, id, &wanted).await?;
        self.change(tenant, id, |stored| {
            stored.name.clone_from(&name);
            stored.updated_at = Timestamp::now();
        })
        .await
    }

    /// Ends well where no other credential has this one's name.
    async fn is_free(
        &self,
        tenant: &TenantId,
        id: &str,
        wanted: &StoredCredential,
    ) -> Result<(), Error> {
        let alias = wanted.scope(tenant).alias(&wanted.name);
        match self.documents.find(SPACE, &alias).await? {
            Some(holder) if holder.id != id => Err(taken(wanted)),
            _ => Ok(()),
        }
    }

    /// Makes a credential the one that calls get if they name none.
    pub(crate) async fn make_default(
        &self,
        tenant: &TenantId,
        id: &str,
    ) -> Result<MaskedCredential, Error> {
        self.change(tenant, id, |stored| stored.default_since = Some(Timestamp::now())).await
    }

    /// Keeps what was found out about whether the provider accepts it.
    pub(crate) async fn note_validation(
        &self,
        tenant: &TenantId,
        id: &str,
        validation: Validation,
    ) -> Result<MaskedCredential, Error> {
        self.change(tenant, id, |stored| stored.validation = validation.clone()).await
    }

    /// Forgets a credential.
    pub(crate) async fn delete(&self, tenant: &TenantId, id: &str) -> Result<(), Error> {
        if !self.documents.delete(SPACE, tenant, id, Expect::Anything).await? {
            return Err(missing(id));
        }
        self.uses.forget(tenant, id).await
    }

    /// Forgets all credentials of a provider, of the tenant and of its users;
    /// returns how many there were.
    pub(crate) async fn delete_all(
        &self,
        tenant: &TenantId,
        provider: &str,
    ) -> Result<usize, Error> {
        let mut deleted = 0;
        for id in self.ids_of(tenant, provider).await? {
            match self.delete(tenant, &id).await {
                Ok(()) => deleted += 1,
                // Another server was faster.
                Err(error) if error.kind() == missing(&id).kind() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(deleted)
    }

    /// The providers that a tenant, or a user of it, has a credential of.
    pub(crate) async fn providers_of(&self, tenant: &TenantId) -> Result<HashSet<String>, Error> {
        let all = self.all(tenant).await?;
        all.iter().map(|document| Ok(StoredCredential::read(document)?.provider)).collect()
    }

    /// The credentials of a provider, of the tenant and of its users.
    pub(crate) async fn ids_of(
        &self,
        tenant: &TenantId,
        provider: &str,
    ) -> Result<Vec<String>, Error> {
        let mut ids = Vec::new();
        for document in self.all(tenant).await? {
            if StoredCredential::read(&document)?.provider == provider {
                ids.push(document.id);
            }
        }
        Ok(ids)
    }

    /// One credential, masked.
    pub(crate) async fn get(&self, tenant: &TenantId, id: &str) -> Result<MaskedCredential, Error> {
        let (_, stored) = self.read(tenant, id).await?;
        let mut shown = self.show(tenant, id, stored).await?;
        shown.last_used_at = self.uses.last(tenant, id).await?;
        Ok(shown)
    }

    /// The id of the credential with this name.
    pub(crate) async fn find(
        &self,
        tenant: &TenantId,
        provider: &str,
        user: Option<&str>,
        name: &str,
    ) -> Result<Option<String>, Error> {
        let scope = Scope { tenant, provider, user };
        let found = self.documents.find(SPACE, &scope.alias(name)).await?;
        Ok(found.filter(|found| found.tenant == *tenant).map(|found| found.id))
    }

    /// The credentials of a tenant, masked, by provider, user and time.
    pub(crate) async fn list(
        &self,
        tenant: &TenantId,
        filter: CredentialFilter<'_>,
    ) -> Result<Vec<MaskedCredential>, Error> {
        let uses = self.uses.of_tenant(tenant).await?;
        let mut shown = Vec::new();
        for document in self.all(tenant).await? {
            let stored = StoredCredential::read(&document)?;
            if filter.admits(&stored) {
                let mut one = self.show(tenant, &document.id, stored).await?;
                one.last_used_at = uses.get(&one.id).copied();
                shown.push(one);
            }
        }
        shown.sort_by(|a, b| {
            let key =
                |one: &MaskedCredential| (one.provider.clone(), one.user.clone(), one.created_at);
            key(a).cmp(&key(b))
        });
        Ok(shown)
    }

    /// Opens the credential that applies to a call: the one it names, else the
    /// user's own, else the tenant's; none where there is none of these, but an
    /// error where the call names one.
    pub(crate) async fn reveal(
        &self,
        tenant: &TenantId,
        provider: &ProviderSpec,
        wanted: CredentialChoice<'_>,
    ) -> Result<Option<RevealedCredential>, Error> {
        let chosen = self.choose(tenant, &provider.name, wanted).await?;
        let Some((id, stored)) = chosen else { return Ok(None) };
        let fields = self.open(tenant, &id, &stored).await?;
        self.uses.note(tenant, &id);
        Ok(Some(RevealedCredential { id, values: fields.reveal(&provider.credentials) }))
    }

    /// Gives a tenant a new data key, and seals all its credentials by it.
    /// Returns how many.
    pub(crate) async fn rotate_data_key(&self, tenant: &TenantId) -> Result<usize, Error> {
        let mut needed = Vec::new();
        for document in self.all(tenant).await? {
            needed.push(StoredCredential::read(&document)?.sealed.key);
        }
        // Tokens that people granted, and definitions, stay sealed as they are.
        needed.extend(grants::keys_of(&*self.documents, tenant).await?);
        needed.extend(definitions::keys_of(&*self.documents, tenant).await?);
        self.vault.rotate_data_key(tenant, &needed).await?;
        let mut resealed = 0;
        for document in self.all(tenant).await? {
            resealed += usize::from(self.reseal(tenant, &document.id).await?);
        }
        Ok(resealed)
    }

    async fn choose(
        &self,
        tenant: &TenantId,
        provider: &str,
        wanted: CredentialChoice<'_>,
    ) -> Result<Option<(String, StoredCredential)>, Error> {
        let own = wanted.user.map(|user| Scope { tenant, provider, user: Some(user) });
        let shared = Scope { tenant, provider, user: None };
        for scope in own.into_iter().chain([shared]) {
            let mut all = self.in_scope(scope).await?;
            all.retain(|(_, stored)| wanted.name.is_none_or(|name| stored.name == name));
            // The one made default last, else the one made first.
            all.sort_by_key(|(_, stored)| {
                (std::cmp::Reverse(stored.default_since), stored.created_at)
            });
            if let Some(first) = all.into_iter().next() {
                return Ok(Some(first));
            }
        }
        let Some(name) = wanted.name else { return Ok(None) };
        let message = format!("the provider `{provider}` has no credential called `{name}`");
        Err(Error::new(ErrorKind::CredentialInvalid, message))
    }

    async fn in_scope(&self, scope: Scope<'_>) -> Result<Vec<(String, StoredCredential)>, Error> {
        let mut found = Vec::new();
        for document in self.documents.of_tenant(SPACE, scope.tenant, &scope.prefix()).await? {
            let stored = StoredCredential::read(&document)?;
            if stored.is_in(scope) {
                found.push((document.id, stored));
            }
        }
        Ok(found)
    }

    async fn all(&self, tenant: &TenantId) -> Result<Vec<Document>, Error> {
        self.documents.of_tenant(SPACE, tenant, "").await
    }

    async fn show(
        &self,
        tenant: &TenantId,
        id: &str,
        stored: StoredCredential,
    ) -> Result<MaskedCredential, Error> {
        let masked = self.open(tenant, id, &stored).await?.masked();
        Ok(stored.describe(tenant.clone(), id.to_owned(), masked))
    }

    async fn open(
        &self,
        tenant: &TenantId,
        id: &str,
        stored: &StoredCredential,
    ) -> Result<CredentialFields, Error> {
        let bound = stored.scope(tenant).bound(id);
        let bytes = self.vault.open(tenant, &bound, &stored.sealed).await?;
        bytes.and_then(|bytes| CredentialFields::from_bytes(&bytes)).ok_or_else(|| {
            let message = format!(
                "the credential `{id}` of the provider `{}` cannot be opened: it was changed, or \
                 belongs to another tenant, provider, user or id; store it again",
                stored.provider
            );
            Error::new(ErrorKind::CredentialInvalid, message)
        })
    }

    /// Seals the same values by the current key; says whether that was needed
    /// and the credential is still there.
    async fn reseal(&self, tenant: &TenantId, id: &str) -> Result<bool, Error> {
        for _ in 0..ATTEMPTS {
            let (version, mut stored) = match self.read(tenant, id).await {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
                read => read?,
            };
            let bytes = self.open(tenant, id, &stored).await?.to_bytes();
            let sealed = self.vault.seal(tenant, &stored.scope(tenant).bound(id), &bytes).await?;
            if sealed.key == stored.sealed.key {
                return Ok(false);
            }
            stored.sealed = sealed;
            if self.replace(tenant, id, version, &stored).await? {
                return Ok(true);
            }
        }
        Err(busy(id))
    }

    async fn change(
        &self,
        tenant: &TenantId,
        id: &str,
        change: impl Fn(&mut StoredCredential),
    ) -> Result<MaskedCredential, Error> {
        for _ in 0..ATTEMPTS {
            let (version, mut stored) = self.read(tenant, id).await?;
            change(&mut stored);
            if self.replace(tenant, id, version, &stored).await? {
                return self.show(tenant, id, stored).await;
            }
        }
        Err(busy(id))
    }

    async fn replace(
        &self,
        tenant: &TenantId,
        id: &str,
        version: u64,
        stored: &StoredCredential,
    ) -> Result<bool, Error> {
        let put = stored.to_put(tenant, id)?;
        Ok(self.documents.put(put, Expect::Version(version)).await?.is_some())
    }

    async fn read(&self, tenant: &TenantId, id: &str) -> Result<(u64, StoredCredential), Error> {
        let document = self.documents.get(SPACE, tenant, id).await?.ok_or_else(|| missing(id))?;
        Ok((document.version, StoredCredential::read(&document)?))
    }
}

impl CredentialFilter<'_> {
    fn admits(&self, stored: &StoredCredential) -> bool {
        self.provider.is_none_or(|provider| provider == stored.provider)
            && self.user.is_none_or(|user| Some(user) == stored.user.as_deref())
    }
}

fn checked_name(name: &str) -> Result<String, Error> {
    let name = name.trim();
    if name.is_empty() || name.chars().count() > MAX_NAME || name.chars().any(char::is_control) {
        return Err(refused(format!(
            "a name has 1 to {MAX_NAME} characters, none of which is a control character"
        )));
    }
    Ok(name.to_owned())
}

fn taken(stored: &StoredCredential) -> Error {
    let (provider, name) = (&stored.provider, &stored.name);
    let message = format!("the provider `{provider}` has a credential called `{name}` already");
    Error::new(ErrorKind::AlreadyRegistered, message)
}

fn missing(id: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no credential `{id}`"))
}

fn busy(id: &str) -> Error {
    let message = format!("the credential `{id}` is being changed by others; try again");
    Error::new(ErrorKind::StorageUnavailable, message)
}

fn refused(why: String) -> Error {
    Error::new(ErrorKind::InvalidArguments, why)
}

#[cfg(test)]
mod tests;
