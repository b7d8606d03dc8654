//! Reads server-sent events out of bytes as they arrive, cut anywhere.

use serde_json::Value;

/// The longest event; it is held in memory until it is whole.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// Reads the server-sent events of a model's API: what has come and is not a
/// whole event yet.
#[derive(Debug, Default)]
pub struct SseDecoder {
    line: Vec<u8>,
    data: String,
    /// Whether the last byte was a carriage return, whose line feed may follow.
    after_return: bool,
    began: bool,
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

impl SseDecoder {
    /// Takes bytes in; hands the events out that are whole now.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<SseEvent> {
        let mut told = Vec::new();
        for &byte in bytes {
            if self.is_broken {
                break;
            }
            let after_return = std::mem::replace(&mut self.after_return, byte == b'\r');
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => told.extend(self.end_line()),
                byte if self.line.len() + self.data.len() < MAX_BYTES => self.line.push(byte),
                _ => told
                    .push(self.broken(format!("an event of the stream is over {MAX_BYTES} bytes"))),
            }
        }
        told
    }

    /// The stream has ended. An event that nothing follows counts, too.
    pub fn end(&mut self) -> Vec<SseEvent> {
        match self.is_broken {
            true => Vec::new(),
            false => self.end_line().into_iter().chain(self.end_event()).collect(),
        }
    }

    /// The event that an empty line ends.
    fn end_line(&mut self) -> Option<SseEvent> {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let line = match std::mem::replace(&mut self.began, true) {
            false => line.strip_prefix('\u{feff}').unwrap_or(&line),
            true => &line,
        };
        if line.is_empty() {
            return self.end_event();
        }
        if let Some(data) = line.strip_prefix("data") {
            let data = data.strip_prefix(':').or_else(|| data.is_empty().then_some(""))?;
            if !self.data.is_empty() {
                self.data.push('\n');
            }
            self.data.push_str(data.strip_prefix(' ').unwrap_or(data));
        }
        None
    }

    fn end_event(&mut self) -> Option<SseEvent> {
        let data = std::mem::take(&mut self.data);
        Some(match data.trim() {
            "" => return None,
            "[DONE]" => SseEvent::Done,
            data => match super::lenient_json(data) {
                Ok(event) => SseEvent::Json(event),
                Err(why) => self.broken(format!("an event of the stream is not JSON: {why}")),
            },
        })
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
