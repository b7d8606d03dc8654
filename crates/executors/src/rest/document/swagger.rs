//! Reads Swagger 2.0 into the same model.

use std::collections::BTreeMap;

use super::api::{Answer, Api, Body, BodyField, Encoding, Media, Operation};
use super::openapi::{about, each_operation, success};
use super::parameter::MAX_PARAMETERS;
use super::reference::{At, Files};
use super::{DocumentLimits, parameter, security, server};
use crate::rest::media;
use crate::rest::plan::Location;

pub(super) fn read<'d>(files: &'d Files, limits: &DocumentLimits) -> Api<'d> {
    let root = files.root();
    let info = root.get("info");
    let mut api = Api {
        title: info.and_then(|info| info.text("title")).unwrap_or_default(),
        description: info.and_then(|info| info.text("description")).unwrap_or_default(),
        version: info.and_then(|info| info.text("version")),
        servers: server::of_swagger(root, None),
        schemes: security::schemes(files, root.map("securityDefinitions")),
        operations: Vec::new(),
        notes: Vec::new(),
    };
    each_operation(files, limits, &mut api, |item, method, path, at| {
        operation(files, root, item, method, path, at)
    });
    api
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
    let parameters = parameter::collect(files, path, [item, at], &mut notes, parameter::swagger);
    let own_schemes = at.value.get("schemes").is_some();
    Ok(Operation {
        method: method.to_uppercase(),
        path,
        parameters,
        body: body(files, root, item, at),
        answer: answer(files, root, at),
        security: security::requirements(root, at),
        servers: if own_schemes { server::of_swagger(root, Some(at)) } else { Vec::new() },
        ..about(at, item, path, notes)
    })
}

/// The `body` parameter, or all `formData` parameters together.
fn body<'d>(files: &'d Files, root: At<'d>, item: At<'d>, at: At<'d>) -> Option<Body<'d>> {
    let all: Vec<At<'d>> = [at, item]
        .into_iter()
        .flat_map(|level| level.list("parameters"))
        .filter_map(|parameter| files.follow(parameter))
        .collect();
    let consumes = media_types(root, at, "consumes");
    if let Some(body) = all.iter().find(|one| one.text("in") == Some("body")) {
        let chosen = media::choose(consumes.iter().copied().filter(|kind| !media::is_form(kind)));
        let not_forms: Vec<&str> =
            consumes.into_iter().filter(|kind| !media::is_form(kind)).collect();
        let media_type = chosen.map_or("application/json", |chosen| not_forms[chosen]);
        return Some(Body {
            required: body.flag("required").unwrap_or_default(),
            description: body.text("description").unwrap_or_default(),
            media: Media {
                media_type: media::written(media_type),
                schema: body.get("schema"),
                fields: Vec::new(),
                encoding: BTreeMap::new(),
            },
        });
    }
    let mut fields: Vec<BodyField<'d>> = Vec::new();
    let mut encoding = BTreeMap::new();
    let mut files_in_it = false;
    for one in all.iter().filter(|one| one.text("in") == Some("formData")) {
        let Some(name) = one.text("name") else { continue };
        if fields.len() >= MAX_PARAMETERS || fields.iter().any(|field| field.name == name) {
            continue;
        }
        files_in_it |= one.text("type") == Some("file");
        let (style, explode) = parameter::collection(*one, Location::Query);
        let encoded = Encoding { style: Some(style), explode: Some(explode), content_type: None };
        encoding.insert(name.to_owned(), encoded);
        fields.push(BodyField {
            name,
            required: one.flag("required").unwrap_or_default(),
            description: one.text("description").unwrap_or_default(),
            schema: one.get("schema").unwrap_or(*one),
        });
    }
    if fields.is_empty() {
        return None;
    }
    let multipart = files_in_it
        || !consumes.iter().any(|kind| media::plain(kind) == media::URLENCODED)
            && consumes.iter().any(|kind| media::plain(kind) == media::MULTIPART);
    let media_type = if multipart { media::MULTIPART } else { media::URLENCODED };
    if multipart {
        // Only lists within a single value need a style.
        encoding.retain(|_, one| one.explode == Some(false));
    }
    Some(Body {
        required: fields.iter().any(|field| field.required),
        description: "",
        media: Media { media_type: media_type.to_owned(), schema: None, fields, encoding },
    })
}

fn answer<'d>(files: &'d Files, root: At<'d>, at: At<'d>) -> Option<Answer<'d>> {
    let produces = media_types(root, at, "produces");
    let media_types: Vec<String> = produces.iter().map(|kind| media::written(kind)).collect();
    let json = media_types.is_empty() || media_types.iter().any(|kind| media::is_json(kind));
    let schema = success(files, at)?.get("schema").filter(|_| json);
    Some(Answer { media_types, schema })
}

fn media_types<'d>(root: At<'d>, at: At<'d>, key: &str) -> Vec<&'d str> {
    let own = at.value.get(key).is_some_and(|value| value.is_array());
    let said = if own { at } else { root };
    said.list(key).filter_map(|kind| kind.value.as_str()).collect()
}
