//! Imported names, schemas and credential forms.

use serde_json::{Value, json};
use windlass::{Approval, ToolSpec};
use windlass_executors::rest::{Import, ImportOptions, Origin, Selector, import, preview};

use super::support::{read, read_with};

const PETS: &str = include_str!("pets.yaml");

fn tool<'i>(import: &'i Import, name: &str) -> &'i ToolSpec {
    let found = import.tools.iter().find(|tool| tool.spec.name.as_str() == name);
    &found.unwrap_or_else(|| panic!("no {name} in {:?}", names(import))).spec
}

fn names(import: &Import) -> Vec<&str> {
    import.tools.iter().map(|tool| tool.spec.name.as_str()).collect()
}

#[test]
fn a_model_reads_a_compact_schema() {
    let import = read(PETS);
    let owner = json!({"type": "object", "properties": {"name": {"type": ["string", "null"]}}});
    assert_eq!(
        tool(&import, "createPet").input,
        json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 80},
                "owner": owner,
                "parent": {"$ref": "#/$defs/Pet"},
            },
            "additionalProperties": false,
            "required": ["name"],
            "$defs": {
                "Pet": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string", "maxLength": 80},
                        "owner": owner,
                        "parent": {"$ref": "#/$defs/Pet"},
                    },
                    "required": ["name"],
                },
            },
        })
    );
    let list = tool(&import, "listPets");
    let properties: Vec<&String> = list.input["properties"].as_object().unwrap().keys().collect();
    assert_eq!(properties, ["limit", "tags", "X-Trace", "session"], "no credential, no host");
    assert!(list.behaviour.read_only && list.behaviour.concurrency_safe == Some(true));
    let delete = tool(&import, "deletePet").behaviour;
    assert!(delete.idempotent && delete.destructive && delete.concurrency_safe == Some(false));
    assert_eq!(tool(&import, "createPet").behaviour.concurrency_safe, Some(false));
    assert_eq!(list.output.as_ref().unwrap()["type"], "array");
}

#[test]
fn a_name_in_path_query_and_body_does_not_collide() {
    let import = read(
        r#"{"swagger": "2.0", "info": {}, "host": "x.example", "basePath": "/a", "paths": {"/things/{id}": {"put": {
            "parameters": [
                {"name": "id", "in": "path", "type": "string", "required": true},
                {"name": "id", "in": "query", "type": "integer"},
                {"name": "filter[name]", "in": "query", "type": "string"},
                {"name": "b", "in": "body", "required": true, "schema": {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}}
            ]}}}}"#,
    );
    let tool = tool(&import, "put_things_id");
    let arguments =
        json!({"id": "a", "query_id": 2, "filter_name": "n", "body_id": 3, "name": "x"});
    let sent = preview(tool, &arguments).unwrap();
    assert_eq!(sent.url, "https://x.example/a/things/a?id=2&filter%5Bname%5D=n");
    assert_eq!(sent.body.unwrap().1, br#"{"id":3,"name":"x"}"#);
}

#[test]
fn names_fit_every_model_api_and_stay() {
    let long = "x".repeat(90);
    let document = |paths: &str| {
        format!(
            r#"{{"openapi": "3.1.0", "info": {{}}, "servers": [{{"url": "https://x.example"}}], "paths": {{{paths}}}}}"#
        )
    };
    let a = format!(
        r#""/a": {{"get": {{"operationId": "repos/list things!"}}, "post": {{"operationId": "{long}"}}}}"#
    );
    let b = r#""/b/{c}": {"get": {}}, "/same": {"get": {"operationId": "same"}, "put": {"operationId": "same"}}"#;
    let first = read(&document(&format!("{a}, {b}")));
    let second = read(&document(&format!("{b}, {a}")));
    for import in [&first, &second] {
        assert_eq!(import.tools.len(), 5, "{:?}", import.unsupported);
        for name in names(import) {
            assert!(
                name.len() <= 64
                    && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)),
                "{name}"
            );
        }
    }
    let by_operation = |import: &Import| {
        let mut all: Vec<_> = import
            .tools
            .iter()
            .map(|tool| (tool.operation.clone(), tool.spec.name.clone()))
            .collect();
        all.sort();
        all
    };
    assert_eq!(by_operation(&first), by_operation(&second));
    assert_eq!(names(&first)[0], "repos_list_things");
    assert!(names(&first).contains(&"get_b_c"));
}

