//! A server of many tenants that have imported much: what it holds, and how long
//! it takes to start again.

use std::time::Instant;

use anyhow::ensure;
use serde_json::{Map, Value, json};

use super::calls::median;
use super::client_runtime;
use super::serve::Server;
use crate::report::Figure;

const TENANTS: usize = 16;
const TOOLS: usize = 1_000;
const STARTS: usize = 3;
const MEGABYTES: f64 = 600.0;
const SECONDS: f64 = 2.0;

/// Measures a start with all of it, and the memory afterwards.
pub(crate) fn run() -> anyhow::Result<Vec<Figure>> {
    let (runtime, folder) = (client_runtime()?, tempfile::tempdir()?);
    let server = Server::start(folder.path())?;
    let keys = runtime.block_on(fill(&server))?;
    let admin = server.key.clone();
    drop(server);
    let (mut seconds, mut megabytes) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let began = Instant::now();
        let server = Server::again(folder.path(), &admin)?;
        runtime.block_on(answers(&server, &keys[0]))?;
        seconds.push(began.elapsed().as_secs_f64());
        for key in &keys {
            runtime.block_on(answers(&server, key))?;
        }
        megabytes.push(server.resident_kb() / 1024.0);
    }
    let (seconds, megabytes) = (median(seconds.into_iter()), median(megabytes.into_iter()));
    Ok(vec![
        Figure::new("16 tenants of 1,000 tools, start / 2 s", "s", seconds, SECONDS).at_most(1.0),
        Figure::new("the same, memory / 600 MB", "MB", megabytes, MEGABYTES).at_most(1.0),
    ])
}

/// Gives each tenant a key and an API; the keys.
async fn fill(server: &Server) -> anyhow::Result<Vec<String>> {
    let mut keys = Vec::new();
    for tenant in 0..TENANTS {
        let wanted =
            json!({"name": "bench", "role": "operator", "tenant_id": format!("tenant-{tenant}")});
        let made = post(server, &server.key, "/v1/keys", &wanted).await?;
        let key = made["secret"].as_str().unwrap_or_default().to_owned();
        let body = json!({"name": "api", "document": document(tenant)});
        post(server, &key, "/v1/providers", &body).await?;
        keys.push(key);
    }
    Ok(keys)
}

/// A call is answered, and a tool of the import is there.
async fn answers(server: &Server, key: &str) -> anyhow::Result<()> {
    let call = json!({"tool": "calculator", "arguments": {"expression": "1+1"}});
    let result = post(server, key, "/v1/calls", &call).await?;
    ensure!(result["is_success"] == true, "{result}");
    let tool = format!("/v1/tools/get_thing_{}", TOOLS - 1);
    let url = format!("http://{}{tool}", server.address);
    let answer = reqwest::Client::new().get(url).bearer_auth(key).send().await?;
    ensure!(answer.status() == 200, "{tool}: {}", answer.status());
    Ok(())
}

async fn post(server: &Server, key: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
    let url = format!("http://{}{path}", server.address);
    let request = reqwest::Client::new().post(url).bearer_auth(key);
    let request = request.header("content-type", "application/json").body(body.to_string());
    let answer = request.send().await?;
    let status = answer.status();
    let text = String::from_utf8_lossy(&answer.bytes().await?).into_owned();
    ensure!(status.is_success(), "{path}: {status}: {text}");
    Ok(serde_json::from_str(&text)?)
}

/// An API with parameters and bodies as usual ones have them.
fn document(tenant: usize) -> Value {
    let text = |about: &str| json!({"type": "string", "description": about});
    let paths: Map<String, Value> = (0..TOOLS)
        .map(|at| {
            let item = json!({"type": "object", "required": ["name"], "properties": {
                "name": text("What it is called."),
                "kind": {"type": "string", "enum": ["plain", "fancy", "other"]},
                "size": {"type": "integer", "minimum": 0, "maximum": 1_000 + at},
                "code": {"type": "string", "pattern": format!("^[A-Z]{{2}}-{tenant}-{at}$")},
                "tags": {"type": "array", "items": text("A word.")},
                "place": {"type": "object", "properties": {
                    "street": text("The street."), "zip": text("The postal code.")}},
            }});
            let operation = json!({
                "operationId": format!("get_thing_{at}"),
                "summary": format!("Looks thing {at} up and changes what is said of it."),
                "parameters": [
                    {"name": "id", "in": "path", "required": true, "schema": {"type": "string"}},
                    {"name": "limit", "in": "query", "schema": {"type": "integer"}},
                ],
                "requestBody": {"content": {"application/json": {"schema": item}}},
                "responses": {"200": {"description": "The thing."}},
            });
            (format!("/things/{at}/{{id}}"), json!({"post": operation}))
        })
        .collect();
    json!({"openapi": "3.0.3", "info": {"title": "Things", "version": "1"},
        "servers": [{"url": "https://api.example.com"}], "paths": paths})
}
