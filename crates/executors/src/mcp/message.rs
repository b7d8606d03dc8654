//! Parses a server's output into JSON-RPC messages, and says why if it is none.
//!
//! A response that cannot be parsed still belongs to a request. So its id is looked for
//! even in invalid JSON, and the caller gets an error at once instead of a timeout.
//!
//! A parsed value takes many times the memory of its text, so messages are also bounded
//! by their number of values, which are counted before anything is built.

use std::fmt;

use rmcp::model::{
    CustomResult, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
    ServerResult,
};
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::Value;

/// Code of the error that replaces an unreadable response. No server sends it: the
/// protocol's codes are around -32000.
pub(super) const UNREADABLE: ErrorCode = ErrorCode(i32::MIN);

/// One value is allowed for this many bytes of the maximum message size.
const BYTES_A_VALUE: usize = 16;
/// Minimum limit on values, however small the maximum message size is.
const MIN_VALUES: usize = 65_536;

/// Why something is not a message.
#[derive(Debug, PartialEq)]
pub(super) struct Unreadable {
    /// The request to which it was meant as the response, if that can be determined.
    pub(super) id: Option<RequestId>,
    pub(super) why: String,
}

impl Unreadable {
    /// The error response in its place; `None` if it is no response.
    pub(super) fn into_answer(self) -> Option<ServerJsonRpcMessage> {
        Some(instead(self.id?, self.why))
    }
}

/// The error response that replaces an unreadable one.
pub(super) fn instead(id: RequestId, why: String) -> ServerJsonRpcMessage {
    JsonRpcMessage::error(ErrorData::new(UNREADABLE, why, None), Some(id))
}

/// Parses a server's message with a size limit. Results stay JSON: their meaning depends
/// on the request, and nothing in them gets lost.
pub(super) fn read(text: &[u8], max_message: usize) -> Result<ServerJsonRpcMessage, Unreadable> {
    let unreadable = |why: String| Unreadable { id: outline(text).answered(), why };
    // A value takes at least one byte and a separator.
    if text.len() / 2 > most_values(max_message) {
        check(text, max_message)?;
    }
    let mut value: Value =
        serde_json::from_slice(text).map_err(|error| unreadable(no_json(&error)))?;
    let Some(map) = value.as_object_mut() else {
        return Err(Unreadable { id: None, why: "it is no object".to_owned() });
    };
    if map.contains_key("method") {
        let read = serde_json::from_value(value);
        return read.map_err(|error| Unreadable { id: None, why: error.to_string() });
    }
    let id = map.get("id").filter(|id| !id.is_null()).cloned();
    let id: Option<RequestId> = id.and_then(|id| serde_json::from_value(id).ok());
    match (map.remove("result"), map.remove("error"), id) {
        (Some(result), _, Some(id)) => {
            let result = ServerResult::CustomResult(CustomResult(result));
            Ok(JsonRpcMessage::response(result, id))
        }
        (None, Some(error), id) => match serde_json::from_value(error) {
            Ok(error) => Ok(JsonRpcMessage::error(error, id)),
            Err(error) => Err(unreadable(format!("its error has no code and message: {error}"))),
        },
        _ => Err(unreadable("it has neither a result nor an error".to_owned())),
    }
}

/// Checks a message that somebody else parses: it must be valid JSON with no more values
/// than allowed.
pub(super) fn check(text: &[u8], max_message: usize) -> Result<Outline, Unreadable> {
    let outline = outline(text);
    let most = most_values(max_message);
    let mut left = most;
    let mut json = serde_json::Deserializer::from_slice(text);
    let checked = Counted(&mut left).deserialize(&mut json).and_then(|()| json.end());
    match checked {
        Ok(()) => Ok(outline),
        Err(_) if left == 0 => {
            let why = format!("it is made of more than {most} values");
            Err(Unreadable { id: outline.answered(), why })
        }
        Err(error) => Err(Unreadable { id: outline.answered(), why: no_json(&error) }),
    }
}

fn most_values(max_message: usize) -> usize {
    (max_message / BYTES_A_VALUE).max(MIN_VALUES)
}

fn no_json(error: &serde_json::Error) -> String {
    format!("it is no valid JSON: {error}")
}

/// Counts the values of a text against a limit, without building them.
struct Counted<'c>(&'c mut usize);

impl<'de> DeserializeSeed<'de> for Counted<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        match self.0.checked_sub(1) {
            Some(left) if left > 0 => *self.0 = left,
            _ => {
                *self.0 = 0;
                return Err(D::Error::custom("too many values"));
            }
        }
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Counted<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Counted(&mut *self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while entries.next_key::<IgnoredAny>()?.is_some() {
            entries.next_value_seed(Counted(&mut *self.0))?;
        }
        Ok(())
    }
}

