//! Sessions of the session-based protocol: limited, and bound to the key that began
//! them.
//!
//! A session uses memory and tasks until it is idle for too long, and any key could
//! begin sessions without end. So they are kept in [`FairShares`] by key and tenant.
//! `rmcp` asks its session manager about a session by its id alone; [`OwnSessions`] is
//! made for one request and knows the caller, so that the session of another caller
//! is not found.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use parking_lot::Mutex;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, SessionConfig,
};
use rmcp::transport::streamable_http_server::session::{
    ServerSseMessage, SessionId, SessionManager,
};
use windlass::TenantId;

use super::client::ServedTools;
use super::shares::{FairShares, ShareBounds, ShareOwner};
use crate::state::identity::Identity;

/// How long a session may be silent.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// Default limit of sessions.
pub(crate) const MAX_SESSIONS: usize = 10_000;

/// All sessions.
pub(crate) struct Sessions {
    all: LocalSessionManager,
    /// Whose they are, and at which address.
    shares: Mutex<FairShares<ServedTools>>,
}

impl Sessions {
    pub(crate) fn new(max_sessions: usize) -> Arc<Self> {
        let mut config = SessionConfig::default();
        config.keep_alive = Some(IDLE);
        let mut all = LocalSessionManager::default();
        all.session_config = config;
        Arc::new(Self { all, shares: Mutex::new(FairShares::new(ShareBounds::of(max_sessions))) })
    }

    /// Whether a session was begun by this owner at this address.
    pub(super) fn has(&self, owner: &ShareOwner, view: &ServedTools, id: &str) -> bool {
        self.shares.lock().touch(owner, id).is_some_and(|at| at == view)
    }

    /// How many sessions a tenant and its key have, each with the most that they may
    /// have.
    pub(crate) fn counts(&self, who: &Identity) -> [(usize, usize); 2] {
        let owner = ShareOwner { tenant: who.tenant.clone(), key: Arc::clone(&who.key_id) };
        self.shares.lock().counts(&owner)
    }

    /// Ends the sessions of a tenant at the address of a provider that is gone.
    pub(super) fn end_view(self: &Arc<Self>, tenant: &TenantId, view: &ServedTools) {
        let ended = self.shares.lock().take_if(Some(tenant), |at| at == view);
        ended.into_iter().for_each(|(id, _)| self.end(id));
    }

    /// Does not wait for the end of a session: its worker may be busy.
    fn end(self: &Arc<Self>, id: String) {
        let sessions = Arc::clone(self);
        tokio::spawn(async move { sessions.all.close_session(&id.into()).await });
    }
}

/// The sessions, for one request.
pub(super) struct OwnSessions {
    pub(super) sessions: Arc<Sessions>,
    pub(super) owner: ShareOwner,
    pub(super) view: ServedTools,
    refused: AtomicBool,
}

impl OwnSessions {
    pub(super) fn new(sessions: &Arc<Sessions>, owner: ShareOwner, view: ServedTools) -> Arc<Self> {
        let (sessions, refused) = (Arc::clone(sessions), AtomicBool::new(false));
        Arc::new(Self { sessions, owner, view, refused })
    }

    /// Whether the request was to begin a session for which there is no room.
    pub(super) fn refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Keeps a session from being idle for as long as a stream of it is read.
    fn in_use(&self, id: &SessionId) -> Result<InUse, LocalSessionManagerError> {
        let not_there = || LocalSessionManagerError::SessionNotFound(id.clone());
        self.has(id).then_some(()).ok_or_else(not_there)?;
        let begun = self.sessions.shares.lock().begin_use(&self.owner, id);
        begun.then_some(()).ok_or_else(not_there)?;
        let (sessions, owner) = (Arc::clone(&self.sessions), self.owner.clone());
        Ok(InUse { sessions, owner, id: id.clone() })
    }

    fn has(&self, id: &SessionId) -> bool {
        self.sessions.has(&self.owner, &self.view, id)
    }
}

/// A session that is used by a request.
struct InUse {
    sessions: Arc<Sessions>,
    owner: ShareOwner,
    id: SessionId,
}

impl InUse {
    fn with<S: Stream>(self, stream: S) -> impl Stream<Item = S::Item> {
        stream.map(move |item| {
            let _ = &self;
            item
        })
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.sessions.shares.lock().end_use(&self.owner, &self.id);
    }
}

impl SessionManager for OwnSessions {
    type Error = LocalSessionManagerError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let (id, transport) = self.sessions.all.create_session().await?;
        // No await in between: a client that disconnects cannot leave the count wrong.
        let inserted =
            self.sessions.shares.lock().insert(&self.owner, id.to_string(), self.view.clone());
        match inserted {
            Ok(evicted) => {
                evicted.into_iter().for_each(|(id, _)| self.sessions.end(id));
                Ok((id, transport))
            }
            Err(_full) => {
                self.refused.store(true, Ordering::Relaxed);
                self.sessions.end(id.to_string());
                Err(LocalSessionManagerError::SessionNotFound(id))
            }
        }
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        let _in_use = self.in_use(id)?;
        self.sessions.all.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        Ok(self.has(id) && self.sessions.all.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        if self.sessions.shares.lock().remove(&self.owner, id).is_none() {
            return Ok(());
        }
        self.sessions.all.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let in_use = self.in_use(id)?;
        Ok(in_use.with(self.sessions.all.create_stream(id, message).await?))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Self::Error> {
        let _in_use = self.in_use(id)?;
        self.sessions.all.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let in_use = self.in_use(id)?;
        Ok(in_use.with(self.sessions.all.create_standalone_stream(id).await?))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let in_use = self.in_use(id)?;
        Ok(in_use.with(self.sessions.all.resume(id, last_event_id).await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sessions_that_are_begun_and_left_are_counted_and_really_end() {
        let sessions = Sessions::new(20);
        let owner = ShareOwner { tenant: TenantId::default(), key: "k".into() };
        for _ in 0..50 {
            let own = OwnSessions::new(&sessions, owner.clone(), ServedTools::All);
            let created = Box::pin(own.create_session());
            // Whoever hangs up may do so at any moment.
            let _ = tokio::time::timeout(Duration::ZERO, created).await;
        }
        for _ in 0..1_000 {
            if sessions.all.sessions.read().await.len() <= 2 {
                break;
            }
            tokio::task::yield_now().await;
        }
        assert_eq!(sessions.all.sessions.read().await.len(), 2);
        let other = OwnSessions::new(&sessions, owner, ServedTools::Provider("p".to_owned()));
        for id in sessions.all.sessions.read().await.keys() {
            assert!(!other.has_session(id).await.unwrap(), "it is of another address");
        }
    }
}
