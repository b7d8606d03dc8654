//! Authentication: adds credentials to a request, as the plan's `security` says.
//!
//! The first alternative with all its credentials present is used. If authentication is
//! optional and no credentials are there, the request goes out without.

mod token;

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{percent_decode_str, utf8_percent_encode};
use url::Url;
use windlass::{BoxFuture, Call, Error, ErrorKind, Secret};

pub(crate) use self::token::Tokens;
use super::plan::{Credential, Location, OAuth2Flow, Plan};
use super::request::{ENCODED, Request};
use crate::outbound::Outbound;

/// The OAuth consent that a person must give before an API can be called on their behalf.
#[derive(Clone, Debug)]
pub struct Consent {
    /// The provider of the tool.
    pub provider: String,
    /// The credential field that holds the token.
    pub field: String,
    /// The authorization endpoint.
    pub authorization_url: String,
    /// The token endpoint.
    pub token_url: String,
    /// The refresh endpoint, if it differs from the token endpoint.
    pub refresh_url: Option<String>,
    /// The credential field of the client id.
    pub client_id: String,
    /// The credential field of the client secret.
    pub client_secret: String,
    /// The scopes to ask for.
    pub scopes: Vec<String>,
}

/// Makes the authorization URL at which this call's caller gives consent.
pub type AskConsent =
    Arc<dyn for<'a> Fn(&'a Call, Consent) -> BoxFuture<'a, Result<String, Error>> + Send + Sync>;

/// The credentials of a request, ready to be sent. No part of it can be printed.
#[derive(Default)]
pub(super) struct Signed {
    pub(super) headers: Vec<(String, Secret)>,
    /// Query parameters as encoded `name=value` pairs.
    pub(super) query: Vec<Secret>,
    pub(super) cookies: Vec<Secret>,
    /// Tokens taken from the cache, to be dropped if they are rejected.
    pub(super) cached: Vec<token::Key>,
}

/// Collects the credentials of a call.
pub(super) async fn sign(
    plan: &Plan,
    call: &Call,
    tokens: &Tokens,
    outbound: &Outbound,
    ask: Option<&AskConsent>,
) -> Result<Signed, Error> {
    if plan.security.is_empty() {
        return Ok(Signed::default());
    }
    let has = |whole: bool| {
        let is_there = |way: &&Vec<Credential>| {
            !way.is_empty() && way.iter().all(|one| is_there(one, call, whole))
        };
        plan.security.iter().find(is_there)
    };
    // A user name without a password may be all that an API wants, but complete
    // credentials come first.
    let Some(way) = has(true).or_else(|| has(false)) else {
        if plan.security.iter().any(Vec::is_empty) {
            return Ok(Signed::default());
        }
        return Err(Box::pin(missing(plan, call, ask)).await);
    };
    let mut signed = Signed::default();
    for credential in way {
        signed.add(credential, call, tokens, outbound).await?;
    }
    Ok(signed)
}

impl Signed {
    async fn add(
        &mut self,
        credential: &Credential,
        call: &Call,
        tokens: &Tokens,
        outbound: &Outbound,
    ) -> Result<(), Error> {
        let secret = |field: &str| call.secret(field).map(Secret::expose).unwrap_or_default();
        match credential {
            Credential::ApiKey { field, location, name } => {
                let value = secret(field);
                let pair = || {
                    let encode = |text| utf8_percent_encode(text, ENCODED).to_string();
                    Secret::new(format!("{}={}", encode(name), encode(value)))
                };
                let twice =
                    |pairs: &[Secret]| pairs.iter().any(|one| name_of(one.expose()) == *name);
                match location {
                    // Several schemes may use the same key.
                    Location::Query if twice(&self.query) => {}
                    Location::Cookie if twice(&self.cookies) => {}
                    Location::Query => self.query.push(pair()),
                    Location::Cookie => self.cookies.push(pair()),
                    Location::Header | Location::Path => {
                        self.headers.push((name.clone(), Secret::new(value)));
                    }
                }
            }
            Credential::Bearer { field } => self.bearer(secret(field)),
            Credential::Basic { username, password } => {
                let pair = STANDARD.encode(format!("{}:{}", secret(username), secret(password)));
                let value = Secret::new(format!("Basic {pair}"));
                self.headers.push(("authorization".to_owned(), value));
            }
            Credential::OAuth2 { field, flow, scopes } => match (filled(call, field), flow) {
                (Some(token), _) => self.bearer(token.expose()),
                (None, Some(flow)) => {
                    let client = token::Client {
                        tenant: &call.caller().tenant,
                        token_url: &flow.token_url,
                        id: secret(&flow.client_id),
                        secret: secret(&flow.client_secret),
                        scopes,
                    };
                    // Boxed, so that calls without a token need no space for it.
                    let token = Box::pin(tokens.of(&client, outbound)).await?;
                    self.bearer(token.expose());
                    self.cached.push(client.key());
                }
                (None, None) => {}
            },
        }
        Ok(())
    }

    fn bearer(&mut self, token: &str) {
        let token = token.trim();
        // Users sometimes paste the whole header.
        let token = token.strip_prefix("Bearer ").unwrap_or(token);
        self.headers.push(("authorization".to_owned(), Secret::new(format!("Bearer {token}"))));
    }

