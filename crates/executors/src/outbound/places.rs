//! Places: how many connections and name lookups there are at once, and whose.
//!
//! They are shared by dynamic thresholds, as request slots of a server are: a
//! tenant may take one more while it has less than [`TENANT_SHARE`] times what is free,
//! so that whoever floods stops before the last place. A connection that is kept
//! for later holds a place only until somebody needs it: then the one that has
//! been idle the longest is closed.
//!
//! Whose a place is, is what [`on_behalf`] says around the request; what nobody
//! says is the operator's.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Waker;
use std::time::Duration;

use futures_util::task::AtomicWaker;
use http::Extensions;
use hyper_util::client::legacy::connect::CaptureConnection;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use windlass::{TENANT_SHARE, TenantId};

/// How long a new connection waits for its first request.
const FRESH: Duration = Duration::from_secs(2);

/// Who wants something; none is the operator.
pub(super) type Whose = Option<TenantId>;

tokio::task_local! {
    static WHOSE: Whose;
}

/// Does something on behalf of a tenant: what it takes of connections and name
/// lookups is that tenant's.
pub async fn on_behalf<F: Future>(tenant: Option<&TenantId>, work: F) -> F::Output {
    WHOSE.scope(tenant.cloned(), work).await
}

/// On whose behalf the current task works.
pub(super) fn whose() -> Whose {
    WHOSE.try_with(Clone::clone).unwrap_or_default()
}

/// The same for work that another task may go on with.
pub(super) fn as_work_of<F: Future>(whose: Whose, work: F) -> impl Future<Output = F::Output> {
    WHOSE.scope(whose, work)
}

/// So many places.
pub(super) struct Places {
    most: usize,
    open: Mutex<Open>,
    /// Somebody has left, or may be sent away.
    left: Notify,
}

#[derive(Default)]
struct Open {
    next: u64,
    all: HashMap<u64, OpenConnection>,
    each: HashMap<Whose, usize>,
    /// How many wait for a place.
    waiting: usize,
}

struct OpenConnection {
    whose: Whose,
    /// How many requests use it: one is not forgotten before the next begins.
    users: usize,
    /// From when on it is idle, if it is.
    since: Instant,
    line: Arc<Line>,
}

impl Places {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most: most.max(1), open: Mutex::default(), left: Notify::new() })
    }

    /// A place, as soon as there is one.
    pub(super) async fn take(self: &Arc<Self>, whose: &Whose) -> Place {
        if let Some(place) = self.try_take(whose) {
            return place;
        }
        let _waiting = Waiting::new(self);
        loop {
            let mut left = std::pin::pin!(self.left.notified());
            left.as_mut().enable();
            if let Some(place) = self.try_take(whose) {
                return place;
            }
            // Whoever is fresh becomes idle without a word.
            let _ = tokio::time::timeout(FRESH, left).await;
        }
    }

    fn try_take(self: &Arc<Self>, whose: &Whose) -> Option<Place> {
        let now = Instant::now();
        let mut open = self.open.lock();
        let own = open.each.get(whose).copied().unwrap_or_default();
        let free = self.most.saturating_sub(open.all.len());
        if free == 0 || own >= free.saturating_mul(TENANT_SHARE) {
            // What others do not use may be had; of one's own, only in exchange.
            let others = open.all.values().filter(|it| it.whose != *whose && it.is_idle(now));
            let room = free + others.count();
            let in_exchange = own >= room.saturating_mul(TENANT_SHARE);
            if (in_exchange || free == 0)
                && !open.evict(now, |entry| (entry.whose == *whose) == in_exchange)
                && !(free == 0 && open.evict(now, |entry| entry.whose == *whose))
            {
                return None;
            }
        }
        open.next += 1;
        let (id, line) = (open.next, Arc::new(Line::default()));
        let (whose, kept) = (whose.clone(), Arc::clone(&line));
        *open.each.entry(whose.clone()).or_default() += 1;
        let entry = OpenConnection { whose, users: 0, since: now + FRESH, line: kept };
        open.all.insert(id, entry);
        Some(Place(Held { places: Arc::clone(self), id, line }))
    }

    fn tell(&self, open: &Open) {
        if open.waiting > 0 {
            self.left.notify_waiters();
        }
    }
}

impl Open {
    /// Closes the chosen connection that has been idle the longest; false where
    /// none is.
    fn evict(&mut self, now: Instant, chosen: impl Fn(&OpenConnection) -> bool) -> bool {
        loop {
            let idle = self.all.iter().filter(|(_, entry)| entry.is_idle(now) && chosen(entry));
            let Some((id, _)) = idle.min_by_key(|(_, entry)| entry.since) else { return false };
            let id = *id;
            // Unless it has just been asked for something.
            if self.all.get(&id).is_some_and(|entry| entry.line.close()) {
                self.remove(id);
                return true;
            }
            if let Some(entry) = self.all.get_mut(&id) {
                entry.since = now + FRESH;
            }
        }
    }

    fn remove(&mut self, id: u64) {
        if let Some(entry) = self.all.remove(&id) {
            self.forget(&entry.whose);
        }
    }

    fn forget(&mut self, whose: &Whose) {
        if let Some(count) = self.each.get_mut(whose) {
            *count -= 1;
            if *count == 0 {
                self.each.remove(whose);
            }
        }
    }
}

impl OpenConnection {
    fn is_idle(&self, now: Instant) -> bool {
        self.since <= now && self.line.is_idle()
    }
}

/// Somebody waits for a place.
struct Waiting<'p>(&'p Places);

impl<'p> Waiting<'p> {
    fn new(places: &'p Places) -> Self {
        places.open.lock().waiting += 1;
        Self(places)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.open.lock().waiting -= 1;
    }
}

