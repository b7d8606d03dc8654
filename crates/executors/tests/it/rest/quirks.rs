//! Quirks of real documents.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use windlass::Exposure;
use windlass_executors::rest::{Import, ImportOptions, Origin, Selector, import, preview};

use super::support::{call_with, install, read, read_with};
use super::upstream::{Reply, TestUpstream};

fn one(operation: &Value) -> Value {
    json!({
        "openapi": "3.1.0", "info": {}, "servers": [{"url": "https://x.example"}],
        "paths": {"/one": {"post": operation}},
    })
}

fn with_body(media: &str, schema: &Value) -> String {
    let body = json!({"required": true, "content": {media: {"schema": schema}}});
    one(&json!({"operationId": "one", "requestBody": body})).to_string()
}

/// A document of many files, of which each describes one operation.
fn split(files: usize, options: &ImportOptions) -> Import {
    let path = |n: usize| (format!("/p{n}"), json!({"$ref": format!("paths/p{n}.yaml")}));
    let paths: Map<String, Value> = (0..files).map(path).collect();
    let document = json!({"openapi": "3.0.3", "info": {},
        "servers": [{"url": "https://x.example"}], "paths": paths});
    let read = |name: &str| {
        let n: usize =
            name.trim_start_matches("paths/p").trim_end_matches(".yaml").parse().unwrap();
        if n == 3 {
            Err("it is gone".to_owned())
        } else {
            Ok(format!("get: {{operationId: o{n}}}"))
        }
    };
    import("api", &document.to_string(), options, Origin { url: None, read: &read }).unwrap()
}

#[test]
fn a_document_of_many_files_is_read_whole_and_what_is_missing_is_told() {
    let all = split(700, &ImportOptions::default());
    assert_eq!(all.tools.len(), 699);
    let told = all.notes.join("\n");
    assert!(told.contains("`paths/p3.yaml` cannot be read: it is gone"), "{told}");
    assert!(!told.contains("max_files"), "{told}");

    let some = split(700, &ImportOptions { max_files: Some(100), ..ImportOptions::default() });
    assert!(some.tools.len() < 100);
    let told = some.notes.join("\n");
    assert!(told.contains("more than 100 files") && told.contains("`max_files`"), "{told}");
}

#[test]
fn a_sign_that_yaml_does_not_allow_costs_no_operation() {
    for sign in ['\u{9f}', '\u{80}', '\u{1}', '\u{7f}', '\u{ffff}', '\u{0}'] {
        let document = format!(
            "openapi: 3.0.3\ninfo: {{title: x}}\nservers: [{{url: 'https://x.example'}}]\npaths:\n  \
             /a:\n    get:\n      operationId: get_a\n      description: it{sign}is here\n"
        );
        let import = read(&document);
        assert_eq!(import.tools.len(), 1, "{sign:?}");
        let told = format!("{:?}", import.tools[0].spec.description);
        assert!(!told.contains(sign) && told.contains("is here"), "{told}");
    }
}

#[test]
fn parameters_of_a_media_type_are_sent() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let mut document: Value =
        serde_json::from_str(&with_body("application/json; odata=minimalmetadata", &schema))
            .unwrap();
    document["paths"]["/one"]["post"]["responses"] =
        json!({"200": {"content": {"application/json;odata=fullmetadata": {}}}});
    let import = read(&document.to_string());
    let sent = preview(&import.tools[0].spec, &json!({"a": "x"})).unwrap();
    let (kind, body) = sent.body.unwrap();
    assert_eq!(kind, "application/json; odata=minimalmetadata");
    assert_eq!(body, br#"{"a":"x"}"#);
    assert_eq!(import.tools[0].spec.entry.config["accept"], "application/json; odata=fullmetadata");

    let forms = read(&with_body("multipart/form-data; boundary=theirs", &schema));
    let (kind, _) = preview(&forms.tools[0].spec, &json!({"a": "x"})).unwrap().body.unwrap();
    assert!(!kind.contains("theirs") && kind.matches("boundary=").count() == 1, "{kind}");
}

