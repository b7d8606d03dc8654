//! Ends long-lived responses, such as event streams, when the key that authorized
//! them is revoked or expires.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_util::{StreamExt, stream};
use tokio::time::{Interval, MissedTickBehavior, interval};
use windlass::{Error, Secret};

use crate::http::app::App;

/// How often it is looked whether a key still works.
const LOOK: Duration = Duration::from_secs(5);
/// The last event of a stream whose key does not.
const LAST: &str = "event: end\ndata: {\"reason\":\"the key was revoked or has expired\"}\n\n";

/// The key or token that a response depends on.
pub(crate) enum PresentedKey {
    /// A key of ours. Its reader hears why a stream ends.
    Key(Secret),
    /// What `/mcp` takes: a key, or a token of an authorization server. A stream
    /// of the protocol just ends: it has no event for this.
    Bearer(Secret),
}

impl PresentedKey {
    /// Whether it is still valid.
    async fn works(&self, app: &App) -> Result<bool, Error> {
        match (self, &app.bearers) {
            (Self::Bearer(token), Some(bearers)) if is_token(token.expose()) => {
                Ok(bearers.verify(token.expose()).await?.is_some())
            }
            (Self::Key(key) | Self::Bearer(key), _) => {
                Ok(app.keys.verify(key.expose()).await?.is_some())
            }
        }
    }

    fn last(&self) -> Option<Bytes> {
        match self {
            Self::Key(_) => Some(Bytes::from_static(LAST.as_bytes())),
            Self::Bearer(_) => None,
        }
    }
}

/// A token has three parts; a key has one.
pub(crate) fn is_token(text: &str) -> bool {
    text.matches('.').count() == 2
}

/// Whether an answer may go on for long.
pub(crate) fn is_stream(response: &Response) -> bool {
    let media = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    media.is_some_and(|media| media.starts_with(b"text/event-stream"))
}

/// The same answer, until what was shown for it stops working.
pub(crate) fn until_lapsed(response: Response, app: &Arc<App>, shown: PresentedKey) -> Response {
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick fires immediately.
    ticks.reset();
    let app = Arc::clone(app);
    response.map(|body| {
        let watched = GuardedStream { body: body.into_data_stream(), ticks, app, shown };
        Body::from_stream(stream::unfold(Some(watched), next))
    })
}

/// A stream, and what it depends on.
struct GuardedStream {
    body: axum::body::BodyDataStream,
    ticks: Interval,
    app: Arc<App>,
    shown: PresentedKey,
}

async fn next(
    watched: Option<GuardedStream>,
) -> Option<(Result<Bytes, axum::Error>, Option<GuardedStream>)> {
    let mut watched = watched?;
    loop {
        tokio::select! {
            part = watched.body.next() => return Some((part?, Some(watched))),
            _ = watched.ticks.tick() => match watched.shown.works(&watched.app).await {
                Ok(true) => {}
                Ok(false) => return Some((Ok(watched.shown.last()?), None)),
                // Fail open: a short outage of the database closes no streams.
                Err(error) => tracing::debug!(%error, "a key could not be looked at"),
            },
        }
    }
}
