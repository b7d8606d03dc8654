//! Conversion between the engine's results and those of the protocol.
//!
//! What both sides have keeps its form: text, images, audio, resources, links, structured
//! content. What only the protocol has (`annotations`, `_meta`) is kept as metadata of
//! the block and written back where it came from.

use rmcp::model::{
    Annotations, AudioContent, CallToolResult, ContentBlock, EmbeddedResource, ImageContent,
    MetaObject, Resource, ResourceContents, TextContent,
};
use serde_json::{Map, Value, json};
use windlass::{Body, Content, Data, Error, Facts, Output};

use super::failure::ToolFailure;
use super::in_flight;

const ANNOTATIONS: &str = "annotations";
const META: &str = "_meta";
const LINK: &str = "resource_link";

/// Maximum size of a kept tool error if the operator sets none: the same as the engine's
/// for results.
const MAX_FAILURE: usize = 100 * 1024;

/// Converts the result of a `tools/call`. The engine caps results; errors are capped
/// here.
pub(super) fn from_result(mut result: Value, max_output: Option<usize>) -> Result<Output, Error> {
    let Some(result) = result.as_object_mut() else {
        return Err(Error::tool("the server answered with something else than a result"));
    };
    let blocks = match result.remove("content") {
        Some(Value::Array(blocks)) => blocks,
        None | Some(Value::Null) => Vec::new(),
        // No list, against the protocol. What a tool did may be said there alone.
        Some(Value::String(text)) => vec![json!({"type": "text", "text": text})],
        Some(other) => vec![other],
    };
    let mut output = Output::from(blocks.into_iter().map(from_block).collect::<Vec<_>>());
    output.structured = result.remove("structuredContent").map(Box::new);
    if let Some(meta) = result.remove(META).filter(|meta| !meta.is_null()) {
        output.metadata.insert(META, meta);
    }
    if !result.get("isError").is_some_and(says_yes) {
        return Ok(output);
    }
    let failure = ToolFailure::capped(output, max_output.unwrap_or(MAX_FAILURE));
    let text = failure.0.to_text();
    let text =
        if text.is_empty() { "the tool failed and did not say why".to_owned() } else { text };
    // A tool's error is written for the model and is passed on unchanged.
    Err(Error::tool(text.as_str()).with_feedback(text).with_source(failure))
}

/// Whether a flag is set, in whatever type a server writes it: a failure must not be
/// taken for a success.
fn says_yes(flag: &Value) -> bool {
    match flag {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !["", "0", "false", "no"].contains(&&*text.to_ascii_lowercase()),
        Value::Array(_) | Value::Object(_) => true,
    }
}

/// Converts one content block. Its texts may be large, so they are moved, not cloned.
pub(super) fn from_block(mut block: Value) -> Content {
    let kind = block.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let key = match kind.as_str() {
        "text" => "text",
        "image" | "audio" => "data",
        LINK => "uri",
        "resource" => return Content::new(Body::Resource(block)),
        _ => return Content::new(Body::Json(block)),
    };
    let Some(Value::String(text)) = block.get_mut(key) else {
        return Content::new(Body::Json(block));
    };
    if kind == LINK {
        let mut content = Content::new(Body::Link(text.clone()));
        content.meta.insert(LINK, block);
        return content;
    }
    let text = std::mem::take(text);
    let data = |base64: String| {
        let mime_type = block.get("mimeType").and_then(Value::as_str).unwrap_or_default();
        Data { base64, mime_type: mime_type.to_owned() }
    };
    let mut content = Content::new(match kind.as_str() {
        "image" => Body::Image(data(text)),
        "audio" => Body::Audio(data(text)),
        _ => Body::Text(text),
    });
    for key in [ANNOTATIONS, META] {
        if let Some(fact) = block.get_mut(key).map(Value::take).filter(|fact| !fact.is_null()) {
            content.meta.insert(key, fact);
        }
    }
    content
}

