//! Request bodies: JSON, forms, multipart, text and files.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use serde_json::{Map, Value};
use windlass::Error;

use super::{encode, refused, style};
use crate::rest::media::{self, Form};
use crate::rest::plan::{BodyPlan, FieldEncoding, Style};

/// A body and its content type.
#[derive(Debug)]
pub(crate) struct Payload {
    pub(crate) content_type: String,
    pub(crate) bytes: Vec<u8>,
}

/// The body of a call; `None` if it has no arguments and is not required.
pub(super) fn build<'a>(
    plan: &BodyPlan,
    argument: &dyn Fn(&str) -> Option<&'a Value>,
) -> Result<Option<Payload>, Error> {
    let whole = match &plan.argument {
        Some(name) => argument(name).cloned().or_else(|| {
            let object = matches!(media::form(&plan.media_type), Form::Json | Form::UrlEncoded);
            (plan.required && object).then(|| Value::Object(Map::new()))
        }),
        None => {
            let fields: Map<String, Value> = plan
                .fields
                .iter()
                .filter_map(|field| {
                    Some((field.name().to_owned(), argument(field.argument())?.clone()))
                })
                .collect();
            (plan.required || !fields.is_empty()).then_some(Value::Object(fields))
        }
    };
    let Some(value) = whole else { return Ok(None) };
    let plain = |bytes| Payload { content_type: plan.media_type.clone(), bytes };
    Ok(Some(match media::form(&plan.media_type) {
        Form::Json => plain(value.to_string().into_bytes()),
        Form::UrlEncoded => plain(url_encoded(plan, &value).into_bytes()),
        Form::Multipart => multipart(plan, &value)?,
        Form::Text => match &value {
            Value::String(text) => plain(text.clone().into_bytes()),
            other => plain(other.to_string().into_bytes()),
        },
        Form::Bytes => {
            let file = File::read("body", &value)?;
            let own = file
                .content_type
                .filter(|_| media::plain(&plan.media_type) == "application/octet-stream");
            Payload {
                content_type: own.unwrap_or_else(|| plan.media_type.clone()),
                bytes: file.bytes,
            }
        }
    }))
}

fn url_encoded(plan: &BodyPlan, value: &Value) -> String {
    let mut pairs = Vec::new();
    for (name, value) in value.as_object().into_iter().flatten().filter(|(_, v)| !v.is_null()) {
        let encoding = plan.encoding.get(name);
        let said = encoding.is_some_and(|one| one.style.is_some() || one.explode.is_some());
        if !said && (value.is_object() || encoding.is_some_and(is_json)) {
            pairs.push(format!("{}={}", encode(name, false), encode(&value.to_string(), false)));
            continue;
        }
        let written = encoding.and_then(|one| one.style).unwrap_or(Style::Form);
        let explode = encoding.and_then(|one| one.explode).unwrap_or_else(|| written.explodes());
        for (name, texts) in style::form_pairs(name, value, written, explode) {
            let texts: Vec<String> = texts.iter().map(|text| encode(text, false)).collect();
            let separator = style::separator(written);
            pairs.push(format!("{}={}", encode(&name, false), texts.join(separator)));
        }
    }
    pairs.join("&")
}

fn is_json(encoding: &FieldEncoding) -> bool {
    encoding.content_type.as_deref().is_some_and(media::is_json)
}

/// A part of a multipart form.
struct Part {
    name: String,
    filename: Option<String>,
    content_type: Option<String>,
    bytes: Vec<u8>,
}

