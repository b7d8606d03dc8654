//! Concurrency quotas: a permit for each subscriber and run, returned when it is
//! dropped.

use std::collections::HashMap;
use std::sync::Arc;

use windlass::{Error, TenantId};

use super::stored::exceeded;
use super::{QuotaHolder, TenantQuotas};
use crate::state::identity::Identity;

/// What is limited in concurrency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ConcurrentUse {
    /// Readers of events.
    Subscribers,
    /// Runs of agents that were asked for as such.
    Runs,
}

impl ConcurrentUse {
    pub(crate) const ALL: [Self; 2] = [Self::Subscribers, Self::Runs];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Subscribers => "subscribers",
            Self::Runs => "runs",
        }
    }
}

#[derive(Default)]
pub(super) struct ConcurrentCounts {
    tenants: HashMap<(ConcurrentUse, TenantId), u64>,
    keys: HashMap<(ConcurrentUse, Arc<str>), u64>,
}

/// A permit of a concurrency quota, returned when it is dropped.
pub(crate) struct QuotaPermit {
    quotas: Arc<TenantQuotas>,
    what: ConcurrentUse,
    tenant: TenantId,
    key: Arc<str>,
}

impl TenantQuotas {
    /// Lets one more go on.
    pub(crate) fn begin(
        self: &Arc<Self>,
        what: ConcurrentUse,
        who: &Identity,
    ) -> Result<QuotaPermit, Error> {
        let mut live = self.live.lock();
        let of_tenant = live.tenants.entry((what, who.tenant.clone())).or_default();
        let most = self.most(what, &who.tenant);
        if *of_tenant >= most {
            return Err(exceeded(what.name(), QuotaHolder::Tenant(&who.tenant), most, None));
        }
        *of_tenant += 1;
        let of_key = live.keys.entry((what, Arc::clone(&who.key_id))).or_default();
        let most = self.most_of_key(what, who).unwrap_or(u64::MAX);
        let is_over = *of_key >= most;
        *of_key += 1;
        drop(live);
        let (tenant, key) = (who.tenant.clone(), Arc::clone(&who.key_id));
        let permit = QuotaPermit { quotas: Arc::clone(self), what, tenant, key };
        match is_over {
            true => {
                let key = QuotaHolder::Key { tenant: &who.tenant, key: &who.key_id };
                Err(exceeded(what.name(), key, most, None))
            }
            false => Ok(permit),
        }
    }

    /// How many go on, of a tenant and of one of its keys.
    pub(crate) fn live(&self, what: ConcurrentUse, who: &Identity) -> (u64, u64) {
        let live = self.live.lock();
        let of_tenant = live.tenants.get(&(what, who.tenant.clone()));
        let of_key = live.keys.get(&(what, Arc::clone(&who.key_id)));
        (of_tenant.copied().unwrap_or_default(), of_key.copied().unwrap_or_default())
    }

    pub(crate) fn most(&self, what: ConcurrentUse, tenant: &TenantId) -> u64 {
        match what {
            ConcurrentUse::Subscribers => self.of(tenant).subscribers,
            ConcurrentUse::Runs => self.of(tenant).runs,
        }
    }

    pub(crate) fn most_of_key(&self, what: ConcurrentUse, who: &Identity) -> Option<u64> {
        let quotas = self.of_key(&who.tenant, &who.key_id);
        match what {
            ConcurrentUse::Subscribers => quotas.subscribers,
            ConcurrentUse::Runs => quotas.runs,
        }
    }
}

impl QuotaPermit {
    /// Whose it is.
    pub(crate) fn tenant(&self) -> &TenantId {
        &self.tenant
    }
}

impl Drop for QuotaPermit {
    fn drop(&mut self) {
        let mut live = self.quotas.live.lock();
        let ConcurrentCounts { tenants, keys } = &mut *live;
        give_back(tenants, &(self.what, self.tenant.clone()));
        give_back(keys, &(self.what, Arc::clone(&self.key)));
    }
}

fn give_back<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, u64>, whose: &K) {
    if let Some(count) = counts.get_mut(whose) {
        *count -= 1;
        if *count == 0 {
            counts.remove(whose);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use windlass::ErrorKind;

    use super::*;
    use crate::state::identity::Role;
    use crate::state::quota::QuotaSettings;

    fn who(tenant: &str, key: &str) -> Identity {
        Identity {
            tenant: TenantId::new(tenant),
            key_id: key.into(),
            role: Role::Viewer,
            name: key.into(),
            tools: None,
            user: None,
        }
    }

    #[test]
    fn keys_and_tenants_have_bounds_and_permits_are_given_back() {
        let mut settings = QuotaSettings { subscribers: 3, ..QuotaSettings::default() };
        settings.per_key.subscribers = Some(2);
        let quotas = TenantQuotas::new(settings, BTreeMap::new());
        let begin =
            |tenant: &str, key: &str| quotas.begin(ConcurrentUse::Subscribers, &who(tenant, key));
        let held = [begin("a", "a1").unwrap(), begin("a", "a1").unwrap()];
        let why = begin("a", "a1").err().unwrap();
        assert_eq!(why.kind(), ErrorKind::QuotaExceeded);
        assert!(why.message().contains("the key `a1`: all of 2"), "{why}");
        let third = begin("a", "a2").unwrap();
        assert!(begin("a", "a3").err().unwrap().message().contains("the tenant `a`: all of 3"));
        begin("b", "b1").unwrap();
        assert_eq!(quotas.live(ConcurrentUse::Subscribers, &who("a", "a1")), (3, 2));
        drop((held, third));
        assert!(quotas.live.lock().tenants.is_empty() && quotas.live.lock().keys.is_empty());
    }
}
