//! One API key: its text, and the document that is stored for it.

use std::fmt::Write;
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use windlass::{Error, ErrorKind, Secret, TenantId};
use windlass_store::Document;

use super::{Identity, Role, ToolView, UserBinding};
use crate::random;
use crate::state::quota::NarrowQuotas;

/// What every key begins with, so that scanners find one that leaked.
const MARK: &str = "wl_";
/// Signs of a key that are kept, for people to tell keys apart.
const PREFIX: usize = 8;
/// Random signs of a key that are not: more than 256 bits. Nobody can try them
/// out, so that a quick hash is as good as a slow one.
const RANDOM: usize = 43;

/// What is known of a key. Its text is not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ApiKey {
    /// Its name for programs.
    pub(crate) id: Arc<str>,
    /// Whose it is.
    pub(crate) tenant: TenantId,
    /// Its name for people.
    pub(crate) name: Arc<str>,
    /// What it allows.
    pub(crate) role: Role,
    /// The tools that it sees; all if unset.
    pub(crate) tools: Option<ToolView>,
    /// The user on whose behalf it calls, if it is restricted.
    pub(crate) user: Option<UserBinding>,
    /// Its own quotas, in place of those of all keys.
    pub(crate) quotas: Option<NarrowQuotas>,
    /// The beginning of its text, such as `wl_3kTz90aB`.
    pub(crate) prefix: String,
    /// When it was created.
    pub(crate) created_at: Timestamp,
    /// When its text was last replaced.
    pub(crate) rotated_at: Option<Timestamp>,
    /// When it expires.
    pub(crate) expires_at: Option<Timestamp>,
    /// When it was last used, accurate to a minute.
    pub(crate) last_used_at: Option<Timestamp>,
    /// When it was revoked, if it was.
    pub(crate) revoked_at: Option<Timestamp>,
}

impl ApiKey {
    /// Whether it works at this time.
    pub(crate) fn works(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| end > now)
    }

    /// Who holds it.
    pub(super) fn identity(&self) -> Identity {
        Identity {
            tenant: self.tenant.clone(),
            key_id: Arc::clone(&self.id),
            role: self.role,
            name: Arc::clone(&self.name),
            tools: self.tools.clone(),
            user: self.user.clone(),
        }
    }
}

/// A new key and its text, which is shown only once.
pub(crate) struct NewKey {
    pub(crate) key: ApiKey,
    pub(crate) text: Secret,
}

/// A key as it is kept.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct StoredKey {
    pub(super) name: String,
    pub(super) role: Role,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tools: Option<ToolView>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) user: Option<UserBinding>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) quotas: Option<NarrowQuotas>,
    pub(super) prefix: String,
    pub(super) hash: KeyHash,
    pub(super) created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rotated_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) revoked_at: Option<Timestamp>,
}

impl StoredKey {
    /// What a document says. It belongs to the tenant of the document.
    pub(super) fn read(document: &Document) -> Result<Self, Error> {
        Self::deserialize(&document.body).map_err(|_| {
            let message = format!("the API key `{}` is damaged; revoke it", document.id);
            Error::new(ErrorKind::StorageUnavailable, message)
        })
    }

    pub(super) fn describe(self, tenant: TenantId, id: String) -> ApiKey {
        ApiKey {
            id: id.into(),
            tenant,
            name: self.name.into(),
            role: self.role,
            tools: self.tools,
            user: self.user,
            quotas: self.quotas,
            prefix: self.prefix,
            created_at: self.created_at,
            rotated_at: self.rotated_at,
            expires_at: self.expires_at,
            last_used_at: None,
            revoked_at: self.revoked_at,
        }
    }
}

/// The hash of a key's text. In hexadecimal digits it is also the alias by which
/// a key is found.
#[derive(Clone, Copy, Eq)]
pub(super) struct KeyHash([u8; 32]);

impl KeyHash {
    /// The hash of a text that can be a key's; none where it cannot, so that
    /// nobody looks for it.
    pub(super) fn of(text: &str) -> Option<Self> {
        is_key(text).then(|| Self::digest(text))
    }

    pub(super) fn digest(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// In hexadecimal digits.
    pub(super) fn to_hex(self) -> String {
        self.0.iter().fold(String::with_capacity(64), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }

    fn from_hex(hex: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if hex.len() != 2 * bytes.len() || !hex.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        for (byte, at) in bytes.iter_mut().zip((0..hex.len()).step_by(2)) {
            *byte = u8::from_str_radix(hex.get(at..at + 2)?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl Serialize for KeyHash {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.to_hex())
    }
}

impl<'de> Deserialize<'de> for KeyHash {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let hex = String::deserialize(from)?;
        Self::from_hex(&hex).ok_or_else(|| D::Error::custom("not a hash in hexadecimal digits"))
    }
}

/// How long a comparison takes does not tell how much is right.
impl PartialEq for KeyHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl std::hash::Hash for KeyHash {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

/// A new text, and the beginning of it that is kept.
pub(super) fn new_text() -> Result<(Secret, String), Error> {
    let prefix = format!("{MARK}{}", *random::text(PREFIX)?);
    let rest = random::text(RANDOM)?;
    let mut text = String::with_capacity(prefix.len() + 1 + RANDOM);
    text.extend([&prefix, "_", &rest]);
    Ok((Secret::new(text), prefix))
}

/// `wl_`, eight signs, `_`, and the rest.
fn is_key(text: &str) -> bool {
    let signs = |part: &str, length| {
        part.len() == length && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let parts = text.strip_prefix(MARK).and_then(|rest| rest.split_once('_'));
    parts.is_some_and(|(prefix, rest)| signs(prefix, PREFIX) && signs(rest, RANDOM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_a_key_and_nothing_else_is() {
        let (text, prefix) = new_text().unwrap();
        let text = text.expose();
        assert!(is_key(text) && text.starts_with(&prefix) && text.len() == 55, "{prefix}");
        let longer = format!("{text}a");
        let other = text.replacen("wl_", "xx_", 1);
        let foreign = text.replacen(&prefix, "wl_中中aa", 1);
        for wrong in ["", "wl_", "wl__", &text[..54], &longer, &other, &foreign, &prefix, "wl_a_b"]
        {
            assert!(KeyHash::of(wrong).is_none(), "{wrong}");
        }
        assert!(!is_key(&"_".repeat(55)));
    }

    #[test]
    fn hashes_are_those_of_sha_256() {
        let hash = KeyHash::digest("abc");
        assert_eq!(
            hash.to_hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert!(hash == KeyHash::digest("abc") && hash != KeyHash::digest("abd"));
        assert!(KeyHash::from_hex(&hash.to_hex()) == Some(hash));
        let whole = hash.to_hex();
        for wrong in ["", "ba", &whole[1..], &whole.replace('b', "g"), &whole.replace("ba", "+a")] {
            assert!(KeyHash::from_hex(wrong).is_none(), "{wrong}");
        }
    }
}