#[test]
fn a_part_with_a_content_media_type_carries_bytes() {
    let schema = json!({"type": "object", "properties": {
        "image": {"type": "string", "contentMediaType": "image/png"},
        "many": {"type": "array", "items": {"contentMediaType": "application/pdf"}},
        "note": {"type": "string", "contentMediaType": "text/markdown"},
        "encoded": {"type": "string", "contentMediaType": "image/png", "contentEncoding": "base64"},
        "any": {},
    }});
    let mut document: Value =
        serde_json::from_str(&with_body("multipart/form-data", &schema)).unwrap();
    document["paths"]["/one"]["post"]["requestBody"]["content"]["multipart/form-data"]["encoding"] =
        json!({"any": {"contentType": "application/octet-stream"}});
    let import = read(&document.to_string());
    let spec = &import.tools[0].spec;
    let bytes =
        |pointer: &str| spec.input.pointer(&format!("{pointer}/properties/base64")).is_some();
    assert!(bytes("/properties/image") && bytes("/properties/many/items"), "{}", spec.input);
    assert!(bytes("/properties/any"), "{}", spec.input);
    assert!(!bytes("/properties/note") && !bytes("/properties/encoded"), "{}", spec.input);
    let arguments = json!({
        "image": {"base64": "iVBORw=="}, "many": [{"base64": "JVBERg=="}], "note": "# a",
        "encoded": "iVBORw==",
    });
    let (_, sent) = preview(spec, &arguments).unwrap().body.unwrap();
    let sent = String::from_utf8_lossy(&sent).into_owned();
    for part in
        ["Content-Type: image/png\r\n\r\n\u{fffd}PNG", "Content-Type: application/pdf\r\n\r\n%PDF"]
    {
        assert!(sent.contains(part), "{sent}");
    }
    assert!(sent.contains("Content-Type: text/markdown\r\n\r\n# a"), "{sent}");
    assert!(sent.contains("\r\n\r\niVBORw==\r\n"), "{sent}");
}

