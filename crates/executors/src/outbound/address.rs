//! Address classification for the SSRF guard: which IP addresses are not public.
//!
//! IPv4 has a deny list of special ranges. IPv6 works the other way round: only global
//! unicast is public, minus the ranges reserved within it. Everything that embeds an IPv4
//! address (mapped, compatible, NAT64, 6to4, Teredo) is blocked as a whole: no legitimate
//! name resolves to it, and where it leads depends on the network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The class of an address that is not public.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Special {
    /// Name for error messages, such as "a loopback address".
    pub(super) what: &'static str,
    /// Whether the operator's own services may live in this range, so that allowing their
    /// host name is enough. The other ranges must be allowed by address.
    pub(super) inner: bool,
}

/// The class of an address; `None` if it is public.
pub(super) fn special(address: IpAddr) -> Option<Special> {
    match address {
        IpAddr::V4(address) => special_v4(address),
        IpAddr::V6(address) => special_v6(address),
    }
}

const METADATA: Special = outer("a metadata address of a cloud");
const LOOPBACK: Special = inner("a loopback address");
const PRIVATE: Special = inner("a private address");
const SHARED: Special = inner("an address of a carrier's network");
const LINK_LOCAL: Special = outer("a link-local address");
const UNSPECIFIED: Special = outer("an unspecified address");
const MULTICAST: Special = outer("a multicast address");
const DOCUMENTATION: Special = outer("an address for documentation");
const BENCHMARK: Special = outer("an address for benchmarks");
const RESERVED: Special = outer("a reserved address");
const EMBEDDED: Special = outer("an IPv6 address with an IPv4 address inside");

const fn inner(what: &'static str) -> Special {
    Special { what, inner: true }
}

const fn outer(what: &'static str) -> Special {
    Special { what, inner: false }
}

/// Special IPv4 ranges; the first row that contains an address wins.
const V4: &[([u8; 4], u32, Special)] = &[
    ([100, 100, 100, 200], 32, METADATA),
    ([168, 63, 129, 16], 32, METADATA),
    ([192, 0, 0, 192], 32, METADATA),
    ([0, 0, 0, 0], 8, UNSPECIFIED),
    ([10, 0, 0, 0], 8, PRIVATE),
    ([100, 64, 0, 0], 10, SHARED),
    ([127, 0, 0, 0], 8, LOOPBACK),
    ([169, 254, 0, 0], 16, LINK_LOCAL),
    ([172, 16, 0, 0], 12, PRIVATE),
    ([192, 0, 0, 0], 24, RESERVED),
    ([192, 0, 2, 0], 24, DOCUMENTATION),
    ([192, 88, 99, 0], 24, RESERVED),
    ([192, 168, 0, 0], 16, PRIVATE),
    ([198, 18, 0, 0], 15, BENCHMARK),
    ([198, 51, 100, 0], 24, DOCUMENTATION),
    ([203, 0, 113, 0], 24, DOCUMENTATION),
    ([224, 0, 0, 0], 4, MULTICAST),
    ([240, 0, 0, 0], 4, RESERVED),
];

const V6: &[([u16; 8], u32, Special)] = &[
    ([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128, METADATA),
    ([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128, METADATA),
    ([0, 0, 0, 0, 0, 0, 0, 0], 128, UNSPECIFIED),
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, LOOPBACK),
    ([0, 0, 0, 0, 0, 0, 0, 0], 96, EMBEDDED),
    ([0, 0, 0, 0, 0, 0xffff, 0, 0], 96, EMBEDDED),
    ([0, 0, 0, 0, 0xffff, 0, 0, 0], 96, EMBEDDED),
    ([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, EMBEDDED),
    ([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, EMBEDDED),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, PRIVATE),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, LINK_LOCAL),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, RESERVED),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, MULTICAST),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, EMBEDDED),
    ([0x2001, 2, 0, 0, 0, 0, 0, 0], 48, BENCHMARK),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, RESERVED),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, DOCUMENTATION),
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, EMBEDDED),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, DOCUMENTATION),
];

const GLOBAL_UNICAST: Ipv6Addr = Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0);

fn special_v4(address: Ipv4Addr) -> Option<Special> {
    let row = V4.iter().find(|(first, bits, _)| holds_v4((*first).into(), *bits, address));
    row.map(|(_, _, special)| *special)
}

fn special_v6(address: Ipv6Addr) -> Option<Special> {
    let row = V6.iter().find(|(first, bits, _)| holds_v6((*first).into(), *bits, address));
    match row {
        Some((_, _, special)) => Some(*special),
        None => (!holds_v6(GLOBAL_UNICAST, 3, address)).then_some(RESERVED),
    }
}

