//! Call quotas: calls per minute and per day, and model cost per day, by
//! tenant, user, key and tool.
//!
//! Windows are the minutes and days of UTC. A call is counted after validation,
//! wherever it comes from; its model cost is counted when it ends, so one call
//! may exceed the limit, and none starts after that.
//!
//! Not to be confused with concurrency: [`super::limits`] decides when a call
//! runs, quotas decide whether it may.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;

use crate::call::context::Caller;
use crate::error::{Error, ErrorKind};
use crate::value::name::TenantId;

const MINUTE: i64 = 60;
const DAY: i64 = 24 * 60 * 60;
/// Maximum number of users, and of tools, counted separately per tenant.
/// Further ones share one counter, because callers can make up any number of
/// names.
const MAX_NAMES: usize = 10_000;

/// One quota. Unset means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallQuota {
    /// Calls per minute.
    pub per_minute: Option<u64>,
    /// Calls per day.
    pub per_day: Option<u64>,
    /// Model cost per day, in US dollars.
    pub cost_per_day: Option<f64>,
}

impl CallQuota {
    /// This quota, and the other one where it is unset.
    pub fn or(self, other: Self) -> Self {
        Self {
            per_minute: self.per_minute.or(other.per_minute),
            per_day: self.per_day.or(other.per_day),
            cost_per_day: self.cost_per_day.or(other.cost_per_day),
        }
    }

    fn is_set(&self) -> bool {
        self.per_minute.is_some() || self.per_day.is_some() || self.cost_per_day.is_some()
    }
}

/// Call quotas by scope.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallQuotas {
    /// Quota of each tenant.
    pub tenant: CallQuota,
    /// Quota of each user of a tenant.
    pub user: CallQuota,
    /// Quota of each initiator:
    /// [`Context::begun_by`](crate::Context::begun_by).
    pub key: CallQuota,
    /// Quota of each tool, per tenant.
    pub tool: CallQuota,
}

