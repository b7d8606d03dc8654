//! Encrypts the secret parts of provider definitions: headers, and variables of the
//! environment of MCP servers. The rest stays readable in the database.

use serde::Deserialize;
use serde_json::{Value, json};
use windlass::{Error, ErrorKind, TenantId};
use windlass_store::{Document, Documents};

use super::credentials::Credentials;
use super::data_keys::Sealed;
use crate::state::imports::SPACE;

/// Where a definition is in what is kept of a provider.
const PLAIN: &str = "definition";
const SEALED: &str = "sealed_definition";

/// What a sealed definition is.
fn bound(name: &str) -> [&str; 2] {
    ["definition", name]
}

impl Credentials {
    /// The stored form of a definition.
    pub(crate) async fn keep_definition(
        &self,
        tenant: &TenantId,
        name: &str,
        text: &str,
        is_secret: bool,
    ) -> Result<Value, Error> {
        if !is_secret {
            return Ok(json!({PLAIN: text}));
        }
        let sealed = self.vault().seal(tenant, &bound(name), text.as_bytes()).await?;
        Ok(json!({SEALED: sealed}))
    }

    /// What is kept of a provider, with its definition as text.
    pub(crate) async fn open_definition(&self, document: Document) -> Result<Document, Error> {
        let Some(sealed) = sealed(&document)? else { return Ok(document) };
        let opened = self.vault().open(&document.tenant, &bound(&document.id), &sealed).await?;
        let text = opened.as_deref().and_then(|bytes| str::from_utf8(bytes).ok());
        let text = text.ok_or_else(|| damaged(&document, "it cannot be opened"))?;
        Ok(Document { body: json!({PLAIN: text}), ..document })
    }
}

/// The keys that definitions of a tenant are sealed by.
pub(super) async fn keys_of(
    documents: &dyn Documents,
    tenant: &TenantId,
) -> Result<Vec<String>, Error> {
    let mut keys = Vec::new();
    for document in documents.of_tenant(SPACE, tenant, "").await? {
        keys.extend(sealed(&document)?.map(|sealed| sealed.key));
    }
    Ok(keys)
}

fn sealed(document: &Document) -> Result<Option<Sealed>, Error> {
    let Some(sealed) = document.body.get(SEALED) else { return Ok(None) };
    Sealed::deserialize(sealed).map(Some).map_err(|why| damaged(document, &why.to_string()))
}

fn damaged(document: &Document, why: &str) -> Error {
    let why = format!("the definition of the provider `{}` is damaged: {why}", document.id);
    Error::new(ErrorKind::CredentialInvalid, why)
}
