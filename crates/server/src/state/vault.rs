//! Secrets at rest: envelope encryption of credentials, with authentication against
//! tampering.
//!
//! ```text
//! master key (file or environment) ─ encrypts ─► data key of a tenant ─ encrypts ─► credentials
//! ```
//!
//! The master key is the key-encryption key. Both kinds of keys can be rotated while
//! servers run. A ciphertext names its key, and its associated data binds it to the
//! tenant, provider, user and id: the same bytes cannot be decrypted elsewhere.

mod credential;
mod credentials;
mod data_keys;
mod definitions;
mod fields;
mod grants;
mod key_file;
mod master;
mod seal;

pub(crate) use credential::{MaskedCredential, Validation};
pub(crate) use credentials::{
    CredentialChange, CredentialChoice, CredentialFilter, CredentialRequest, Credentials,
    RevealedCredential,
};
pub(crate) use data_keys::{Rotation, Vault};
pub(crate) use fields::{FieldValue, is_masked};
pub(crate) use grants::{GrantedTokens, Grantee, Grants, TokenEndpoint};
pub(crate) use master::{KEY_FILE, KeySource, MASTER_KEY, MissingKeyFile};
