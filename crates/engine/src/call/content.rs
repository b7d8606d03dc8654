//! What a tool gives back: content blocks, and optionally a structured value.
//!
//! The wire form of a block is S3.5's `{type, message, meta, save_as}`. How a
//! block looks to a particular model API is decided at the edge, not here.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// One block of a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Content {
    /// What the block holds.
    #[serde(flatten)]
    pub body: Body,
    /// Facts about the block: a title, a size, a mime type.
    #[serde(default, skip_serializing_if = "Facts::is_empty")]
    pub meta: Facts,
    /// The variable under which a workflow keeps this block; empty for none.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub save_as: Box<str>,
}

/// The kinds of blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "message", rename_all = "snake_case")]
pub enum Body {
    /// Plain text.
    Text(String),
    /// A JSON value. A model reads it as JSON text.
    Json(Value),
    /// The address of something.
    Link(String),
    /// The address of an image.
    ImageLink(String),
    /// An image.
    Image(Data),
    /// The name of a file variable.
    FileVar(String),
    /// Bytes.
    Blob(Data),
    /// A sound.
    Audio(Data),
    /// A resource of an MCP server, as the server described it.
    Resource(Value),
}

/// What a block holds, whatever kind of block it is: what is counted, cut, hidden
/// and shown of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Payload<'a> {
    /// A text, or an address or name in its place.
    Text(&'a str),
    /// Any JSON.
    Value(&'a Value),
    /// Bytes.
    Data(&'a Data),
}

/// The same, to be changed.
pub(crate) enum PayloadMut<'a> {
    Text(&'a mut String),
    Value(&'a mut Value),
    Data(&'a mut Data),
}

impl Body {
    /// What the block holds.
    pub fn payload(&self) -> Payload<'_> {
        match self {
            Self::Text(text) | Self::Link(text) | Self::ImageLink(text) | Self::FileVar(text) => {
                Payload::Text(text)
            }
            Self::Json(value) | Self::Resource(value) => Payload::Value(value),
            Self::Image(data) | Self::Blob(data) | Self::Audio(data) => Payload::Data(data),
        }
    }

    pub(crate) fn payload_mut(&mut self) -> PayloadMut<'_> {
        match self {
            Self::Text(text) | Self::Link(text) | Self::ImageLink(text) | Self::FileVar(text) => {
                PayloadMut::Text(text)
            }
            Self::Json(value) | Self::Resource(value) => PayloadMut::Value(value),
            Self::Image(data) | Self::Blob(data) | Self::Audio(data) => PayloadMut::Data(data),
        }
    }

    /// Whether the block is a file or an image, or where one is.
    pub fn is_file(&self) -> bool {
        match self {
            Self::ImageLink(_)
            | Self::Image(_)
            | Self::FileVar(_)
            | Self::Blob(_)
            | Self::Audio(_) => true,
            Self::Text(_) | Self::Json(_) | Self::Link(_) | Self::Resource(_) => false,
        }
    }
}

/// Bytes with their type. The bytes are base64 on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Data {
    /// The bytes, in base64.
    pub base64: String,
    /// For instance `image/png`.
    pub mime_type: String,
}

impl Data {
    /// Encodes bytes.
    pub fn new(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self { base64: BASE64.encode(bytes), mime_type: mime_type.into() }
    }

    /// The bytes, or nothing where the base64 is broken.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        BASE64.decode(&self.base64).ok()
    }
}

impl Content {
    /// A block with this body.
    pub fn new(body: Body) -> Self {
        Self { body, meta: Facts::default(), save_as: Box::default() }
    }

    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(Body::Text(text.into()))
    }

    /// A JSON value.
    pub fn json(value: impl Into<Value>) -> Self {
        Self::new(Body::Json(value.into()))
    }

    /// A link; the title goes to `meta.title`.
    pub fn link(uri: impl Into<String>, title: &str) -> Self {
        let block = Self::new(Body::Link(uri.into()));
        if title.is_empty() { block } else { block.with_meta("title", title) }
    }

    /// An image: an `http(s)` address becomes an image link, a `data:` address
    /// or bare base64 an image.
    pub fn image(image: &str) -> Self {
        if image.starts_with("http://") || image.starts_with("https://") {
            return Self::new(Body::ImageLink(image.to_owned()));
        }
        let (mime_type, base64) = image
            .strip_prefix("data:")
            .and_then(|rest| rest.split_once(";base64,"))
            .unwrap_or(("image/png", image));
        Self::new(Body::Image(Data { base64: base64.to_owned(), mime_type: mime_type.to_owned() }))
    }

    /// Bytes.
    pub fn blob(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::new(Body::Blob(Data::new(bytes, mime_type)))
    }

    /// A file variable.
    pub fn file(variable: impl Into<String>) -> Self {
        Self::new(Body::FileVar(variable.into()))
    }

    /// The same block with a fact about it.
    #[must_use]
    pub fn with_meta(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.meta.insert(key, value);
        self
    }

    /// The same block, to be kept under this variable.
    #[must_use]
    pub fn saved_as(mut self, variable: impl Into<Box<str>>) -> Self {
        self.save_as = variable.into();
        self
    }

    /// The block as a model that takes only text reads it.
    pub fn to_text(&self) -> String {
        match self.body.payload() {
            Payload::Text(text) => text.to_owned(),
            Payload::Value(value) => value.to_string(),
            Payload::Data(data) => {
                format!("[{}, {} bytes of base64]", data.mime_type, data.base64.len())
            }
        }
    }
}

