//! Upstreams of tools: retry budgets and circuit breakers.
//!
//! As long as nothing fails, a call costs two reads of memory that only
//! failures write. A tool with many upstreams names them by its arguments:
//! `upstream: "{url}"`.

mod breaker;
mod budget;

use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

pub use breaker::BreakerSettings;
use breaker::{Breaker, BreakerDecision};
pub use budget::RetryBudget;
use budget::SpentBudget;

use super::access::fill;
use crate::call::context::Context;
use crate::error::{Error, ErrorKind};
use crate::fair_map::FairMap;
use crate::tool::{Tool, ToolSpec, scoped};
use crate::value::name::TenantId;
use crate::value::text::Text;

/// Maximum number of tenants with a circuit; beyond it, expired ones are
/// dropped.
const MAX_CIRCUITS: usize = 1_000;
/// Maximum number of upstreams; beyond it, healthy idle ones are dropped.
const MAX_KNOWN: usize = 1_000;
/// Maximum number of upstreams that arguments name.
const MAX_ASKED: usize = 10_000;

/// Settings of upstreams.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct UpstreamSettings {
    pub(crate) budget: RetryBudget,
    pub(crate) breaker: Option<BreakerSettings>,
}

/// All upstreams of an engine, by name.
pub(crate) struct Upstreams {
    settings: UpstreamSettings,
    /// Those of tools.
    known: Mutex<HashMap<Arc<str>, Arc<Upstream>, ahash::RandomState>>,
    /// Those that arguments name. The tenant that made up the most of them loses the one
    /// that was used least recently.
    asked: Mutex<FairMap<Arc<str>, Arc<Upstream>>>,
}

impl Upstreams {
    pub(crate) fn new(settings: UpstreamSettings) -> Self {
        Self { settings, known: Mutex::default(), asked: Mutex::new(FairMap::new(MAX_ASKED)) }
    }

    /// The upstream of a tool: the one it names, else its provider, else the
    /// tool itself.
    pub(crate) fn of(&self, tool: &Tool) -> Arc<Upstream> {
        let spec = tool.spec();
        let name: Arc<str> = match (&spec.upstream, &spec.provider) {
            (Some(name), _) => name.as_str().into(),
            (None, Some(provider)) => provider.as_str().into(),
            (None, None) => spec.name.shared(),
        };
        self.named(tool, name)
    }

    /// The upstream of a call to a tool with many upstreams; that of the tool
    /// if the arguments do not name one.
    pub(crate) fn of_call(
        &self,
        tool: &Tool,
        arguments: &Value,
        context: &Context,
    ) -> Arc<Upstream> {
        let template = tool.spec().upstream.as_deref().unwrap_or_default();
        match fill(template, arguments, context) {
            Some(filled) => self.asked(tool, site(&filled).into(), &context.caller.tenant),
            None => self.of(tool),
        }
    }

    fn named(&self, tool: &Tool, name: Arc<str>) -> Arc<Upstream> {
        let spec = tool.spec();
        let remote = spec.is_remote();
        let mut known = self.known.lock();
        if known.len() >= MAX_KNOWN {
            known.retain(|_, upstream| Arc::strong_count(upstream) > 1 || upstream.is_troubled());
        }
        let upstream = known
            .entry(scoped(tool.owner(), Arc::clone(&name)))
            .or_insert_with(|| Arc::new(Upstream::new(name, remote, self.settings)));
        Arc::clone(upstream)
    }

    fn asked(&self, tool: &Tool, name: Arc<str>, tenant: &TenantId) -> Arc<Upstream> {
        let scoped = scoped(tool.owner(), Arc::clone(&name));
        if let Some(known) = self.known.lock().get(&scoped) {
            return Arc::clone(known);
        }
        let new = || Arc::new(Upstream::new(name, tool.spec().is_remote(), self.settings));
        Arc::clone(self.asked.lock().of(tenant, &scoped, new))
    }
}

/// Whether the upstream of a tool depends on the arguments.
pub(crate) fn asks_many(spec: &ToolSpec) -> bool {
    spec.upstream.as_deref().is_some_and(|name| name.contains('{'))
}

