//! Server-sent events, read out of bytes as they arrive, cut anywhere.
//!
//! [`SseReader`] is the reader of every stream that there is; [`SseDecoder`] reads
//! those of model APIs, whose events are JSON.

use serde_json::Value;

/// The longest event of a model's API; it is held in memory until it is whole.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// The fields of one event. A field that did not come is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseFields {
    /// What kind of event it is.
    pub event: Option<String>,
    /// Its data; several lines are one text.
    pub data: Option<String>,
    /// Its id, after which a reader may go on later.
    pub id: Option<String>,
    /// How long a reader should wait before it comes back, in milliseconds.
    pub retry: Option<u64>,
}

/// Reads server-sent events: what has come and is not a whole event yet.
#[derive(Debug)]
pub struct SseReader {
    max_bytes: usize,
    line: Vec<u8>,
    fields: SseFields,
    /// How many bytes the lines of the event had by now.
    taken: usize,
    /// Whether the last byte was a carriage return, whose line feed may follow.
    after_return: bool,
    began: bool,
    is_too_long: bool,
}

impl SseReader {
    /// A reader of events of at most so many bytes.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            line: Vec::new(),
            fields: SseFields::default(),
            taken: 0,
            after_return: false,
            began: false,
            is_too_long: false,
        }
    }

    /// Takes bytes in; hands the events out that are whole now.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<SseFields> {
        let (mut whole, mut rest) = (Vec::new(), bytes);
        while !self.is_too_long && !rest.is_empty() {
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (part, end) = rest.split_at(end.unwrap_or(rest.len()));
            if !part.is_empty() {
                self.after_return = false;
                self.line.extend_from_slice(part);
            }
            self.is_too_long = self.taken + self.line.len() > self.max_bytes;
            let Some((&end, rest_of_it)) = end.split_first() else { break };
            rest = rest_of_it;
            let after_return = std::mem::replace(&mut self.after_return, end == b'\r');
            let is_second_half = after_return && end == b'\n';
            if !self.is_too_long && !is_second_half {
                whole.extend(self.end_line());
            }
        }
        whole
    }

    /// Whether an event had too many bytes. Nothing is read after it.
    pub fn is_too_long(&self) -> bool {
        self.is_too_long
    }

    /// The stream has ended: the event that no empty line has ended, for protocols
    /// in which it counts.
    pub fn end(&mut self) -> Option<SseFields> {
        if self.is_too_long {
            return None;
        }
        self.end_line().or_else(|| self.end_event())
    }

    /// Takes a line; an empty one ends the event.
    fn end_line(&mut self) -> Option<SseFields> {
        let line = std::mem::take(&mut self.line);
        self.taken += line.len();
        let line = String::from_utf8_lossy(&line);
        let line = match std::mem::replace(&mut self.began, true) {
            false => line.strip_prefix('\u{feff}').unwrap_or(&line),
            true => &line,
        };
        if line.is_empty() {
            return self.end_event();
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => match &mut self.fields.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                none => *none = Some(value.to_owned()),
            },
            "event" => self.fields.event = Some(value.to_owned()),
            "id" => self.fields.id = Some(value.to_owned()),
            "retry" => self.fields.retry = value.parse().ok(),
            // A comment, or a field that readers are to pass over.
            _ => {}
        }
        None
    }

    fn end_event(&mut self) -> Option<SseFields> {
        self.taken = 0;
        Some(std::mem::take(&mut self.fields)).filter(|fields| *fields != SseFields::default())
    }
}

/// Reads the server-sent events of a model's API: what has come and is not a
/// whole event yet.
#[derive(Debug)]
pub struct SseDecoder {
    reader: SseReader,
    /// Nothing is read after something that cannot be.
    is_broken: bool,
}

/// The data of an event.
#[derive(Debug, PartialEq)]
pub enum SseEvent {
    /// What nearly all are.
    Json(Value),
    /// `[DONE]`, by which OpenAI ends a stream.
    Done,
    /// The stream cannot be read further, and why. It is the last event.
    Broken(String),
}

impl Default for SseDecoder {
    fn default() -> Self {
        Self { reader: SseReader::new(MAX_BYTES), is_broken: false }
    }
}