/// What the wire form of a block is.
#[derive(JsonSchema)]
#[schemars(rename = "Content")]
#[expect(dead_code, reason = "it only describes what `Content` writes")]
struct WireContent {
    #[schemars(rename = "type")]
    kind: ContentType,
    /// What the block holds: a text for `text`, `link`, `image_link` and
    /// `file_var`; any JSON for `json` and `resource`; `{base64, mime_type}` for
    /// `image`, `blob` and `audio`.
    message: Value,
    /// Facts about the block: a title, a size, a media type.
    #[schemars(default)]
    meta: Facts,
    /// The variable under which a workflow keeps this block.
    save_as: Option<String>,
}

/// What a block holds.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
#[expect(dead_code, reason = "it only names the kinds of `Body`")]
enum ContentType {
    Text,
    Json,
    Link,
    ImageLink,
    Image,
    FileVar,
    Blob,
    Audio,
    Resource,
}

impl JsonSchema for Content {
    fn schema_name() -> Cow<'static, str> {
        WireContent::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        WireContent::json_schema(generator)
    }
}

/// Named facts. Most blocks and results have none, so that costs a pointer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Map<String, Value>")]
pub struct Facts(Option<Box<Map<String, Value>>>);

impl Facts {
    /// Adds a fact, in place of an earlier one of its name.
    pub fn insert(&mut self, name: &str, value: impl Into<Value>) {
        self.0.get_or_insert_default().insert(name.to_owned(), value.into());
    }

    /// A fact.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.as_ref()?.get(name)
    }

    /// All facts.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.0.iter().flat_map(|facts| facts.iter())
    }

    pub(crate) fn as_map_mut(&mut self) -> Option<&mut Map<String, Value>> {
        self.0.as_deref_mut()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|facts| facts.is_empty())
    }
}

impl From<Map<String, Value>> for Facts {
    fn from(facts: Map<String, Value>) -> Self {
        Self((!facts.is_empty()).then(|| Box::new(facts)))
    }
}

/// Everything a tool gives back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// The blocks, in order.
    pub content: Vec<Content>,
    /// The result as data, where it differs from the blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Box<Value>>,
    /// Facts about the run, for people and programs, not for the model.
    #[serde(default, skip_serializing_if = "Facts::is_empty")]
    pub metadata: Facts,
    /// Set where the content is only the beginning of a larger result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Box<Truncated>>,
}

/// Says that a result was cut, and where the whole of it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Truncated {
    /// Names the whole result; read it with the `read_output` tool or
    /// `windlass calls ID --output`. None where it could not be kept.
    pub handle: Option<String>,
    /// The size of the whole, in bytes.
    pub total_bytes: u64,
    /// How much of it the content shows.
    pub shown_bytes: u64,
}

impl Output {
    /// A single text.
    pub fn text(text: impl Into<String>) -> Self {
        Content::text(text).into()
    }

    /// A single JSON value.
    pub fn json(value: impl Into<Value>) -> Self {
        Content::json(value).into()
    }

    /// The same output with a structured value beside its blocks.
    #[must_use]
    pub fn with_structured(mut self, value: impl Into<Value>) -> Self {
        self.structured = Some(Box::new(value.into()));
        self
    }

    /// The same output with a fact about the run.
    #[must_use]
    pub fn with_metadata(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.metadata.insert(key, value);
        self
    }

    /// The result as data: the structured value, else a single JSON block.
    pub fn value(&self) -> Option<&Value> {
        self.structured.as_deref().or(match self.content.as_slice() {
            [Content { body: Body::Json(value), .. }] => Some(value),
            _ => None,
        })
    }

    /// All blocks as one text, joined by newlines (S3.15's `plain_text`).
    pub fn to_text(&self) -> String {
        match self.content.as_slice() {
            [] => self.structured.as_deref().map(Value::to_string).unwrap_or_default(),
            [one] => one.to_text(),
            many => many.iter().map(Content::to_text).collect::<Vec<_>>().join("\n"),
        }
    }

    /// The blocks that are files or images (S3.15's `message_files`).
    pub fn files(&self) -> impl Iterator<Item = &Content> {
        self.content.iter().filter(|block| block.body.is_file())
    }
}

impl From<Content> for Output {
    fn from(block: Content) -> Self {
        Self { content: vec![block], ..Self::default() }
    }
}

impl From<Vec<Content>> for Output {
    fn from(content: Vec<Content>) -> Self {
        Self { content, ..Self::default() }
    }
}

impl JsonSchema for Facts {
    fn schema_name() -> Cow<'static, str> {
        "Facts".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object", "additionalProperties": true})
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A block of each kind: whoever adds one adds it to the schema, too.
    #[test]
    fn every_kind_of_block_is_described() {
        let data = || Data::new(b"x", "image/png");
        let described = json!(schemars::schema_for!(ContentType))["enum"].clone();
        let bodies = [
            Body::Text(String::new()),
            Body::Json(Value::Null),
            Body::Link(String::new()),
            Body::ImageLink(String::new()),
            Body::Image(data()),
            Body::FileVar(String::new()),
            Body::Blob(data()),
            Body::Audio(data()),
            Body::Resource(Value::Null),
        ];
        let names: Value = bodies.iter().map(|body| json!(body)["type"].clone()).collect();
        assert_eq!(described, names);
    }
}
