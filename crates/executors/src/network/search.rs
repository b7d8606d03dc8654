//! `google_search`: Google Custom Search, or a compatible API.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use windlass::{Call, Error, ErrorKind, Output};

use super::NetworkContext;
use super::provider::{credential, endpoint, json as json_of};
use crate::outbound::Request;

const USUAL: &str = "https://www.googleapis.com";
const TIME: Duration = Duration::from_secs(14);
const MAX_BYTES: u64 = 1024 * 1024;

#[derive(Deserialize)]
struct SearchArguments {
    query: String,
    #[serde(default)]
    count: Option<u64>,
    #[serde(default)]
    start: Option<u64>,
    #[serde(default)]
    language: Option<String>,
}

/// Searches, and keeps the fields of each result that a model needs.
pub(super) async fn run(context: &NetworkContext, call: &Call) -> Result<Output, Error> {
    let asked: SearchArguments = call.parse()?;
    let (key, engine) = (credential(call, "api_key")?, credential(call, "search_engine_id")?);
    let mut url = endpoint(call, USUAL, &["customsearch", "v1"])?;
    url.query_pairs_mut()
        .append_pair("key", key.expose())
        .append_pair("cx", engine.expose())
        .append_pair("q", &asked.query)
        .append_pair("num", &asked.count.unwrap_or(5).clamp(1, 10).to_string())
        .append_pair("start", &asked.start.unwrap_or(1).max(1).to_string());
    if let Some(language) = asked.language.filter(|language| !language.is_empty()) {
        url.query_pairs_mut().append_pair("hl", &language);
    }
    let request = Request::get(url).made_by(call).total_timeout(TIME).max_bytes(MAX_BYTES);
    let found = json_of(context.outbound.send(request).await?).await.map_err(wrong_key)?;
    let results: Vec<Value> = found["items"].as_array().into_iter().flatten().map(shape).collect();
    let total = found["searchInformation"]["totalResults"].as_str().and_then(|n| n.parse().ok());
    let total: u64 = total.unwrap_or(results.len() as u64);
    Ok(Output::text(readable(&asked.query, &results))
        .with_structured(json!({"query": asked.query, "total": total, "results": results})))
}

fn shape(item: &Value) -> Value {
    let text = |name: &str| item[name].as_str().unwrap_or_default().trim().to_owned();
    json!({"title": text("title"), "link": text("link"), "snippet": text("snippet")})
}

fn readable(query: &str, results: &[Value]) -> String {
    if results.is_empty() {
        return format!("No results for: {query}");
    }
    let mut page = String::new();
    for (at, result) in results.iter().enumerate() {
        let text = |name: &str| result[name].as_str().unwrap_or_default();
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            page,
            "{}. {}\n{}\n{}\n",
            at + 1,
            text("title"),
            text("link"),
            text("snippet")
        );
    }
    page.trim_end().to_owned()
}

/// Google reports an invalid key with status 400.
fn wrong_key(error: Error) -> Error {
    if error.kind() == ErrorKind::UpstreamRejected && error.message().contains("API key not valid")
    {
        return Error::new(ErrorKind::CredentialInvalid, "Google does not know this API key");
    }
    error
}
