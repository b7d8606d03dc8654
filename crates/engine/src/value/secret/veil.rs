//! [`Veil`]: redacts secrets in text from elsewhere.
//!
//! Finds copies in texts, in JSON strings and keys, and in bytes, in all
//! encodings of [`super::encodings`]. It is a safety net against accidents,
//! such as an error that quotes a whole request, not against deliberate
//! encoding.
//!
//! All encodings are searched for in one pass. It uses no automaton, whose
//! memory could not be wiped.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{HIDDEN, MIN_CHARS, Secret};
use crate::call::content::{Content, Data, Output, PayloadMut};
use crate::error::{Error, ErrorKind};

/// Maximum number of bytes searched per output or error, counted once per group
/// of this many encodings.
const MAX_BYTES: usize = 512 * 1024 * 1024;
const SHAPES_AT_ONCE: usize = 64;
/// Size of the prefix filter, in bits.
const BITS: usize = 4096;

/// Redacts secrets.
pub struct Veil {
    /// Longest first, because one may contain another.
    shapes: Vec<Secret>,
    /// Prefix filter: whether an encoding may start with two bytes, by their
    /// hash.
    begins: [u64; BITS / 64],
    /// Whether any could be written as a number.
    numeric: bool,
}

/// The input is too large to be searched.
struct TooLarge;

impl Veil {
    /// Creates a redactor for these secrets. Those with fewer than
    /// [`Secret::MIN_CHARS`] characters are not redacted.
    pub fn new<'s>(secrets: impl IntoIterator<Item = &'s Secret>) -> Self {
        let mut shapes: Vec<Secret> = Vec::new();
        for secret in secrets.into_iter().filter(|it| it.expose().chars().count() >= MIN_CHARS) {
            shapes.extend(secret.encodings());
        }
        shapes.sort_by(|a, b| {
            let longest_first = b.expose().len().cmp(&a.expose().len());
            longest_first.then_with(|| a.expose().cmp(b.expose()))
        });
        shapes.dedup_by(|a, b| a.expose() == b.expose());
        let mut begins = [0; BITS / 64];
        for shape in &shapes {
            if let [first, second, ..] = shape.expose().as_bytes() {
                let bit = bit(*first, *second);
                begins[bit / 64] |= 1 << (bit % 64);
            }
        }
        let numeric = shapes.iter().any(|shape| shape.expose().parse::<f64>().is_ok());
        Self { shapes, begins, numeric }
    }

    /// Whether there is nothing to redact.
    pub fn is_empty(&self) -> bool {
        self.shapes.is_empty()
    }

    /// Redacts a text.
    pub fn over_text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.without(text.as_bytes()) {
            Some(hidden) => Cow::Owned(String::from_utf8_lossy(&hidden).into_owned()),
            None => Cow::Borrowed(text),
        }
    }

    /// Redacts a JSON document; `None` if there is nothing to redact. Invalid
    /// JSON is searched as plain bytes.
    pub fn over_json(&self, json: &[u8]) -> Option<Vec<u8>> {
        // Without escapes, strings appear as written.
        if self.is_empty() || (!json.contains(&b'\\') && self.find(json).is_none()) {
            return None;
        }
        let Ok(mut value) = serde_json::from_slice::<Value>(json) else {
            return self.without(json);
        };
        let mut work = self.work();
        match work.value(&mut value) {
            Ok(()) if !work.found => None,
            Ok(()) => serde_json::to_vec(&value).ok(),
            Err(TooLarge) => self.without(json),
        }
    }

    /// Redacts a value. One that is too large to be searched becomes null.
    pub fn over_value(&self, value: &mut Value) {
        if !self.is_empty() && self.work().value(value).is_err() {
            *value = Value::Null;
        }
    }

    /// Redacts an error.
    #[must_use]
    pub fn over_error(&self, error: Error) -> Error {
        match self.over(Err(error)) {
            Ok(_) => Error::new(ErrorKind::Internal, "an error became none"),
            Err(error) => error,
        }
    }

    /// Redacts the output of a tool.
    pub(crate) fn over(&self, outcome: Result<Output, Error>) -> Result<Output, Error> {
        if self.shapes.is_empty() {
            return outcome;
        }
        let mut work = self.work();
        match outcome {
            Ok(mut output) => work.output(&mut output).map(|()| output).map_err(|TooLarge| {
                let why = "the result is too large to be searched for secrets";
                Error::new(ErrorKind::InvalidOutput, why)
            }),
            Err(mut error) => {
                let kind = error.kind();
                let hidden = error.rewrite(|text| work.text(text).map_err(drop));
                let facts = error.metadata_mut().map_or(Ok(()), |facts| work.object(facts));
                let hidden = hidden.and(facts.map_err(drop));
                Err(hidden.map(|()| error).unwrap_or_else(|()| {
                    Error::new(kind, "the error's text is too large to be searched for secrets")
                }))
            }
        }
    }

    /// Redacts a progress block; `None` if it is too large.
    pub(crate) fn over_block(&self, mut block: Content) -> Option<Content> {
        self.work().block(&mut block).is_ok().then_some(block)
    }

    fn work(&self) -> Redaction<'_> {
        Redaction { veil: self, left: MAX_BYTES, found: false }
    }

    /// The first match, and the longest of those: start and end.
    fn find(&self, bytes: &[u8]) -> Option<(usize, usize)> {
        let may_begin = |pair: &[u8]| {
            let bit = bit(pair[0], pair[1]);
            (self.begins[bit / 64] >> (bit % 64)) & 1 == 1
        };
        let starts = bytes.windows(2).enumerate().filter(|(_, pair)| may_begin(pair));
        starts.map(|(at, _)| at).find_map(|at| {
            let rest = &bytes[at..];
            let found = self.shapes.iter().find(|it| rest.starts_with(it.expose().as_bytes()));
            found.map(|shape| (at, at + shape.expose().len()))
        })
    }

    /// The redacted bytes; `None` if there is nothing to redact.
    fn without(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut next = Some(self.find(bytes)?);
        let (mut hidden, mut rest) = (Vec::with_capacity(bytes.len()), bytes);
        while let Some((start, end)) = next {
            hidden.extend_from_slice(&rest[..start]);
            hidden.extend_from_slice(HIDDEN.as_bytes());
            rest = &rest[end..];
            next = self.find(rest);
        }
        hidden.extend_from_slice(rest);
        Some(hidden)
    }
}

