//! Results of tools: content blocks, and optionally a structured value.
//!
//! The wire form of a block is `{type, message, meta, save_as}`. How a block
//! looks to a particular model API is decided at the edge, not here.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// A content block of a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Content {
    /// Type and content of the block.
    #[serde(flatten)]
    pub body: Body,
    /// Metadata of the block: a title, a size, a media type.
    #[serde(default, skip_serializing_if = "Facts::is_empty")]
    pub meta: Facts,
    /// The workflow variable that this block is saved as; empty for none.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub save_as: Box<str>,
}

/// Type and content of a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "message", rename_all = "snake_case")]
pub enum Body {
    /// Plain text.
    Text(String),
    /// A JSON value. A model reads it as JSON text.
    Json(Value),
    /// A URL.
    Link(String),
    /// The URL of an image.
    ImageLink(String),
    /// An image.
    Image(Data),
    /// The name of a file variable.
    FileVar(String),
    /// Binary data.
    Blob(Data),
    /// Audio.
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
    /// Binary data.
    Data(&'a Data),
}

/// The same, to be changed.
pub(crate) enum PayloadMut<'a> {
    Text(&'a mut String),
    Value(&'a mut Value),
    Data(&'a mut Data),
}

impl Body {
    /// Type and content of the block.
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

/// Binary data with its media type, base64 on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Data {
    /// The bytes, in base64.
    pub base64: String,
    /// Media type, such as `image/png`.
    pub mime_type: String,
}

impl Data {
    /// Encodes bytes.
    pub fn new(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self { base64: BASE64.encode(bytes), mime_type: mime_type.into() }
    }

    /// The decoded bytes; `None` if the base64 is invalid.
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

    /// A link; the title becomes `meta.title`.
    pub fn link(uri: impl Into<String>, title: &str) -> Self {
        let block = Self::new(Body::Link(uri.into()));
        if title.is_empty() { block } else { block.with_meta("title", title) }
    }

    /// An image: an `http(s)` URL becomes an image link, a `data:` URL or bare
    /// base64 an image.
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

    /// Binary data.
    pub fn blob(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::new(Body::Blob(Data::new(bytes, mime_type)))
    }

    /// A file variable.
    pub fn file(variable: impl Into<String>) -> Self {
        Self::new(Body::FileVar(variable.into()))
    }

    /// Adds metadata to the block.
    #[must_use]
    pub fn with_meta(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.meta.insert(key, value);
        self
    }

    /// Sets the variable that the block is saved as.
    #[must_use]
    pub fn saved_as(mut self, variable: impl Into<Box<str>>) -> Self {
        self.save_as = variable.into();
        self
    }

    /// The block as text, for models that take only text.
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

/// Describes the wire form of a block.
#[derive(JsonSchema)]
#[schemars(rename = "Content")]
#[expect(dead_code, reason = "it only describes what `Content` writes")]
struct WireContent {
    #[schemars(rename = "type")]
    kind: ContentType,
    /// The content: a string for `text`, `link`, `image_link` and `file_var`;
    /// any JSON for `json` and `resource`; `{base64, mime_type}` for `image`,
    /// `blob` and `audio`.
    message: Value,
    /// Metadata of the block: a title, a size, a media type.
    #[schemars(default)]
    meta: Facts,
    /// The workflow variable that this block is saved as.
    save_as: Option<String>,
}

/// The type of a block.
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

/// Metadata by name. Most blocks and results have none, so an empty one is only
/// a pointer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Map<String, Value>")]
pub struct Facts(Option<Box<Map<String, Value>>>);

impl Facts {
    /// Sets an entry.
    pub fn insert(&mut self, name: &str, value: impl Into<Value>) {
        self.0.get_or_insert_default().insert(name.to_owned(), value.into());
    }

    /// An entry.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.as_ref()?.get(name)
    }

    /// All entries.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.0.iter().flat_map(|facts| facts.iter())
    }

    pub(crate) fn as_map_mut(&mut self) -> Option<&mut Map<String, Value>> {
        self.0.as_deref_mut()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|facts| facts.is_empty())
    }
}

impl From<Map<String, Value>> for Facts {
    fn from(facts: Map<String, Value>) -> Self {
        Self((!facts.is_empty()).then(|| Box::new(facts)))
    }
}

/// The complete output of a tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// The blocks, in order.
    pub content: Vec<Content>,
    /// Structured result, where it differs from the blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Box<Value>>,
    /// Metadata about the run, for people and programs, not for the model.
    #[serde(default, skip_serializing_if = "Facts::is_empty")]
    pub metadata: Facts,
    /// Set if the content is only the beginning of a larger result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Box<Truncated>>,
}

/// Describes a truncated result and where the whole of it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Truncated {
    /// Handle of the whole result: read it with the `read_output` tool or
    /// `windlass calls ID --output`. `None` if it could not be stored.
    pub handle: Option<String>,
    /// The size of the whole, in bytes.
    pub total_bytes: u64,
    /// The size of what the content shows, in bytes.
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

    /// Sets the structured value.
    #[must_use]
    pub fn with_structured(mut self, value: impl Into<Value>) -> Self {
        self.structured = Some(Box::new(value.into()));
        self
    }

    /// Adds metadata about the run.
    #[must_use]
    pub fn with_metadata(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.metadata.insert(key, value);
        self
    }

    /// The result as JSON: the structured value, else a single JSON block.
    pub fn value(&self) -> Option<&Value> {
        self.structured.as_deref().or(match self.content.as_slice() {
            [Content { body: Body::Json(value), .. }] => Some(value),
            _ => None,
        })
    }

    /// All blocks as one text, joined by newlines.
    pub fn to_text(&self) -> String {
        match self.content.as_slice() {
            [] => self.structured.as_deref().map(Value::to_string).unwrap_or_default(),
            [one] => one.to_text(),
            many => many.iter().map(Content::to_text).collect::<Vec<_>>().join("\n"),
        }
    }

    /// The blocks that are files or images.
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