/// Host and port of a URL; other names are unchanged.
fn site(name: &str) -> String {
    let Some((_, after)) = name.split_once("://") else { return name.to_owned() };
    let authority = after.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    host.to_ascii_lowercase()
}

/// The upstream of a call: borrowed from its tool, or looked up.
pub(crate) enum UpstreamRef<'a> {
    Fixed(&'a Upstream),
    OneOfMany(Arc<Upstream>),
}

impl Deref for UpstreamRef<'_> {
    type Target = Upstream;

    fn deref(&self) -> &Upstream {
        match self {
            Self::Fixed(upstream) => upstream,
            Self::OneOfMany(upstream) => upstream,
        }
    }
}

/// An upstream.
pub(crate) struct Upstream {
    name: Arc<str>,
    /// Whether it is remote, so that a timeout counts as its failure. A local
    /// function may simply be slow.
    remote: bool,
    settings: UpstreamSettings,
    /// Whether any call was ever retried; before that, nothing is counted.
    watched: AtomicBool,
    /// First attempts since then.
    calls: AtomicU64,
    spent: Mutex<SpentBudget>,
    /// Number of tenants whose circuit has recorded failures.
    troubled: AtomicUsize,
    circuits: Mutex<HashMap<TenantId, Breaker>>,
}

/// A permitted attempt (RAII). Dropped without a report, its outcome is
/// unknown.
pub(crate) struct Attempt<'a> {
    upstream: &'a Upstream,
    tenant: &'a TenantId,
    probe: bool,
}

impl Upstream {
    fn new(name: Arc<str>, remote: bool, settings: UpstreamSettings) -> Self {
        Self {
            name,
            remote,
            settings,
            watched: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            spent: Mutex::default(),
            troubled: AtomicUsize::new(0),
            circuits: Mutex::default(),
        }
    }

    fn is_troubled(&self) -> bool {
        self.troubled.load(Ordering::Relaxed) > 0
    }

