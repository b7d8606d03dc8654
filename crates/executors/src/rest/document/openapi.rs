//! Reads OpenAPI 3.0, 3.1 and 3.2.

use std::collections::BTreeMap;

use super::api::{Answer, Api, Body, Encoding, Fault, Media, Operation};
use super::reference::{At, Files};
use super::{DocumentLimits, parameter, security, server};
use crate::rest::media;
use crate::rest::plan::Style;
use crate::rest::schema::brief;

/// The methods of a path item, in the order in which they are listed.
pub(super) const METHODS: [&str; 9] =
    ["get", "put", "post", "delete", "options", "head", "patch", "trace", "query"];

/// Maximum length of a path.
const MAX_PATH: usize = 2_000;

pub(super) fn read<'d>(files: &'d Files, limits: &DocumentLimits) -> Api<'d> {
    let root = files.root();
    let info = root.get("info");
    let schemes = root.get("components").into_iter().flat_map(|all| all.map("securitySchemes"));
    let mut api = Api {
        title: info.and_then(|info| info.text("title")).unwrap_or_default(),
        description: info.and_then(|info| info.text("description")).unwrap_or_default(),
        version: info.and_then(|info| info.text("version")),
        servers: server::read(root),
        schemes: security::schemes(files, schemes),
        operations: Vec::new(),
        notes: Vec::new(),
    };
    each_operation(files, limits, &mut api, |item, method, path, at| {
        operation(files, root, item, method, path, at)
    });
    api
}

/// Visits all operations of a document, within its limits.
pub(super) fn each_operation<'d>(
    files: &'d Files,
    limits: &DocumentLimits,
    api: &mut Api<'d>,
    read: impl Fn(At<'d>, &str, &'d str, At<'d>) -> Result<Operation<'d>, String>,
) {
    for (path, item) in files.root().map("paths") {
        let whole = |why: &str| Fault {
            method: "*".to_owned(),
            path: brief(path, MAX_PATH),
            why: why.to_owned(),
        };
        if path.len() > MAX_PATH {
            api.operations.push(Err(whole("the path is too long")));
            continue;
        }
        let Some(item) = files.follow(item) else {
            let why = "what is there cannot be found: the reference leads to nothing";
            api.operations.push(Err(whole(why)));
            continue;
        };
        for method in METHODS {
            let Some(at) = item.get(method) else { continue };
            if api.operations.len() >= limits.operations {
                let most = limits.operations;
                api.notes
                    .push(format!("there are more than {most} operations; the rest is left out"));
                return;
            }
            let fault = |why| Fault { method: method.to_uppercase(), path: path.to_owned(), why };
            let outcome = match files.follow(at) {
                Some(at) if at.value.is_object() => read(item, method, path, at).map_err(fault),
                _ => Err(fault("it is not described".to_owned())),
            };
            api.operations.push(outcome);
        }
    }
}

fn operation<'d>(
    files: &'d Files,
    root: At<'d>,
    item: At<'d>,
    method: &str,
    path: &'d str,
    at: At<'d>,
) -> Result<Operation<'d>, String> {
    let mut notes = Vec::new();
    let read = |at, notes: &mut Vec<String>| parameter::openapi(files, at, notes);
    let parameters = parameter::collect(files, path, [item, at], &mut notes, read);
    let body = at.get("requestBody").and_then(|body| match files.follow(body) {
        Some(body) => read_body(files, body, &mut notes),
        None => {
            notes.push("the body cannot be found: its reference leads to nothing".to_owned());
            None
        }
    });
    let own = server::read(at);
    Ok(Operation {
        method: method.to_uppercase(),
        path,
        parameters,
        body,
        answer: answer(files, at),
        security: security::requirements(root, at),
        servers: if own.is_empty() { server::read(item) } else { own },
        ..about(at, item, path, notes)
    })
}

/// The fields of an operation that all versions share.
pub(super) fn about<'d>(
    at: At<'d>,
    item: At<'d>,
    path: &'d str,
    notes: Vec<String>,
) -> Operation<'d> {
    let text = |key: &str| at.text(key).or_else(|| item.text(key)).unwrap_or_default();
    Operation {
        method: String::new(),
        path,
        id: at.text("operationId").map(str::trim).filter(|id| !id.is_empty()),
        tags: at.list("tags").filter_map(|tag| tag.value.as_str()).collect(),
        summary: text("summary"),
        description: text("description"),
        deprecated: at.flag("deprecated").unwrap_or_default(),
        parameters: Vec::new(),
        body: None,
        answer: None,
        security: Vec::new(),
        servers: Vec::new(),
        notes,
    }
}

fn read_body<'d>(files: &'d Files, body: At<'d>, notes: &mut Vec<String>) -> Option<Body<'d>> {
    let kinds: Vec<(&str, At<'d>)> = body.map("content").collect();
    let chosen = media::choose(kinds.iter().map(|(name, _)| *name))?;
    let (media_type, media) = kinds[chosen];
    let media = files.follow(media).unwrap_or(media);
    let mut encoding = BTreeMap::new();
    for (name, at) in media.map("encoding") {
        let style = at.text("style").and_then(|name| {
            let style = Style::from_name(name);
            if style.is_none() {
                notes.push(format!("the style `{name}` is not known"));
            }
            style
        });
        let content_type = at.text("contentType");
        // The first of several.
        let content_type = content_type.and_then(|all| all.split(',').next()).map(str::trim);
        let content_type = content_type.map(str::to_owned);
        encoding
            .insert(name.to_owned(), Encoding { style, explode: at.flag("explode"), content_type });
    }
    Some(Body {
        required: body.flag("required").unwrap_or_default(),
        description: body.text("description").unwrap_or_default(),
        media: Media {
            media_type: media::written(media_type),
            schema: media.get("schema"),
            fields: Vec::new(),
            encoding,
        },
    })
}

/// The first successful response.
fn answer<'d>(files: &'d Files, at: At<'d>) -> Option<Answer<'d>> {
    let response = success(files, at)?;
    let kinds: Vec<(&str, At<'d>)> = response.map("content").collect();
    let json = kinds.iter().find(|(name, _)| media::is_json(name));
    let media_types = kinds.iter().map(|(name, _)| media::written(name)).collect();
    Some(Answer { media_types, schema: json.and_then(|(_, media)| media.get("schema")) })
}

/// The successful response: the lowest 2xx status.
pub(super) fn success<'d>(files: &'d Files, at: At<'d>) -> Option<At<'d>> {
    let mut good: Vec<(&str, At<'d>)> =
        at.map("responses").filter(|(status, _)| status.starts_with('2')).collect();
    good.sort_by_key(|(status, _)| status.to_ascii_lowercase());
    let default = || at.get("responses")?.get("default");
    good.first().map(|(_, response)| *response).or_else(default).and_then(|at| files.follow(at))
}
