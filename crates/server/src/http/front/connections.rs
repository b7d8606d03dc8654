//! Connection limits: in total, by address until the client has authenticated, and
//! by key and tenant from then on.
//!
//! When a limit is reached, an idle connection is closed to make room: the longest
//! idle one of the same address, of the same key, or of all. If all of them are
//! busy, a new connection of that address or key is refused, and any other stays in
//! the listen backlog. Tenants share the total by dynamic thresholds, as in
//! [`slots`](super::slots).
//!
//! Behind a reverse proxy all clients have the proxy's address. Networks of
//! `server.trusted_proxies` have no limit by address, and the client's address is
//! taken from `X-Forwarded-For`.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::http::HeaderMap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use windlass::{TENANT_SHARE, TenantId};
use windlass_executors::outbound::Network;

use super::watchdog::{KeyClaim, Watchdog};

/// How many keys a connection is counted for. Behind a proxy it may carry many;
/// the one that came first is forgotten first.
const KEYS: usize = 32;

/// How many connections may be open.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionLimits {
    pub(crate) total: usize,
    pub(crate) per_address: usize,
    pub(crate) per_key: usize,
    pub(crate) proxies: Vec<Network>,
}

/// All connections.
pub(crate) struct Connections {
    limits: ConnectionLimits,
    open: Mutex<OpenConnections>,
    left: Notify,
}

#[derive(Default)]
struct OpenConnections {
    next: u64,
    all: HashMap<u64, Arc<Watchdog>>,
    /// Unauthenticated connections, by address.
    strangers: HashMap<IpAddr, usize>,
    keys: HashMap<Arc<str>, usize>,
    tenants: HashMap<TenantId, usize>,
}

/// A permit for one connection, returned when it is dropped.
pub(crate) struct ConnectionPermit {
    connections: Arc<Connections>,
    id: u64,
    /// Others are behind it.
    is_proxy: bool,
    pub(crate) traffic: Arc<Watchdog>,
}

/// Why there is no permit for a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoCapacity {
    /// All are taken by others who are busy.
    Full,
    /// Its address has as many as it may have, all of them busy.
    Refused,
}

impl Connections {
    pub(crate) fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self { limits, open: Mutex::default(), left: Notify::new() })
    }

    /// A place for a new connection.
    pub(crate) fn enter(self: &Arc<Self>, peer: IpAddr) -> Result<ConnectionPermit, NoCapacity> {
        let (peer, is_proxy) = (unit(peer), self.is_proxy(peer));
        let mut open = self.open.lock();
        let of_peer = open.strangers.get(&peer).copied().unwrap_or_default();
        if of_peer >= self.limits.per_address
            && !is_proxy
            && !open.evict(|other| other.peer == peer && other.claims(|claims| claims.is_empty()))
        {
            return Err(NoCapacity::Refused);
        }
        if open.all.len() >= self.limits.total && !open.evict(|_| true) {
            return Err(NoCapacity::Full);
        }
        let traffic = Watchdog::new(peer);
        open.next += 1;
        let id = open.next;
        open.all.insert(id, Arc::clone(&traffic));
        *open.strangers.entry(peer).or_default() += 1;
        drop(open);
        Ok(ConnectionPermit { connections: Arc::clone(self), id, is_proxy, traffic })
    }

    /// Ends when a connection may have left.
    pub(crate) async fn left(&self) {
        self.left.notified().await;
    }

    /// Whom a request is from that a proxy handed on; none where it does not say.
    fn forwarded(&self, headers: &HeaderMap) -> Option<IpAddr> {
        // The last address is the one that our proxy saw; those before it are
        // what it was told.
        let told = headers.get_all("x-forwarded-for").iter().rev();
        let told = told.filter_map(|value| value.to_str().ok());
        let mut hops = told.flat_map(|value| value.rsplit(',')).map_while(address);
        hops.find(|hop| !self.is_proxy(*hop)).map(unit)
    }

    fn is_proxy(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.limits.proxies.iter().any(|network| network.holds(address))
    }
}

