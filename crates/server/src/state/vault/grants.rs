//! OAuth tokens that people granted: encrypted like credentials, and refreshed by one
//! server at a time.
//!
//! A server that finds a token about to expire takes a lease in its document. The
//! version check of the write lets only one server take it; the others wait for the
//! new token. Many services treat a refresh token that is used twice as stolen and
//! revoke the grant.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass::{BoxFuture, Error, ErrorKind, Secret, TenantId};
use windlass_store::{Document, Documents, Expect, Put};

use super::credentials::Credentials;
use super::data_keys::Sealed;
use super::seal::AssociatedData;

/// Where grants are kept.
const SPACE: &str = "grants";
/// How long before its end a token is not used any more.
const MARGIN: SignedDuration = SignedDuration::from_secs(60);
/// How long one server may take for the next token.
const LEASE: SignedDuration = SignedDuration::from_secs(20);
/// How often the others look whether it is there.
const LOOK: Duration = Duration::from_millis(100);

/// Whose grant it is, and for what.
#[derive(Clone, Copy)]
pub(crate) struct Grantee<'a> {
    pub(crate) tenant: &'a TenantId,
    pub(crate) provider: &'a str,
    pub(crate) user: Option<&'a str>,
}

/// The response of a token endpoint.
pub(crate) struct GrantedTokens {
    pub(crate) access: Secret,
    pub(crate) refresh: Option<Secret>,
    pub(crate) expires_at: Option<Timestamp>,
}

/// Asks a token endpoint for the next token: its address, the names of the
/// client's credential fields, and the refresh token.
pub(crate) type Refresh<'a> = &'a (
        dyn Fn(TokenEndpoint, Secret) -> BoxFuture<'a, Result<GrantedTokens, Error>> + Send + Sync
    );

/// The token endpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TokenEndpoint {
    pub(crate) token_url: String,
    /// Where a refresh token is taken, where that is another place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refresh_url: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_secret: String,
}

#[derive(Clone, Serialize, Deserialize)]
struct StoredGrant {
    field: String,
    endpoint: TokenEndpoint,
    sealed: Sealed,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    #[serde(default)]
    can_refresh: bool,
    /// The lease of the server that refreshes the token, until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refreshing_until: Option<Timestamp>,
}

/// The grants of all tenants.
pub(crate) struct Grants {
    documents: Arc<dyn Documents>,
    credentials: Arc<Credentials>,
}

impl Grants {
    pub(crate) fn new(documents: Arc<dyn Documents>, credentials: Arc<Credentials>) -> Self {
        Self { documents, credentials }
    }

    /// Keeps what a person granted, in place of an earlier grant.
    pub(crate) async fn keep(
        &self,
        grantee: Grantee<'_>,
        field: &str,
        endpoint: TokenEndpoint,
        tokens: GrantedTokens,
    ) -> Result<(), Error> {
        let id = grantee.id(field);
        let stored = self.seal(grantee, &id, field, endpoint, &tokens).await?;
        let put = put(grantee.tenant, &id, &stored)?;
        self.documents.put(put, Expect::Anything).await?;
        Ok(())
    }

    /// The tokens of a grantee by credential field; those that are about to end
    /// are refreshed before.
    pub(crate) async fn tokens(
        &self,
        grantee: Grantee<'_>,
        refresh: Refresh<'_>,
    ) -> Result<Vec<(String, Secret)>, Error> {
        let mut tokens = Vec::new();
        for document in self.documents.of_tenant(SPACE, grantee.tenant, &grantee.prefix()).await? {
            tokens.extend(self.fresh(grantee, document, refresh).await?);
        }
        Ok(tokens)
    }

    /// A token that lives; none where it has ended and cannot be refreshed.
    async fn fresh(
        &self,
        grantee: Grantee<'_>,
        document: Document,
        refresh: Refresh<'_>,
    ) -> Result<Option<(String, Secret)>, Error> {
        let mut document = document;
        loop {
            let stored = read(&document)?;
            let now = Timestamp::now();
            let ends = |margin| stored.expires_at.is_some_and(|at| at <= now + margin);
            if !ends(MARGIN) || (!stored.can_refresh && !ends(SignedDuration::ZERO)) {
                let (access, _) = self.open(grantee, &document.id, &stored).await?;
                return Ok(Some((stored.field, access)));
            }
            if !stored.can_refresh {
                return Ok(None);
            }
            if stored.refreshing_until.is_some_and(|until| until > now) {
                tokio::time::sleep(LOOK).await;
            } else if let Some(version) = self.begin(grantee.tenant, &document, &stored).await? {
                return self
                    .refresh(grantee, &document.id, version, stored, refresh)
                    .await
                    .map(Some);
            }
            let again = self.documents.get(SPACE, grantee.tenant, &document.id).await?;
            let Some(again) = again else { return Ok(None) };
            document = again;
        }
    }

