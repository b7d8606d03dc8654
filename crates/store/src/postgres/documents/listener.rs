//! Receives notifications of other servers' changes, and deletes what is too old.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tokio_postgres::Client;
use windlass::Error;

use super::super::connect::Target;
use super::super::options::PostgresOptions;
use super::fault::{Fault, no_answer};
use super::note::Own;
use super::{events, keep, note, schema};
use crate::documents::{EventCount, News};

/// Interval of checks on the connection, and of reconnect attempts.
const BEAT: Duration = Duration::from_secs(1);

const WHAT: &str = "listen for changes";

pub(super) struct Listener {
    target: Target,
    options: PostgresOptions,
    own: Arc<Own>,
    news: Arc<News>,
    /// `None` during an outage.
    client: Option<Client>,
    event_count: EventCount,
}

impl Listener {
    /// Connects, migrates the database, and starts listening.
    pub(super) async fn start(
        target: Target,
        options: PostgresOptions,
        own: Arc<Own>,
        news: Arc<News>,
    ) -> Result<Self, Error> {
        let event_count = EventCount::default();
        let mut this = Self { target, options, own, news, client: None, event_count };
        let end = this.listen().await;
        end.map_err(|fault| fault.at(&this.target.place, "open the documents"))?;
        Ok(this)
    }

    pub(super) async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        loop {
            tokio::select! {
                _ = &mut stopped => return,
                () = sleep(BEAT) => {}
            }
            tokio::select! {
                _ = &mut stopped => return,
                () = self.beat() => {}
            }
        }
    }

    /// Checks the connection, and replaces a broken one.
    async fn beat(&mut self) {
        let patience = self.options.statement_timeout + Duration::from_secs(1);
        let was_away = self.client.is_none();
        let place = Arc::clone(&self.target.place);
        let end = timeout(patience, self.try_beat()).await;
        match end.unwrap_or_else(|_| Err(no_answer(&place, WHAT, patience).into())) {
            Ok(()) if was_away => tracing::info!(database = %place, "changes are heard again"),
            Ok(()) => {}
            Err(fault) => {
                self.client = None;
                if !was_away {
                    let error = fault.at(&place, WHAT);
                    tracing::warn!(%error, "changes of other servers are not heard for now");
                }
            }
        }
    }

    async fn try_beat(&mut self) -> Result<(), Fault> {
        if self.client.as_ref().is_none_or(Client::is_closed) {
            self.listen().await?;
            // Notifications sent in between are lost.
            self.own.forget();
            self.news.missed();
        }
        let Some(client) = &self.client else { return Ok(()) };
        let (_, newest) = events::range(client).await?;
        self.news.events_until(newest);
        while keep::sweep(client).await? > 0 {}
        let keep = self.options.keep_events;
        while self.event_count.may_exceed(keep, newest) {
            let surplus = self.event_count.counted(events::counts(client).await?, keep, newest);
            if surplus.is_empty() {
                break;
            }
            events::forget(client, &surplus).await?;
        }
        Ok(())
    }

    /// Listens first and then queries, so that nothing is missed in between.
    async fn listen(&mut self) -> Result<(), Fault> {
        let (news, own) = (Arc::clone(&self.news), Arc::clone(&self.own));
        let hear = move |heard: tokio_postgres::Notification| {
            note::hear(&news, &own, heard.channel(), heard.payload());
        };
        let mut client = self.target.listener(hear).await?;
        schema::migrate(&mut client, &self.target.place).await?;
        let channels = format!("LISTEN {}; LISTEN {}", note::CHANGES, note::EVENTS);
        client.batch_execute(&channels).await?;
        let (_, newest) = events::range(&client).await?;
        self.news.events_until(newest);
        self.client = Some(client);
        Ok(())
    }
}
