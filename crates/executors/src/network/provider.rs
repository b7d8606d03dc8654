//! Shared by tools of a provider: credentials, base URL and JSON responses.

use serde_json::Value;
use url::Url;
use windlass::{Call, Error, ErrorKind, Secret};

use crate::outbound::Answer;

/// A required credential.
pub(super) fn credential<'c>(call: &'c Call, name: &str) -> Result<&'c Secret, Error> {
    let found = call.secret(name).filter(|secret| !secret.expose().trim().is_empty());
    found.ok_or_else(|| {
        let spec = call.tool().spec();
        let provider = spec.provider.as_deref().unwrap_or(spec.name.as_str());
        Error::new(
            ErrorKind::CredentialInvalid,
            format!("the provider `{provider}` has no credential with the field `{name}`"),
        )
    })
}

/// A setting of the provider: a field of its credential, else of the definition's entry.
pub(super) fn setting<'c>(call: &'c Call, name: &str) -> Option<&'c str> {
    let own = call.secret(name).map(Secret::expose);
    let entry = || call.tool().spec().entry.config.get(name).and_then(Value::as_str);
    own.or_else(entry).map(str::trim).filter(|text| !text.is_empty())
}

/// The URL of an API operation: the provider's `base_url`, else the default, plus a path.
pub(super) fn endpoint(call: &Call, usual: &str, path: &[&str]) -> Result<Url, Error> {
    // The URL is not quoted, since it may hold a secret.
    let wrong = || {
        let why = "the credential's `base_url` is no http or https address";
        Error::new(ErrorKind::CredentialInvalid, why)
    };
    let mut url = Url::parse(setting(call, "base_url").unwrap_or(usual)).map_err(|_| wrong())?;
    if !matches!(url.scheme(), "http" | "https") || url.query().is_some() {
        return Err(wrong());
    }
    url.path_segments_mut().map_err(|()| wrong())?.pop_if_empty().extend(path);
    Ok(url)
}

/// The JSON body of a successful response.
pub(super) async fn json(answer: Answer) -> Result<Value, Error> {
    let answer = answer.checked().await?;
    let bytes = answer.bytes().await?;
    serde_json::from_slice(&bytes).map_err(|cause| {
        Error::new(ErrorKind::UpstreamFailed, "the service answered with something that is no JSON")
            .with_source(cause)
    })
}