    /// Counts a first attempt.
    pub(crate) fn first_attempt(&self) {
        if self.watched.load(Ordering::Relaxed) {
            self.calls.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes an extra attempt from the retry budget, if one is left.
    pub(crate) fn extra_attempt(&self) -> bool {
        self.watched.store(true, Ordering::Relaxed);
        let calls = self.calls.load(Ordering::Relaxed);
        self.spent.lock().take(&self.settings.budget, calls, Instant::now())
    }

    /// Fails early if the circuit is open: without a slot, and without taking
    /// the turn of the probe.
    pub(crate) fn look(&self, tenant: &TenantId) -> Result<(), Error> {
        if self.troubled.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let circuits = self.circuits.lock();
        let wait = circuits.get(tenant).and_then(|breaker| breaker.closed_for(Instant::now()));
        wait.map_or(Ok(()), |wait| Err(self.left_alone(wait)))
    }

    /// Permission for an attempt, or the error of an open circuit.
    pub(crate) fn enter<'a>(&'a self, tenant: &'a TenantId) -> Result<Attempt<'a>, Error> {
        let pass = Attempt { upstream: self, tenant, probe: false };
        if self.troubled.load(Ordering::Relaxed) == 0 {
            return Ok(pass);
        }
        let leave = match self.circuits.lock().get_mut(tenant) {
            Some(breaker) => breaker.enter(Instant::now()),
            None => BreakerDecision::Pass,
        };
        match leave {
            BreakerDecision::Pass => Ok(pass),
            BreakerDecision::Probe => Ok(Attempt { probe: true, ..pass }),
            BreakerDecision::Wait(wait) => Err(self.left_alone(wait)),
        }
    }

    fn left_alone(&self, wait: Duration) -> Error {
        let (name, seconds) = (&self.name, wait.as_secs() + 1);
        let why = format!("`{name}` has failed too often and is left alone for {seconds} s");
        let feedback = Text::Many(BTreeMap::from([
            (
                "en".to_owned(),
                format!(
                    "The service keeps failing and is left alone for {seconds} s. Try again after \
                     that, or find the information another way."
                ),
            ),
            (
                "zh".to_owned(),
                format!(
                    "服务持续不可用,{seconds} 秒内不会再尝试。请在此之后重试,或使用其他方式获取信息。"
                ),
            ),
        ]));
        Error::new(ErrorKind::CircuitOpen, why).with_feedback(feedback).with_retry_after(wait)
    }

    fn failed(&self, tenant: &TenantId, probe: bool) {
        let Some(settings) = &self.settings.breaker else { return };
        let now = Instant::now();
        let mut circuits = self.circuits.lock();
        if circuits.len() >= MAX_CIRCUITS {
            circuits.retain(|_, breaker| !breaker.is_over(settings, now));
        }
        circuits
            .entry(tenant.clone())
            .or_insert_with(|| Breaker::new(now))
            .failed(probe, settings, now);
        self.troubled.store(circuits.len(), Ordering::Relaxed);
    }

    fn succeeded(&self, tenant: &TenantId, probe: bool) {
        let Some(settings) = &self.settings.breaker else { return };
        if self.troubled.load(Ordering::Relaxed) == 0 {
            return;
        }
        let now = Instant::now();
        let mut circuits = self.circuits.lock();
        let well =
            circuits.get_mut(tenant).is_some_and(|breaker| breaker.succeeded(probe, settings, now));
        if well {
            circuits.remove(tenant);
            self.troubled.store(circuits.len(), Ordering::Relaxed);
        }
    }
}

impl<'a> Attempt<'a> {
    /// The upstream answered, if only with a refusal.
    pub(crate) fn answered(mut self) {
        self.upstream.succeeded(self.tenant, self.probe);
        self.probe = false;
    }

    /// The attempt failed with this error. Returns its tenant.
    pub(crate) fn ended(mut self, error: &Error) -> &'a TenantId {
        let tenant = self.tenant;
        match error.kind() {
            ErrorKind::Network | ErrorKind::Timeout | ErrorKind::UpstreamFailed => {
                self.upstream.failed(tenant, self.probe);
                self.probe = false;
            }
            ErrorKind::Panicked | ErrorKind::Cancelled | ErrorKind::Internal => {}
            _ => self.answered(),
        }
        tenant
    }

    /// The deadline passed before the upstream answered.
    pub(crate) fn timed_out(mut self) {
        if self.upstream.remote {
            self.upstream.failed(self.tenant, self.probe);
            self.probe = false;
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if self.probe
            && let Some(breaker) = self.upstream.circuits.lock().get_mut(self.tenant)
        {
            breaker.undecided(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::call::context::Caller;
    use crate::engine::Engine;
    use crate::tool::ToolBuilder;

    #[test]
    fn a_tenant_that_asks_endless_hosts_keeps_them_few_and_resets_no_circuit_of_others() {
        let tool = ToolBuilder::from_fn("fetch", |_: Value| async { "" })
            .with(|spec| spec.upstream = Some("{url}".to_owned()));
        let engine = Engine::builder().tool(tool).build().unwrap();
        let tool = engine.registry().get("fetch").unwrap();
        let breaker = Some(BreakerSettings::default());
        let settings = UpstreamSettings { breaker, ..UpstreamSettings::default() };
        let upstreams = Upstreams::new(settings);
        let fail = |tenant: &str, host: &str, times: usize| {
            let caller = Caller { tenant: TenantId::new(tenant), ..Caller::default() };
            let context = Context::new(caller);
            let arguments = json!({"url": format!("http://{host}/")});
            let upstream = upstreams.of_call(&tool, &arguments, &context);
            (0..times).for_each(|_| upstream.failed(&context.caller.tenant, false));
            upstream.look(&context.caller.tenant).is_err()
        };
        assert!(fail("quiet", "down", 100), "its circuit is open");
        for host in 0..MAX_ASKED + 500 {
            fail("noisy", &format!("h{host}"), 1);
        }
        assert_eq!(upstreams.asked.lock().len(), MAX_ASKED);
        assert!(fail("quiet", "down", 0), "it is still open");
    }

    #[test]
    fn a_site_is_a_host_and_a_port() {
        assert_eq!(site("https://Example.com/items?page=2"), "example.com");
        assert_eq!(site("http://user:secret@example.com:8080#top"), "example.com:8080");
        assert_eq!(site("http://[::1]:80/"), "[::1]:80");
        assert_eq!(site("http://"), "");
        assert_eq!(site("mail"), "mail");
    }
}
