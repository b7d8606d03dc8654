//! Import options, names of tools, and base URLs.

use serde_json::{Value, json};
use windlass::Approval;
use windlass_executors::rest::{
    Import, ImportOptions, Names, Origin, Selector, import_beside, needs_credential, origins,
};

use super::support::{read, read_with};

fn document(paths: &Value) -> String {
    let servers = json!([{"url": "https://x.example"}]);
    json!({"openapi": "3.1.0", "info": {}, "servers": servers, "paths": paths}).to_string()
}

fn select(texts: &[&str]) -> Vec<Selector> {
    texts.iter().map(|text| Selector::new(*text)).collect()
}

fn names(import: &Import) -> Vec<&str> {
    import.tools.iter().map(|tool| tool.spec.name.as_str()).collect()
}

fn beside(document: &str, names: &Names) -> Import {
    import_beside("x", document, &ImportOptions::default(), Origin::default(), names).unwrap()
}

#[test]
fn what_selects_nothing_is_told() {
    let document = document(&json!({
        "/a": {"get": {"operationId": "list", "tags": ["Admin"]}, "delete": {"operationId": "remove"}},
    }));
    let options = ImportOptions {
        ask: select(&["delete", "DELETE /b"]),
        exclude: select(&["tag:admin"]),
        read_only: select(&["post"]),
        include: select(&["/a", "nope"]),
        rename: [("nothing".to_owned(), "x".to_owned())].into(),
        ..ImportOptions::default()
    };
    let import = read_with(&document, &options);
    assert_eq!(import.tools[1].spec.approval, Some(Approval::Ask), "a method in small letters");
    assert_eq!(import.tools[0].spec.approval, None);
    assert_eq!(
        import.strays,
        ["`DELETE /b` of `ask` selects nothing", "`tag:admin` of `exclude` selects nothing"]
    );
    assert_eq!(
        import.notes,
        [
            "`nope` of `include` selects nothing",
            "`post` of `read_only` selects nothing",
            "there is no `nothing` to rename"
        ]
    );
}

#[test]
fn an_operation_may_be_called_like_a_method() {
    let document = document(&json!({
        "/a": {"post": {"operationId": "delete"}, "delete": {"operationId": "remove"}},
    }));
    let options = ImportOptions { ask: select(&["delete"]), ..ImportOptions::default() };
    let asks: Vec<bool> = read_with(&document, &options)
        .tools
        .iter()
        .map(|tool| tool.spec.approval == Some(Approval::Ask))
        .collect();
    assert_eq!(asks, [true, false]);
}

#[test]
fn names_of_others_are_not_given_again() {
    let document = document(&json!({
        "/a": {"get": {"operationId": "calculator"}, "put": {"operationId": "own"}},
    }));
    let taken = Names { taken: ["calculator".to_owned()].into(), ..Names::default() };
    let first = beside(&document, &taken);
    let marked = names(&first)[0].to_owned();
    assert!(marked.starts_with("calculator_") && names(&first)[1] == "own", "{:?}", names(&first));
    let note = format!("`calculator` is another tool; this one is `{marked}`");
    assert_eq!(first.tools[0].notes[0], note);
    assert_eq!(first.notes, [format!("names are taken: {note}")]);
    assert_eq!(names(&beside(&document, &taken)), names(&first), "the mark is stable");

    // Another provider may have the same operation, with the same mark.
    let mut more = taken.clone();
    more.taken.insert(marked.clone());
    let other = beside(&document, &more);
    assert!(names(&other)[0].starts_with("calculator_") && names(&other)[0] != marked);
    more.kept.insert("GET /a".to_owned(), names(&other)[0].to_owned());
    assert_eq!(names(&beside(&document, &more)), names(&other));

    // Somebody who chooses a name is told that it cannot be.
    let options = ImportOptions {
        rename: [("own".to_owned(), "calculator".to_owned())].into(),
        ..ImportOptions::default()
    };
    let import = import_beside("x", &document, &options, Origin::default(), &taken).unwrap();
    assert_eq!(import.unsupported[0].reason, "another tool is called `calculator`, too");
}

#[test]
fn a_newcomer_takes_no_name_away() {
    let old = json!({"/u": {"get": {"operationId": "get.user"}}});
    let first = read(&document(&old));
    assert_eq!(names(&first), ["get_user"]);
    let kept = |import: &Import| {
        let tools = import.tools.iter();
        tools.map(|tool| (tool.operation.clone(), tool.spec.name.to_string())).collect()
    };
    let mut both = old;
    both["/a"] = json!({"get": {"operationId": "get_user"}});
    let known = Names { kept: kept(&first), ..Names::default() };
    let second = beside(&document(&both), &known);
    assert_eq!(names(&second)[0], "get_user");
    assert!(names(&second)[1].starts_with("get_user_"));
    // The mark stays when the other one goes.
    let known = Names { kept: kept(&second), ..Names::default() };
    let third = beside(&document(&json!({"/a": both["/a"]})), &known);
    assert_eq!(names(&third), [names(&second)[1]]);
}

#[test]
fn what_is_too_many_is_told_with_the_setting() {
    let document = document(&json!({"/a": {"get": {}, "put": {}, "post": {}}, "/b": {"get": {}}}));
    let options = ImportOptions { max_tools: Some(2), ..ImportOptions::default() };
    let import = read_with(&document, &options);
    assert_eq!((import.tools.len(), import.left_out), (2, 2));
    assert!(import.notes[0].contains("(4); 2 are left out: set `max_tools`"), "{:?}", import.notes);
    // What is not wanted does not count.
    let options = ImportOptions { include: select(&["GET"]), ..options };
    assert_eq!(read_with(&document, &options).notes, Vec::<String>::new());
}

#[test]
fn other_services_are_named() {
    let mut document: Value = serde_json::from_str(&document(&json!({
        "/a": {"get": {"operationId": "a"}, "put": {"operationId": "b"}},
        "/c": {"get": {"operationId": "c", "servers": [{"url": "https://evil.example/x"}]}},
        "/d": {"get": {"operationId": "d", "security": []}},
        "/e": {"get": {"operationId": "e", "security": [{"o": []}, {}]}},
    })))
    .unwrap();
    document["security"] = json!([{"o": []}]);
    document["components"]["securitySchemes"]["o"] = json!({"type": "oauth2", "flows": {
        "clientCredentials": {"tokenUrl": "https://auth.example/token", "scopes": {}}}});
    let import = read(&document.to_string());
    assert_eq!(
        import.notes,
        [
            "`https://auth.example` gets requests or credentials, too: GET /a and 3 more",
            "`https://evil.example` gets requests or credentials, too: GET /c",
        ]
    );
    let reached: Vec<String> = origins(&import.tools[2].spec).into_iter().collect();
    assert_eq!(reached, ["https://auth.example", "https://evil.example"]);
    let needs: Vec<bool> = import.tools.iter().map(|tool| needs_credential(&tool.spec)).collect();
    assert_eq!(needs, [true, true, true, false, false]);
}
