//! How many calls run at once, and how many may wait.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::error::{Error, ErrorKind};

/// The slots of an engine. Waiting calls are served in the order they came.
pub(crate) struct Limits {
    slots: Semaphore,
    max_concurrent: usize,
    waiting: AtomicUsize,
    queue_size: usize,
}

/// A slot. Dropping it gives the slot back.
pub(crate) struct Permit<'a> {
    _slot: SemaphorePermit<'a>,
    /// Whether the call had to wait for it.
    pub(crate) waited: bool,
}

impl Limits {
    pub(crate) fn new(max_concurrent: usize, queue_size: usize) -> Self {
        let max_concurrent = max_concurrent.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            slots: Semaphore::new(max_concurrent),
            max_concurrent,
            waiting: AtomicUsize::new(0),
            queue_size,
        }
    }

    /// A slot, at once or after waiting; an error at once where the queue is
    /// full. Dropping the future leaves the queue.
    pub(crate) async fn admit(&self) -> Result<Permit<'_>, Error> {
        if let Ok(slot) = self.slots.try_acquire() {
            return Ok(Permit { _slot: slot, waited: false });
        }
        let _place = self.take_place()?;
        match self.slots.acquire().await {
            Ok(slot) => Ok(Permit { _slot: slot, waited: true }),
            Err(_) => Err(Error::new(ErrorKind::Internal, "the engine's slots are closed")),
        }
    }

    fn take_place(&self) -> Result<Place<'_>, Error> {
        let place = Place(&self.waiting);
        if self.waiting.fetch_add(1, Ordering::AcqRel) >= self.queue_size {
            return Err(Error::new(
                ErrorKind::QueueFull,
                format!(
                    "{} calls are running and {} are waiting",
                    self.max_concurrent, self.queue_size
                ),
            ));
        }
        Ok(place)
    }
}

/// A place in the queue.
struct Place<'a>(&'a AtomicUsize);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
