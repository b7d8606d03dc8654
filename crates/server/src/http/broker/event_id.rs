//! Encrypted event ids.
//!
//! Positions in the event log are counted over all tenants, so a plain position
//! would leak to each tenant how active the others are. An id is the position
//! encrypted with a key for each tenant, by a Feistel network of four rounds whose
//! round function is HMAC-SHA-256. The key is in the database, so that all servers
//! make the same ids.

use hmac::{Hmac, Mac};
use sha2::Sha256;
use windlass::TenantId;

use crate::http::routes::files::Links;

const ROUNDS: u8 = 4;
/// Before the first event of all.
const BEGINNING: &str = "0";
/// Hexadecimal digits of an id.
const DIGITS: usize = 16;
/// What an id looks like, in the description of the API.
pub(crate) const PATTERN: &str = "^([0-9a-f]{16}|0)$";

/// Makes ids of positions, and positions of ids.
pub(crate) struct EventIds(Hmac<Sha256>);

impl EventIds {
    pub(crate) fn new(links: &Links) -> Self {
        let mut key = links.key();
        key.update(b"ids of events");
        Self(key)
    }

    /// The id of a position.
    pub(crate) fn id(&self, tenant: &TenantId, position: u64) -> String {
        let (mut left, mut right) = halves(position);
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ self.mix(tenant, round, right));
        }
        format!("{left:08x}{right:08x}")
    }

    /// The position of an id. One that was made up is anywhere.
    pub(crate) fn position(&self, tenant: &TenantId, id: &str) -> Option<u64> {
        if id == BEGINNING {
            return Some(0);
        }
        let is_id = id.len() == DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let id = u64::from_str_radix(id, 16).ok().filter(|_| is_id)?;
        let (mut left, mut right) = halves(id);
        for round in (0..ROUNDS).rev() {
            (left, right) = (right ^ self.mix(tenant, round, left), left);
        }
        Some(u64::from(left) << 32 | u64::from(right))
    }

    fn mix(&self, tenant: &TenantId, round: u8, half: u32) -> u32 {
        let mut mac = self.0.clone();
        mac.update(&[round]);
        mac.update(&half.to_be_bytes());
        mac.update(tenant.as_str().as_bytes());
        let mixed = mac.finalize().into_bytes();
        u32::from_be_bytes([mixed[0], mixed[1], mixed[2], mixed[3]])
    }
}

fn halves(number: u64) -> (u32, u32) {
    ((number >> 32) as u32, number as u32)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_lead_back_to_their_positions_for_their_tenant_alone() {
        let ids = EventIds::new(&Links::with_key(&[7; 32]).unwrap());
        let (ours, theirs) = (TenantId::new("ours"), TenantId::new("theirs"));
        let mut seen = HashSet::new();
        for position in (0..1000).chain([u64::from(u32::MAX), u64::MAX - 1, u64::MAX]) {
            let id = ids.id(&ours, position);
            assert_eq!(id.len(), DIGITS);
            assert_eq!(ids.position(&ours, &id), Some(position));
            assert_ne!(ids.position(&theirs, &id), Some(position));
            assert!(seen.insert(id));
        }
        assert_eq!(ids.position(&ours, "0"), Some(0));
        for wrong in
            ["", "1", "12345678", "+123456789abcdef", "0123456789abcdeg", "é23456789abcdef"]
        {
            assert_eq!(ids.position(&ours, wrong), None, "{wrong}");
        }
    }
}
