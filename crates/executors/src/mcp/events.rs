//! Server-sent events of an HTTP response, each of which is a JSON-RPC message.

use bytes::BytesMut;
use futures_util::stream::{self, BoxStream, StreamExt};
use rmcp::model::RequestId;
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::Sse;
use windlass::{Error, ErrorKind};

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
    let reading = Reading { answer, buffer: BytesMut::new(), searched: 0, max_event, asked, veils };
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
    buffer: BytesMut,
    /// How much of the buffer has been searched for a line end already.
    searched: usize,
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
        let mut event = Sse::default();
        let mut size = 0;
        loop {
            while let Some(line) = self.next_line() {
                size += line.len();
                let line = String::from_utf8_lossy(&line);
                let line = line.trim_end_matches(['\r', '\n']);
                if line.is_empty() {
                    if event != Sse::default() {
                        return Ok(Some(event));
                    }
                    size = 0;
                } else {
                    take_field(&mut event, line);
                }
            }
            if size + self.buffer.len() > self.max_event {
                return Err(Broken::TooLong);
            }
            match self.answer.chunk().await.map_err(Broken::Lost)? {
                Some(part) => self.buffer.extend_from_slice(&part),
                None => return Ok(None),
            }
        }
    }

    /// The next line in the buffer, with its line end. Resumes the search where it
    /// stopped: a large event arrives in thousands of chunks.
    fn next_line(&mut self) -> Option<BytesMut> {
        let new = self.buffer.get(self.searched..).unwrap_or_default();
        match new.iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                let line = self.buffer.split_to(self.searched + end + 1);
                self.searched = 0;
                Some(line)
            }
            None => {
                self.searched = self.buffer.len();
                None
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

/// Adds one line to an event.
fn take_field(event: &mut Sse, line: &str) {
    let (name, value) = line.split_once(':').unwrap_or((line, ""));
    let value = value.strip_prefix(' ').unwrap_or(value);
    match name {
        "data" => match &mut event.data {
            Some(data) => {
                data.push('\n');
                data.push_str(value);
            }
            None => event.data = Some(value.to_owned()),
        },
        "event" => event.event = Some(value.to_owned()),
        "id" => event.id = Some(value.to_owned()),
        "retry" => event.retry = value.parse().ok(),
        // A comment, or a field that is unknown here.
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read() {
        let mut event = Sse::default();
        for line in [": ping", "event: message", "data: {\"a\":1,", "data:\"b\":2}", "id: 7", "x"] {
            take_field(&mut event, line);
        }
        assert_eq!(event.data.as_deref(), Some("{\"a\":1,\n\"b\":2}"));
        assert_eq!((event.id.as_deref(), event.retry), (Some("7"), None));
    }
}