/// Scope of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaScope<'a> {
    /// A tenant.
    Tenant,
    /// A user of the tenant.
    User(&'a str),
    /// A key of the tenant.
    Key(&'a str),
    /// A tool, as used by the tenant.
    Tool(&'a str),
}

/// Usage of a quota.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QuotaUse {
    /// Calls in this minute.
    pub in_minute: u64,
    /// Calls today.
    pub in_day: u64,
    /// Model cost today, in US dollars.
    pub cost: f64,
}

/// Counters of one quota.
#[derive(Clone, Copy, Default)]
struct QuotaCounter {
    minute: i64,
    in_minute: u64,
    in_day: u64,
    cost: f64,
    /// Today's usage in other processes.
    elsewhere: (u64, f64),
}

impl QuotaCounter {
    fn now(&self, now: i64) -> QuotaUse {
        QuotaUse {
            in_minute: if self.minute == now / MINUTE { self.in_minute } else { 0 },
            in_day: self.in_day + self.elsewhere.0,
            cost: self.cost + self.elsewhere.1,
        }
    }

    fn add(&mut self, now: i64) {
        if self.minute != now / MINUTE {
            (self.minute, self.in_minute) = (now / MINUTE, 0);
        }
        self.in_minute += 1;
        self.in_day += 1;
    }
}

/// Counts calls against their quotas.
pub(crate) struct QuotaCounters {
    settings: CallQuotas,
    /// Tenants with quotas of their own.
    tenants: BTreeMap<TenantId, CallQuotas>,
    /// Whether anything is limited: otherwise nothing is counted.
    is_set: AtomicBool,
    state: Mutex<QuotaState>,
}

#[derive(Default)]
struct QuotaState {
    day: DayCounters,
    /// Keys with quotas of their own.
    keys: HashMap<Arc<str>, CallQuota>,
}

#[derive(Default)]
struct DayCounters {
    number: i64,
    tenants: HashMap<TenantId, TenantCounters>,
    keys: HashMap<Arc<str>, (TenantId, QuotaCounter)>,
}

#[derive(Default)]
struct TenantCounters {
    all: QuotaCounter,
    users: HashMap<Arc<str>, QuotaCounter>,
    tools: HashMap<Arc<str>, QuotaCounter>,
}

impl QuotaCounters {
    /// Quotas for all tenants, and those of some instead of these.
    pub(crate) fn new(settings: CallQuotas, tenants: BTreeMap<TenantId, CallQuotas>) -> Self {
        let is_set = settings.is_set() || tenants.values().any(CallQuotas::is_set);
        Self { settings, tenants, is_set: is_set.into(), state: Mutex::default() }
    }

    /// Whether anything is limited.
    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }

    /// Sets the quota of one key, beside which the quota of all keys is only for what is
    /// unset; `None` removes it.
    pub(crate) fn set_key(&self, key: &str, quota: Option<CallQuota>) {
        let mut state = self.state.lock();
        match quota {
            Some(quota) => {
                self.is_set.store(true, Ordering::Relaxed);
                state.keys.insert(key.into(), quota);
            }
            None => drop(state.keys.remove(key)),
        }
    }

    /// The quotas of a call.
    fn quotas(&self, state: &QuotaState, tenant: &TenantId, key: Option<&Arc<str>>) -> CallQuotas {
        let mut quotas = *self.tenants.get(tenant).unwrap_or(&self.settings);
        if let Some(own) = key.and_then(|key| state.keys.get(key)) {
            quotas.key = own.or(quotas.key);
        }
        quotas
    }

    /// Counts a call, if all its quotas allow one more.
    pub(crate) fn take(
        &self,
        caller: &Caller,
        key: Option<&Arc<str>>,
        tool: &str,
    ) -> Result<(), Error> {
        self.take_at(Timestamp::now().as_second(), caller, key, tool)
    }

    fn take_at(
        &self,
        now: i64,
        caller: &Caller,
        key: Option<&Arc<str>>,
        tool: &str,
    ) -> Result<(), Error> {
        let mut state = self.state.lock();
        let quotas = self.quotas(&state, &caller.tenant, key);
        let day = &mut state.day;
        day.turn(now);
        day.each(&quotas, caller, key, tool, |scope, used| {
            check(scope, &caller.tenant, quotas.of(scope), used.now(now), now)
        })?;
        day.each(&quotas, caller, key, tool, |_, used| {
            used.add(now);
            Ok(())
        })
    }

    /// Adds the model cost of a call.
    pub(crate) fn spend(&self, caller: &Caller, key: Option<&Arc<str>>, tool: &str, cost: f64) {
        let mut state = self.state.lock();
        let quotas = self.quotas(&state, &caller.tenant, key);
        let day = &mut state.day;
        day.turn(Timestamp::now().as_second());
        let _ = day.each(&quotas, caller, key, tool, |_, used| {
            used.cost += cost;
            Ok(())
        });
    }

    /// Usage of a quota.
    pub(crate) fn used(&self, tenant: &TenantId, scope: QuotaScope<'_>) -> QuotaUse {
        let now = Timestamp::now().as_second();
        let day = &mut self.state.lock().day;
        day.turn(now);
        let of_tenant = day.tenants.get(tenant);
        let used = match scope {
            QuotaScope::Tenant => of_tenant.map(|own| &own.all),
            QuotaScope::User(name) => of_tenant.and_then(|own| own.users.get(name)),
            QuotaScope::Tool(name) => of_tenant.and_then(|own| own.tools.get(name)),
            QuotaScope::Key(name) => day.keys.get(name).map(|(_, used)| used),
        };
        used.map(|used| used.now(now)).unwrap_or_default()
    }

    /// Today's usage per tenant and key in this process.
    pub(crate) fn of_today(&self) -> Vec<(TenantId, Option<Arc<str>>, QuotaUse)> {
        let day = &mut self.state.lock().day;
        day.turn(Timestamp::now().as_second());
        let own =
            |used: &QuotaCounter| QuotaUse { in_minute: 0, in_day: used.in_day, cost: used.cost };
        let tenants = day.tenants.iter().map(|(tenant, of)| (tenant.clone(), None, own(&of.all)));
        let keys = day
            .keys
            .iter()
            .map(|(key, (tenant, used))| (tenant.clone(), Some(Arc::clone(key)), own(used)));
        tenants.chain(keys).filter(|(_, _, used)| *used != QuotaUse::default()).collect()
    }

    /// Sets today's usage in other processes.
    pub(crate) fn set_elsewhere(&self, used: &[(TenantId, Option<Arc<str>>, QuotaUse)]) {
        let day = &mut self.state.lock().day;
        day.turn(Timestamp::now().as_second());
        day.tenants.values_mut().for_each(|own| own.all.elsewhere = (0, 0.0));
        day.keys.values_mut().for_each(|(_, own)| own.elsewhere = (0, 0.0));
        for (tenant, key, used) in used {
            let own = match key {
                None => &mut day.tenants.entry(tenant.clone()).or_default().all,
                Some(key) => {
                    let fresh = || (tenant.clone(), QuotaCounter::default());
                    &mut day.keys.entry(Arc::clone(key)).or_insert_with(fresh).1
                }
            };
            own.elsewhere.0 += used.in_day;
            own.elsewhere.1 += used.cost;
        }
    }
}

