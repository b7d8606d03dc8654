//! Parses a tool's `entry` into a [`Plan`]: either the full form that the importer
//! writes, or the short form for people.
//!
//! ```yaml
//! entry:
//!   type: rest
//!   base_url: https://api.example.com/v1
//!   method: POST
//!   path: /users/{id}/notes
//!   headers: {X-Client: windlass}
//!   parameters: {notify: query}     # the others go to the path or the body
//!   auth: bearer                    # the provider's credential field `token`
//! ```

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use windlass::{Error, ErrorKind, ToolSpec};

use super::media;
use super::plan::{BodyPlan, Credential, Field, Location, OAuth2Flow, ParameterPlan, Plan};
use super::request::{is_reserved_header, is_secret_header, takes_key};

/// An entry as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    #[serde(alias = "baseUrl", alias = "url")]
    base_url: String,
    method: Option<String>,
    path: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    parameters: Option<Places>,
    body: Option<BodyPlan>,
    #[serde(default)]
    security: Vec<Vec<Credential>>,
    auth: Option<Auth>,
    accept: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Places {
    Listed(Vec<ParameterPlan>),
    Named(BTreeMap<String, Where>),
}

/// The location of an argument, in one word.
#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Where {
    Path,
    Query,
    Header,
    Cookie,
    Body,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Auth {
    Word(String),
    Said(RawAuth),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAuth {
    #[serde(rename = "type")]
    kind: String,
    field: Option<String>,
    #[serde(rename = "in")]
    location: Option<Location>,
    name: Option<String>,
    username: Option<String>,
    password: Option<String>,
    token_url: Option<String>,
    authorization_url: Option<String>,
    refresh_url: Option<String>,
    #[serde(default)]
    scopes: Vec<String>,
}

/// How a tool's requests are built.
pub(super) enum Shape {
    /// One request template with arguments in it.
    Planned(Plan),
    /// The arguments `url`, `method` and `body` describe the request, below the base URL.
    Open(Plan),
}

/// Parses the entry of a tool.
pub(super) fn read(spec: &ToolSpec) -> Result<Shape, Error> {
    let refused = |why: String| Error::new(ErrorKind::InvalidDefinition, why);
    let raw = RawEntry::deserialize(Value::Object(spec.entry.config.clone())).map_err(|error| {
        refused(format!("the entry of `{}` cannot be used: {error}", spec.name))
    })?;
    if let Some(name) = raw.headers.keys().find(|name| is_secret_header(name)) {
        return Err(refused(format!(
            "the header `{name}` does not belong into a definition; use `auth` and a credential"
        )));
    }
    let mut security = raw.security;
    if let Some(auth) = raw.auth {
        security.extend(auth.read().map_err(refused)?);
    }
    let names: Vec<&str> = spec
        .input
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .collect();
    let open = raw.path.is_none() && raw.parameters.is_none() && names.contains(&"url");
    // The arguments of an open tool describe the request itself, and so do their
    // defaults.
    let assumed = spec.input.pointer("/properties/method/default").and_then(Value::as_str);
    let method = raw.method.or_else(|| assumed.filter(|_| open).map(str::to_owned));
    let method = method.unwrap_or_else(|| "GET".to_owned()).to_ascii_uppercase();
    let mut plan = Plan {
        base_url: raw.base_url,
        method,
        path: raw.path.unwrap_or_default(),
        headers: raw.headers,
        parameters: Vec::new(),
        body: raw.body,
        security,
        accept: raw.accept,
    };
    if open {
        return Ok(Shape::Open(plan));
    }
    match raw.parameters {
        Some(Places::Listed(places)) => plan.parameters = places,
        Some(Places::Named(named)) => place(&mut plan, &names, &named),
        // The importer states it explicitly; a person may leave it out.
        None if plan.body.is_none() => place(&mut plan, &names, &BTreeMap::new()),
        None => {}
    }
    if let Some(bad) = plan
        .parameters
        .iter()
        .find(|place| place.location == Location::Header && is_reserved_header(&place.name))
    {
        return Err(refused(format!("the header `{}` is not for arguments to set", bad.name)));
    }
    if let Some(bad) = plan.security.iter().flatten().find_map(|credential| match credential {
        Credential::ApiKey { location: Location::Header, name, .. } if !takes_key(name) => {
            Some(name)
        }
        _ => None,
    }) {
        return Err(refused(format!("the header `{}` is not for a key", bad.escape_debug())));
    }
    Ok(Shape::Planned(plan))
}

/// Assigns every argument a location: the path if its template names it, else the
/// declared location, else the query, or the body for methods that have one.
fn place(plan: &mut Plan, names: &[&str], said: &BTreeMap<String, Where>) {
    let in_path = super::document::names_in(&plan.path);
    let in_query = super::document::pairs_in(&plan.path);
    let has_body = matches!(plan.method.as_str(), "POST" | "PUT" | "PATCH");
    let mut fields = Vec::new();
    let mut places = Vec::new();
    for name in names {
        let otherwise = if has_body { Where::Body } else { Where::Query };
        let place = match said.get(*name) {
            Some(place) => *place,
            None if in_path.contains(name) => Where::Path,
            None if in_query.iter().any(|(_, own)| own == name) => Where::Query,
            None => otherwise,
        };
        let location = match place {
            Where::Path => Location::Path,
            Where::Query => Location::Query,
            Where::Header => Location::Header,
            Where::Cookie => Location::Cookie,
            Where::Body => {
                fields.push(Field::Same((*name).to_owned()));
                continue;
            }
        };
        let pair = in_query.iter().find(|(_, own)| own == name && location == Location::Query);
        let key = pair.map_or(*name, |(key, _)| key);
        places.push(ParameterPlan {
            name: key.to_owned(),
            argument: (key != *name).then(|| (*name).to_owned()),
            location,
            style: None,
            explode: None,
            allow_reserved: false,
            json: false,
        });
    }
    plan.parameters = places;
    if !fields.is_empty() && plan.body.is_none() {
        plan.body = Some(BodyPlan {
            media_type: media::JSON.to_owned(),
            required: has_body,
            argument: None,
            fields,
            encoding: BTreeMap::new(),
        });
    }
}

impl Auth {
    fn read(self) -> Result<Vec<Vec<Credential>>, String> {
        let said = match self {
            Self::Said(said) => said,
            Self::Word(kind) => RawAuth {
                kind,
                field: None,
                location: None,
                name: None,
                username: None,
                password: None,
                token_url: None,
                authorization_url: None,
                refresh_url: None,
                scopes: Vec::new(),
            },
        };
        let field = |wanted: &str| said.field.clone().unwrap_or_else(|| wanted.to_owned());
        let credential = match said.kind.as_str() {
            "none" => return Ok(Vec::new()),
            "bearer" => Credential::Bearer { field: field("token") },
            "basic" => Credential::Basic {
                username: said.username.clone().unwrap_or_else(|| "username".to_owned()),
                password: said.password.clone().unwrap_or_else(|| "password".to_owned()),
            },
            "api_key" | "apiKey" => Credential::ApiKey {
                field: field("api_key"),
                location: said.location.unwrap_or(Location::Header),
                name: said.name.clone().unwrap_or_else(|| "X-API-Key".to_owned()),
            },
            "oauth2" => Credential::OAuth2 {
                field: field("token"),
                flow: said.token_url.clone().map(|token_url| OAuth2Flow {
                    client_id: "client_id".to_owned(),
                    client_secret: "client_secret".to_owned(),
                    token_url,
                    authorization_url: said.authorization_url.clone(),
                    refresh_url: said.refresh_url.clone(),
                }),
                scopes: said.scopes.clone(),
            },
            other => {
                return Err(format!(
                    "`auth` is none, bearer, basic, api_key or oauth2, found `{other}`"
                ));
            }
        };
        Ok(vec![vec![credential]])
    }
}
