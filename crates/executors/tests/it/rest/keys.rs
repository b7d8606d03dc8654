//! Authentication: credentials are sent once, in the right place, and never appear in
//! results.

use serde_json::{Value, json};
use windlass::{ErrorKind, Lang};

use super::support::{call, call_with, engine, engine_for, read};
use super::upstream::{Reply, TestUpstream};

const CLIENT: [(&str, &str); 2] =
    [("client_client_id", "id"), ("client_client_secret", "s3cret-s")];

/// One operation that a client's token opens.
fn with_client(token_url: &str) -> String {
    json!({
        "openapi": "3.0.3", "info": {}, "security": [{"client": []}],
        "paths": {"/me": {"get": {"operationId": "me"}}},
        "components": {"securitySchemes": {"client": {"type": "oauth2", "flows":
            {"clientCredentials": {"tokenUrl": token_url, "scopes": {}}}}}},
    })
    .to_string()
}

#[tokio::test]
async fn what_a_token_endpoint_repeats_is_not_told() {
    let upstream = TestUpstream::start(|seen| {
        let echo = seen.header("authorization").to_owned();
        let code = if seen.target.contains("odd") { echo.clone() } else { "invalid_client".into() };
        let body = json!({"error": code, "error_description": echo, "message": echo});
        Reply::new(400, "application/json", body.to_string())
    })
    .await;
    for (path, code) in [("/token", ": invalid_client"), ("/odd", "400 Bad Request")] {
        let engine = engine_for(&with_client(&format!("{}{path}", upstream.url)), &upstream.url);
        let result = call_with(&engine, "me", json!({}), &CLIENT).await;
        assert_eq!(upstream.last().header("authorization"), "Basic aWQ6czNjcmV0LXM=");
        let error = result.error().unwrap();
        assert_eq!(error.kind(), ErrorKind::CredentialInvalid);
        assert!(error.message().ends_with(code), "{}", error.message());
        let told = format!("{} {}", error.message(), error.feedback(Lang::En));
        assert!(!told.contains("aWQ6") && !told.contains("s3cret"), "{told}");
    }
}

#[tokio::test]
async fn a_relative_token_url_is_one_of_the_api() {
    let upstream = TestUpstream::start(|seen| match seen.target.as_str() {
        "/oauth/token" => Reply::json(&json!({"access_token": "tok/en+1="})),
        // As PHP writes it.
        _ => Reply::new(
            200,
            "application/json",
            json!({"echo": seen.headers}).to_string().replace('/', "\\/"),
        ),
    })
    .await;
    let engine = engine_for(&with_client("/oauth/token"), &format!("{}/v1", upstream.url));
    let result = call_with(&engine, "me", json!({}), &CLIENT).await;
    assert!(result.is_success(), "{:?}", result.error());
    assert_eq!(upstream.last().header("authorization"), "Bearer tok/en+1=");
    let told = result.output().unwrap().to_text();
    assert!(told.contains("[hidden]") && !told.contains("tok/en"), "{told}");

    let import = read(&with_client("token"));
    let notes = &import.tools[0].notes;
    assert!(notes.iter().any(|note| note.contains("`token` is relative to")), "{notes:?}");
    let by_hand = format!(
        "
name: me
description: Says who asks.
entry: {{type: rest, base_url: '{}', path: /, auth: {{type: oauth2, token_url: token}}}}
",
        upstream.url
    );
    let engine = self::engine();
    assert!(engine.load_text("hand.yaml", &by_hand).errors.is_empty());
    let secrets = [("client_id", "id"), ("client_secret", "s3cret-s")];
    let result = call_with(&engine, "me", json!({}), &secrets).await;
    let error = result.error().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidDefinition, "{}", error.message());
}

/// Operations that also take the keys of the security schemes as parameters.
fn with_keys() -> String {
    let key = |required: bool| json!({"name": "api_key", "in": "query", "required": required, "schema": {"type": "string"}});
    let filter = json!({"name": "filter", "in": "query", "schema": {"type": "object", "additionalProperties": true}});
    let page = json!({"name": "page", "in": "query", "schema": {"type": "integer"}});
    let header = json!({"name": "x-api-KEY", "in": "header", "schema": {"type": "string"}});
    let cookie = json!({"name": "sid", "in": "cookie", "schema": {"type": "string"}});
    json!({
        "openapi": "3.0.3", "info": {},
        "security": [{"one": [], "two": [], "header": [], "cookie": []}],
        "paths": {
            "/all": {"get": {"operationId": "all", "parameters": [key(true), filter, page, header, cookie]}},
            "/must": {"get": {"operationId": "must", "security": [], "parameters": [key(true)]}},
            "/may": {"get": {"operationId": "may", "security": [], "parameters": [key(false)]}},
        },
        "components": {"securitySchemes": {
            "one": {"type": "apiKey", "in": "query", "name": "api_key"},
            "two": {"type": "apiKey", "in": "query", "name": "api_key"},
            "header": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
            "cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
        }},
    })
    .to_string()
}

#[tokio::test]
async fn the_key_of_a_scheme_is_no_argument_and_is_sent_once() {
    let import = read(&with_keys());
    let arguments = |at: usize| -> Vec<String> {
        let properties = import.tools[at].spec.input["properties"].as_object().unwrap();
        properties.keys().cloned().collect()
    };
    assert_eq!(arguments(0), ["filter", "page"]);
    assert_eq!((arguments(1).len(), arguments(2).len()), (0, 0));

    let upstream = TestUpstream::start(|_| Reply::json(&json!({}))).await;
    let engine = engine_for(&with_keys(), &upstream.url);
    let secrets =
        [("one", "key-of-one"), ("two", "key-of-two"), ("header", "key-in-h"), ("cookie", "c")];
    let wanted = json!({"page": 2, "filter": {"api_key": "mine", "API_KEY": "mine", "a": "1"}});
    let result = call_with(&engine, "all", wanted, &secrets).await;
    assert!(result.is_success(), "{:?}", result.error());
    let seen = upstream.last();
    assert_eq!(seen.target, "/all?a=1&page=2&api_key=key-of-one");
    assert_eq!((seen.header("x-api-key"), seen.header("cookie")), ("key-in-h", "sid=c"));

    // Where the operation says nothing of security, what is stored is sent.
    for tool in ["must", "may"] {
        let result = call_with(&engine, tool, json!({}), &secrets).await;
        assert!(result.is_success(), "{:?}", result.error());
        assert_eq!(upstream.last().target, format!("/{tool}?api_key=key-of-one"));
    }
    let without = call(&engine, "must", json!({})).await;
    assert_eq!(without.error().unwrap().kind(), ErrorKind::CredentialInvalid);
    assert!(call(&engine, "may", json!({})).await.is_success());
    assert_eq!(upstream.last().target, "/may");
}

#[test]
fn the_form_asks_for_keys_that_are_parameters() {
    let mut document: Value = serde_json::from_str(&with_keys()).unwrap();
    document["security"] = json!([]);
    document["paths"] = json!({"/must": document["paths"]["/must"]});
    let import = read(&document.to_string());
    let fields: Vec<(&str, bool)> =
        import.provider.credentials.iter().map(|one| (one.name.as_str(), one.required)).collect();
    assert_eq!(fields, [("one", true)]);
}
