//! Hides secrets that a tool repeats in what it says.
//!
//! Only copies are found: in texts, in JSON strings and keys, and in bytes, as
//! they are or as JSON, an address or a page writes them. A tool that encodes a
//! secret in another way is not stopped by this; it is a net for accidents, such
//! as an error that quotes a whole request.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{HIDDEN, Secret};
use crate::content::{Body, Content, Data, Output};
use crate::error::{Error, ErrorKind};

/// Shorter secrets would hide ordinary words.
const MIN_CHARS: usize = 6;
/// How many bytes are looked at for one output or error, each once for every
/// shape of a secret.
const MAX_BYTES: usize = 512 * 1024 * 1024;

/// The secrets of one call, as they may show up.
pub(crate) struct Veil {
    /// The longest first: one may be part of another.
    shapes: Vec<Secret>,
    /// Whether one of them could be written as a number.
    numeric: bool,
}

/// There is more to look through than anybody should wait for.
struct TooLarge;

impl Veil {
    pub(crate) fn new<'s>(secrets: impl IntoIterator<Item = &'s Secret>) -> Self {
        let mut shapes: Vec<Secret> = Vec::new();
        for secret in secrets.into_iter().filter(|it| it.expose().chars().count() >= MIN_CHARS) {
            shapes.extend(secret.guises());
        }
        shapes.sort_by(|a, b| {
            let longest_first = b.expose().len().cmp(&a.expose().len());
            longest_first.then_with(|| a.expose().cmp(b.expose()))
        });
        shapes.dedup_by(|a, b| a.expose() == b.expose());
        let numeric = shapes.iter().any(|shape| shape.expose().parse::<f64>().is_ok());
        Self { shapes, numeric }
    }

    /// What a tool gave back, without secrets.
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

    /// A block that a running tool reports, without secrets; none where it is
    /// too large to tell.
    pub(crate) fn over_block(&self, mut block: Content) -> Option<Content> {
        self.work().block(&mut block).is_ok().then_some(block)
    }

    fn work(&self) -> Work<'_> {
        Work { veil: self, left: MAX_BYTES }
    }
}

/// One search, with what is left of its bound.
struct Work<'v> {
    veil: &'v Veil,
    left: usize,
}

impl Work<'_> {
    fn output(&mut self, output: &mut Output) -> Result<(), TooLarge> {
        output.content.iter_mut().try_for_each(|block| self.block(block))?;
        if let Some(value) = &mut output.structured {
            self.value(value)?;
        }
        output.metadata.as_map_mut().map_or(Ok(()), |facts| self.object(facts))
    }

    fn block(&mut self, block: &mut Content) -> Result<(), TooLarge> {
        match &mut block.body {
            Body::Text(text) | Body::Link(text) | Body::ImageLink(text) | Body::FileVar(text) => {
                self.text(text)?;
            }
            Body::Json(value) | Body::Resource(value) => self.value(value)?,
            Body::Image(data) | Body::Blob(data) | Body::Audio(data) => self.data(data)?,
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

    /// Bytes are looked at as they are, not as they are written.
    fn data(&mut self, data: &mut Data) -> Result<(), TooLarge> {
        self.text(&mut data.mime_type)?;
        self.text(&mut data.base64)?;
        self.pay(data.base64.len())?;
        let Some(mut bytes) = data.bytes() else { return Ok(()) };
        let mut found = false;
        for shape in &self.veil.shapes {
            if let Some(hidden) = without(&bytes, shape.expose().as_bytes()) {
                bytes = hidden;
                found = true;
            }
        }
        if found {
            *data = Data::new(bytes, std::mem::take(&mut data.mime_type));
        }
        Ok(())
    }

    fn text(&mut self, text: &mut String) -> Result<(), TooLarge> {
        if let Some(hidden) = self.hidden(text)? {
            *text = hidden;
        }
        Ok(())
    }

    /// The text without secrets, where it has any.
    fn hidden(&mut self, text: &str) -> Result<Option<String>, TooLarge> {
        self.pay(text.len())?;
        let mut hidden = Cow::Borrowed(text);
        for shape in &self.veil.shapes {
            if hidden.contains(shape.expose()) {
                hidden = Cow::Owned(hidden.replace(shape.expose(), HIDDEN));
            }
        }
        Ok(match hidden {
            Cow::Owned(hidden) => Some(hidden),
            Cow::Borrowed(_) => None,
        })
    }

    fn pay(&mut self, bytes: usize) -> Result<(), TooLarge> {
        let cost = bytes.saturating_mul(self.veil.shapes.len());
        self.left = self.left.checked_sub(cost).ok_or(TooLarge)?;
        Ok(())
    }
}

/// The bytes with all copies of others hidden, where there are any.
fn without(bytes: &[u8], wanted: &[u8]) -> Option<Vec<u8>> {
    let find = |rest: &[u8]| rest.windows(wanted.len()).position(|window| window == wanted);
    let mut next = Some(find(bytes)?);
    let (mut hidden, mut rest) = (Vec::with_capacity(bytes.len()), bytes);
    while let Some(at) = next {
        hidden.extend_from_slice(&rest[..at]);
        hidden.extend_from_slice(HIDDEN.as_bytes());
        rest = &rest[at + wanted.len()..];
        next = find(rest);
    }
    hidden.extend_from_slice(rest);
    Some(hidden)
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let error = veil.over(Ok(Output::text("x".repeat(1_000_000)))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOutput);
    }
}