    /// The values to redact from the response, in the forms in which they were sent and
    /// in common encodings of them. The engine redacts stored secrets; access tokens and
    /// encoded forms are only known here.
    pub(super) fn shapes(&self) -> Vec<Secret> {
        const SHORTEST: usize = 6;
        let after = |secret: &'_ Secret, sign: char| -> usize {
            secret.expose().find(sign).map_or(0, |at| at + 1)
        };
        let headers = self.headers.iter().map(|(_, secret)| &secret.expose()[after(secret, ' ')..]);
        let pairs = self.query.iter().chain(&self.cookies);
        let pairs = pairs.map(|secret| &secret.expose()[after(secret, '=')..]);
        let sent = headers.chain(pairs).filter(|shape| shape.len() >= SHORTEST);
        sent.flat_map(|shape| Secret::new(shape).encodings()).collect()
    }

    /// The URL with the credentials that belong into its query; they replace parameters
    /// of the same names.
    pub(super) fn address(&self, request: &Request) -> Url {
        let mut url = request.url.clone();
        if !self.query.is_empty() {
            let own = url.query().unwrap_or_default().to_owned();
            let own = own.split('&').filter(|pair| !pair.is_empty());
            let all: Vec<&str> =
                others(own, &self.query).chain(self.query.iter().map(Secret::expose)).collect();
            url.set_query(Some(&all.join("&")));
        }
        url
    }

    /// The cookies of a request: first those from arguments, then the credentials.
    pub(super) fn cookies<'a>(&'a self, request: &'a Request) -> impl Iterator<Item = &'a str> {
        others(request.cookies.iter().map(String::as_str), &self.cookies)
            .chain(self.cookies.iter().map(Secret::expose))
    }
}

/// The pairs whose names no credential uses.
fn others<'a>(
    pairs: impl Iterator<Item = &'a str>,
    credentials: &'a [Secret],
) -> impl Iterator<Item = &'a str> {
    pairs.filter(|pair| !credentials.iter().any(|one| name_of(one.expose()) == name_of(pair)))
}

/// The name in an encoded pair.
fn name_of(pair: &str) -> Cow<'_, str> {
    percent_decode_str(pair.split('=').next().unwrap_or_default()).decode_utf8_lossy()
}

/// A credential that is set and not empty.
fn filled<'c>(call: &'c Call, field: &str) -> Option<&'c Secret> {
    call.secret(field).filter(|secret| !secret.expose().trim().is_empty())
}

/// Whether a call has the values for a credential; with `whole`, all of its parts.
fn is_there(credential: &Credential, call: &Call, whole: bool) -> bool {
    let has = |field: &str| filled(call, field).is_some();
    match credential {
        Credential::ApiKey { field, .. } | Credential::Bearer { field } => has(field),
        Credential::Basic { username, password } if whole => has(username) && has(password),
        Credential::Basic { username, password } => has(username) || has(password),
        Credential::OAuth2 { field, flow, .. } => {
            let by_client = |flow: &OAuth2Flow| {
                flow.authorization_url.is_none() && has(&flow.client_id) && has(&flow.client_secret)
            };
            has(field) || flow.as_ref().is_some_and(by_client)
        }
    }
}

/// Why a call cannot be sent: a credential is missing, or consent is needed.
async fn missing(plan: &Plan, call: &Call, ask: Option<&AskConsent>) -> Error {
    let provider = call.tool().spec().provider.as_deref().unwrap_or("this tool");
    let consent = plan.security.iter().flatten().find_map(|credential| match credential {
        Credential::OAuth2 { field, flow: Some(flow), scopes } => {
            let authorization_url = flow.authorization_url.clone()?;
            call.secret(&flow.client_id)?;
            Some(Consent {
                provider: provider.to_owned(),
                field: field.clone(),
                authorization_url,
                token_url: flow.token_url.clone(),
                refresh_url: flow.refresh_url.clone(),
                client_id: flow.client_id.clone(),
                client_secret: flow.client_secret.clone(),
                scopes: scopes.clone(),
            })
        }
        _ => None,
    });
    if let (Some(consent), Some(ask)) = (consent, ask) {
        return match ask(call, consent).await {
            Ok(url) => {
                let message = format!("`{provider}` is opened at {url}");
                Error::new(ErrorKind::AuthorizationRequired, message)
            }
            Err(error) => error,
        };
    }
    let ways: Vec<String> = plan.security.iter().map(|way| names(way)).collect();
    let message = format!(
        "`{provider}` needs a credential: {}; store one with `windlass credentials`",
        ways.join(", or ")
    );
    Error::new(ErrorKind::CredentialInvalid, message)
}

fn names(way: &[Credential]) -> String {
    let fields: Vec<String> = way
        .iter()
        .map(|credential| match credential {
            Credential::ApiKey { field, .. } | Credential::Bearer { field } => format!("`{field}`"),
            Credential::Basic { username, password } => format!("`{username}` and `{password}`"),
            Credential::OAuth2 { field, flow: Some(flow), .. } => {
                format!("`{field}`, or `{}` and `{}`", flow.client_id, flow.client_secret)
            }
            Credential::OAuth2 { field, .. } => format!("`{field}`"),
        })
        .collect();
    fields.join(" and ")
}
