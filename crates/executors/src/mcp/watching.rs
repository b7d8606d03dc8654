//! Resource subscriptions, shared between subscribers.
//!
//! Many may subscribe to the same resource, but the server has a single connection: it is
//! told of the first subscriber and of the last unsubscribe only.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;
use windlass::Error;

use super::connection::Connection;
use super::handshake::Era;
use super::server::{Link, Server};

/// Number of subscribers of each resource.
#[derive(Default)]
pub(super) struct Watched(Mutex<BTreeMap<String, usize>>);

impl Watched {
    /// All subscribed resources.
    pub(super) fn all(&self) -> Vec<String> {
        self.0.lock().keys().cloned().collect()
    }

    fn has(&self, uri: &str) -> bool {
        self.0.lock().contains_key(uri)
    }

    /// Adds a subscriber; returns whether it is the first.
    fn add(&self, uri: &str) -> bool {
        let mut watched = self.0.lock();
        let count = watched.entry(uri.to_owned()).or_default();
        *count += 1;
        *count == 1
    }

    /// Removes a subscriber; returns whether it was the last.
    fn remove(&self, uri: &str) -> bool {
        let mut watched = self.0.lock();
        match watched.get_mut(uri) {
            Some(count) if *count > 1 => {
                *count -= 1;
                false
            }
            Some(_) => watched.remove(uri).is_some(),
            None => false,
        }
    }
}

/// A subscription to a resource; ends when dropped.
pub struct Watching {
    server: Arc<Server>,
    uri: String,
}

impl Watching {
    pub(super) async fn begin(server: &Arc<Server>, uri: &str) -> Result<Self, Error> {
        let connection = server.connection().await?;
        let is_first = server.watched.add(uri);
        let watching = Self { server: Arc::clone(server), uri: uri.to_owned() };
        if is_first {
            subscribe(&connection, "resources/subscribe", uri).await?;
            server.watching.notify_one();
        }
        Ok(watching)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        if !self.server.watched.remove(&self.uri) {
            return;
        }
        self.server.watching.notify_one();
        // A server that is not running has forgotten its subscriptions anyway.
        let Link::Up(connection) = self.server.link.borrow().clone() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (server, uri) = (Arc::clone(&self.server), std::mem::take(&mut self.uri));
        runtime.spawn(async move {
            let _ = subscribe(&connection, "resources/unsubscribe", &uri).await;
            // Somebody may have subscribed again meanwhile.
            if server.watched.has(&uri) {
                let _ = subscribe(&connection, "resources/subscribe", &uri).await;
            }
        });
    }
}

/// Sends a subscription to a legacy server. A stateless one gets it with the next request
/// for notifications.
async fn subscribe(connection: &Connection, method: &str, uri: &str) -> Result<(), Error> {
    if connection.era() == Era::Legacy {
        connection.ask(method, &json!({"uri": uri})).await?;
    }
    Ok(())
}
