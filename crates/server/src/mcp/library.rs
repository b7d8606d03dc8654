//! Prompts, resources and completion: those of definitions, stored files, and those of
//! the upstream server of `/mcp/PROVIDER`.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{ErrorData, GetPromptResult, ReadResourceResult};
use serde_json::{Map, Value, json};
use windlass::definition::{PromptSpec, ResourceBody, ResourceSpec};
use windlass::native::run_blocking;
use windlass::{CallResult, Error, ErrorKind, Lang, TenantId, Text};

/// The largest file that is read as a resource.
const MAX_FILE: u64 = 16 * 1024 * 1024;
/// How many values a completion offers.
const MAX_VALUES: usize = 100;

fn said(text: Option<&Text>, lang: Lang) -> Option<&str> {
    text.map(|text| text.get(lang)).filter(|text| !text.is_empty())
}

/// A prompt as the protocol lists it.
pub(super) fn list_prompt(prompt: &PromptSpec, lang: Lang) -> Value {
    let arguments: Vec<Value> = (prompt.arguments.iter())
        .map(|argument| {
            let mut listed = json!({"name": argument.name, "required": argument.required});
            if let Some(about) = said(argument.description.as_ref(), lang) {
                listed["description"] = about.into();
            }
            listed
        })
        .collect();
    let mut listed = json!({"name": prompt.name});
    if !arguments.is_empty() {
        listed["arguments"] = arguments.into();
    }
    if let Some(title) = said(prompt.title.as_ref(), lang) {
        listed["title"] = title.into();
    }
    if let Some(about) = said(prompt.description.as_ref(), lang) {
        listed["description"] = about.into();
    }
    listed
}

/// A resource, or a template of resources, as the protocol lists it.
pub(super) fn list_resource(resource: &ResourceSpec, lang: Lang) -> Value {
    let place = if resource.is_template { "uriTemplate" } else { "uri" };
    let mut listed = json!({place: resource.uri, "name": resource.name});
    if let Some(title) = said(resource.title.as_ref(), lang) {
        listed["title"] = title.into();
    }
    if let Some(about) = said(resource.description.as_ref(), lang) {
        listed["description"] = about.into();
    }
    if let Some(mime_type) = &resource.mime_type {
        listed["mimeType"] = mime_type.as_str().into();
    }
    listed
}

/// The arguments of a prompt, once those that it cannot do without are there.
pub(super) fn arguments(
    prompt: &PromptSpec,
    given: Option<&Map<String, Value>>,
) -> Result<BTreeMap<String, String>, ErrorData> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let given: BTreeMap<String, String> =
        given.into_iter().flatten().map(|(name, value)| (name.clone(), text(value))).collect();
    let missing = prompt
        .arguments
        .iter()
        .find(|argument| argument.required && !given.contains_key(&argument.name));
    match missing {
        Some(missing) => {
            let why = format!("the prompt `{}` needs `{}`", prompt.name, missing.name);
            Err(ErrorData::invalid_params(why, None))
        }
        None => Ok(given),
    }
}

/// The messages of a prompt with its arguments put in.
pub(super) fn fill(
    prompt: &PromptSpec,
    arguments: &BTreeMap<String, String>,
    lang: Lang,
) -> Result<GetPromptResult, ErrorData> {
    let messages: Vec<Value> =
        prompt.messages.iter().map(|message| filled(message, prompt, arguments)).collect();
    to_prompt(said(prompt.description.as_ref(), lang), &messages.into())
}

fn filled(value: &Value, prompt: &PromptSpec, arguments: &BTreeMap<String, String>) -> Value {
    match value {
        Value::String(text) => Value::String(put_in(text, "{{", "}}", |name| {
            let known = prompt.arguments.iter().any(|argument| argument.name == name);
            known.then(|| arguments.get(name).cloned().unwrap_or_default())
        })),
        Value::Array(items) => items.iter().map(|item| filled(item, prompt, arguments)).collect(),
        Value::Object(map) => Value::Object(
            map.iter().map(|(key, item)| (key.clone(), filled(item, prompt, arguments))).collect(),
        ),
        other => other.clone(),
    }
}