/// Converts the engine's result to the protocol's.
pub fn to_result(output: &Output) -> CallToolResult {
    let mut result = CallToolResult::default();
    result.content = output.content.iter().map(to_block).collect();
    result.structured_content = output.value().cloned();
    // Structured content alone is also sent as text, for clients that only read text.
    if let (true, Some(value)) = (result.content.is_empty(), &result.structured_content) {
        result.content.push(ContentBlock::text(value.to_string()));
    }
    result.meta = meta(&output.metadata);
    result
}

/// Converts a tool's failure to a result with `isError`.
pub fn to_failure(error: &Error, feedback: String) -> CallToolResult {
    let mut result = match ToolFailure::of(error) {
        Some(ToolFailure(output)) => to_result(output),
        None => {
            let mut result = CallToolResult::default();
            result.content = vec![ContentBlock::text(feedback)];
            result
        }
    };
    result.is_error = Some(true);
    result
}

/// Converts one content block.
pub fn to_block(content: &Content) -> ContentBlock {
    let annotations: Option<Annotations> =
        content.meta.get(ANNOTATIONS).and_then(|known| serde_json::from_value(known.clone()).ok());
    let meta = meta(&content.meta);
    match &content.body {
        Body::Text(text) => {
            let mut block = TextContent::new(text.as_str());
            (block.annotations, block.meta) = (annotations, meta);
            ContentBlock::Text(block)
        }
        Body::Json(value) => match serde_json::from_value(value.clone()) {
            // A block of an unknown type is passed through unchanged.
            Ok(block) if value.get("type").is_some() => block,
            _ => ContentBlock::text(value.to_string()),
        },
        Body::Image(data) => {
            let mut block = ImageContent::new(data.base64.as_str(), data.mime_type.as_str());
            (block.annotations, block.meta) = (annotations, meta);
            ContentBlock::Image(block)
        }
        Body::Audio(data) => {
            let mut block = AudioContent::new(data.base64.as_str(), data.mime_type.as_str());
            (block.annotations, block.meta) = (annotations, meta);
            ContentBlock::Audio(block)
        }
        Body::Blob(data) => {
            let mut uri = "blob:".to_owned();
            uri.push_str(content.meta.get("name").and_then(Value::as_str).unwrap_or("result"));
            ContentBlock::Resource(EmbeddedResource::new(ResourceContents::BlobResourceContents {
                uri,
                mime_type: Some(data.mime_type.clone()),
                blob: data.base64.clone(),
                meta: None,
            }))
        }
        Body::Link(uri) => link(content, uri, None),
        Body::ImageLink(uri) => link(content, uri, Some("image/*")),
        Body::FileVar(name) => ContentBlock::text(name.as_str()),
        Body::Resource(block) => serde_json::from_value(block.clone())
            .unwrap_or_else(|_| ContentBlock::text(block.to_string())),
    }
}

fn link(content: &Content, uri: &str, mime_type: Option<&str>) -> ContentBlock {
    let known = content.meta.get(LINK).cloned();
    if let Some(block) = known.and_then(|block| serde_json::from_value(block).ok()) {
        return block;
    }
    let title = content.meta.get("title").and_then(Value::as_str).unwrap_or(uri);
    let mut resource = Resource::new(uri, title);
    resource.mime_type = mime_type.map(str::to_owned);
    ContentBlock::ResourceLink(resource)
}

fn meta(facts: &Facts) -> Option<MetaObject> {
    facts.get(META)?.as_object().cloned().map(MetaObject)
}

/// Progress of a running tool, in the protocol's terms.
pub enum Progress {
    /// A progress notification.
    Step {
        /// Progress so far; it only increases.
        progress: f64,
        /// The value at which the tool is done.
        total: Option<f64>,
        /// What the tool is doing.
        message: Option<String>,
    },
    /// A log message: `level`, `logger`, `data`.
    Log(Map<String, Value>),
}