#[test]
fn an_empty_object_is_sent_and_not_asked_for() {
    for schema in [
        json!({"type": "object"}),
        json!({"type": "object", "properties": {}}),
        json!({"type": "object", "additionalProperties": false}),
    ] {
        let import = read(&with_body("application/json", &schema));
        let spec = &import.tools[0].spec;
        assert!(spec.input.get("required").is_none(), "{schema}: {}", spec.input);
        let (_, sent) = preview(spec, &json!({})).unwrap().body.unwrap();
        assert_eq!(sent, b"{}", "{schema}");
    }
    // What may be in it still may.
    let open = read(&with_body("application/json", &json!({"type": "object"})));
    let (_, sent) = preview(&open.tools[0].spec, &json!({"body": {"a": 1}})).unwrap().body.unwrap();
    assert_eq!(sent, br#"{"a":1}"#);
    let demanded = json!({"type": "object", "required": ["a"], "additionalProperties": {}});
    let demanded = read(&with_body("application/json", &demanded));
    assert!(demanded.tools[0].spec.input.get("required").is_some());
}

/// Schemas of which each is all of the next one, in two ways.
fn doubled(levels: usize, last: &Value, ways: impl Fn(usize, usize) -> Value) -> String {
    let mut schemas = Map::new();
    for level in 0..levels {
        let reference = |to: String| json!({"$ref": format!("#/components/schemas/{to}")});
        let next = format!("L{}", level + 1);
        for way in 0..2 {
            let own = json!({"allOf": [reference(next.clone()), ways(level, way)]});
            schemas.insert(format!("W{level}x{way}"), own);
        }
        let both: Vec<Value> = (0..2).map(|way| reference(format!("W{level}x{way}"))).collect();
        schemas.insert(format!("L{level}"), json!({"allOf": both}));
    }
    schemas.insert(format!("L{levels}"), last.clone());
    let mut document: Value = serde_json::from_str(&with_body(
        "application/json",
        &json!({"$ref": "#/components/schemas/L0"}),
    ))
    .unwrap();
    document["components"] = json!({"schemas": schemas});
    document.to_string()
}

#[test]
fn doubled_all_of_costs_time_in_proportion_to_its_text() {
    let property = |level: usize, way: usize| json!({"type": "object", "properties": {format!("p{level}x{way}"): {"type": "string"}}});
    // What cannot be said in one schema stays two, and doubles with each level.
    let apart = |level: usize, way: usize| json!({"pattern": format!("p{level}x{way}"), "not": {"const": format!("{level} {way}")}});
    let object = json!({"type": "object", "properties": {"end": {"type": "integer"}}});
    let circle = json!({"allOf": [{"$ref": "#/components/schemas/L0"}, object]});
    // The same again at many places.
    let mut places: Value = serde_json::from_str(&doubled(14, &object, property)).unwrap();
    for n in 0..200 {
        let own = json!({"properties": {format!("x{n}"): {}}});
        let all = json!({"allOf": [{"$ref": "#/components/schemas/L0"}, own]});
        let schema = json!({"type": "object", "properties": {"a": all}});
        places["paths"][format!("/p{n}")] = json!({"post": {"requestBody":
            {"required": true, "content": {"application/json": {"schema": schema}}}}});
    }
    let cases: [(&str, String, usize); 5] = [
        ("properties", doubled(11, &object, property), 1),
        ("patterns", doubled(11, &object, apart), 1),
        ("a circle", doubled(60, &circle, property), 1),
        ("a long chain", doubled(400, &object, property), 1),
        ("many places", places.to_string(), 201),
    ];
    for (what, document, tools) in cases {
        let start = Instant::now();
        let import = read(&document);
        let took = start.elapsed();
        // Unoptimised, on a busy machine; the last one took half a minute.
        assert!(took < Duration::from_secs(10), "{what}: {} bytes took {took:?}", document.len());
        assert_eq!(import.tools.len(), tools, "{what}: {:?}", import.unsupported);
    }
    let import = read(&doubled(11, &object, property));
    let properties = import.tools[0].spec.input["properties"].as_object().unwrap();
    assert_eq!(properties.len(), 23, "{properties:?}");
}

#[test]
fn html_in_descriptions_becomes_text() {
    let import = read(
        &one(&json!({
            "operationId": "one",
            "summary": "<p>Makes <b>one</b>&nbsp;&amp; another</p>",
            "description": "<ul><li>first</li><li>second, by <code>id</code></li></ul> takes <id>",
            "parameters": [{"name": "q", "in": "query", "schema": {"type": "string"},
                "description": "<p>Words<br/>to <a href='https://x.example'>find</a></p>"}],
        }))
        .to_string(),
    );
    let spec = &import.tools[0].spec;
    assert_eq!(
        spec.description.get(windlass::Lang::En),
        "Makes one & another. first second, by id takes <id>"
    );
    assert_eq!(spec.input["properties"]["q"]["description"], "Words to find");
}

#[test]
fn parts_of_a_signature_are_not_arguments() {
    let header = |name: &str| json!({"name": name, "in": "header", "required": true, "schema": {"type": "string"}});
    let query = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string"}});
    let import = read(
        &one(&json!({"operationId": "one", "parameters": [
            header("X-Amz-Date"), header("X-Amz-Content-Sha256"), header("x-amz-security-token"),
            header("X-Amz-SignedHeaders"), header("Signature"), header("x-amz-target"),
            query("X-Amz-Credential"), query("X-Amz-Signature"), query("signature"), query("date"),
        ]}))
        .to_string(),
    );
    let spec = &import.tools[0].spec;
    let names: Vec<&String> = spec.input["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["x-amz-target", "signature", "date"]);
    assert_eq!(spec.input["required"], json!(["x-amz-target"]));
    assert!(import.tools[0].notes.iter().any(|note| note.contains("signature")));
}

/// A document that declares a scheme and never requires it, with a header that
/// is one.
fn silent() -> String {
    json!({
        "openapi": "3.0.3", "info": {}, "paths": {"/me": {"get": {"operationId": "me",
            "parameters": [{"name": "Authorization", "in": "header", "schema": {"type": "string"}},
                {"name": "Api-Version", "in": "header", "required": true, "schema": {"type": "string"}}]}}},
        "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "query", "name": "app_key"}}},
    })
    .to_string()
}

#[tokio::test]
async fn whoever_imports_says_how_requests_say_who_asks() {
    let upstream = TestUpstream::start(|seen| {
        Reply::json(&json!({"target": seen.target, "headers": seen.headers}))
    })
    .await;
    let asked = async |auth: &str, secrets: &[(&str, &str)]| {
        let options = ImportOptions {
            base_url: Some(upstream.url.clone()),
            auth: Some(auth.parse().unwrap()),
            headers: [("Api-Version".to_owned(), "2024-06-01".to_owned())].into(),
            ..ImportOptions::default()
        };
        let import = read_with(&silent(), &options);
        let fields: Vec<String> =
            import.provider.credentials.iter().map(|field| field.name.clone()).collect();
        let given: Vec<&str> = secrets.iter().map(|(name, _)| *name).collect();
        assert_eq!(fields, given, "{auth}");
        assert_eq!(import.tools[0].spec.input["properties"], json!({}), "{auth}");
        let engine = install(super::support::engine(), import);
        let result = call_with(&engine, "me", json!({}), secrets).await;
        assert!(result.is_success(), "{auth}: {:?}", result.error());
        assert_eq!(upstream.last().header("api-version"), "2024-06-01");
        let seen = upstream.last();
        (
            seen.target.clone(),
            seen.header("authorization").to_owned(),
            seen.header("x-key").to_owned(),
        )
    };
    let plain = |target: &str, authorization: &str, key: &str| {
        (target.to_owned(), authorization.to_owned(), key.to_owned())
    };
    assert_eq!(asked("none", &[]).await, plain("/me", "", ""));
    assert_eq!(
        asked("bearer", &[("token", "tok-12345")]).await,
        plain("/me", "Bearer tok-12345", "")
    );
    assert_eq!(
        asked("basic", &[("username", "ann"), ("password", "pw-12345")]).await,
        plain("/me", "Basic YW5uOnB3LTEyMzQ1", "")
    );
    assert_eq!(
        asked("header:X-Key", &[("api_key", "key-12345")]).await,
        plain("/me", "", "key-12345")
    );
    assert_eq!(
        asked("query:k", &[("api_key", "key-12345")]).await,
        plain("/me?k=key-12345", "", "")
    );
    assert_eq!(
        asked("scheme:key", &[("key", "key-12345")]).await,
        plain("/me?app_key=key-12345", "", "")
    );
}

#[test]
fn schemes_that_nothing_requires_are_told_and_unknown_ones_refused() {
    let mut document: Value = serde_json::from_str(&silent()).unwrap();
    document["paths"]["/me"]["get"]["parameters"] = json!([]);
    let import = read(&document.to_string());
    assert!(import.provider.credentials.is_empty());
    assert!(import.notes.iter().any(|note| note.contains("`scheme:key`")), "{:?}", import.notes);
    let with = |options: ImportOptions| {
        import_of(&silent(), &options).map(drop).map_err(|error| error.message().to_owned())
    };
    let auth = |text: &str| ImportOptions { auth: text.parse().ok(), ..ImportOptions::default() };
    let refused = with(auth("scheme:other")).unwrap_err();
    assert!(
        refused.contains("no security scheme `other`") && refused.contains("`key`"),
        "{refused}"
    );
    for secret in ["Authorization", "cookie", "Host", "a b"] {
        let headers = [(secret.to_owned(), "x".to_owned())].into();
        assert!(with(ImportOptions { headers, ..ImportOptions::default() }).is_err(), "{secret}");
    }
}

fn import_of(document: &str, options: &ImportOptions) -> Result<Import, windlass::Error> {
    import("api", document, options, Origin::default())
}

#[tokio::test]
async fn a_filled_key_comes_before_half_a_password() {
    let upstream = TestUpstream::start(|_| Reply::json(&json!({}))).await;
    let document = json!({
        "openapi": "3.0.3", "info": {}, "security": [{"basic": []}, {"key": []}],
        "paths": {"/me": {"get": {"operationId": "me"}}},
        "components": {"securitySchemes": {
            "basic": {"type": "http", "scheme": "basic"},
            "key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
    });
    let engine = super::support::engine_for(&document.to_string(), &upstream.url);
    for (secrets, key, authorization) in [
        (
            vec![("basic_username", "ann"), ("basic_password", ""), ("key", "k-123456")],
            "k-123456",
            "",
        ),
        (vec![("basic_username", " "), ("key", "k-123456")], "k-123456", ""),
        (vec![("basic_username", "ann")], "", "Basic YW5uOg=="),
        (
            vec![("basic_username", "ann"), ("basic_password", "pw"), ("key", "k-123456")],
            "",
            "Basic YW5uOnB3",
        ),
    ] {
        let result = call_with(&engine, "me", json!({}), &secrets).await;
        assert!(result.is_success(), "{:?}", result.error());
        let seen = upstream.last();
        assert_eq!((seen.header("x-key"), seen.header("authorization")), (key, authorization));
    }
}

#[test]
fn tools_of_an_import_can_wait_to_be_searched_for() {
    let paths = json!({"/a": {"get": {"operationId": "a"}}, "/b": {"get": {"operationId": "b"}}});
    let document = json!({"openapi": "3.0.3", "info": {},
        "servers": [{"url": "https://x.example"}], "paths": paths});
    let with = |which: &str| {
        let options =
            ImportOptions { defer: vec![Selector::new(which)], ..ImportOptions::default() };
        let import = read_with(&document.to_string(), &options);
        import.tools.iter().map(|tool| tool.spec.exposure).collect::<Vec<_>>()
    };
    assert_eq!(with("/*"), [Exposure::Deferred, Exposure::Deferred]);
    assert_eq!(with("b"), [Exposure::Direct, Exposure::Deferred]);
}
