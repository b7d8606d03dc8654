//! Nodes that reach out: what they send, and what their outputs are.

use super::{
    AgentCall, Failure, HeaderValue, HttpAnswer, HttpBody, HttpRequest, Lookup, Outcome, Question,
    ToolAnswer, ToolCall, Work, lookup, model, named, written,
};
use crate::json;
use crate::node::model::Agent;
use crate::node::reach::{
    Authorization, Body, Document, Field, FieldValue, Http, Human, Knowledge, Scheme, Template,
    Tool, ToolInput,
};
use crate::pool::Pool;
use crate::template::{self, Part, SecretUse};
use crate::value::{File, Kind, Object, Segment, Value};

pub(super) fn template(settings: &Template, pool: &Pool) -> Result<Outcome, Failure> {
    let variables = named(pool, &settings.variables)?;
    let text = model::render_jinja(&settings.text, &variables)?;
    Ok(Outcome::of([("output", Value::from(text).into())]))
}

pub(super) fn tool(settings: &Tool, pool: &Pool) -> Result<ToolCall, Failure> {
    Ok(ToolCall {
        provider_kind: settings.provider_kind.clone(),
        provider: settings.provider.clone(),
        name: settings.name.clone(),
        arguments: inputs(&settings.parameters, pool)?,
        configuration: inputs(&settings.configuration, pool)?,
    })
}

/// Values of inputs; those whose variable is missing are left out.
fn inputs(inputs: &[(String, ToolInput)], pool: &Pool) -> Result<Object, Failure> {
    let mut object = Object::new();
    for (name, input) in inputs {
        let value = match input {
            ToolInput::Constant(value) => value.clone(),
            ToolInput::Text(text) => Value::from(template::render(text, pool)?),
            ToolInput::Variable(selector) => match lookup(pool, selector)? {
                Some(segment) => segment.value,
                None => continue,
            },
        };
        object.insert(name.clone(), value);
    }
    Ok(object)
}

pub(super) fn agent(settings: &Agent, pool: &Pool) -> Result<AgentCall, Failure> {
    Ok(AgentCall {
        strategy: settings.strategy.clone(),
        parameters: inputs(&settings.parameters, pool)?,
        history: settings.memory.as_ref().map(|memory| memory.window),
    })
}

pub(super) fn tool_answer(answer: ToolAnswer) -> Outcome {
    let json = match answer.json.is_empty() {
        true => Value::from_json(serde_json::json!([{"data": []}])),
        false => answer.json.into_iter().collect(),
    };
    let files = Segment { kind: Kind::FileList, value: answer.files.into_iter().collect() };
    let mut outcome = Outcome::of([
        ("text", Value::from(answer.text).into()),
        ("files", files),
        ("json", json.into()),
    ]);
    outcome.outputs.extend(answer.variables.into_iter().map(|(name, value)| (name, value.into())));
    outcome
}

pub(super) fn http(settings: &Http, pool: &Pool) -> Result<HttpRequest, Failure> {
    let url = template::render(&settings.url, pool)?;
    let invalid = |message: &str| Err(Failure::new("InvalidURLError", message));
    if url.is_empty() {
        return invalid("url is required");
    }
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return invalid("url should start with http:// or https://");
    }
    let mut params = Vec::new();
    for line in lines(&settings.params) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let (name, value) = (name.trim(), value.trim());
        if !name.is_empty() {
            params.push((template::render(name, pool)?, template::render(value, pool)?));
        }
    }
    let mut headers = headers(&settings.headers, pool)?;
    if let Some(authorization) = &settings.authorization {
        let (name, value) = credentials(authorization, pool)?;
        headers.retain(|(known, _)| !known.eq_ignore_ascii_case(&name));
        headers.push((name, value));
    }
    let body = body(&settings.body, pool)?;
    let content_type = match &body {
        HttpBody::Json(_) => Some("application/json"),
        HttpBody::Form(_) => Some("application/x-www-form-urlencoded"),
        HttpBody::Text(_) => Some("text/plain"),
        // Whoever sends a form with files writes its boundary.
        HttpBody::Multipart(..) => {
            headers.retain(|(known, _)| !known.eq_ignore_ascii_case("content-type"));
            None
        }
        HttpBody::None | HttpBody::File(_) => None,
    };
    let has_type = headers.iter().any(|(known, _)| known.eq_ignore_ascii_case("content-type"));
    if let Some(content_type) = content_type.filter(|_| !has_type) {
        let value = HeaderValue::Plain(vec![Part::Text(content_type.to_owned())]);
        headers.push(("Content-Type".to_owned(), value));
    }
    let method = settings.method.clone();
    let (timeouts, verifies) = (settings.timeouts, settings.verifies);
    Ok(HttpRequest { method, url, params, headers, body, timeouts, verifies })
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty())
}

