//! Which addresses are not the open internet.
//!
//! IPv4 lists what is special. IPv6 is the other way round: only global
//! unicast is open, less what is set aside in it. Whatever carries an IPv4
//! address inside (mapped, compatible, NAT64, 6to4, Teredo) is closed as a
//! whole: no honest name resolves to it, and what it reaches depends on the
//! network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address that is not open is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Special {
    /// In words, for errors: "a loopback address".
    pub(super) what: &'static str,
    /// Whether services of the operator's own live there, so that allowing
    /// their name is enough. The rest has to be allowed as addresses.
    pub(super) inner: bool,
}

/// What is special about an address; nothing where it is open to everybody.
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

/// The first row that holds an address counts.
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

/// Whether an address begins with the first bits of another.
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