/// A place. Dropping it gives it back.
pub(super) struct Place(Held);

impl Place {
    /// What whoever uses its connection has to say so by.
    pub(super) fn held(&self) -> Held {
        self.0.clone()
    }

    pub(super) fn line(&self) -> &Line {
        &self.0.line
    }

    /// The place of something else than a connection: it is in use until it is
    /// given back.
    pub(super) fn in_use(self) -> Self {
        self.0.line.keep();
        self
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.0.places.open.lock();
        open.remove(self.0.id);
        self.0.places.tell(&open);
    }
}

/// Names the place of a connection.
#[derive(Clone)]
pub(super) struct Held {
    places: Arc<Places>,
    id: u64,
    line: Arc<Line>,
}

impl Held {
    /// Its connection is used for a request, until what comes back is dropped.
    pub(super) fn begin(self, whose: &Whose) -> Using {
        let mut guard = self.places.open.lock();
        let open = &mut *guard;
        if let Some(entry) = open.all.get_mut(&self.id) {
            entry.line.keep();
            entry.users += 1;
            if entry.whose != *whose {
                let before = std::mem::replace(&mut entry.whose, whose.clone());
                open.forget(&before);
                *open.each.entry(whose.clone()).or_default() += 1;
            }
        }
        drop(guard);
        Using(self)
    }
}

/// A connection that is used.
pub(super) struct Using(Held);

impl Using {
    /// The connection that a request goes over, as soon as there is one. It may be
    /// another one than `before`: where that was closed before anything was sent,
    /// the client takes the next.
    pub(super) fn of(connection: &CaptureConnection, before: Option<Self>) -> Option<Self> {
        let mut extras = Extensions::new();
        connection.connection_metadata().as_ref()?.get_extras(&mut extras);
        let held = extras.remove::<Held>()?;
        match before {
            Some(before) if before.0.id == held.id => Some(before),
            _ => Some(held.begin(&whose())),
        }
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        let mut open = self.0.places.open.lock();
        if let Some(entry) = open.all.get_mut(&self.0.id) {
            entry.users -= 1;
            if entry.users == 0 {
                entry.since = Instant::now();
                entry.line.rest();
                self.0.places.tell(&open);
            }
        }
    }
}

const IDLE: u8 = 0;
const USED: u8 = 1;
const CLOSED: u8 = 2;

/// What a connection and its place know of each other.
#[derive(Default)]
pub(super) struct Line {
    state: AtomicU8,
    reader: AtomicWaker,
}

impl Line {
    /// Whether it may be written to; from then on it is not idle.
    pub(super) fn keep(&self) -> bool {
        let kept = self.state.compare_exchange(IDLE, USED, Ordering::AcqRel, Ordering::Acquire);
        kept.is_ok() || !self.is_closed()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.load(Ordering::Acquire) == CLOSED
    }

    /// Wakes a reader when it is closed.
    pub(super) fn tell(&self, reader: &Waker) {
        self.reader.register(reader);
    }

    fn is_idle(&self) -> bool {
        self.state.load(Ordering::Acquire) == IDLE
    }

    fn rest(&self) {
        let _ = self.state.compare_exchange(USED, IDLE, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Closes it, if it is idle.
    fn close(&self) -> bool {
        let closed = self.state.compare_exchange(IDLE, CLOSED, Ordering::AcqRel, Ordering::Acquire);
        if closed.is_ok() {
            self.reader.wake();
        }
        closed.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Whose {
        Some(TenantId::new(name))
    }

    fn fill(places: &Arc<Places>, whose: &Whose) -> Vec<Using> {
        let mut held = Vec::new();
        while let Some(place) = places.try_take(whose) {
            held.push(place.held().begin(whose));
            // As a connection of the pool has it.
            std::mem::forget(place);
        }
        held
    }

    #[tokio::test]
    async fn whoever_floods_leaves_places_and_idle_ones_are_anybodys() {
        let places = Places::new(200);
        let noisy = fill(&places, &of("noisy"));
        assert!((158..=160).contains(&noisy.len()), "four of five: {}", noisy.len());
        let quiet = fill(&places, &of("quiet"));
        assert!(!quiet.is_empty() && quiet.len() < 40);
        // What is in use is nobody else's.
        let third = fill(&places, &of("third"));
        assert!(!third.is_empty());
        drop(noisy);
        tokio::time::sleep(Duration::from_millis(1)).await;
        let more = fill(&places, &of("quiet"));
        assert!(more.len() > 90, "{}", more.len());
        assert!(places.open.lock().all.len() <= 200);
        // One's own are exchanged: no end to the hosts that one may ask.
        drop(more);
        tokio::time::sleep(Duration::from_millis(1)).await;
        for _ in 0..300 {
            let place = places.try_take(&of("quiet")).unwrap();
            drop(place.held().begin(&of("quiet")));
            std::mem::forget(place);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(places.open.lock().all.len() <= 200);
    }

    #[tokio::test]
    async fn a_place_is_waited_for_and_given_back() {
        let places = Places::new(1);
        let one = places.take(&None).await;
        let other = of("a");
        let waits = places.take(&other);
        assert!(tokio::time::timeout(Duration::from_secs(9), waits).await.is_ok(), "it was fresh");
        drop(one);
        let place = places.take(&None).await;
        let used = place.held().begin(&None);
        let waits = places.take(&other);
        assert!(tokio::time::timeout(Duration::from_millis(300), waits).await.is_err());
        drop(used);
        places.take(&of("a")).await;
        assert!(place.line().is_closed());
        drop(place);
        let open = places.open.lock();
        assert!(open.all.is_empty() && open.each.is_empty() && open.waiting == 0);
    }
}