/// Lines `name:value` of a text that was rendered as a whole.
fn headers(text: &str, pool: &Pool) -> Result<Vec<(String, HeaderValue)>, Failure> {
    let mut headers: Vec<(String, HeaderValue)> = Vec::new();
    for line in part_lines(template::render_with_secrets(text, pool)) {
        let mut parts = line.into_iter();
        let (name, first) = match parts.next() {
            Some(Part::Text(text)) => match text.split_once(':') {
                Some((name, value)) => (name.trim().to_owned(), value.trim_start().to_owned()),
                None => (text.trim().to_owned(), String::new()),
            },
            Some(Part::Secret(name)) => return Err(SecretUse { name }.into()),
            None => continue,
        };
        if name.is_empty() {
            continue;
        }
        let mut value: Vec<Part> = [Part::Text(first)].into_iter().chain(parts).collect();
        value.retain(|part| *part != Part::Text(String::new()));
        if let Some(Part::Text(last)) = value.last_mut() {
            last.truncate(last.trim_end().len());
        }
        headers.retain(|(known, _)| *known != name);
        headers.push((name, HeaderValue::Plain(value)));
    }
    Ok(headers)
}

fn part_lines(parts: Vec<Part>) -> Vec<Vec<Part>> {
    let mut lines: Vec<Vec<Part>> = vec![Vec::new()];
    for part in parts {
        match part {
            Part::Text(text) => {
                for (at, piece) in text.split(['\n', '\r']).enumerate() {
                    if at > 0 {
                        lines.push(Vec::new());
                    }
                    if let Some(line) = lines.last_mut().filter(|_| !piece.is_empty()) {
                        line.push(Part::Text(piece.to_owned()));
                    }
                }
            }
            secret @ Part::Secret(_) => {
                lines.last_mut().into_iter().for_each(|l| l.push(secret.clone()));
            }
        }
    }
    lines.retain(|line| {
        line.iter().any(|part| !matches!(part, Part::Text(text) if text.trim().is_empty()))
    });
    lines
}

fn credentials(
    authorization: &Authorization,
    pool: &Pool,
) -> Result<(String, HeaderValue), Failure> {
    let key = template::render_with_secrets(&authorization.key, pool);
    let is_empty =
        key.iter().all(|part| matches!(part, Part::Text(text) if text.trim().is_empty()));
    if is_empty {
        let message =
            "API key is required for authorization but was empty. Please provide a valid API key.";
        return Err(Failure::new("AuthorizationConfigError", message));
    }
    let value = match authorization.scheme {
        Scheme::Custom => HeaderValue::Plain(key),
        Scheme::Basic => HeaderValue::Basic(key),
        Scheme::Bearer => {
            let scheme = Part::Text("Bearer ".to_owned());
            HeaderValue::Plain([scheme].into_iter().chain(key).collect())
        }
    };
    Ok((authorization.header.clone(), value))
}

fn body(body: &Body, pool: &Pool) -> Result<HttpBody, Failure> {
    Ok(match body {
        Body::None => HttpBody::None,
        Body::Raw(text) => HttpBody::Text(template::render(text, pool)?),
        Body::Json(text) => {
            let text = template::render(text, pool)?;
            match json::parse(&text) {
                Some(json) => HttpBody::Json(json),
                None => {
                    let message = format!("Failed to parse JSON: {text}");
                    return Err(Failure::new("RequestBodyError", message));
                }
            }
        }
        Body::Binary(selector) => match lookup(pool, selector)?.map(|segment| segment.value) {
            Some(Value::File(file)) => HttpBody::File((*file).clone()),
            _ => {
                let message = format!("cannot fetch file with selector {}", written(selector));
                return Err(Failure::new("FileFetchError", message));
            }
        },
        Body::Form(fields) => HttpBody::Form(form(fields, pool)?),
        Body::Multipart(fields) => {
            let mut files = Vec::new();
            for field in fields {
                let FieldValue::Files(selector) = &field.value else { continue };
                let name = template::render(&field.name, pool)?;
                let found =
                    lookup(pool, selector)?.map(|segment| segment.files()).unwrap_or_default();
                files.extend(found.into_iter().filter_map(|file| match file {
                    Value::File(file) => Some((name.clone(), (*file).clone())),
                    _ => None,
                }));
            }
            HttpBody::Multipart(form(fields, pool)?, files)
        }
    })
}

/// The texts of a form; of fields with one name, the last.
fn form(fields: &[Field], pool: &Pool) -> Result<Vec<(String, String)>, Failure> {
    let mut texts: Vec<(String, String)> = Vec::new();
    for field in fields {
        let FieldValue::Text(text) = &field.value else { continue };
        let (name, text) = (template::render(&field.name, pool)?, template::render(text, pool)?);
        match texts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = text,
            None => texts.push((name, text)),
        }
    }
    Ok(texts)
}