/// Whether `address` is in the network `network/bits`.
pub(super) fn holds(network: IpAddr, bits: u32, address: IpAddr) -> bool {
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => holds_v4(network, bits, address),
        (IpAddr::V6(network), IpAddr::V6(address)) => holds_v6(network, bits, address),
        _ => false,
    }
}

fn holds_v4(network: Ipv4Addr, bits: u32, address: Ipv4Addr) -> bool {
    let other = network.to_bits() ^ address.to_bits();
    other.leading_zeros() >= bits
}

fn holds_v6(network: Ipv6Addr, bits: u32, address: Ipv6Addr) -> bool {
    let other = network.to_bits() ^ address.to_bits();
    other.leading_zeros() >= bits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A second, independent definition of the same ranges, by octets.
    fn model_v4(address: Ipv4Addr) -> bool {
        !matches!(
            address.octets(),
            [0 | 10 | 127 | 224..=255, ..]
                | [100, 64..=127, ..]
                | [169, 254, ..]
                | [172, 16..=31, ..]
                | [192, 168, ..]
                | [192, 0, 0 | 2, _]
                | [192, 88, 99, _]
                | [198, 18 | 19, ..]
                | [198, 51, 100, _]
                | [203, 0, 113, _]
                | [168, 63, 129, 16]
        )
    }

    fn model_v6(address: Ipv6Addr) -> bool {
        match address.segments() {
            [0x2001, 0..=0x1ff | 0xdb8, ..] => false,
            [0x2002, ..] => false,
            [0x3fff, 0..=0xfff, ..] => false,
            [0x2000..=0x3fff, ..] => true,
            _ => false,
        }
    }

    /// Addresses near the edges of the ranges, where off-by-one errors show.
    fn edges_v4() -> impl Strategy<Value = u32> {
        let firsts: Vec<u32> = V4
            .iter()
            .flat_map(|(first, bits, _)| {
                let first = u32::from_be_bytes(*first);
                [first, first | (u32::MAX.checked_shr(*bits).unwrap_or(0))]
            })
            .collect();
        (prop::sample::select(firsts), -2i32..=2)
            .prop_map(|(edge, by)| edge.wrapping_add_signed(by))
    }

    fn edges_v6() -> impl Strategy<Value = u128> {
        let firsts: Vec<u128> = V6
            .iter()
            .map(|(first, bits, _)| (*first, *bits))
            .chain([(GLOBAL_UNICAST.segments(), 3)])
            .flat_map(|(first, bits)| {
                let first = Ipv6Addr::from(first).to_bits();
                [first, first | (u128::MAX.checked_shr(bits).unwrap_or(0))]
            })
            .collect();
        (prop::sample::select(firsts), -2i128..=2)
            .prop_map(|(edge, by)| edge.wrapping_add_signed(by))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn random_v4_addresses_are_judged_as_the_model_does(bits in prop_oneof![any::<u32>(), edges_v4()]) {
            let address = Ipv4Addr::from_bits(bits);
            prop_assert_eq!(special(address.into()).is_none(), model_v4(address), "{}", address);
        }

        #[test]
        fn random_v6_addresses_are_judged_as_the_model_does(bits in prop_oneof![any::<u128>(), edges_v6()]) {
            let address = Ipv6Addr::from_bits(bits);
            prop_assert_eq!(special(address.into()).is_none(), model_v6(address), "{}", address);
        }

        #[test]
        fn no_form_of_an_ipv4_address_is_open_in_ipv6(bits in any::<u32>()) {
            let [a, b] = [(bits >> 16) as u16, bits as u16];
            let forms = [
                Ipv4Addr::from_bits(bits).to_ipv6_mapped(),
                Ipv6Addr::new(0, 0, 0, 0, 0, 0, a, b),
                Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, a, b),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, a, b),
                Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, a, b),
                Ipv6Addr::new(0x2002, a, b, 0, 0, 0, 0, 1),
                Ipv6Addr::new(0x2001, 0, a, b, 0, 0, !a, !b),
            ];
            for form in forms {
                prop_assert!(special(form.into()).is_some_and(|special| !special.inner || bits == 1), "{}", form);
            }
        }
    }

    /// Compares the table with the standard library's predicates.
    #[test]
    fn what_the_standard_library_calls_special_is_special() {
        for bits in (0..=u32::MAX).step_by(65_521) {
            let address = Ipv4Addr::from_bits(bits);
            let known = address.is_private()
                || address.is_loopback()
                || address.is_link_local()
                || address.is_multicast()
                || address.is_broadcast()
                || address.is_documentation()
                || address.is_unspecified();
            assert!(!known || special(address.into()).is_some(), "{address}");
        }
    }
}