/// A redaction pass with its remaining budget.
struct Redaction<'v> {
    veil: &'v Veil,
    left: usize,
    /// Whether anything was redacted.
    found: bool,
}

impl Redaction<'_> {
    fn output(&mut self, output: &mut Output) -> Result<(), TooLarge> {
        output.content.iter_mut().try_for_each(|block| self.block(block))?;
        if let Some(value) = &mut output.structured {
            self.value(value)?;
        }
        output.metadata.as_map_mut().map_or(Ok(()), |facts| self.object(facts))
    }

    fn block(&mut self, block: &mut Content) -> Result<(), TooLarge> {
        match block.body.payload_mut() {
            PayloadMut::Text(text) => self.text(text)?,
            PayloadMut::Value(value) => self.value(value)?,
            PayloadMut::Data(data) => self.data(data)?,
        }
        if let Some(hidden) = self.hidden(&block.save_as)? {
            block.save_as = hidden.into();
        }
        block.meta.as_map_mut().map_or(Ok(()), |facts| self.object(facts))
    }

    fn value(&mut self, value: &mut Value) -> Result<(), TooLarge> {
        match value {
            Value::Null | Value::Bool(_) => Ok(()),
            Value::Number(number) if self.veil.numeric => {
                if self.hidden(&number.to_string())?.is_some() {
                    *value = HIDDEN.into();
                }
                Ok(())
            }
            Value::Number(_) => Ok(()),
            Value::String(text) => self.text(text),
            Value::Array(items) => items.iter_mut().try_for_each(|item| self.value(item)),
            Value::Object(map) => self.object(map),
        }
    }

    fn object(&mut self, map: &mut Map<String, Value>) -> Result<(), TooLarge> {
        let mut found = false;
        for (key, value) in map.iter_mut() {
            self.value(value)?;
            found |= self.hidden(key)?.is_some();
        }
        if found {
            for (mut key, value) in std::mem::take(map) {
                self.text(&mut key)?;
                map.insert(key, value);
            }
        }
        Ok(())
    }

    /// Binary data is searched decoded, so that it stays readable.
    fn data(&mut self, data: &mut Data) -> Result<(), TooLarge> {
        self.text(&mut data.mime_type)?;
        let Some(bytes) = data.bytes() else { return self.text(&mut data.base64) };
        self.pay(data.base64.len())?;
        if let Some(hidden) = self.veil.without(&bytes) {
            *data = Data::new(hidden, std::mem::take(&mut data.mime_type));
        }
        Ok(())
    }

    fn text(&mut self, text: &mut String) -> Result<(), TooLarge> {
        if let Some(hidden) = self.hidden(text)? {
            *text = hidden;
        }
        Ok(())
    }

    /// The redacted text; `None` if there is nothing to redact.
    fn hidden(&mut self, text: &str) -> Result<Option<String>, TooLarge> {
        self.pay(text.len())?;
        let hidden = self.veil.without(text.as_bytes());
        self.found |= hidden.is_some();
        Ok(hidden.map(|hidden| String::from_utf8_lossy(&hidden).into_owned()))
    }

    fn pay(&mut self, bytes: usize) -> Result<(), TooLarge> {
        let cost = bytes.saturating_mul(1 + self.veil.shapes.len() / SHAPES_AT_ONCE);
        self.left = self.left.checked_sub(cost).ok_or(TooLarge)?;
        Ok(())
    }
}

