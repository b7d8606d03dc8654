//! Result cache: for read-only tools with `cache`, keyed by everything that a
//! result may depend on.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::call::Call;
use crate::call::content::Output;
use crate::fair_map::FairMap;
use crate::journal::OpenCall;
use crate::value::duration;
use crate::value::fingerprint::Fingerprint;
use crate::value::name::CallId;

/// Cached results of an engine. The tenant with the most loses what it used least
/// recently.
pub(crate) struct ResultCache(Option<Mutex<FairMap<CacheKey, CachedResult>>>);

/// Hash of everything that a result may depend on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct CacheKey([u8; 32]);

struct CachedResult {
    call: CallId,
    output: Arc<Output>,
    until: Instant,
}

impl ResultCache {
    /// A cache for this many results; disabled for zero.
    pub(crate) fn new(entries: usize) -> Self {
        Self((entries > 0).then(|| Mutex::new(FairMap::new(entries))))
    }

    /// The cached result of an earlier call; the journal notes which call that
    /// was.
    pub(crate) fn find(&self, call: &Call, open: &mut OpenCall) -> Option<Arc<Output>> {
        call.tool().spec().cache?;
        let key = CacheKey::of(call)?;
        let mut cache = self.0.as_ref()?.lock();
        let cached = cache.touch(&key)?;
        if cached.until <= Instant::now() {
            cache.remove(&key);
            return None;
        }
        open.same_as(cached.call);
        Some(Arc::clone(&cached.output))
    }

    /// Caches the result of a call, if its tool asks for that.
    pub(crate) fn put(&self, call: &Call, open: &OpenCall, output: &Arc<Output>) {
        let (Some(cache), Some(keep)) = (&self.0, call.tool().spec().cache) else { return };
        if open.attempts() == 0 {
            return;
        }
        let Some(key) = CacheKey::of(call) else { return };
        let until = Instant::now() + keep.min(duration::MAX);
        let cached = CachedResult { call: call.id(), output: Arc::clone(output), until };
        // The evicted entry is dropped after the lock is released.
        let _gone = cache.lock().insert(&call.caller().tenant, &key, cached);
    }
}

impl CacheKey {
    /// Hashes tenant, user, agent, tool version, arguments, variables, and
    /// every secret that the tool could read. `None` if the tool could read
    /// context objects, which cannot be compared.
    fn of(call: &Call) -> Option<Self> {
        let agent = call.agent();
        if !call.context.objects.is_empty() || agent.is_some_and(|it| !it.objects.is_empty()) {
            return None;
        }
        let mut fingerprint = Fingerprint::default();
        let caller = call.caller();
        fingerprint.text(caller.tenant.as_str());
        fingerprint.optional(caller.user.as_deref());
        fingerprint.optional(agent.map(|agent| agent.id.as_str()));
        fingerprint.number(call.tool().generation());
        fingerprint.value(call.arguments());
        fingerprint.object(&call.context.variables);
        for (name, secret) in call.all_secrets() {
            fingerprint.text(name);
            fingerprint.text(secret.expose());
        }
        Some(Self(fingerprint.finish()))
    }
}
