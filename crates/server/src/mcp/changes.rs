//! List-changed and resource-updated notifications for clients.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::select_all;
use rmcp::RoleServer;
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::{Peer, SubscriptionSink};
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep, sleep_until};
use windlass::{EventBody, EventSubject, TenantId};
use windlass_executors::mcp::News;

use super::client::ServedTools;
use super::service::{ClientSession, McpState};

/// Debounces changes that follow each other closely.
const SETTLE: Duration = Duration::from_millis(20);

/// What has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ChangedLists {
    tools: bool,
    prompts: bool,
    resources: bool,
}

/// Notifies a client for the lifetime of its session.
pub(super) async fn tell_session(
    shared: Arc<McpState>,
    view: ServedTools,
    tenant: TenantId,
    peer: Peer<RoleServer>,
    session: Weak<ClientSession>,
) {
    let mut watch = ChangeWatcher::new(&shared, &view, tenant);
    while !peer.is_transport_closed() {
        let told = tokio::select! {
            change = watch.next() => change,
            // Sessions end without a notification, so they are polled.
            () = sleep(Duration::from_secs(30)) => continue,
        };
        let sent = match told {
            ChangeNotice::Lists(changed) => {
                let mut sent = Ok(());
                if changed.tools {
                    sent = sent.and(peer.notify_tool_list_changed().await);
                }
                if changed.prompts {
                    sent = sent.and(peer.notify_prompt_list_changed().await);
                }
                if changed.resources {
                    sent = sent.and(peer.notify_resource_list_changed().await);
                }
                sent
            }
            ChangeNotice::Resource(uri) if is_subscribed(&session, &uri) => {
                let told = ResourceUpdatedNotificationParam::new(uri.to_string());
                peer.notify_resource_updated(told).await
            }
            ChangeNotice::Resource(_) => Ok(()),
        };
        if sent.is_err() {
            return;
        }
    }
}

fn is_subscribed(session: &Weak<ClientSession>, uri: &str) -> bool {
    session.upgrade().is_some_and(|session| session.is_subscribed(uri))
}

/// Tells a client of the stateless protocol what it asked to hear.
pub(super) async fn tell_listener(mut watch: ChangeWatcher, sink: &SubscriptionSink) {
    loop {
        // The sink filters by the client's subscriptions.
        let sent = match watch.next().await {
            ChangeNotice::Lists(changed) => {
                let mut sent = Ok(());
                if changed.tools && sink.accepted().tools_list_changed == Some(true) {
                    sent = sent.and(sink.notify_tool_list_changed().await);
                }
                if changed.prompts && sink.accepted().prompts_list_changed == Some(true) {
                    sent = sent.and(sink.notify_prompt_list_changed().await);
                }
                if changed.resources && sink.accepted().resources_list_changed == Some(true) {
                    sent = sent.and(sink.notify_resource_list_changed().await);
                }
                sent
            }
            ChangeNotice::Resource(uri) => {
                let wanted = sink.accepted().resource_subscriptions.as_ref();
                if !wanted.is_some_and(|wanted| wanted.iter().any(|wanted| **wanted == *uri)) {
                    continue;
                }
                sink.notify_resource_updated(uri.to_string()).await
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

enum ChangeNotice {
    Lists(ChangedLists),
    Resource(Arc<str>),
}

/// Watches for changes that a tenant can see.
pub(super) struct ChangeWatcher {
    tenant: TenantId,
    events: windlass::Subscription,
    library: tokio::sync::watch::Receiver<u64>,
    news: Vec<broadcast::Receiver<News>>,
}

impl ChangeWatcher {
    pub(super) fn new(shared: &McpState, view: &ServedTools, tenant: TenantId) -> Self {
        let servers = match (view, &shared.servers) {
            (ServedTools::Provider(name), Some(servers)) => {
                servers.get_for(&tenant, name).into_iter().collect()
            }
            (ServedTools::All, Some(servers)) => servers.list_for(&tenant),
            (_, None) => Vec::new(),
        };
        let news = servers.iter().map(|server| server.news()).collect();
        let (events, library) = (shared.engine.events(), shared.engine.library().changes());
        Self { tenant, events, library, news }
    }

    async fn next(&mut self) -> ChangeNotice {
        let mut changed = ChangedLists::default();
        let mut settled = None;
        loop {
            if settled.is_none() && changed != ChangedLists::default() {
                settled = Some(Instant::now() + SETTLE);
            }
            tokio::select! {
                event = self.events.next() => match event {
                    Some(event) => changed.tools |= is_about_tools(&event.body, &self.tenant),
                    None => std::future::pending().await,
                },
                Ok(()) = self.library.changed() => {
                    (changed.prompts, changed.resources) = (true, true);
                }
                Some(news) = heard(&mut self.news) => match news {
                    News::Prompts => changed.prompts = true,
                    News::Resources => changed.resources = true,
                    News::Updated(uri) => return ChangeNotice::Resource(uri),
                    // They come with the engine's own events.
                    News::Tools => {}
                },
                () = sleep_until(settled.unwrap_or_else(Instant::now)), if settled.is_some() => {
                    return ChangeNotice::Lists(changed);
                }
            }
        }
    }
}

/// What one of the servers says next.
async fn heard(news: &mut Vec<broadcast::Receiver<News>>) -> Option<News> {
    use broadcast::error::RecvError;
    if news.is_empty() {
        return std::future::pending().await;
    }
    let all = news.iter_mut().map(|receiver| Box::pin(receiver.recv()));
    let (heard, at, _) = select_all(all).await;
    match heard {
        Ok(news) => Some(news),
        Err(RecvError::Lagged(_)) => Some(News::Resources),
        Err(RecvError::Closed) => {
            news.swap_remove(at);
            None
        }
    }
}

fn is_about_tools(body: &EventBody, tenant: &TenantId) -> bool {
    match body.subject() {
        EventSubject::Tools(owner) => owner.is_none_or(|owner| owner == tenant),
        EventSubject::Missed(_) => true,
        EventSubject::QueuedCall(..)
        | EventSubject::Call(_)
        | EventSubject::Progress(..)
        | EventSubject::EndedCall(_)
        | EventSubject::EndedBatch(..)
        | EventSubject::Definitions(_) => false,
    }
}