impl CallQuotas {
    fn is_set(&self) -> bool {
        let Self { tenant, user, key, tool } = self;
        [tenant, user, key, tool].into_iter().any(CallQuota::is_set)
    }

    fn of(&self, scope: QuotaScope<'_>) -> CallQuota {
        match scope {
            QuotaScope::Tenant => self.tenant,
            QuotaScope::User(_) => self.user,
            QuotaScope::Key(_) => self.key,
            QuotaScope::Tool(_) => self.tool,
        }
    }
}

impl DayCounters {
    /// Resets the counters on a new day.
    fn turn(&mut self, now: i64) {
        if self.number != now / DAY {
            *self = Self { number: now / DAY, ..Self::default() };
        }
    }

    /// Visits the limited counters of a call, until one refuses.
    fn each(
        &mut self,
        settings: &CallQuotas,
        caller: &Caller,
        key: Option<&Arc<str>>,
        tool: &str,
        mut look: impl FnMut(QuotaScope<'_>, &mut QuotaCounter) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if let Some(key) = key.filter(|_| settings.key.is_set()) {
            if !self.keys.contains_key(key) {
                self.keys.insert(Arc::clone(key), (caller.tenant.clone(), QuotaCounter::default()));
            }
            if let Some((_, used)) = self.keys.get_mut(key) {
                look(QuotaScope::Key(key), used)?;
            }
        }
        if !self.tenants.contains_key(&caller.tenant) {
            self.tenants.insert(caller.tenant.clone(), TenantCounters::default());
        }
        let Some(own) = self.tenants.get_mut(&caller.tenant) else { return Ok(()) };
        if settings.tenant.is_set() {
            look(QuotaScope::Tenant, &mut own.all)?;
        }
        if let Some(user) = caller.user.as_deref().filter(|_| settings.user.is_set()) {
            look(QuotaScope::User(user), of(&mut own.users, user))?;
        }
        if settings.tool.is_set() {
            look(QuotaScope::Tool(tool), of(&mut own.tools, tool))?;
        }
        Ok(())
    }
}

/// The counter of a name; if there are too many names, the shared counter.
fn of<'a>(names: &'a mut HashMap<Arc<str>, QuotaCounter>, name: &str) -> &'a mut QuotaCounter {
    let known = if names.contains_key(name) || names.len() < MAX_NAMES { name } else { "" };
    if !names.contains_key(known) {
        names.insert(known.into(), QuotaCounter::default());
    }
    names.entry(known.into()).or_default()
}