/// A status that says no is a failure only where the node says what then.
pub(super) fn http_answer(answer: HttpAnswer, strict: bool) -> Result<Outcome, Failure> {
    if strict && !(200..300).contains(&answer.status) {
        let message = format!("Request failed with status code {}", answer.status);
        return Err(Failure::new("HTTPResponseCodeError", message));
    }
    let files = Segment { kind: Kind::FileList, value: answer.files.into_iter().collect() };
    Ok(Outcome::of([
        ("status_code", Value::Int(answer.status.into()).into()),
        ("body", Value::from(answer.body).into()),
        ("headers", Value::from(answer.headers).into()),
        ("files", files),
    ]))
}

pub(super) fn knowledge(settings: &Knowledge, pool: &Pool) -> Result<Work, Failure> {
    let Some(selector) = &settings.query else { return Ok(Work::Done(Outcome::default())) };
    let query = lookup(pool, selector)?.map(|segment| segment.text()).unwrap_or_default();
    Ok(Work::Knowledge(Box::new(Lookup {
        query,
        datasets: settings.datasets.clone(),
        top_k: settings.top_k,
        threshold: settings.threshold,
    })))
}

pub(super) fn documents(settings: &Document, pool: &Pool) -> Result<Work, Failure> {
    let Some(segment) = lookup(pool, &settings.files)? else {
        let selector = written(&settings.files);
        let message = format!("File variable not found for selector: {selector}");
        return Err(Failure::new("FileVariableNotFoundError", message));
    };
    if !segment.value.is_truthy() {
        return Ok(Work::Done(texts(Vec::new())));
    }
    let files = segment.files();
    if files.is_empty() {
        let message = format!("Variable {} is not an ArrayFileSegment", written(&settings.files));
        return Err(Failure::new("DocumentExtractorError", message));
    }
    let files = files.into_iter().filter_map(|file| match file {
        Value::File(file) => Some((*file).clone()),
        _ => None,
    });
    Ok(Work::Documents(files.collect::<Vec<File>>()))
}

fn texts(texts: Vec<String>) -> Outcome {
    let value = texts.into_iter().map(Value::from).collect();
    Outcome::of([("text", Segment { kind: Kind::StringList, value })])
}

pub(super) fn document_texts(settings: &Document, pool: &Pool, mut read: Vec<String>) -> Outcome {
    let is_list = pool.get(&settings.files).is_some_and(|segment| segment.kind.is_list());
    match (is_list, read.len()) {
        (false, 1) => Outcome::of([("text", Value::from(read.swap_remove(0)).into())]),
        _ => texts(read),
    }
}

pub(super) fn question(settings: &Human, pool: &Pool) -> Result<Question, Failure> {
    let mut inputs = Vec::new();
    for input in &settings.inputs {
        let default = input.settings.get("default").and_then(Value::as_object);
        let value = match default {
            Some(default) => match default.get("type").and_then(Value::as_text) {
                Some("variable") => {
                    let selector = default.get("selector").and_then(Value::as_list);
                    let selector: Vec<&str> =
                        selector.unwrap_or_default().iter().filter_map(Value::as_text).collect();
                    pool.get(&selector).map_or(Value::Null, |segment| segment.value)
                }
                _ => default.get("value").cloned().unwrap_or_default(),
            },
            None => input.settings.get("default").cloned().unwrap_or_default(),
        };
        inputs.push((input.clone(), value));
    }
    Ok(Question {
        form: template::render(&settings.form, pool)?,
        inputs,
        actions: settings.actions.clone(),
        timeout: settings.timeout,
    })
}

pub(super) fn decision(
    settings: &Human,
    pool: &Pool,
    action: &str,
    inputs: Object,
) -> Result<Outcome, Failure> {
    let Some(chosen) = settings.actions.iter().find(|known| known.id == action) else {
        return Err(Failure::value(format!("no action has the id `{action}`")));
    };
    let mut content = template::render(&settings.form, pool)?;
    for (name, value) in &inputs {
        let text = Segment::of(value.clone()).text();
        content = content.replace(&format!("{{{{#$output.{name}#}}}}"), &text);
    }
    let mut outcome = Outcome::default().at(action);
    outcome.outputs.extend(inputs.into_iter().map(|(name, value)| (name, value.into())));
    for (name, text) in [
        ("__action_id", chosen.id.as_str()),
        ("__action_value", chosen.title.as_str()),
        ("__rendered_content", &content),
    ] {
        outcome.outputs.insert(name.to_owned(), Value::from(text).into());
    }
    Ok(outcome)
}