fn multipart(plan: &BodyPlan, value: &Value) -> Result<Payload, Error> {
    let mut parts = Vec::new();
    for (name, value) in value.as_object().into_iter().flatten().filter(|(_, v)| !v.is_null()) {
        let encoding = plan.encoding.get(name);
        match value {
            Value::Array(items) if encoding.is_some_and(|one| one.explode == Some(false)) => {
                let written = encoding.and_then(|one| one.style).unwrap_or(Style::Form);
                let separator = match written {
                    Style::SpaceDelimited => " ",
                    Style::PipeDelimited => "|",
                    Style::TabDelimited => "\t",
                    _ => ",",
                };
                let texts: Vec<String> = items.iter().map(style::scalar).collect();
                parts.push(text_part(name, texts.join(separator), None));
            }
            Value::Array(items) if !encoding.is_some_and(is_json) => {
                for item in items {
                    parts.push(part(name, item, encoding)?);
                }
            }
            value => parts.push(part(name, value, encoding)?),
        }
    }
    let boundary = boundary(&parts);
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend_from_slice(format!("--{boundary}\r\n").as_bytes());
        let name = quoted(&part.name);
        let filename = part.filename.map(|name| format!("; filename=\"{}\"", quoted(&name)));
        let filename = filename.unwrap_or_default();
        let head = format!("Content-Disposition: form-data; name=\"{name}\"{filename}\r\n");
        bytes.extend_from_slice(head.as_bytes());
        if let Some(kind) = part.content_type {
            bytes.extend_from_slice(format!("Content-Type: {}\r\n", one_line(&kind)).as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&part.bytes);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    Ok(Payload {
        content_type: format!("{}; boundary={boundary}", media::written(&plan.media_type)),
        bytes,
    })
}

fn part(name: &str, value: &Value, encoding: Option<&FieldEncoding>) -> Result<Part, Error> {
    let said = encoding.and_then(|one| one.content_type.clone());
    if let Some(file) = File::of(name, value)? {
        return Ok(Part {
            name: name.to_owned(),
            filename: Some(file.filename.unwrap_or_else(|| name.to_owned())),
            content_type: file
                .content_type
                .or(said)
                .or(Some("application/octet-stream".to_owned())),
            bytes: file.bytes,
        });
    }
    Ok(match value {
        Value::Object(_) | Value::Array(_) => {
            let kind = said.unwrap_or_else(|| media::JSON.to_owned());
            text_part(name, value.to_string(), Some(kind))
        }
        value => text_part(name, style::scalar(value), said),
    })
}

fn text_part(name: &str, text: String, content_type: Option<String>) -> Part {
    Part { name: name.to_owned(), filename: None, content_type, bytes: text.into_bytes() }
}

/// Escapes a name for a quoted string.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

fn one_line(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

/// A multipart boundary that occurs in none of the parts.
fn boundary(parts: &[Part]) -> String {
    let mut number = 0_u64;
    loop {
        let boundary = format!("windlass-{number:016x}");
        let inside = |part: &Part| {
            part.bytes.windows(boundary.len()).any(|bytes| bytes == boundary.as_bytes())
        };
        if !parts.iter().any(inside) {
            return boundary;
        }
        number =
            number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    }
}

/// A file written by a model: its content as text or in base64.
struct File {
    bytes: Vec<u8>,
    filename: Option<String>,
    content_type: Option<String>,
}

impl File {
    /// The file in a value; `None` if it is something else.
    fn of(name: &str, value: &Value) -> Result<Option<Self>, Error> {
        const KEYS: [&str; 4] = ["text", "base64", "filename", "content_type"];
        let Value::Object(map) = value else { return Ok(None) };
        let known = map.keys().all(|key| KEYS.contains(&key.as_str()))
            && map.values().all(Value::is_string)
            && (map.contains_key("text") || map.contains_key("base64"));
        if known { Self::read(name, value).map(Some) } else { Ok(None) }
    }

    fn read(name: &str, value: &Value) -> Result<Self, Error> {
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        let bytes = match (text("base64"), text("text"), value) {
            (Some(encoded), ..) => decode(encoded)
                .ok_or_else(|| refused(format!("the `base64` of `{name}` is not base64")))?,
            (None, Some(text), _) => text.as_bytes().to_vec(),
            (None, None, Value::String(text)) => text.as_bytes().to_vec(),
            _ => {
                return Err(refused(format!("`{name}` is a file: set its `text` or its `base64`")));
            }
        };
        let own = |key: &str| text(key).map(one_line).filter(|text| !text.is_empty());
        Ok(Self { bytes, filename: own("filename"), content_type: own("content_type") })
    }
}

fn decode(encoded: &str) -> Option<Vec<u8>> {
    let text: String = encoded.chars().filter(|c| !c.is_whitespace()).collect();
    let text = text.split_once(";base64,").map_or(text.as_str(), |(_, data)| data);
    STANDARD.decode(text).or_else(|_| URL_SAFE.decode(text)).ok()
}
