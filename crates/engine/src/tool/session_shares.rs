//! [`SessionShares`]: bounded per-session state with fair shares between
//! tenants.
//!
//! Callers can make up any number of sessions, so the state is bounded. When it
//! is full, the tenant with the most sessions loses its least recently used
//! one: no tenant can evict the sessions of others.

use std::collections::{BTreeMap, HashMap};

use crate::tool::groups::Session;
use crate::value::name::TenantId;

/// State per session.
pub(crate) struct SessionShares<V> {
    most: usize,
    all: HashMap<Session, SessionShare<V>>,
    /// Sessions per tenant, by last use.
    tenants: HashMap<TenantId, BTreeMap<u64, Session>>,
    clock: u64,
}

struct SessionShare<V> {
    value: V,
    used: u64,
}

impl<V> SessionShares<V> {
    /// Creates the state for at most this many sessions.
    pub(crate) fn new(most: usize) -> Self {
        Self { most: most.max(1), all: HashMap::new(), tenants: HashMap::new(), clock: 0 }
    }

    pub(crate) fn get(&self, session: &Session) -> Option<&V> {
        self.all.get(session).map(|share| &share.value)
    }

    /// The state of a session, which counts as a use of it.
    pub(crate) fn touch(&mut self, session: &Session) -> Option<&mut V> {
        self.clock += 1;
        let share = self.all.get_mut(session)?;
        let before = std::mem::replace(&mut share.used, self.clock);
        let own = self.tenants.get_mut(session.tenant())?;
        own.remove(&before);
        own.insert(self.clock, session.clone());
        Some(&mut share.value)
    }

    /// The state of a session, created by `new` if there is none.
    pub(crate) fn of(&mut self, session: &Session, new: impl FnOnce() -> V) -> &mut V {
        if self.touch(session).is_none() {
            self.make_room();
            let own = self.tenants.entry(session.tenant().clone()).or_default();
            own.insert(self.clock, session.clone());
        }
        let used = self.clock;
        let share = self.all.entry(session.clone());
        &mut share.or_insert_with(|| SessionShare { value: new(), used }).value
    }

    pub(crate) fn remove(&mut self, session: &Session) {
        let Some(share) = self.all.remove(session) else { return };
        if let Some(own) = self.tenants.get_mut(session.tenant()) {
            own.remove(&share.used);
            if own.is_empty() {
                self.tenants.remove(session.tenant());
            }
        }
    }

    fn make_room(&mut self) {
        while self.all.len() >= self.most {
            let greatest = self.tenants.values().max_by_key(|own| own.len());
            let oldest = greatest.and_then(|own| own.values().next()).cloned();
            let Some(oldest) = oldest else { return };
            self.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(tenant: &str, name: usize) -> Session {
        Session::new(TenantId::new(tenant), name.to_string())
    }

    #[test]
    fn whoever_has_the_most_gives_up_what_it_used_least_recently() {
        let mut shares = SessionShares::new(10);
        for name in 0..3 {
            *shares.of(&session("quiet", name), usize::default) = name;
        }
        for name in 0..1_000 {
            *shares.of(&session("noisy", name), usize::default) = name;
            shares.touch(&session("noisy", 0));
        }
        assert!((0..3).all(|name| shares.get(&session("quiet", name)) == Some(&name)));
        assert_eq!(shares.get(&session("noisy", 0)), Some(&0), "it is in use");
        assert_eq!(shares.get(&session("noisy", 999)), Some(&999));
        assert_eq!((shares.all.len(), shares.get(&session("noisy", 500))), (10, None));
        (0..3).for_each(|name| shares.remove(&session("quiet", name)));
        let noisy: usize = shares.tenants.values().map(BTreeMap::len).sum();
        assert_eq!((shares.all.len(), noisy, shares.tenants.len()), (7, 7, 1));
    }
}
