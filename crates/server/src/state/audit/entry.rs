//! [`AuditEntry`]: one action that somebody performed or attempted.

use std::env;
use std::net::IpAddr;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use windlass::{Error, ErrorKind};

use super::Head;
use crate::state::identity::Identity;

/// Who did something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Actor {
    /// `key`, `command` (of this machine's command line), `person` (who agreed in a
    /// browser), `server`, or `nobody` for somebody without a key that works.
    #[serde(rename = "type")]
    #[schemars(rename = "type")]
    pub(crate) kind: String,
    /// The key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key_id: Option<String>,
    /// The name of the key, or of the user who ran the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// The role of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<String>,
    /// Where the request came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<String>,
}

impl Actor {
    fn of(kind: &str) -> Self {
        Self { kind: kind.to_owned(), key_id: None, name: None, role: None, address: None }
    }

    /// The bearer of a key.
    pub(crate) fn key(identity: &Identity, address: Option<IpAddr>) -> Self {
        Self {
            key_id: Some(identity.key_id.to_string()),
            name: Some(identity.name.to_string()),
            role: Some(identity.role.name().to_owned()),
            address: address.map(|address| address.to_string()),
            ..Self::of("key")
        }
    }

    /// A client without a valid key.
    pub(crate) fn nobody(address: Option<IpAddr>) -> Self {
        Self { address: address.map(|address| address.to_string()), ..Self::of("nobody") }
    }

    /// A person who came back from a browser; without a name, one who agreed for the
    /// whole tenant.
    pub(crate) fn person(user: Option<&str>, address: Option<IpAddr>) -> Self {
        let address = address.map(|address| address.to_string());
        Self { name: user.map(str::to_owned), address, ..Self::of("person") }
    }

    /// Whoever runs a command on this machine.
    pub(crate) fn command() -> Self {
        let name = ["USER", "LOGNAME", "USERNAME"].into_iter().find_map(|name| env::var(name).ok());
        Self { name, ..Self::of("command") }
    }

    /// The server itself.
    pub(crate) fn server() -> Self {
        Self::of("server")
    }
}

/// What is to be written down.
#[derive(Clone, Debug)]
pub(crate) struct Happened {
    pub(crate) actor: Actor,
    /// The name of the operation.
    pub(crate) action: String,
    /// The resource that was changed.
    pub(crate) target: Option<String>,
    /// The HTTP status, if it was a request.
    pub(crate) status: Option<u16>,
    pub(crate) details: Option<Value>,
}

/// One action that somebody performed or attempted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AuditEntry")]
pub(crate) struct AuditEntry {
    /// The sequence number, from 1 and without gaps.
    pub(crate) number: u64,
    /// When.
    #[schemars(with = "String")]
    pub(crate) at: Timestamp,
    /// Who.
    pub(crate) actor: Actor,
    /// The action: the name of the operation, such as `create_key`.
    pub(crate) action: String,
    /// The resource that was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<String>,
    /// The HTTP status of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<u16>,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) details: Option<Value>,
    /// The hash of the entry before this one.
    pub(crate) previous: String,
    /// The SHA-256 hash of this entry, as JSON without this field.
    pub(crate) hash: String,
}

impl AuditEntry {
    /// The entry that follows the end of a chain.
    pub(super) fn after(head: &Head, at: Timestamp, happened: Happened) -> Result<Self, Error> {
        let Happened { actor, action, target, status, details } = happened;
        // With the precision of the database.
        let at = Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at);
        let mut entry = Self {
            number: head.number + 1,
            at,
            actor,
            action,
            target,
            status,
            details,
            previous: head.hash.clone(),
            hash: String::new(),
        };
        entry.hash = entry.digest()?;
        Ok(entry)
    }

    /// The hash that an entry with this content has.
    pub(super) fn digest(&self) -> Result<String, Error> {
        let fault = |error: serde_json::Error| {
            Error::new(ErrorKind::Internal, "an audit entry has no JSON form").with_source(error)
        };
        let mut content = serde_json::to_value(self).map_err(fault)?;
        if let Value::Object(content) = &mut content {
            content.remove("hash");
        }
        // Independent of the key order in which a database returns it.
        content.sort_all_objects();
        let bytes = serde_json::to_vec(&content).map_err(fault)?;
        Ok(Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect())
    }
}
