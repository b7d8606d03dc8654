//! Security schemes and requirements.

use std::collections::BTreeMap;

use super::api::{Flow, Scheme, SchemeKind};
use super::reference::{At, Files};
use crate::rest::plan::Location;
use crate::rest::request::takes_key;

/// The security schemes of a document.
pub(super) fn schemes<'d>(
    files: &'d Files,
    all: impl Iterator<Item = (&'d str, At<'d>)>,
) -> BTreeMap<String, Scheme> {
    all.filter_map(|(name, at)| {
        let at = files.follow(at)?;
        let description = at.text("description").unwrap_or_default().to_owned();
        Some((name.to_owned(), Scheme { kind: kind(at), description }))
    })
    .collect()
}

/// The security requirements of an operation, or of the whole document.
pub(super) fn requirements(root: At<'_>, operation: At<'_>) -> Vec<Vec<(String, Vec<String>)>> {
    let own = operation.value.get("security").is_some_and(|value| value.is_array());
    let said = if own { operation } else { root };
    said.list("security")
        .map(|way| {
            way.value
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, scopes)| {
                    let scopes = scopes.as_array().into_iter().flatten();
                    (name.clone(), scopes.filter_map(|s| s.as_str().map(str::to_owned)).collect())
                })
                .collect()
        })
        .collect()
}

fn kind(at: At<'_>) -> SchemeKind {
    let unsupported = SchemeKind::Unsupported;
    match at.text("type").unwrap_or_default() {
        "apiKey" => {
            let place = match at.text("in") {
                Some("header") => Location::Header,
                Some("query") => Location::Query,
                Some("cookie") => Location::Cookie,
                other => return unsupported(format!("an API key in `{}`", other.unwrap_or("?"))),
            };
            let name = at.text("name").unwrap_or_default().trim().to_owned();
            if name.is_empty() {
                return unsupported("an API key without a name".to_owned());
            }
            if place == Location::Header && !takes_key(&name) {
                return unsupported(format!("an API key in the header `{}`", name.escape_debug()));
            }
            SchemeKind::ApiKey { place, name }
        }
        // Swagger 2.0's name for `http` with `basic`.
        "basic" => SchemeKind::Basic,
        "http" => match at.text("scheme").unwrap_or_default().to_ascii_lowercase().as_str() {
            "basic" => SchemeKind::Basic,
            "bearer" | "token" => SchemeKind::Bearer,
            other => unsupported(format!("HTTP authentication `{other}`")),
        },
        "oauth2" => SchemeKind::OAuth2(flow(at)),
        // The token comes from the user's identity provider.
        "openIdConnect" => SchemeKind::OAuth2(None),
        other => unsupported(format!("security of the type `{other}`")),
    }
}

/// The preferred OAuth flow: one without a person, if possible.
fn flow(at: At<'_>) -> Option<Flow> {
    let read = |flow: At<'_>, consent: bool| {
        let text = |key: &str| flow.text(key).map(str::to_owned);
        let authorization_url = text("authorizationUrl").filter(|_| consent);
        if consent && authorization_url.is_none() {
            return None;
        }
        Some(Flow {
            authorization_url,
            token_url: text("tokenUrl")?,
            refresh_url: text("refreshUrl"),
        })
    };
    if let Some(flows) = at.get("flows") {
        let client = flows.get("clientCredentials").and_then(|flow| read(flow, false));
        return client.or_else(|| flows.get("authorizationCode").and_then(|flow| read(flow, true)));
    }
    match at.text("flow") {
        Some("accessCode") => read(at, true),
        Some("application") => read(at, false),
        _ => None,
    }
}
