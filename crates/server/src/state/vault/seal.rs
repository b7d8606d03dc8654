//! Authenticated encryption: XChaCha20-Poly1305 with random nonces. Random nonces of
//! 192 bits do not collide, however many servers draw them, and the cipher runs in
//! constant time without support of the processor.

use std::fmt::Write;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use sha2::{Digest, Sha256};
use windlass::{Error, ErrorKind};
use zeroize::Zeroizing;

use crate::random;

/// Bytes of a key.
pub(super) const KEY: usize = 32;
const NONCE: usize = 24;
/// The version of everything in this file; part of what a value is bound to.
const FORMAT: &str = "windlass-sealed-1";

/// A symmetric key. It is zeroized on drop and cannot be printed.
#[derive(Clone)]
pub(super) struct SealKey(Arc<Zeroizing<[u8; KEY]>>);

impl SealKey {
    /// A new one.
    pub(super) fn random() -> Result<Self, Error> {
        Ok(Self(Arc::new(random::bytes()?)))
    }

    /// These bytes, if they are as many as a key has.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut key = Zeroizing::new([0; KEY]);
        if bytes.len() != KEY {
            return None;
        }
        key.copy_from_slice(bytes);
        Some(Self(Arc::new(key)))
    }

    /// The key of a text in base64.
    pub(super) fn from_base64(text: &str) -> Option<Self> {
        // Room for what a somewhat longer text could hold, which is no key.
        let mut bytes = Zeroizing::new([0; 2 * KEY]);
        let length = STANDARD.decode_slice(text, bytes.as_mut_slice()).ok()?;
        Self::from_bytes(bytes.get(..length)?)
    }

    /// The key as a text, for the one file that holds it.
    pub(super) fn to_base64(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(self.bytes()))
    }

    /// What the key is called: part of a hash of it, so that a name always means
    /// the same key.
    pub(super) fn id(&self) -> String {
        let mut hash = Sha256::new_with_prefix(b"windlass key id\0");
        hash.update(self.bytes());
        let mut id = String::with_capacity(16);
        for byte in &hash.finalize()[..8] {
            let _ = write!(id, "{byte:02x}");
        }
        id
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.0.as_slice()
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new((&**self.0).into())
    }
}

/// What a sealed value is, in parts that cannot be mistaken for each other.
/// Decryption needs the same data.
pub(super) struct AssociatedData(Vec<u8>);

impl AssociatedData {
    /// These parts, the first of which says what kind of value it is.
    pub(super) fn new(parts: &[&str]) -> Self {
        let mut bytes = Vec::new();
        for part in [FORMAT].iter().chain(parts) {
            // Length-prefixed, so that (`ab`, `c`) differs from (`a`, `bc`).
            bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
        Self(bytes)
    }

    /// A name for these parts that others can keep.
    pub(super) fn fingerprint(&self) -> String {
        let mut text = String::with_capacity(64);
        for byte in Sha256::digest(&self.0) {
            let _ = write!(text, "{byte:02x}");
        }
        text
    }
}

/// Seals a value.
pub(super) fn seal(key: &SealKey, binding: &AssociatedData, value: &[u8]) -> Result<String, Error> {
    let nonce = random::bytes::<NONCE>()?;
    let payload = Payload { msg: value, aad: &binding.0 };
    let sealed = key
        .cipher()
        .encrypt(&XNonce::from(*nonce), payload)
        .map_err(|_| Error::new(ErrorKind::Internal, "a value is too long to be sealed"))?;
    Ok(STANDARD.encode([nonce.as_slice(), &sealed].concat()))
}

/// Opens a value. There is nothing to say about why it cannot be opened: the
/// key, the value or what it is bound to is not what it was.
pub(super) fn open(
    key: &SealKey,
    binding: &AssociatedData,
    sealed: &str,
) -> Option<Zeroizing<Vec<u8>>> {
    let bytes = STANDARD.decode(sealed).ok()?;
    let (nonce, sealed) = bytes.split_first_chunk::<NONCE>()?;
    let payload = Payload { msg: sealed, aad: &binding.0 };
    key.cipher().decrypt(&XNonce::from(*nonce), payload).ok().map(Zeroizing::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_opens_with_its_key_and_binding_only() {
        let (key, other) = (SealKey::random().unwrap(), SealKey::random().unwrap());
        let bound = AssociatedData::new(&["credential", "acme", "weather"]);
        let sealed = seal(&key, &bound, b"canary-7f3a").unwrap();
        assert_eq!(&**open(&key, &bound, &sealed).unwrap(), b"canary-7f3a");
        assert!(open(&other, &bound, &sealed).is_none());
        for parts in [
            &["credential", "acme", "weathe"][..],
            &["credential", "acmew", "eather"],
            &["credential", "acme"],
            &["credential", "acme", "weather", ""],
            &["data-key", "acme", "weather"],
        ] {
            assert!(open(&key, &AssociatedData::new(parts), &sealed).is_none(), "{parts:?}");
        }
        assert_ne!(seal(&key, &bound, b"canary-7f3a").unwrap(), sealed, "nonces differ");
    }

    #[test]
    fn a_change_of_any_byte_is_found_out() {
        let key = SealKey::random().unwrap();
        let bound = AssociatedData::new(&["x"]);
        let sealed = seal(&key, &bound, b"a secret of some length").unwrap();
        let bytes = STANDARD.decode(&sealed).unwrap();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                assert!(open(&key, &bound, &STANDARD.encode(&changed)).is_none(), "{at} {bit}");
            }
            assert!(open(&key, &bound, &STANDARD.encode(&bytes[..at])).is_none(), "cut at {at}");
        }
        for at in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(open(&key, &bound, &changed).is_none(), "sign {at}");
        }
        for other in ["", "!", "AAAA", &format!("{sealed}AAAA"), &format!("{sealed}\n")] {
            assert!(open(&key, &bound, other).is_none());
        }
    }

    #[test]
    fn keys_are_named_by_what_they_are() {
        let key = SealKey::random().unwrap();
        let again = SealKey::from_base64(&key.to_base64()).unwrap();
        assert_eq!((again.id(), again.bytes()), (key.id(), key.bytes()));
        assert_ne!(key.id(), SealKey::random().unwrap().id());
        for text in ["", "AAAA", "not base64", &"A".repeat(44), &"A".repeat(200)] {
            assert!(SealKey::from_base64(text).is_none(), "{text}");
        }
    }
}
