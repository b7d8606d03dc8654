//! Memory-bounded cache with CLOCK (second chance) eviction, for values that
//! are expensive to compute and to hold.
//!
//! A [`CacheSlot`] belongs to its user, is empty at first, and is filled on
//! demand. A [`ClockCache`] tracks all filled slots and their weight, and
//! empties those that were not used recently when there is no room for another
//! one. Readers of a filled slot take no lock, and keep what they read for as
//! long as they use it.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::{ArcSwapOption, Guard};
use parking_lot::Mutex;

/// A value that is computed on demand.
pub(super) struct CacheSlot<T> {
    value: ArcSwapOption<T>,
    /// Reference bit: whether it was read since the last eviction pass.
    used: AtomicBool,
}

impl<T> Default for CacheSlot<T> {
    fn default() -> Self {
        Self { value: ArcSwapOption::empty(), used: AtomicBool::new(false) }
    }
}

impl<T> CacheSlot<T> {
    fn read(&self) -> Option<CacheGuard<T>> {
        let guard = self.value.load();
        guard.as_ref()?;
        // Written once, not at every read: threads share the cache line.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        Some(CacheGuard(guard))
    }
}

/// Guard of a value that was read; keeps it alive.
pub(crate) struct CacheGuard<T>(Guard<Option<Arc<T>>>);

impl<T> Deref for CacheGuard<T> {
    type Target = T;

    #[expect(clippy::expect_used, reason = "`Slot::read` and `Shelf::get` hold only what is there")]
    fn deref(&self) -> &T {
        self.0.as_ref().expect("a guarded value is there")
    }
}

/// All filled slots of a kind.
pub(super) struct ClockCache<T> {
    filled: Mutex<FilledSlots<T>>,
    room: usize,
}

struct FilledSlots<T> {
    slots: VecDeque<(Weak<CacheSlot<T>>, usize)>,
    weight: usize,
}

impl<T> ClockCache<T> {
    /// Creates a cache for values of this total weight.
    pub(super) const fn new(room: usize) -> Self {
        Self { filled: Mutex::new(FilledSlots { slots: VecDeque::new(), weight: 0 }), room }
    }

    /// The value of a slot; computed and weighed if it is empty.
    pub(super) fn get<E>(
        &self,
        slot: &Arc<CacheSlot<T>>,
        make: impl FnOnce() -> Result<(T, usize), E>,
    ) -> Result<CacheGuard<T>, E> {
        if let Some(value) = slot.read() {
            return Ok(value);
        }
        // Two threads may compute the same value; that is cheaper than letting
        // one block the other.
        let (value, weight) = make()?;
        let value = Arc::new(value);
        let mut filled = self.filled.lock();
        if slot.value.swap(Some(Arc::clone(&value))).is_none() {
            filled.make_room(self.room.saturating_sub(weight));
            filled.slots.push_back((Arc::downgrade(slot), weight));
            filled.weight += weight;
        }
        Ok(CacheGuard(Guard::from_inner(Some(value))))
    }
}

impl<T> FilledSlots<T> {
    /// Evicts slots until the total weight is at most this. Recently read slots
    /// get a second chance.
    fn make_room(&mut self, most: usize) {
        let mut looks = 2 * self.slots.len();
        while self.weight > most && looks > 0 {
            looks -= 1;
            let Some((slot, weight)) = self.slots.pop_front() else { break };
            match slot.upgrade() {
                Some(kept) if kept.used.swap(false, Ordering::Relaxed) => {
                    self.slots.push_back((slot, weight));
                }
                kept => {
                    self.weight -= weight;
                    if let Some(kept) = kept {
                        kept.value.store(None);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(value: u32) -> impl FnOnce() -> Result<(u32, usize), ()> {
        move || Ok((value, 10))
    }

    fn unmade() -> Result<(u32, usize), ()> {
        Err(())
    }

    #[test]
    fn what_is_not_used_makes_room_for_others() {
        let shelf: ClockCache<u32> = ClockCache::new(30);
        let slots: Vec<Arc<CacheSlot<u32>>> = (0..10).map(|_| Arc::default()).collect();
        for (at, slot) in slots.iter().enumerate() {
            assert_eq!(*shelf.get(slot, make(at as u32)).unwrap(), at as u32);
            assert!(shelf.filled.lock().weight <= 30);
            // The first slot is in constant use.
            assert_eq!(*shelf.get(&slots[0], unmade).unwrap(), 0);
        }
        let held = slots.iter().filter(|slot| slot.value.load().is_some()).count();
        assert_eq!(held, 3);
    }

    #[test]
    fn what_is_gone_takes_no_room() {
        let shelf: ClockCache<u32> = ClockCache::new(30);
        for n in 0..100 {
            shelf.get(&Arc::default(), make(n)).unwrap();
        }
        let filled = shelf.filled.lock();
        assert!(filled.weight <= 30 && filled.slots.len() <= 3);
    }

    #[test]
    fn a_value_stays_while_it_is_looked_at() {
        let shelf: ClockCache<u32> = ClockCache::new(10);
        let first: Arc<CacheSlot<u32>> = Arc::default();
        let held = shelf.get(&first, make(1)).unwrap();
        let (second, third): (Arc<CacheSlot<u32>>, Arc<CacheSlot<u32>>) = Default::default();
        shelf.get(&second, make(2)).unwrap();
        shelf.get(&third, make(3)).unwrap();
        assert!(first.value.load().is_none());
        assert_eq!(*held, 1);
    }
}
