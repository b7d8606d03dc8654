//! A request contains what the caller gave and what the API requires, and nothing else:
//! defaults in a document are applied by the API.

use serde_json::{Value, json};
use windlass::TenantId;

use super::support::{call, engine, engine_for};
use super::upstream::{Reply, TestUpstream};

/// An API that keeps settings, with defaults everywhere.
fn document() -> String {
    let settings = json!({
        "type": "object",
        "properties": {
            "lang": {"type": "string", "default": "en"},
            "theme": {"type": "string", "default": "light"},
            "mail": {"type": "object", "properties": {"digest": {"type": "boolean", "default": true}}},
            "rules": {"type": "array", "items": {"type": "object", "properties": {
                "on": {"type": "boolean", "default": true}, "name": {"type": "string"}}}},
        },
    });
    let body = json!({
        "type": "object",
        "properties": {
            "archived": {"type": "boolean", "default": false},
            "visibility": {"type": "string", "enum": ["public", "private"], "default": "public"},
            "stars": {"type": "integer", "default": 0},
            "home": {"type": "string", "nullable": true, "default": ""},
            "settings": settings,
        },
    });
    let strict = json!({
        "type": "object",
        "required": ["type", "page", "to"],
        "properties": {
            "type": {"type": "string", "enum": ["letter"]},
            "page": {"type": "integer", "default": 1},
            "size": {"type": "integer", "default": 10},
            "to": {"type": "object", "required": ["country"], "properties": {
                "country": {"type": "string", "default": "DE"},
                "zip": {"type": "string", "default": "0"}}},
        },
    });
    let parameters = json!([
        {"name": "notify", "in": "query", "schema": {"type": "boolean", "default": true}},
        {"name": "X-Mode", "in": "header", "schema": {"type": "string", "default": "soft"}},
        {"name": "seen", "in": "cookie", "schema": {"type": "integer", "default": 3}},
    ]);
    let operation = |name: &str, kind: &str, schema: &Value| {
        json!({"operationId": name, "parameters": parameters,
            "requestBody": {"required": true, "content": {kind: {"schema": schema}}},
            "responses": {"200": {"description": "ok"}}})
    };
    let json = "application/json";
    json!({
        "openapi": "3.0.3", "info": {"title": "x", "version": "1"},
        "paths": {
            "/repo": {
                "patch": operation("patch_repo", json, &body),
                "put": operation("put_repo", json, &body),
                "post": operation("post_repo", "application/x-www-form-urlencoded", &body),
            },
            "/whole": {"patch": operation("patch_whole", json, &json!({"allOf": [body, {"type": "object", "additionalProperties": true}]}))},
            "/letter": {"post": operation("send_letter", json, &strict)},
        },
    })
    .to_string()
}

#[tokio::test]
async fn optional_arguments_that_equal_their_default_are_sent_and_no_default_is_added() {
    let upstream = TestUpstream::start(|_| Reply::json(&json!({"ok": true}))).await;
    let engine = engine_for(&document(), &upstream.url);
    for tool in ["patch_repo", "put_repo"] {
        for given in [
            json!({"archived": false}),
            json!({"archived": false, "visibility": "public", "stars": 0, "home": ""}),
            json!({"home": null}),
            json!({"settings": {"lang": "de"}}),
            json!({"settings": {}}),
            json!({"settings": {"mail": {}, "rules": [{"name": "a"}, {"on": true}]}}),
            json!({"settings": {"lang": "en", "mail": {"digest": true}}}),
            json!({}),
        ] {
            let result = call(&engine, tool, given.clone()).await;
            assert!(result.is_success(), "{given}: {:?}", result.error());
            let seen = upstream.last();
            let sent: Value = serde_json::from_slice(&seen.body).unwrap();
            assert_eq!(sent, given, "{tool}");
            assert_eq!(seen.target, "/repo");
            assert_eq!((seen.header("x-mode"), seen.header("cookie")), ("", ""));
            let record = engine.records().get(&TenantId::default(), result.id).await.unwrap();
            assert_eq!(*record.unwrap().arguments, given, "the record says what was sent");
        }
    }
    let beside = json!({"notify": true, "X-Mode": "soft", "seen": 3, "archived": false});
    assert!(call(&engine, "post_repo", beside).await.is_success());
    let seen = upstream.last();
    assert_eq!(
        (seen.target.as_str(), seen.text().as_str()),
        ("/repo?notify=true", "archived=false")
    );
    assert_eq!((seen.header("x-mode"), seen.header("cookie")), ("soft", "seen=3"));
    let whole = json!({"body": {"archived": false, "settings": {"theme": "light"}}});
    assert!(call(&engine, "patch_whole", whole.clone()).await.is_success());
    assert_eq!(serde_json::from_slice::<Value>(&upstream.last().body).unwrap(), whole["body"]);
}

#[tokio::test]
async fn what_the_api_requires_is_sent_with_its_default_or_its_only_value() {
    let upstream = TestUpstream::start(|_| Reply::json(&json!({"ok": true}))).await;
    let engine = engine_for(&document(), &upstream.url);
    let result = call(&engine, "send_letter", json!({"to": {}})).await;
    assert!(result.is_success(), "{:?}", result.error());
    assert_eq!(
        serde_json::from_slice::<Value>(&upstream.last().body).unwrap(),
        json!({"type": "letter", "page": 1, "to": {"country": "DE"}})
    );
    let missing = call(&engine, "send_letter", json!({"page": 2})).await;
    assert!(missing.error().unwrap().message().contains("/to"), "{:?}", missing.error());
}

#[tokio::test]
async fn a_definition_by_hand_sends_the_defaults_that_the_model_cannot_see() {
    let upstream = TestUpstream::start(|_| Reply::json(&json!({"ok": true}))).await;
    let engine = engine();
    let text = format!(
        "
- name: forecast
  description: Tells the weather.
  parameters:
    - {{name: city, type: string, required: true}}
    - {{name: units, type: string, default: metric}}
    - {{name: zone, type: string, default: UTC, form: form}}
    - {{name: days, type: integer, default: 3, required: true}}
  entry: {{type: rest, base_url: \"{url}\", method: GET, path: /weather}}
- name: anything
  description: Asks anything of the API.
  parameters:
    - {{name: url, type: string, required: true}}
    - {{name: method, type: string, default: POST}}
  entry: {{type: external, baseUrl: \"{url}\"}}
",
        url = upstream.url
    );
    assert_eq!(engine.load_text("hand.yaml", &text).errors, []);
    assert!(call(&engine, "forecast", json!({"city": "Ulm"})).await.is_success());
    assert_eq!(upstream.last().target, "/weather?city=Ulm&zone=UTC&days=3");
    let said = json!({"city": "Ulm", "units": "metric"});
    assert!(call(&engine, "forecast", said).await.is_success());
    assert_eq!(upstream.last().target, "/weather?city=Ulm&units=metric&zone=UTC&days=3");
    assert!(call(&engine, "anything", json!({"url": "/x"})).await.is_success());
    assert_eq!((upstream.last().method.as_str(), upstream.last().target.as_str()), ("POST", "/x"));
}