fn bit(first: u8, second: u8) -> usize {
    (usize::from(first) * 61 + usize::from(second)) % BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::content::Body;
    use serde_json::json;

    fn veil(secrets: &[&str]) -> Veil {
        let secrets: Vec<Secret> = secrets.iter().map(|text| Secret::new(*text)).collect();
        Veil::new(&secrets)
    }

    fn over(veil: &Veil, value: Value) -> Value {
        veil.over(Ok(Output::json(value))).unwrap().value().cloned().unwrap()
    }

    #[test]
    fn strings_keys_and_numbers_are_looked_at() {
        let veil = veil(&["hunter22", "hunter22-and-more", "12345678", "say \"hi\" now"]);
        let value = json!({
            "plain": "nothing here",
            "in hunter22 key": ["x hunter22 y hunter22", {"deep": "hunter22-and-more"}],
            "number": 12_345_678,
            "other": 5,
            "quoted": "{\"a\": \"say \\\"hi\\\" now\"}",
        });
        assert_eq!(
            over(&veil, value),
            json!({
                "plain": "nothing here",
                "in [hidden] key": ["x [hidden] y [hidden]", {"deep": "[hidden]"}],
                "number": "[hidden]",
                "other": 5,
                "quoted": "{\"a\": \"[hidden]\"}",
            })
        );
    }

    #[test]
    fn quoted_copies_are_found() {
        let veil = veil(&["a/b+c=<d>&'e' f\"g"]);
        for quoted in [
            r#"{"k": "a\/b+c=<d>&'e' f\"g"}"#,
            "a%2Fb%2Bc%3D%3Cd%3E%26%27e%27%20f%22g",
            "a%2fb%2bc%3d%3cd%3e%26%27e%27%20f%22g",
            "a%2Fb%2Bc%3D%3Cd%3E%26%27e%27+f%22g",
            "a%2Fb%2Bc%3D%3Cd%3E%26'e'%20f%22g",
            "a/b+c=&lt;d&gt;&amp;&#39;e&#39; f&quot;g",
            "a/b+c=&lt;d&gt;&amp;&#x27;e&#x27; f&quot;g",
            "a/b+c=&lt;d&gt;&amp;'e' f&quot;g",
        ] {
            let hidden = over(&veil, json!(quoted));
            assert!(!hidden.to_string().contains("c"), "{quoted}: {hidden}");
        }
    }

    #[test]
    fn encoded_copies_are_found() {
        use base64::Engine;
        use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
        let secret = "canary-7f?3a~9>c1";
        let veil = veil(&[secret]);
        let hex = |upper| -> String {
            let digits = |byte: u8| match upper {
                true => format!("{byte:02X}"),
                false => format!("{byte:02x}"),
            };
            secret.bytes().map(digits).collect()
        };
        let mut shown =
            vec![hex(true), hex(false), json!({"k": json!({"k": secret}).to_string()}).to_string()];
        for before in ["", "x", "xy", "user:"] {
            for after in ["", "z", "z!"] {
                let text = format!("{before}{secret}{after}");
                shown.push(STANDARD.encode(&text));
                shown.push(URL_SAFE_NO_PAD.encode(&text));
            }
        }
        for text in shown {
            let hidden = over(&veil, json!(format!("<{text}>")));
            let hidden = hidden.as_str().unwrap();
            assert!(hidden.contains(HIDDEN), "{text}: {hidden}");
            // The rest belongs to the neighbours, or is a few bits.
            assert!(hidden.len() <= HIDDEN.len() + 24, "{text}: {hidden}");
        }
    }

    #[test]
    fn parts_of_an_address_are_found() {
        let veil = veil(&["https://hooks.example.com/services/T01/B02/c4n4ryTail?sig=5ecretSig"]);
        for quoted in [
            "no service at /services/T01/B02/c4n4ryTail",
            "404: services%2FT01%2FB02%2Fc4n4ryTail",
            "token c4n4ryTail",
            "query sig=5ecretSig",
            "{\"uri\":\"\\/services\\/T01\\/B02\\/c4n4ryTail\"}",
        ] {
            let hidden = over(&veil, json!(quoted)).to_string();
            assert!(hidden.contains(HIDDEN), "{quoted}: {hidden}");
            assert!(!hidden.contains("c4n4ry") && !hidden.contains("5ecret"), "{hidden}");
        }
    }

    #[test]
    fn json_is_looked_at_as_it_is_meant() {
        let veil = veil(&["canary-1234"]);
        let hidden = |text: &str| {
            veil.over_json(text.as_bytes()).map(|json| String::from_utf8(json).unwrap())
        };
        assert_eq!(hidden(r#"{"a":"\u0063anary-1234"}"#).as_deref(), Some(r#"{"a":"[hidden]"}"#));
        assert_eq!(hidden(r#"{"canary-1234":1}"#).as_deref(), Some(r#"{"[hidden]":1}"#));
        assert_eq!(hidden(r#"{"a":"\n"}"#), None);
        assert_eq!(hidden("log: canary-1234 {").as_deref(), Some("log: [hidden] {"));
    }

    #[test]
    fn short_secrets_are_left_alone() {
        let veil = veil(&["abcde", ""]);
        assert_eq!(over(&veil, json!("abcdefgh")), json!("abcdefgh"));
    }

    #[test]
    fn blocks_facts_and_bytes_are_looked_at() {
        let veil = veil(&["hunter22"]);
        let output = Output::from(vec![
            Content::blob("key=hunter22;", "text/plain").with_meta("title", "hunter22"),
            Content::link("https://x/?k=hunter22", "").saved_as("hunter22"),
        ])
        .with_structured(json!(["hunter22"]))
        .with_metadata("hunter22", 1);
        let output = veil.over(Ok(output)).unwrap();
        assert!(!serde_json::to_string(&output).unwrap().contains("hunter22"));
        let Body::Blob(data) = &output.content[0].body else { panic!() };
        assert_eq!(data.bytes().unwrap(), b"key=[hidden];");
    }

    #[test]
    fn the_work_is_bounded() {
        let many: Vec<String> = (0..1000).map(|n| format!("secret number {n}")).collect();
        let veil =
            Veil::new(&many.iter().map(|text| Secret::new(text.as_str())).collect::<Vec<_>>());
        let error = veil.over(Ok(Output::text("x".repeat(8_000_000)))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOutput);
    }
}
