//! Event bus and subscriptions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::broadcast::{self, error::RecvError};

use super::{Event, EventBody};

/// Broadcast channel of events.
pub(crate) struct EventBus {
    channel: broadcast::Sender<Event>,
    /// Number of subscriptions; shared with them, because they must not keep
    /// the channel open.
    listeners: Arc<AtomicUsize>,
    /// Held while an event is numbered and sent, so that every subscriber sees
    /// the numbers in order.
    sequence: Mutex<u64>,
}

impl EventBus {
    pub(crate) fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self {
            channel: broadcast::Sender::new(capacity.max(1)),
            listeners: Arc::default(),
            sequence: Mutex::new(0),
        })
    }

    /// Whether there are subscribers.
    pub(crate) fn is_heard(&self) -> bool {
        self.listeners.load(Ordering::Acquire) > 0
    }

    /// Sends an event, which is only built if there are subscribers.
    pub(crate) fn emit(&self, build: impl FnOnce() -> EventBody) {
        if !self.is_heard() {
            return;
        }
        let body = build();
        let mut sequence = self.sequence.lock();
        *sequence += 1;
        // An error means that the last subscriber has just left.
        let _ = self.channel.send(Event { sequence: *sequence, at: Timestamp::now(), body });
    }

    pub(crate) fn subscribe(&self) -> Subscription {
        let receiver = self.channel.subscribe();
        self.listeners.fetch_add(1, Ordering::AcqRel);
        Subscription {
            receiver,
            listeners: Arc::clone(&self.listeners),
            last: *self.sequence.lock(),
        }
    }

    /// Runs a callback on a thread of its own, so that a slow or panicking
    /// callback harms nobody else.
    pub(crate) fn call_back(
        &self,
        mut callback: impl FnMut(&Event) + Send + 'static,
    ) -> std::io::Result<()> {
        let mut subscription = self.subscribe();
        std::thread::Builder::new().name("windlass-events".into()).spawn(move || {
            while let Some(event) = subscription.blocking_next() {
                let ran =
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| callback(&event)));
                if ran.is_err() {
                    tracing::warn!(event = event.body.name(), "an event callback panicked");
                }
            }
        })?;
        Ok(())
    }
}

/// A subscription. Dropping it unsubscribes.
pub struct Subscription {
    receiver: broadcast::Receiver<Event>,
    listeners: Arc<AtomicUsize>,
    last: u64,
}

impl Subscription {
    /// The next event; `None` once the engine is dropped. After falling behind,
    /// the next event is [`EventBody::Missed`].
    pub async fn next(&mut self) -> Option<Event> {
        let received = self.receiver.recv().await;
        self.accept(received)
    }

    /// The next event, blocking this thread.
    fn blocking_next(&mut self) -> Option<Event> {
        let received = self.receiver.blocking_recv();
        self.accept(received)
    }

    fn accept(&mut self, received: Result<Event, RecvError>) -> Option<Event> {
        let event = match received {
            Ok(event) => event,
            Err(RecvError::Lagged(count)) => Event {
                sequence: self.last + count,
                at: Timestamp::now(),
                body: EventBody::Missed { count },
            },
            Err(RecvError::Closed) => return None,
        };
        self.last = event.sequence;
        Some(event)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.listeners.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_built_while_nobody_listens() {
        let bus = EventBus::new(8);
        bus.emit(|| unreachable!("nobody listens"));
        let subscription = bus.subscribe();
        let mut built = 0;
        bus.emit(|| {
            built += 1;
            EventBody::Missed { count: 0 }
        });
        assert_eq!(built, 1);
        drop(subscription);
        bus.emit(|| unreachable!("nobody listens any more"));
    }
}