impl ConnectionPermit {
    /// Counts the connection for a key whose bearer uses it. False where the key or
    /// its tenant has as many as it may have.
    pub(crate) fn claim(&self, tenant: &TenantId, key: &Arc<str>) -> bool {
        let is_known = |claims: &mut Vec<KeyClaim>| claims.iter().any(|claim| *claim.key == **key);
        if self.traffic.claims(is_known) {
            return true;
        }
        let mut open = self.connections.open.lock();
        if !open.all.contains_key(&self.id) || self.traffic.claims(is_known) {
            return true;
        }
        let limits = &self.connections.limits;
        if !self.is_proxy && !open.has_room(limits, tenant, key) {
            return false;
        }
        let is_first = self.traffic.claims(|claims| claims.is_empty());
        let forgotten = self.traffic.claims(|claims| {
            let forgotten = (claims.len() >= KEYS).then(|| claims.remove(0));
            claims.push(KeyClaim { key: Arc::clone(key), tenant: tenant.clone() });
            forgotten
        });
        if is_first {
            // From here on, the connection is attributed to its key.
            take_one(&mut open.strangers, &self.traffic.peer);
        }
        forgotten.iter().for_each(|claim| open.forget(claim));
        *open.keys.entry(Arc::clone(key)).or_default() += 1;
        *open.tenants.entry(tenant.clone()).or_default() += 1;
        true
    }

    /// Whom a request is from.
    pub(crate) fn client(&self, headers: &HeaderMap) -> IpAddr {
        let forwarded = self.is_proxy.then(|| self.connections.forwarded(headers)).flatten();
        forwarded.unwrap_or(self.traffic.peer)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.connections.open.lock().remove(self.id);
        self.connections.left.notify_one();
    }
}

impl OpenConnections {
    /// Ends the connection that is needed least; false where all are busy. It
    /// does not count any more from now on.
    fn evict(&mut self, chosen: impl Fn(&Watchdog) -> bool) -> bool {
        let idle = self.all.iter().filter(|(_, other)| chosen(other)).filter_map(|(id, other)| {
            let standing = other.standing();
            (!standing.is_busy).then_some((standing.rank, *id))
        });
        let Some((_, id)) = idle.min() else { return false };
        if let Some(traffic) = self.remove(id) {
            traffic.evict();
        }
        true
    }

    fn remove(&mut self, id: u64) -> Option<Arc<Watchdog>> {
        let traffic = self.all.remove(&id)?;
        let claims = traffic.claims(|claims| claims.clone());
        if claims.is_empty() {
            take_one(&mut self.strangers, &traffic.peer);
        }
        claims.iter().for_each(|claim| self.forget(claim));
        Some(traffic)
    }

    fn forget(&mut self, claim: &KeyClaim) {
        take_one(&mut self.keys, &claim.key);
        take_one(&mut self.tenants, &claim.tenant);
    }

    /// Whether a key and its tenant may use one more; one of theirs that is idle
    /// makes room.
    fn has_room(&mut self, limits: &ConnectionLimits, tenant: &TenantId, key: &Arc<str>) -> bool {
        let of_key = self.keys.get(key).copied().unwrap_or_default();
        let has_key = |claims: &mut Vec<KeyClaim>| claims.iter().any(|claim| claim.key == *key);
        if of_key >= limits.per_key && !self.evict(|other| other.claims(has_key)) {
            return false;
        }
        let free = limits.total.saturating_sub(self.all.len());
        let of_tenant = self.tenants.get(tenant).copied().unwrap_or_default();
        let has_tenant = |claims: &mut Vec<KeyClaim>| claims.iter().any(|it| it.tenant == *tenant);
        of_tenant < (free + 1).saturating_mul(TENANT_SHARE)
            || self.evict(|other| other.claims(has_tenant))
    }
}

fn take_one<K: Eq + Hash>(counts: &mut HashMap<K, usize>, whose: &K) {
    if let Some(count) = counts.get_mut(whose) {
        *count -= 1;
        if *count == 0 {
            counts.remove(whose);
        }
    }
}

/// One customer of a network: an IPv4 address, or what IPv6 gives to one site.
fn unit(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => {
            let site = u128::from(six) & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from(site))
        }
        four => four,
    }
}