fn check(
    scope: QuotaScope<'_>,
    tenant: &TenantId,
    quota: CallQuota,
    used: QuotaUse,
    now: i64,
) -> Result<(), Error> {
    let is_over = |most: Option<u64>, used: u64| most.filter(|most| used >= *most);
    let (what, most, length) = if let Some(most) = is_over(quota.per_minute, used.in_minute) {
        ("calls per minute", most.to_string(), MINUTE)
    } else if let Some(most) = is_over(quota.per_day, used.in_day) {
        ("calls per day", most.to_string(), DAY)
    } else if let Some(most) = quota.cost_per_day.filter(|most| used.cost >= *most) {
        ("cost per day", format!("${most}"), DAY)
    } else {
        return Ok(());
    };
    let whose = match scope {
        QuotaScope::Tenant => format!("the tenant `{tenant}`"),
        QuotaScope::User(name) => format!("the user `{name}`"),
        QuotaScope::Key(name) => format!("the key `{name}`"),
        QuotaScope::Tool(name) => format!("the tool `{name}`"),
    };
    let end = (now / length + 1) * length;
    let until = Timestamp::from_second(end).unwrap_or(Timestamp::MAX);
    let left = Duration::from_secs(u64::try_from(end - now).unwrap_or_default());
    let why = format!("{what} of {whose}: all of {most} are used, until {until}");
    Err(Error::new(ErrorKind::QuotaExceeded, why).with_retry_after(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(tenant: &str, user: Option<&str>) -> Caller {
        Caller { tenant: TenantId::new(tenant), user: user.map(Into::into), ..Caller::default() }
    }

    fn per_minute(most: u64) -> CallQuota {
        CallQuota { per_minute: Some(most), ..CallQuota::default() }
    }

    fn of_all(quotas: CallQuotas) -> QuotaCounters {
        QuotaCounters::new(quotas, BTreeMap::new())
    }

    #[test]
    fn each_scope_has_its_own_count_and_a_refused_call_counts_for_none() {
        let quotas = of_all(CallQuotas {
            tenant: per_minute(5),
            user: per_minute(2),
            key: per_minute(4),
            tool: per_minute(3),
        });
        let take = |user: &str, key: &str, tool: &str| {
            let key: Arc<str> = key.into();
            quotas.take_at(90, &caller("a", Some(user)), Some(&key), tool).map_err(|error| {
                assert_eq!(error.kind(), ErrorKind::QuotaExceeded);
                assert_eq!(error.retry_after(), Some(Duration::from_secs(30)));
                error.message().to_owned()
            })
        };
        take("u1", "k1", "t1").unwrap();
        take("u1", "k1", "t1").unwrap();
        let why = take("u1", "k1", "t2").unwrap_err();
        assert_eq!(
            why,
            "calls per minute of the user `u1`: all of 2 are used, until 1970-01-01T00:02:00Z"
        );
        take("u2", "k1", "t1").unwrap();
        assert!(take("u3", "k1", "t1").unwrap_err().contains("the tool `t1`"));
        take("u3", "k1", "t2").unwrap();
        assert!(take("u4", "k1", "t3").unwrap_err().contains("the key `k1`"));
        take("u4", "k2", "t3").unwrap();
        assert!(take("u5", "k2", "t4").unwrap_err().contains("the tenant `a`"));
        quotas.take_at(90, &caller("b", None), None, "t1").unwrap();
        quotas.take_at(120, &caller("a", Some("u1")), None, "t1").unwrap();
    }

    #[test]
    fn a_day_ends_at_midnight_and_what_others_used_counts() {
        let day = CallQuota { per_day: Some(2), ..CallQuota::default() };
        let quotas = of_all(CallQuotas { tenant: day, ..CallQuotas::default() });
        let one = caller("a", None);
        quotas.take_at(DAY - 10, &one, None, "t").unwrap();
        quotas.take_at(DAY - 10, &one, None, "t").unwrap();
        let refused = quotas.take_at(DAY - 10, &one, None, "t").unwrap_err();
        assert_eq!(refused.retry_after(), Some(Duration::from_secs(10)));
        quotas.take_at(DAY, &one, None, "t").unwrap();
        quotas.take(&one, None, "t").unwrap();
        let used = QuotaUse { in_day: 1, ..QuotaUse::default() };
        quotas.set_elsewhere(&[(one.tenant.clone(), None, used)]);
        assert!(quotas.take(&one, None, "t").is_err());
        assert_eq!(quotas.of_today()[0].2.in_day, 1, "only what was counted here");
        quotas.set_elsewhere(&[]);
        quotas.take(&one, None, "t").unwrap();
    }

    #[test]
    fn cost_is_counted_when_it_is_known() {
        let day = CallQuota { cost_per_day: Some(1.5), ..CallQuota::default() };
        let quotas = of_all(CallQuotas { key: day, ..CallQuotas::default() });
        let (one, key): (Caller, Arc<str>) = (caller("a", None), "k".into());
        quotas.take(&one, Some(&key), "t").unwrap();
        quotas.spend(&one, Some(&key), "t", 1.0);
        quotas.take(&one, Some(&key), "t").unwrap();
        quotas.spend(&one, Some(&key), "t", 1.0);
        let refused = quotas.take(&one, Some(&key), "t").unwrap_err();
        assert!(refused.message().starts_with("cost per day of the key `k`: all of $1.5"));
        assert_eq!(quotas.used(&one.tenant, QuotaScope::Key("k")).cost, 2.0);
    }

    #[test]
    fn names_that_callers_make_up_take_bounded_memory() {
        let quotas = of_all(CallQuotas { user: per_minute(1_000), ..CallQuotas::default() });
        for user in 0..MAX_NAMES + 500 {
            quotas.take_at(60, &caller("a", Some(&user.to_string())), None, "t").unwrap();
        }
        let day = &quotas.state.lock().day;
        let users = &day.tenants[&TenantId::new("a")].users;
        assert_eq!((users.len(), users[""].in_minute), (MAX_NAMES + 1, 500));
    }

    #[test]
    fn one_tenant_and_one_key_have_quotas_of_their_own() {
        let all = CallQuotas { tenant: per_minute(2), key: per_minute(1), ..CallQuotas::default() };
        let own = CallQuotas { tenant: per_minute(4), ..CallQuotas::default() };
        let quotas = QuotaCounters::new(all, BTreeMap::from([(TenantId::new("big"), own)]));
        let take = |tenant: &str, key: &str| {
            quotas.take_at(90, &caller(tenant, None), Some(&key.into()), "t")
        };
        (0..4).for_each(|_| take("big", "b1").unwrap());
        assert!(take("big", "b2").unwrap_err().message().contains("all of 4"));
        take("small", "s1").unwrap();
        assert!(take("small", "s1").unwrap_err().message().contains("the key `s1`: all of 1"));
        quotas.set_key("s1", Some(per_minute(3)));
        take("small", "s1").unwrap();
        assert!(take("small", "s1").unwrap_err().message().contains("the tenant `small`"));
        quotas.set_key("s2", Some(CallQuota { per_day: Some(9), ..CallQuota::default() }));
        assert!(take("small", "s2").unwrap_err().message().contains("the tenant `small`"));
        quotas.set_key("s1", None);
        assert!(take("small", "s1").unwrap_err().message().contains("the key `s1`: all of 1"));
        let none = of_all(CallQuotas::default());
        assert!(!none.is_set());
        none.set_key("k", Some(per_minute(1)));
        assert!(none.is_set());
    }
}
