//! Transport wrapper that delivers notifications in order: messages about a request reach
//! its caller before the response does, in the order in which the server sent them.
//!
//! `rmcp` handles each notification in a task of its own, so a call's last progress could
//! arrive after its result, and nothing ties a request to its caller before it is sent.
//! Both are done here, inside the transport.

use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ErrorCode, GetExtensions, GetMeta, JsonRpcMessage, ServerJsonRpcMessage,
    ServerNotification,
};
use rmcp::transport::Transport;
use tokio::sync::broadcast;

use super::in_flight::{InFlightRequest, InFlightRequests};
use super::server::News;

pub(super) struct Tap<T> {
    pub(super) inner: T,
    pub(super) server: Arc<str>,
    pub(super) in_flight: Arc<InFlightRequests>,
    pub(super) news: broadcast::Sender<News>,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Tap<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(request) = &item {
            let flight = request.request.extensions().get::<Arc<InFlightRequest>>().cloned();
            let token = request.request.get_meta().get_progress_token();
            self.in_flight.begin(request.id.clone(), token, flight);
        }
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let mut message = self.inner.receive().await?;
            if let JsonRpcMessage::Error(error) = &mut message
                && error.id.is_none()
                && is_about_a_request(error.error.code)
            {
                error.id = self.in_flight.only_sent();
            }
            match &message {
                JsonRpcMessage::Response(response) => self.in_flight.end(&response.id),
                JsonRpcMessage::Error(error) => {
                    error.id.iter().for_each(|id| self.in_flight.end(id));
                }
                JsonRpcMessage::Notification(told) if self.heeds(&told.notification) => continue,
                _ => {}
            }
            return Some(message);
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

/// Whether an error is about a request whose id the server could not read.
fn is_about_a_request(code: ErrorCode) -> bool {
    code == ErrorCode::PARSE_ERROR || code == ErrorCode::INVALID_REQUEST
}

impl<T> Tap<T> {
    /// Handles a notification; `false` if it is left to `rmcp`.
    fn heeds(&self, told: &ServerNotification) -> bool {
        let news = match told {
            ServerNotification::ProgressNotification(told) => {
                self.in_flight.progress(&told.params);
                return true;
            }
            ServerNotification::LoggingMessageNotification(told) => {
                self.in_flight.log(&self.server, &told.params);
                return true;
            }
            ServerNotification::ToolListChangedNotification(_) => News::Tools,
            ServerNotification::PromptListChangedNotification(_) => News::Prompts,
            ServerNotification::ResourceListChangedNotification(_) => News::Resources,
            ServerNotification::ResourceUpdatedNotification(told) => {
                News::Updated(told.params.uri.as_str().into())
            }
            _ => return false,
        };
        // There may be no receiver.
        let _ = self.news.send(news);
        true
    }
}