impl SseDecoder {
    /// Takes bytes in; hands the events out that are whole now.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<SseEvent> {
        if self.is_broken {
            return Vec::new();
        }
        let whole = self.reader.feed(bytes);
        let mut told = self.decode(whole);
        if self.reader.is_too_long() && !self.is_broken {
            told.push(self.broken(format!("an event of the stream is over {MAX_BYTES} bytes")));
        }
        told
    }

    /// The stream has ended. An event that nothing follows counts, too.
    pub fn end(&mut self) -> Vec<SseEvent> {
        match self.is_broken {
            true => Vec::new(),
            false => {
                let last = self.reader.end();
                self.decode(last)
            }
        }
    }

    fn decode(&mut self, whole: impl IntoIterator<Item = SseFields>) -> Vec<SseEvent> {
        let mut told = Vec::new();
        for fields in whole {
            let data = fields.data.unwrap_or_default();
            told.push(match data.trim() {
                "" => continue,
                "[DONE]" => SseEvent::Done,
                data => match super::lenient_json(data) {
                    Ok(event) => SseEvent::Json(event),
                    Err(why) => self.broken(format!("an event of the stream is not JSON: {why}")),
                },
            });
            if self.is_broken {
                break;
            }
        }
        told
    }

    fn broken(&mut self, why: String) -> SseEvent {
        self.is_broken = true;
        SseEvent::Broken(why)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const STREAM: &str = "\u{feff}: hello\r\nevent: a\r\ndata: {\"x\":\r\ndata: \"é\"}\r\n\r\n\
                          data:{\"y\":2}\n\nid: 7\nretry: 1\ndata\n\ndataset: 1\n\rdata: [DONE]\n\n";

    fn all(pieces: &[&[u8]]) -> Vec<SseEvent> {
        let mut decoder = SseDecoder::default();
        let mut told = Vec::new();
        for piece in pieces {
            told.extend(decoder.feed(piece));
        }
        told.extend(decoder.end());
        told
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(mut cuts in prop::collection::vec(0..STREAM.len(), 0..8)) {
            cuts.sort_unstable();
            cuts.push(STREAM.len());
            let mut from = 0;
            let pieces: Vec<&[u8]> = cuts.iter().map(|&cut| {
                let piece = &STREAM.as_bytes()[from..cut];
                from = cut;
                piece
            }).collect();
            let wanted =
                vec![SseEvent::Json(json!({"x": "é"})), SseEvent::Json(json!({"y": 2})), SseEvent::Done];
            prop_assert_eq!(all(&pieces), wanted);
        }
    }

    #[test]
    fn all_fields_are_read() {
        let mut reader = SseReader::new(100);
        let text = ": ping\n\nid: 1\n\nevent: message\ndata: {\"a\":1,\ndata:\"b\":2}\n\
                    retry: 5\nx\n\ndata: last";
        let whole = reader.feed(text.as_bytes());
        let text = |text: &str| Some(text.to_owned());
        let first = SseFields { id: text("1"), ..SseFields::default() };
        let second = SseFields {
            event: text("message"),
            data: text("{\"a\":1,\n\"b\":2}"),
            id: None,
            retry: Some(5),
        };
        assert_eq!(whole, [first, second]);
        assert_eq!(reader.end().and_then(|last| last.data), text("last"));
    }

    #[test]
    fn only_an_event_that_is_too_long_ends_the_stream() {
        let mut reader = SseReader::new(20);
        for _ in 0..10 {
            assert_eq!(reader.feed(b"data: 0123456789\n\n").len(), 1);
        }
        assert_eq!(reader.feed(b"data: 1\n\ndata: 0123456789\ndata: 01234").len(), 1);
        assert!(reader.is_too_long());
        assert!(reader.feed(b"\n\ndata: 2\n\n").is_empty() && reader.end().is_none());
    }

    #[test]
    fn the_last_event_needs_no_empty_line() {
        assert_eq!(all(&[b"data: {}"]), [SseEvent::Json(json!({}))]);
    }

    #[test]
    fn nonsense_ends_the_stream_after_what_came_before_it() {
        let told = all(&[b"data: {}\n\ndata: {oh\n\ndata: {}\n\n", b"data: {}\n\n"]);
        let [SseEvent::Json(_), SseEvent::Broken(why)] = told.as_slice() else {
            panic!("{told:?}")
        };
        assert!(why.contains("not JSON"), "{why}");
        let told = all(&[&vec![b'x'; MAX_BYTES + 2]]);
        let [SseEvent::Broken(why)] = told.as_slice() else { panic!("{told:?}") };
        assert!(why.contains("bytes"), "{why}");
    }
}
