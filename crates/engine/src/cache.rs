//! Results that are given again (S3.26): only for tools that ask for it and
//! change nothing, and only to those who would have got the same.

use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::call::Call;
use crate::content::Output;
use crate::fingerprint::Fingerprint;
use crate::name::CallId;

/// The results of an engine; the one that was not asked for the longest goes
/// first.
pub(crate) struct Cache(Option<Mutex<LruCache<Key, Cached, ahash::RandomState>>>);

/// Stands for everything that a result may depend on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key([u8; 32]);

struct Cached {
    call: CallId,
    output: Arc<Output>,
    until: Instant,
}

impl Cache {
    /// A cache for so many results; none at all for zero.
    pub(crate) fn new(entries: usize) -> Self {
        let cache = |entries| Mutex::new(LruCache::with_hasher(entries, Default::default()));
        Self(NonZeroUsize::new(entries).map(cache))
    }

    /// Where the result of a call is kept; none for a tool that keeps none.
    pub(crate) fn key(&self, call: &Call) -> Option<Key> {
        call.tool().spec().cache.filter(|_| self.0.is_some()).map(|_| Key::of(call))
    }

    /// The result of an earlier call, and that call's id.
    pub(crate) fn get(&self, key: Key) -> Option<(CallId, Arc<Output>)> {
        let mut cache = self.0.as_ref()?.lock();
        let cached = cache.get(&key)?;
        if cached.until <= Instant::now() {
            cache.pop(&key);
            return None;
        }
        Some((cached.call, Arc::clone(&cached.output)))
    }

    pub(crate) fn put(&self, key: Key, call: &Call, output: &Arc<Output>) {
        let (Some(cache), Some(keep)) = (&self.0, call.tool().spec().cache) else { return };
        let cached =
            Cached { call: call.id(), output: Arc::clone(output), until: Instant::now() + keep };
        // What makes room is dropped after the lock.
        let _gone = cache.lock().push(key, cached);
    }
}

impl Key {
    /// The tenant, the user, the tool as it is now, the arguments, the
    /// variables, and every secret that the tool could read.
    fn of(call: &Call) -> Self {
        let mut fingerprint = Fingerprint::default();
        let caller = call.caller();
        fingerprint.text(caller.tenant.as_str());
        fingerprint.optional(caller.user.as_deref());
        fingerprint.number(call.tool().generation());
        fingerprint.value(call.arguments());
        fingerprint.object(&call.context.variables);
        for (name, secret) in call.all_secrets() {
            fingerprint.text(name);
            fingerprint.text(secret.expose());
        }
        Self(fingerprint.finish())
    }
}
