//! Event bus and subscriptions.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::broadcast::{self, error::RecvError};

use super::{Event, EventBody};
use crate::value::name::TenantId;

/// How many tenants without a subscriber are remembered.
const IDLE: usize = 64;

/// Broadcast channels of events: one of all, and one of each tenant that has a
/// subscriber of its own, which no other tenant can make fall behind.
pub(crate) struct EventBus {
    channel: broadcast::Sender<Event>,
    capacity: usize,
    /// Number of subscriptions; shared with them, because they must not keep
    /// the channel open.
    listeners: Arc<AtomicUsize>,
    /// Held while an event is numbered and sent, so that every subscriber sees
    /// the numbers in order.
    state: Mutex<BusState>,
}

#[derive(Default)]
struct BusState {
    sequence: u64,
    tenants: HashMap<TenantId, broadcast::Sender<Event>>,
}

impl EventBus {
    pub(crate) fn new(capacity: usize) -> Arc<Self> {
        let capacity = capacity.max(1);
        Arc::new(Self {
            channel: broadcast::Sender::new(capacity),
            capacity,
            listeners: Arc::default(),
            state: Mutex::default(),
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
        let mut state = self.state.lock();
        state.sequence += 1;
        let event = Event { sequence: state.sequence, at: Timestamp::now(), body };
        if !state.tenants.is_empty() {
            state.tell(&event);
        }
        // An error means that the last subscriber has just left.
        let _ = self.channel.send(event);
    }

    pub(crate) fn subscribe(&self) -> Subscription {
        let receiver = self.channel.subscribe();
        self.subscription(receiver, self.state.lock().sequence)
    }

    /// Subscribes to what a tenant may see.
    pub(crate) fn subscribe_of(&self, tenant: &TenantId) -> Subscription {
        let mut state = self.state.lock();
        if state.tenants.len() >= IDLE {
            state.tenants.retain(|_, channel| channel.receiver_count() > 0);
        }
        let own = state.tenants.entry(tenant.clone());
        let receiver = own.or_insert_with(|| broadcast::Sender::new(self.capacity)).subscribe();
        self.subscription(receiver, state.sequence)
    }

    fn subscription(&self, receiver: broadcast::Receiver<Event>, last: u64) -> Subscription {
        self.listeners.fetch_add(1, Ordering::AcqRel);
        Subscription { receiver, listeners: Arc::clone(&self.listeners), last }
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

impl BusState {
    /// Sends an event to the channels of its tenant, or of all.
    fn tell(&self, event: &Event) {
        let tenant = event.body.tenant();
        let own = tenant.and_then(|tenant| self.tenants.get(tenant));
        let all = self.tenants.values().filter(|_| tenant.is_none());
        for channel in own.into_iter().chain(all).filter(|it| it.receiver_count() > 0) {
            // As above.
            let _ = channel.send(event.clone());
        }
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
    use crate::value::name::ToolName;

    #[tokio::test]
    async fn a_noisy_tenant_makes_no_subscriber_of_others_fall_behind() {
        let bus = EventBus::new(8);
        let (quiet, noisy) = (TenantId::new("quiet"), TenantId::new("noisy"));
        let (mut own, mut all) = (bus.subscribe_of(&quiet), bus.subscribe());
        let added = |tenant: Option<&TenantId>| EventBody::ToolRemoved {
            tool_name: ToolName::new("t").unwrap(),
            tenant: tenant.cloned(),
        };
        bus.emit(|| added(Some(&quiet)));
        (0..100).for_each(|_| bus.emit(|| added(Some(&noisy))));
        bus.emit(|| added(None));
        for tenant in [Some(&quiet), None] {
            let event = own.next().await.unwrap();
            assert_eq!((event.body.name(), event.body.tenant()), ("tool_removed", tenant));
        }
        assert_eq!(all.next().await.unwrap().body.name(), "missed");
        drop((own, all));
        assert!(!bus.is_heard());
        for tenant in 0..200 {
            bus.subscribe_of(&TenantId::new(tenant.to_string()));
        }
        assert!(bus.state.lock().tenants.len() <= IDLE);
    }

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