#[test]
fn operations_are_chosen_renamed_and_marked() {
    let select = |texts: &[&str]| texts.iter().map(|text| Selector::new(*text)).collect::<Vec<_>>();
    let options = ImportOptions {
        include: select(&["/pets*", "search"]),
        exclude: select(&["DELETE /pets/*", "getPhoto"]),
        rename: [("GET /pets".to_owned(), "pets".to_owned())].into(),
        ask: select(&["createPet"]),
        read_only: select(&["search"]),
        base_url: Some("https://pets.example/v2/".into()),
        ..ImportOptions::default()
    };
    let import = read_with(PETS, &options);
    assert_eq!(
        names(&import),
        ["pets", "createPet", "getPet", "removePet", "uploadPhoto", "search"]
    );
    assert_eq!(import.left_out, 2);
    assert_eq!(tool(&import, "createPet").approval, Some(Approval::Ask));
    assert!(tool(&import, "search").behaviour.read_only);
    let sent = preview(tool(&import, "pets"), &json!({"limit": 20, "tags": ["a"]})).unwrap();
    let url = "https://pets.example/v2/pets?limit=20&tags=a";
    assert_eq!(sent.url, url, "what the caller says is sent, also where the API assumes it");
}

#[test]
fn the_credential_form_comes_from_the_schemes() {
    let import = read(include_str!("security.yaml"));
    let fields: Vec<&str> =
        import.provider.credentials.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(
        fields,
        [
            "client_client_id",
            "client_client_secret",
            "client",
            "cookie_key",
            "header_key",
            "login_username",
            "login_password",
            "query_key",
            "token"
        ]
    );
}

#[test]
fn one_bad_operation_does_not_lose_the_others() {
    let import = read(
        r##"{"openapi": "3.0.0", "info": {}, "servers": [{"url": "https://x.example"}], "paths": {
            "/gone": {"$ref": "#/components/pathItems/none"},
            "/list": {"get": [1, 2]},
            "/self": {"post": {"operationId": "self", "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Self"}}}}}},
            "/lost": {"post": {"operationId": "lost", "parameters": [{"$ref": "#/nope"}, {"in": "query"}, 7], "requestBody": {"$ref": "file:///etc/passwd"}}},
            "/own": {"get": {"operationId": "own", "servers": [{"url": "http://u:p4ss@127.0.0.1/"}]}},
            "/fine": {"get": {"operationId": "fine", "parameters": [{"name": "a", "in": "query", "schema": {"$ref": "https://evil.example/schema.json"}}]}}
        }, "components": {"schemas": {"Self": {"anyOf": [{"$ref": "#/components/schemas/Self"}, {"allOf": [{"$ref": "#/components/schemas/Self"}]}]}}}}"##,
    );
    assert!(
        names(&import).contains(&"fine") && names(&import).contains(&"lost"),
        "{:?}",
        names(&import)
    );
    let reasons: Vec<String> =
        import.unsupported.iter().map(|one| format!("{}: {}", one.operation, one.reason)).collect();
    assert!(reasons.iter().any(|reason| reason.starts_with("* /gone")), "{reasons:?}");
    assert!(reasons.iter().any(|reason| reason.starts_with("GET /list")), "{reasons:?}");
    let own = reasons.iter().find(|reason| reason.starts_with("GET /own")).unwrap();
    assert!(own.contains("credentials do not belong") && !own.contains("p4ss"), "{own}");
    let fine = import.tools.iter().find(|tool| tool.spec.name.as_str() == "fine").unwrap();
    assert!(fine.notes.iter().any(|note| note.contains("evil.example")), "{:?}", fine.notes);
}

