//! Secrets at rest: credentials of providers, sealed so that whoever reads the
//! database learns nothing and whoever changes it is found out.
//!
//! ```text
//! master key (file or environment) ─ seals ─► a data key for each tenant ─ seals ─► credentials
//! ```
//!
//! Both kinds of keys can be replaced while servers run. A sealed value names
//! the key that it needs, and is bound to what it is: the same bytes under
//! another tenant, provider, user or id cannot be opened.

mod credential;
mod credentials;
mod data_keys;
mod definitions;
mod fields;
mod grants;
mod key_file;
mod master;
mod seal;

pub(crate) use credential::{Credential, Validation};
pub(crate) use credentials::{
    CredentialChange, CredentialRequest, Credentials, Filter, Revealed, Wanted,
};
pub(crate) use data_keys::{Rotation, Vault};
pub(crate) use fields::{Given, is_masked};
pub(crate) use grants::{Endpoint, Grantee, Grants, Tokens};
pub(crate) use master::{KEY_FILE, KeySource, MASTER_KEY, Missing};