/// An address as a proxy writes it: with a port or without.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text.trim_start_matches('[').trim_end_matches(']').parse().ok();
    bare.or_else(|| text.parse::<std::net::SocketAddr>().ok().map(|address| address.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(proxies: &[&str]) -> Arc<Connections> {
        let proxies = proxies.iter().map(|network| network.parse().unwrap()).collect();
        Connections::new(ConnectionLimits { total: 3, per_address: 2, per_key: 1, proxies })
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[tokio::test]
    async fn an_address_takes_its_own_idle_places_and_no_busy_ones() {
        let all = connections(&[]);
        let (one, two) = (all.enter(ip("10.0.0.1")).unwrap(), all.enter(ip("10.0.0.1")).unwrap());
        let (busy, also) = (one.traffic.begin(), two.traffic.begin());
        assert_eq!(all.enter(ip("10.0.0.1")).err(), Some(NoCapacity::Refused));
        let _other = all.enter(ip("10.0.0.2")).unwrap();
        drop(also);
        let _three = all.enter(ip("10.0.0.1")).unwrap();
        assert_eq!(all.open.lock().strangers[&ip("10.0.0.1")], 2, "the idle one went");
        drop((two, busy, one));
        assert_eq!(all.open.lock().all.len(), 2, "a place is given back once");
    }

    #[tokio::test]
    async fn sites_of_ipv6_are_one_address_and_proxies_are_none() {
        let all = connections(&["10.9.0.0/16"]);
        let held: Vec<_> = ["2001:db8::1", "2001:db8::ffff:2"]
            .map(|text| all.enter(ip(text)).unwrap())
            .into_iter()
            .map(|place| (place.traffic.begin(), place))
            .collect();
        assert_eq!(all.enter(ip("2001:db8::3")).err(), Some(NoCapacity::Refused));
        drop(held);
        let held: Vec<_> = (0..3).map(|_| all.enter(ip("10.9.1.1")).unwrap()).collect();
        let busy: Vec<_> = held.iter().map(|place| place.traffic.begin()).collect();
        assert_eq!(all.enter(ip("10.9.1.1")).err(), Some(NoCapacity::Full));
        drop(busy);
    }

    #[tokio::test]
    async fn a_key_has_its_own_bound_whatever_its_addresses() {
        let all = connections(&[]);
        let (one, two) = (all.enter(ip("10.0.0.1")).unwrap(), all.enter(ip("10.0.0.2")).unwrap());
        let key: Arc<str> = "key".into();
        let busy = one.traffic.begin();
        let tenant = TenantId::new("a");
        assert!(one.claim(&tenant, &key) && one.claim(&tenant, &key));
        assert!(!two.claim(&tenant, &key));
        drop(busy);
        assert!(two.claim(&tenant, &key), "the idle one makes room");
        assert_eq!(all.open.lock().keys[&key], 1);
        for name in 0..100 {
            assert!(two.claim(&TenantId::new(format!("t{name}")), &format!("key{name}").into()));
        }
        assert_eq!(all.open.lock().keys.len(), KEYS);
        drop((one, two));
        let open = all.open.lock();
        assert!(open.keys.is_empty() && open.tenants.is_empty() && open.strangers.is_empty());
    }

    #[tokio::test]
    async fn a_tenant_with_many_keys_leaves_connections_to_others() {
        let (total, per_address) = (50, 50);
        let limits = ConnectionLimits { total, per_address, per_key: 5, proxies: Vec::new() };
        let all = Connections::new(limits);
        let (mut held, tenant) = (Vec::new(), TenantId::new("a"));
        for at in 0..50 {
            let Ok(place) = all.enter(ip("10.0.0.1")) else { break };
            let exchange = place.traffic.begin();
            if place.claim(&tenant, &format!("key{}", at / 5).into()) {
                held.push((exchange, place));
            }
        }
        assert!((38..=42).contains(&held.len()), "four of five: {}", held.len());
        let place = all.enter(ip("10.0.0.1")).unwrap();
        assert!(place.claim(&TenantId::new("b"), &"other".into()));
    }

    #[tokio::test]
    async fn whom_a_request_is_from_is_what_trusted_proxies_say() {
        let all = connections(&["10.0.0.0/8"]);
        let from = |peer: &str, told: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in told {
                headers.append("x-forwarded-for", value.parse().unwrap());
            }
            all.enter(ip(peer)).unwrap().client(&headers).to_string()
        };
        assert_eq!(from("192.0.2.1", &["198.51.100.1"]), "192.0.2.1", "anybody can write it");
        assert_eq!(from("10.0.0.1", &["6.6.6.6, 198.51.100.1, 10.1.1.1"]), "198.51.100.1");
        assert_eq!(from("10.0.0.1", &["6.6.6.6", "198.51.100.1:443"]), "198.51.100.1");
        assert_eq!(from("10.0.0.1", &["6.6.6.6, garbage"]), "10.0.0.1");
        assert_eq!(from("10.0.0.1", &[]), "10.0.0.1");
    }
}