/// The outline of a message: what can be determined without parsing all of it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Outline {
    pub(super) id: Option<RequestId>,
    /// Whether it has the `jsonrpc` key. Programs also write JSON logs to stdout, with
    /// ids of their own.
    pub(super) is_rpc: bool,
    pub(super) has_method: bool,
}

impl Outline {
    /// The id of the request to which this is the response.
    fn answered(self) -> Option<RequestId> {
        self.id.filter(|_| self.is_rpc && !self.has_method)
    }
}

/// Scans the keys of the outermost object, and skips what is in between.
fn outline(text: &[u8]) -> Outline {
    let mut outline = Outline::default();
    let (mut at, mut depth) = (0, 0_usize);
    // The key before the next value, and whether its colon has been read.
    let (mut key, mut colon): (&[u8], bool) = (b"", false);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                let end = end_of_string(text, at + 1);
                let word = &text[at + 1..end];
                match (depth, colon) {
                    (1, false) => key = word,
                    (1, true) if key == b"id" => {
                        outline.id = Some(RequestId::String(String::from_utf8_lossy(word).into()));
                    }
                    _ => {}
                }
                at = end;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b':' if depth == 1 => {
                colon = true;
                outline.is_rpc |= key == b"jsonrpc";
                outline.has_method |= key == b"method";
            }
            b',' if depth == 1 => (key, colon) = (b"", false),
            b'-' | b'0'..=b'9' if depth == 1 && colon && key == b"id" => {
                let digits = text[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                let number = std::str::from_utf8(&text[at..=at + digits]).unwrap_or_default();
                outline.id = number.parse().ok().map(RequestId::Number);
                at += digits;
            }
            _ => {}
        }
        at += 1;
    }
    outline
}

/// The end of the string that begins here: its closing quote, or the end of the text.
fn end_of_string(text: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 16 * 1024 * 1024;

    #[test]
    fn results_stay_as_they_are_and_noise_is_no_message() {
        let line = br#"{"jsonrpc":"2.0","id":7,"result":{"content":[],"own":{"x":1}}}"#;
        let Ok(JsonRpcMessage::Response(response)) = read(line, MOST) else {
            panic!("no response")
        };
        let ServerResult::CustomResult(CustomResult(result)) = response.result else {
            panic!("not as it is")
        };
        assert_eq!(result["own"]["x"], 1);
        let error = br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#;
        assert!(
            matches!(read(error, MOST), Ok(JsonRpcMessage::Error(error)) if error.id.is_none())
        );
        let noise: [&[u8]; 6] = [
            b"Listening on 3000",
            b"[1]",
            b"{}",
            br#"{"id":1}"#,
            br#"{"level":"warn","id":1,"load":NaN}"#,
            br#"{"jsonrpc":"2.0","id":{},"result":1}"#,
        ];
        for noise in noise {
            assert_eq!(read(noise, MOST).unwrap_err().id, None, "{}", noise.escape_ascii());
        }
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_still_somebodys() {
        let deep = format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}", "[".repeat(200));
        let lines: [&[u8]; 8] = [
            br#"{"jsonrpc":"2.0","id":7,"result":{"v":NaN}}"#,
            br#"{"result":{"id":9,"text":"\"id\":8 \udcff"},"jsonrpc":"2.0", "id" : 7 }"#,
            b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"text\":\"caf\xe9\"}}",
            br#"{"jsonrpc":"2.0","id":7,"result":{"v":1e999}}"#,
            deep.as_bytes(),
            br#"{"jsonrpc":"2.0","id":7}"#,
            br#"{"jsonrpc":"2.0","id":7,"error":"no"}"#,
            br#"{"jsonrpc":"2.0","id":7,"result":{"text":"cut sho"#,
        ];
        for line in lines {
            let read = read(line, MOST).unwrap_err();
            assert_eq!(read.id, Some(RequestId::Number(7)), "{}", line.escape_ascii());
        }
        let named = read(br#"{"jsonrpc":"2.0","id":"a-1","result":Infinity}"#, MOST).unwrap_err();
        assert_eq!(named.id, Some(RequestId::String("a-1".into())));
        let asks = read(br#"{"jsonrpc":"2.0","id":7,"method":"ping","params":NaN}"#, MOST);
        assert_eq!(asks.unwrap_err().id, None, "a question is no answer");
    }

    #[test]
    fn values_are_counted_before_they_are_built() {
        let many = |count: usize| {
            format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":[{}0]}}", "{},".repeat(count))
        };
        assert!(read(many(60_000).as_bytes(), 1).is_ok());
        let too_many = read(many(70_000).as_bytes(), 1).unwrap_err();
        assert_eq!(too_many.id, Some(RequestId::Number(7)));
        assert!(too_many.why.contains("more than 65536 values"), "{}", too_many.why);
    }
}