#[test]
fn files_beside_the_document_are_read_and_no_others() {
    let document = r#"
openapi: 3.0.0
info: {title: x}
servers: [{url: "https://x.example/{v}", variables: {v: {default: v2}}}]
paths:
  /a:
    post:
      operationId: a
      requestBody: {required: true, content: {application/json: {schema: {$ref: "schemas/pet.yaml#/Pet"}}}}
  /b: {$ref: "paths/b.json"}
  /c: {$ref: "../outside.json"}
"#;
    let asked = std::cell::RefCell::new(Vec::new());
    let read = |name: &str| {
        asked.borrow_mut().push(name.to_owned());
        match name {
            "schemas/pet.yaml" => Ok("Pet: {type: object, properties: {tag: {$ref: 'tag.yaml'}, friend: {$ref: '#/Pet'}}}".to_owned()),
            "schemas/tag.yaml" => Ok("{type: string, enum: [a, b]}".to_owned()),
            "paths/b.json" => Ok(r#"{"get": {"operationId": "b"}}"#.to_owned()),
            other => Err(format!("no {other}")),
        }
    };
    let origin = Origin { url: None, read: &read };
    let import = import("x", document, &ImportOptions::default(), origin).unwrap();
    assert_eq!(names(&import), ["a", "b"]);
    assert_eq!(
        tool(&import, "a").input["properties"]["tag"],
        json!({"type": "string", "enum": ["a", "b"]})
    );
    assert_eq!(
        preview(tool(&import, "b"), &json!({})).unwrap().url,
        "https://x.example/v2/a".replace("/a", "/b")
    );
    assert!(asked.borrow().iter().all(|name| !name.contains("..")), "{asked:?}");
}

#[test]
fn styles_are_written_as_the_specification_shows() {
    // The table of OpenAPI 3.1, "Style Examples".
    let (array, object) =
        (json!(["blue", "black", "brown"]), json!({"R": 100, "G": 200, "B": 150}));
    for (place, style, explode, value, wanted) in [
        ("path", "matrix", false, &array, "/;color=blue,black,brown"),
        ("path", "matrix", true, &array, "/;color=blue;color=black;color=brown"),
        ("path", "matrix", false, &object, "/;color=R,100,G,200,B,150"),
        ("path", "matrix", true, &object, "/;R=100;G=200;B=150"),
        ("path", "label", false, &array, "/.blue,black,brown"),
        ("path", "label", true, &array, "/.blue.black.brown"),
        ("path", "label", true, &object, "/.R=100.G=200.B=150"),
        ("path", "simple", false, &array, "/blue,black,brown"),
        ("path", "simple", false, &object, "/R,100,G,200,B,150"),
        ("path", "simple", true, &object, "/R=100,G=200,B=150"),
        ("query", "form", false, &array, "/?color=blue,black,brown"),
        ("query", "form", true, &array, "/?color=blue&color=black&color=brown"),
        ("query", "form", false, &object, "/?color=R,100,G,200,B,150"),
        ("query", "form", true, &object, "/?R=100&G=200&B=150"),
        ("query", "spaceDelimited", false, &array, "/?color=blue%20black%20brown"),
        ("query", "pipeDelimited", false, &array, "/?color=blue%7Cblack%7Cbrown"),
        (
            "query",
            "deepObject",
            true,
            &object,
            "/?color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150",
        ),
    ] {
        let path = if place == "path" { "/{color}" } else { "/" };
        let schema = if value.is_array() {
            json!({"type": "array", "items": {"type": "string"}})
        } else {
            json!({"type": "object"})
        };
        let document: Value = json!({"openapi": "3.1.0", "info": {}, "servers": [{"url": "https://x.example"}], "paths": {path: {"get": {"operationId": "a", "parameters": [
            {"name": "color", "in": place, "required": true, "style": style, "explode": explode, "schema": schema}]}}}});
        let import = read(&document.to_string());
        let sent = preview(tool(&import, "a"), &json!({"color": value})).unwrap();
        assert_eq!(sent.url, format!("https://x.example{wanted}"), "{place} {style} {explode}");
    }
}

#[test]
fn the_query_of_a_path_is_filled_and_kept() {
    let text = |name: &str, place: &str| json!({"name": name, "in": place, "required": true, "schema": {"type": "string"}});
    let document = json!({"openapi": "3.0.3", "info": {}, "servers": [{"url": "https://x.example"}], "paths": {
        "/alerts?lat={lat}&t=1&lon={lon}": {"get": {"operationId": "alerts", "parameters": [text("lat", "path"), text("lon", "query")]}},
        "/find?q={words}&in=all": {"get": {"operationId": "find"}},
        "/of/{id}?same={id}&range=0-{to}": {"get": {"operationId": "of", "parameters": [text("id", "path"), text("to", "path")]}},
    }});
    let import = read(&document.to_string());
    for (name, arguments, url) in [
        ("alerts", json!({"lat": "1 2", "lon": "3"}), "/alerts?t=1&lat=1%202&lon=3"),
        ("find", json!({"q": "a&b=c"}), "/find?in=all&q=a%26b%3Dc"),
        ("of", json!({"id": "a&b", "to": "9"}), "/of/a%26b?same=a%26b&range=0-9"),
    ] {
        let tool = tool(&import, name);
        let (properties, given) =
            (tool.input["properties"].as_object().unwrap(), arguments.as_object().unwrap());
        assert_eq!(
            properties.keys().collect::<Vec<_>>(),
            given.keys().collect::<Vec<_>>(),
            "{name}"
        );
        assert_eq!(preview(tool, &arguments).unwrap().url, format!("https://x.example{url}"));
    }
}

#[test]
fn a_body_that_asks_for_more_fields_takes_them() {
    let document = |more: Value| {
        let mut schema = json!({"type": "object", "properties": {"id": {"type": "string"}}});
        if !more.is_null() {
            schema["additionalProperties"] = more;
        }
        let body = json!({"required": true, "content": {"application/json": {"schema": {"allOf": [schema]}}}});
        json!({"openapi": "3.0.3", "info": {}, "servers": [{"url": "https://x.example"}], "paths": {
            "/a": {"post": {"operationId": "a", "requestBody": body}}}})
        .to_string()
    };
    for more in [json!(true), json!({})] {
        let import = read(&document(more));
        let arguments = json!({"body": {"id": "x", "own": 1}});
        let sent = preview(tool(&import, "a"), &arguments).unwrap();
        assert_eq!(sent.body.unwrap().1, br#"{"id":"x","own":1}"#);
    }
    for closed in [Value::Null, json!(false)] {
        let import = read(&document(closed));
        assert!(tool(&import, "a").input["properties"]["id"].is_object());
    }
}

/// A body with much in it that has to be set, and alternatives.
fn large() -> String {
    let field = |n: usize| {
        json!({"type": "object", "required": ["kind", "name"], "description": "One of many. ".repeat(20), "properties": {
            "kind": {"type": "string", "enum": [format!("kind-{n}")]}, "name": {"type": "string", "description": "What it is called"},
            "more": {"type": "array", "items": {"type": "object", "properties": {"deep": {"type": "string"}}}}}})
    };
    let many: Vec<Value> = (0..150).map(field).collect();
    let mut properties: serde_json::Map<String, Value> =
        (0..60).map(|n| (format!("field_{n}"), field(n))).collect();
    properties.insert("pick".to_owned(), json!({"description": "Which one", "anyOf": many}));
    let mut required: Vec<String> = properties.keys().take(40).cloned().collect();
    required.push("pick".to_owned());
    let schema = json!({"type": "object", "properties": properties, "required": required});
    json!({"openapi": "3.0.3", "info": {}, "servers": [{"url": "https://x.example"}], "paths": {"/a": {"post": {
        "operationId": "a", "requestBody": {"required": true, "content": {"application/json": {"schema": schema}}}}}}})
    .to_string()
}

#[test]
fn a_schema_holds_its_bound_and_keeps_what_is_required() {
    for most in [24_000, 16_000, 8_000, 4_000, 1_900] {
        let options = ImportOptions { max_schema_bytes: Some(most), ..ImportOptions::default() };
        let import = read_with(&large(), &options);
        let input = &tool(&import, "a").input;
        let size = input.to_string().len();
        assert!(size <= most, "{size} of {most}");
        assert!(size > most / 3, "{size} of {most}: no more is cut than has to be");
        let (required, properties) = (input["required"].as_array().unwrap(), &input["properties"]);
        assert_eq!(required.len(), 41);
        for name in required {
            assert!(properties[name.as_str().unwrap()].is_object(), "{name} at {most}");
        }
        assert_eq!(properties["field_3"]["type"], "object");
        let notes = &import.tools[0].notes;
        let told = |words: &str| notes.iter().any(|note| note.contains(words));
        assert!(
            told("what is inside of these") || told("only the types of the arguments"),
            "{notes:?}"
        );
        assert_eq!(
            told("arguments that nobody has to set were left out"),
            most == 1_900,
            "{notes:?}"
        );
    }
}

#[test]
fn an_address_that_is_not_whole_is_told_at_once() {
    let document = |server: Value| {
        json!({"openapi": "3.0.3", "info": {}, "servers": [server], "paths": {"/a": {"get": {"operationId": "a"}}}})
            .to_string()
    };
    for server in [
        json!({"url": "https://{tenant}.example.com/v1"}),
        json!({"url": "https://{tenant}.example.com", "variables": {"tenant": {"description": "Yours"}}}),
    ] {
        let import = read(&document(server));
        let notes = &import.tools[0].notes;
        assert!(notes[0].contains("has a variable without a value"), "{notes:?}");
        let error = preview(tool(&import, "a"), &json!({})).unwrap_err();
        assert_eq!(error.kind(), windlass::ErrorKind::InvalidDefinition);
        assert!(error.message().contains("`tenant`"), "{error}");
        super::support::install(super::support::engine(), import);
    }
    let import = read(&document(json!({"url": "https://x.example/?api-version=1"})));
    let note = "the query `?api-version=1` of the server's address is not sent";
    assert_eq!(import.tools[0].notes, [note]);
}