    /// Says that this server asks for the next token, unless another one does.
    async fn begin(
        &self,
        tenant: &TenantId,
        document: &Document,
        stored: &StoredGrant,
    ) -> Result<Option<u64>, Error> {
        let until = Some(Timestamp::now() + LEASE);
        let stored = StoredGrant { refreshing_until: until, ..stored.clone() };
        let put = put(tenant, &document.id, &stored)?;
        self.documents.put(put, Expect::Version(document.version)).await
    }

    async fn refresh(
        &self,
        grantee: Grantee<'_>,
        id: &str,
        version: u64,
        stored: StoredGrant,
        refresh: Refresh<'_>,
    ) -> Result<(String, Secret), Error> {
        let (_, old) = self.open(grantee, id, &stored).await?;
        let old = old.ok_or_else(|| damaged(id))?;
        let outcome = refresh(stored.endpoint.clone(), old.clone()).await;
        let mut tokens = match outcome {
            Ok(tokens) => tokens,
            Err(error) => {
                // A rejected refresh token stays rejected: a new consent is needed.
                if error.kind() == ErrorKind::CredentialInvalid {
                    let expect = Expect::Version(version);
                    self.documents.delete(SPACE, grantee.tenant, id, expect).await?;
                } else {
                    let open = StoredGrant { refreshing_until: None, ..stored };
                    let put = put(grantee.tenant, id, &open)?;
                    self.documents.put(put, Expect::Version(version)).await?;
                }
                return Err(error);
            }
        };
        // Without a new refresh token, the old one stays valid (RFC 6749, 6).
        tokens.refresh = tokens.refresh.or(Some(old));
        let field = stored.field.clone();
        let next = self.seal(grantee, id, &field, stored.endpoint, &tokens).await?;
        let put = put(grantee.tenant, id, &next)?;
        self.documents.put(put, Expect::Version(version)).await?;
        Ok((field, tokens.access))
    }

    async fn seal(
        &self,
        grantee: Grantee<'_>,
        id: &str,
        field: &str,
        endpoint: TokenEndpoint,
        tokens: &GrantedTokens,
    ) -> Result<StoredGrant, Error> {
        let refresh = tokens.refresh.as_ref().map(Secret::expose);
        let both = zeroize::Zeroizing::new(
            json!({"access": tokens.access.expose(), "refresh": refresh}).to_string(),
        );
        let parts = grantee.bound(id);
        let sealed = self.credentials.vault().seal(grantee.tenant, &parts, both.as_bytes()).await?;
        Ok(StoredGrant {
            field: field.to_owned(),
            endpoint,
            sealed,
            expires_at: tokens.expires_at,
            can_refresh: tokens.refresh.is_some(),
            refreshing_until: None,
        })
    }

    async fn open(
        &self,
        grantee: Grantee<'_>,
        id: &str,
        stored: &StoredGrant,
    ) -> Result<(Secret, Option<Secret>), Error> {
        #[derive(Deserialize)]
        struct Both {
            access: String,
            refresh: Option<String>,
        }
        let parts = grantee.bound(id);
        let bytes = self.credentials.vault().open(grantee.tenant, &parts, &stored.sealed).await?;
        let both = bytes.and_then(|bytes| serde_json::from_slice::<Both>(&bytes).ok());
        let both = both.ok_or_else(|| damaged(id))?;
        Ok((both.access.into(), both.refresh.map(Secret::from)))
    }
}

/// The keys that the grants of a tenant are sealed by.
pub(super) async fn keys_of(
    documents: &dyn Documents,
    tenant: &TenantId,
) -> Result<Vec<String>, Error> {
    let grants = documents.of_tenant(SPACE, tenant, "").await?;
    grants.iter().map(|grant| Ok(read(grant)?.sealed.key)).collect()
}

impl<'a> Grantee<'a> {
    fn owner(self) -> [&'a str; 2] {
        match self.user {
            Some(user) => ["user", user],
            None => ["tenant", ""],
        }
    }

    /// What the ids of all its grants begin with.
    fn prefix(self) -> String {
        let [kind, user] = self.owner();
        let all = AssociatedData::new(&["grant", self.tenant.as_str(), self.provider, kind, user]);
        format!("{}.", all.fingerprint())
    }

    fn id(self, field: &str) -> String {
        format!("{}{field}", self.prefix())
    }

    /// What its tokens are bound to, besides the tenant.
    fn bound(self, id: &'a str) -> [&'a str; 5] {
        let [kind, user] = self.owner();
        ["grant", self.provider, kind, user, id]
    }
}

fn put(tenant: &TenantId, id: &str, stored: &StoredGrant) -> Result<Put, Error> {
    Put::of(SPACE, tenant.clone(), id, stored)
}

fn read(document: &Document) -> Result<StoredGrant, Error> {
    StoredGrant::deserialize(&document.body).map_err(|_| damaged(&document.id))
}

fn damaged(id: &str) -> Error {
    let message = format!("the grant `{id}` cannot be opened; a person has to agree again");
    Error::new(ErrorKind::CredentialInvalid, message)
}
