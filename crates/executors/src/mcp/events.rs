//! Server-sent events of an HTTP response, each of which is a JSON-RPC message.

use std::collections::VecDeque;

use futures_util::stream::{self, BoxStream, StreamExt};
use rmcp::model::RequestId;
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::Sse;
use windlass::{Error, ErrorKind, SseFields, SseReader};

use super::http::{Veils, is_same};
use super::message;
use crate::outbound::Answer;

pub(super) type Events = BoxStream<'static, Result<Sse, SseError>>;

/// The events of a stream, each of a bounded size. On the response stream of a request,
/// an unreadable message is replaced by an error response: `rmcp` skips what it cannot
/// read, and the request would wait until the stream ends.
pub(super) fn events(
    answer: Answer,
    max_event: usize,
    asked: Option<RequestId>,
    veils: Veils,
) -> Events {
    let (reader, ready) = (SseReader::new(max_event), VecDeque::new());
    let reading = Reading { answer, reader, ready, max_event, asked, veils };
    stream::unfold(Some(reading), |reading| async move {
        let mut reading = reading?;
        match reading.next().await {
            Ok(Some(event)) => Some((Ok(reading.checked(event)), Some(reading))),
            Ok(None) => None,
            Err(Broken::TooLong) => {
                let why = format!("it has more than {} bytes", reading.max_event);
                let event = match &reading.asked {
                    Some(id) => Ok(instead(id.clone(), why)),
                    None => {
                        let error = Error::new(ErrorKind::UpstreamRejected, why);
                        Err(SseError::Body(Box::new(error)))
                    }
                };
                Some((event, None))
            }
            Err(Broken::Lost(error)) => Some((Err(SseError::Body(Box::new(error))), None)),
        }
    })
    .boxed()
}

/// An event with an error response in place of the unreadable one.
fn instead(id: RequestId, why: String) -> Sse {
    let message = serde_json::to_string(&message::instead(id, why));
    Sse { data: message.ok(), ..Sse::default() }
}

struct Reading {
    answer: Answer,
    reader: SseReader,
    /// Parsed events that were not polled yet.
    ready: VecDeque<SseFields>,
    max_event: usize,
    /// The request to which this stream is the response.
    asked: Option<RequestId>,
    veils: Veils,
}

/// Why the stream ended early.
enum Broken {
    TooLong,
    Lost(Error),
}

impl Reading {
    async fn next(&mut self) -> Result<Option<Sse>, Broken> {
        loop {
            if let Some(SseFields { event, data, id, retry }) = self.ready.pop_front() {
                return Ok(Some(Sse { event, data, id, retry }));
            }
            if self.reader.is_too_long() {
                return Err(Broken::TooLong);
            }
            match self.answer.chunk().await.map_err(Broken::Lost)? {
                Some(part) => self.ready.extend(self.reader.feed(&part)),
                None => return Ok(None),
            }
        }
    }

    /// The event, or its replacement if it is a response that cannot be read.
    fn checked(&self, mut event: Sse) -> Sse {
        let data = event.data.as_deref().unwrap_or_default();
        if let Some(hidden) = self.veils.over_json(data.as_bytes()) {
            event.data = Some(String::from_utf8_lossy(&hidden).into_owned());
        }
        let is_message = matches!(event.event.as_deref(), None | Some("" | "message"));
        let (Some(data), Some(asked), true) = (&event.data, &self.asked, is_message) else {
            return event;
        };
        let wrong = match message::check(data.as_bytes(), self.max_event) {
            Ok(outline) if outline.has_method => return event,
            Ok(outline) => match outline.id {
                Some(id) if !is_same(asked, &id) => "it is for another request".to_owned(),
                Some(_) if !outline.is_rpc => "it does not say `jsonrpc`".to_owned(),
                _ => return event,
            },
            Err(unreadable) if unreadable.id.is_none() => return event,
            Err(unreadable) => unreadable.why,
        };
        Sse { id: event.id, ..instead(asked.clone(), wrong) }
    }
}