/// Reads a progress report. `step` is the number of the report, used for tools that give
/// no number of their own.
pub fn to_progress(report: &Content, step: u64) -> Progress {
    let value = match &report.body {
        Body::Json(Value::Object(map)) => Some(map),
        _ => None,
    };
    if let Some(map) = value.filter(|_| in_flight::is_log(report)) {
        return Progress::Log(map.clone());
    }
    let number = |key: &str| value.and_then(|map| map.get(key)).and_then(Value::as_f64);
    let message = match value {
        Some(map) => map.get("message").and_then(Value::as_str).map(str::to_owned),
        None => Some(report.to_text()),
    };
    #[expect(clippy::cast_precision_loss, reason = "nothing reports that often")]
    Progress::Step {
        progress: number("progress").unwrap_or(step as f64),
        total: number("total"),
        message,
    }
}

/// A progress report that is sent on as a log message of the protocol.
pub fn log_message(level: &str, logger: &str, data: impl Into<Value>) -> Content {
    in_flight::log_block(json!({"level": level, "logger": logger, "data": data.into()}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(result: &Value) -> Value {
        let output = from_result(result.clone(), None).unwrap();
        serde_json::to_value(to_result(&output)).unwrap()
    }

    #[test]
    fn every_block_comes_back_as_it_was() {
        let result = json!({"resultType": "complete", "content": [
            {"type": "text", "text": "a", "annotations": {"audience": ["user"], "priority": 0.5}},
            {"type": "image", "data": "aGk=", "mimeType": "image/png", "_meta": {"x/y": 1}},
            {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "a://b", "mimeType": "text/plain", "text": "t"}},
            {"type": "resource", "resource": {"uri": "a://c", "blob": "aGk="}},
            {"type": "resource_link", "uri": "a://d", "name": "d", "title": "D", "size": 3},
        ], "structuredContent": {"deep": [1, {"x": null}]}, "_meta": {"own": true}});
        assert_eq!(round_trip(&result), result);
    }

    #[test]
    fn a_failure_keeps_all_that_was_said() {
        let failed = json!({"content": [
            {"type": "text", "text": "no such file"},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        ], "structuredContent": {"code": 7}, "isError": true});
        let error = from_result(failed, None).unwrap_err();
        assert!(error.message().starts_with("no such file"), "{error}");
        let shown = serde_json::to_value(to_failure(&error, String::new())).unwrap();
        assert_eq!(shown["isError"], true);
        assert_eq!(shown["content"][1]["mimeType"], "image/png");
        assert_eq!(shown["structuredContent"]["code"], 7);
    }

    #[test]
    fn content_that_is_no_list_is_not_lost() {
        for (content, text) in [
            (json!({"type": "text", "text": "paid"}), "paid"),
            (json!("paid"), "paid"),
            (json!({"status": "paid"}), r#"{"status":"paid"}"#),
            (json!(7), "7"),
            (json!(null), ""),
            (json!([]), ""),
        ] {
            let output = from_result(json!({"content": content}), None).unwrap();
            assert_eq!(output.to_text(), text, "{content}");
        }
    }

    #[test]
    fn a_failure_is_one_however_its_flag_is_written() {
        for (flag, failed) in [
            (json!(true), true),
            (json!("true"), true),
            (json!("yes"), true),
            (json!(1), true),
            (json!({"code": 7}), true),
            (json!(false), false),
            (json!("False"), false),
            (json!(0), false),
            (json!(null), false),
        ] {
            let result = json!({"content": [{"type": "text", "text": "no"}], "isError": flag});
            assert_eq!(from_result(result, None).is_err(), failed, "{flag}");
        }
    }

    #[test]
    fn nonsense_is_no_panic() {
        for result in [
            json!({}),
            json!({"content": {"type": "text"}}),
            json!({"content": [null, 1, "x", {"type": "text"}, {"type": "image", "data": 5}]}),
            json!({"content": [{"type": "hologram", "x": 1}]}),
        ] {
            let output = from_result(result.clone(), None).unwrap();
            let _ = to_result(&output);
        }
        assert!(from_result(json!([1]), None).is_err());
        assert!(from_result(json!({"isError": true}), None).is_err());
    }
}