/// Puts values in place of names. What was put in is not looked at again.
fn put_in(text: &str, open: &str, close: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(open) {
        filled.push_str(before);
        let known =
            after.split_once(close).and_then(|(name, end)| Some((value(name.trim())?, end)));
        match known {
            Some((value, end)) => {
                filled.push_str(&value);
                rest = end;
            }
            None => {
                filled.push_str(open);
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    filled
}

fn to_prompt(description: Option<&str>, messages: &Value) -> Result<GetPromptResult, ErrorData> {
    let mut result = json!({"messages": messages, "resultType": "complete"});
    if let Some(description) = description {
        result["description"] = description.into();
    }
    serde_json::from_value(result).map_err(|error| {
        ErrorData::internal_error(format!("the prompt's messages are not right: {error}"), None)
    })
}

/// A prompt whose messages a tool made: its structured result has `messages`,
/// and anything else is one message.
pub(super) fn made_by_tool(
    prompt: &PromptSpec,
    result: &CallResult,
    lang: Lang,
) -> Result<GetPromptResult, ErrorData> {
    let output = match &result.outcome {
        Ok(output) => output,
        Err(error) => return Err(super::reply::of_error(error, lang)),
    };
    let about = said(prompt.description.as_ref(), lang);
    match output.value().and_then(|value| value.get("messages")) {
        Some(messages) => to_prompt(about, messages),
        None => {
            let text = json!({"type": "text", "text": output.to_text()});
            to_prompt(about, &json!([{"role": "user", "content": text}]))
        }
    }
}

/// Finds the resource at an address, and what its template says about it.
pub(super) fn find<'r>(
    resources: &'r [ResourceSpec],
    uri: &str,
) -> Option<(&'r ResourceSpec, BTreeMap<String, String>)> {
    let plain = resources.iter().find(|resource| !resource.is_template && resource.uri == uri);
    plain.map(|resource| (resource, BTreeMap::new())).or_else(|| {
        let mut templates = resources.iter().filter(|resource| resource.is_template);
        templates.find_map(|resource| Some((resource, matched(&resource.uri, uri)?)))
    })
}

/// What stands in an address where a template has names. A name stands for one
/// part of a path.
pub(super) fn matched(template: &str, uri: &str) -> Option<BTreeMap<String, String>> {
    let mut values = BTreeMap::new();
    let (mut template, mut uri) = (template, uri);
    while let Some((before, after)) = template.split_once('{') {
        let (name, next) = after.split_once('}')?;
        uri = uri.strip_prefix(before)?;
        let until = next.chars().next().filter(|next| *next != '{');
        let end = match until {
            Some(sign) => uri.find(sign)?,
            None => uri.len(),
        };
        let value = &uri[..end];
        if value.is_empty() || value.contains('/') {
            return None;
        }
        values.insert(name.to_owned(), value.to_owned());
        (template, uri) = (next, &uri[end..]);
    }
    (template == uri).then_some(values)
}

/// Reads a resource of a definition, for a tenant.
pub(super) async fn read(
    tenant: &TenantId,
    resource: &ResourceSpec,
    uri: &str,
    names: &BTreeMap<String, String>,
) -> Result<ReadResourceResult, ErrorData> {
    let mut contents = json!({"uri": uri});
    if let Some(mime_type) = &resource.mime_type {
        contents["mimeType"] = mime_type.as_str().into();
    }
    match &resource.body {
        ResourceBody::Text(text) => {
            contents["text"] = put_in(text, "{", "}", |name| names.get(name).cloned()).into();
        }
        ResourceBody::Blob(blob) => contents["blob"] = blob.as_str().into(),
        ResourceBody::File(path) => {
            let path = path.clone();
            let bytes = run_blocking(tenant, move || read_file(&path)).await;
            let failed = |error: Error| ErrorData::internal_error(error.message().to_owned(), None);
            let bytes = bytes.map_err(failed)?;
            put_bytes(&mut contents, bytes);
        }
    }
    to_resource(&contents)
}

fn read_file(path: &str) -> Result<Vec<u8>, Error> {
    let failed = |why: String| Error::new(ErrorKind::NotFound, why);
    let about =
        std::fs::metadata(path).map_err(|error| failed(format!("the file is gone: {error}")))?;
    if !about.is_file() || about.len() > MAX_FILE {
        return Err(failed("the file is too large".to_owned()));
    }
    std::fs::read(path).map_err(|error| failed(format!("the file cannot be read: {error}")))
}

/// Bytes as text where they are text, else in base64.
pub(super) fn put_bytes(contents: &mut Value, bytes: Vec<u8>) {
    match String::from_utf8(bytes) {
        Ok(text) => contents["text"] = text.into(),
        Err(error) => contents["blob"] = STANDARD.encode(error.as_bytes()).into(),
    }
}

pub(super) fn to_resource(contents: &Value) -> Result<ReadResourceResult, ErrorData> {
    let result = json!({"contents": [contents], "resultType": "complete"});
    serde_json::from_value(result)
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

/// Values that begin like what has been typed.
pub(super) fn complete(values: &[String], typed: &str) -> Value {
    let typed = typed.to_lowercase();
    let fitting: Vec<&String> =
        values.iter().filter(|value| value.to_lowercase().starts_with(&typed)).collect();
    let shown: Vec<&&String> = fitting.iter().take(MAX_VALUES).collect();
    let completion = json!({
        "values": shown,
        "total": fitting.len(),
        "hasMore": fitting.len() > MAX_VALUES,
    });
    json!({"completion": completion, "resultType": "complete"})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_match_one_part_for_each_name() {
        let template = "test://t/{id}/data";
        assert_eq!(matched(template, "test://t/123/data").unwrap()["id"], "123");
        for other in ["test://t//data", "test://t/1/2/data", "test://t/1/date", "test://t/1"] {
            assert!(matched(template, other).is_none(), "{other}");
        }
        assert_eq!(matched("docs://{topic}", "docs://x").unwrap()["topic"], "x");
    }

    #[test]
    fn what_is_put_in_is_not_looked_at_again() {
        let put = |name: &str| (name == "a").then(|| "{{a}}".to_owned());
        assert_eq!(put_in("{{a}} {{ a }} {{b}} {{", "{{", "}}", put), "{{a}} {{a}} {{b}} {{");
    }
}
