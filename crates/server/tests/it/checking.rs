//! `windlass check`.

use crate::project::Project;

const BROKEN: &str = "name: broken\nparameters:\n  - {name: a, type: strng}\n  - {nam: b}\n";

#[test]
fn errors_have_places_and_a_code() {
    let project = Project::new();
    project.write("tools/broken.yaml", BROKEN);
    let ran = project.run(&["check"]);
    assert_eq!(ran.code, Some(6), "{ran:?}");
    assert!(ran.out.contains("tools/broken.yaml:3:"), "{ran:?}");
    assert!(ran.out.contains("error: unknown type `strng`; did you mean `string`?"), "{ran:?}");
    assert!(ran.out.lines().last().unwrap().starts_with("2 files, 1 tool, "), "{ran:?}");
    let json = project.run(&["check", "tools/broken.yaml", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((json.code, &report["files"]), (Some(6), &1.into()));
    assert_eq!(report["findings"][0]["severity"], "error");
    assert_eq!(report["findings"][0]["line"], 3);
    assert_eq!(project.run(&["check", "tools/hello.yaml"]).code, Some(0));
}

#[test]
fn warnings_are_errors_only_when_strict() {
    let project = Project::empty();
    project.write("plain.yaml", "name: plain\nentry: {type: builtin, handler: nope}\n");
    let ran = project.run(&["check", "plain.yaml"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("warning: `plain` has no description; say what"), "{ran:?}");
    assert!(ran.out.contains("cannot run here: no built-in handler `nope`"), "{ran:?}");
    let strict = project.run(&["check", "plain.yaml", "--strict"]);
    assert_eq!(strict.code, Some(6), "{strict:?}");
    assert!(strict.out.ends_with(", 0 warnings\n"), "{strict:?}");
}

#[test]
fn a_name_belongs_to_one_file() {
    let project = Project::empty();
    let tool = "name: twin\ndescription: One of two that are alike.\n";
    project.write("a/one.yaml", tool).write("b/two.yaml", tool);
    let ran = project.run(&["check", "a", "b"]);
    assert_eq!(ran.code, Some(6), "{ran:?}");
    assert!(
        ran.out.contains("b/two.yaml:1:1: error: the tool `twin` is already defined in a/one.yaml")
    );
    assert_eq!(project.run(&["check", "a", "a/one.yaml"]).code, Some(0));
}

#[test]
fn what_the_engine_would_refuse_is_an_error() {
    let project = Project::empty();
    let tool = r##"{"name": "t", "description": "Refers to nothing at all.",
        "input_schema": {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}}}"##;
    project.write("t.json", tool);
    project.run(&["check", "t.json"]).fails(6, &[]);
}

#[test]
fn what_is_not_checked_of_a_schema_from_elsewhere_is_a_warning() {
    let project = Project::empty();
    let tool = r#"{"name": "t", "description": "Takes a bad pattern.",
        "input_schema": {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}}"#;
    project.write("tools/t.json", tool);
    let ran = project.run(&["check", "tools/t.json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("warning: tool `t`: /properties/a/pattern is not checked"), "{ran:?}");
    let shown = project.run(&["tools", "t"]);
    assert!(shown.out.contains("unchecked") && shown.out.contains("/properties/a/pattern"));
}

#[test]
fn nothing_to_check_is_said() {
    let project = Project::empty();
    project.run(&["check"]).fails(2, &["nothing to check: no tools", "windlass init"]);
    project.run(&["check", "missing.yaml"]).fails(2, &["missing.yaml: no such file or folder"]);
}

#[test]
fn what_the_first_call_would_tell_is_found_at_its_line_and_column() {
    let project = Project::empty();
    let file = |name: &str, text: &str| {
        project.write(&format!("tools/{name}.yaml"), text);
    };
    file(
        "rest",
        "name: get_thing\ndescription: Gets a thing by its id.\n\
         parameters: [{name: other, type: string, description: Not the id.}]\n\
         entry:\n  type: rest\n  base_url: api.example.com/v1\n  method: FETCH\n  path: /things/{id}\n",
    );
    file(
        "agent",
        "name: invoke_helper\ndescription: Helps with things.\nkind: agent\nmodel: claude-sonnet-4-20250514\n\
         tools:\n  - calculator\n  - calculater\n  - nothing_at_all\n",
    );
    file(
        "sql",
        "name: orders\ndescription: Asks the orders.\nentry: {type: builtin, handler: sql_query, database: orders}\n\
         parameters: [{name: sql, type: string, required: true, description: The statement.}]\n",
    );
    file(
        "library",
        "resources:\n  - uri: file:///handbook\n    name: handbook\n    file: docs/handbook.md\n",
    );
    let ran = project.run(&["check"]);
    assert_eq!(ran.code, Some(6), "{ran:?}");
    for (place, told) in [
        ("tools/rest.yaml:6:13", "the address `api.example.com/v1` does not begin with"),
        ("tools/rest.yaml:7:11", "`FETCH` is no method of HTTP"),
        ("tools/rest.yaml:8:9", "nothing fills `{id}` of the path"),
        ("tools/agent.yaml:7:5", "`calculater`, which is not there; did you mean `calculator`?"),
        ("tools/agent.yaml:8:5", "`nothing_at_all`, which is not there"),
        ("tools/sql.yaml:3:", "there is no database `orders`"),
        ("tools/library.yaml:4:11", "there is no file `docs/handbook.md`"),
    ] {
        let found = ran.out.lines().any(|line| line.starts_with(place) && line.contains(told));
        assert!(found, "{place} {told}: {}", ran.out);
    }
    assert!(!ran.out.contains("`calculator`, which is not there"), "{}", ran.out);

    file(
        "rest",
        "name: get_thing\ndescription: Gets a thing by its id.\n\
         parameters: [{name: id, type: string, required: true, description: The id.}]\n\
         entry: {type: rest, base_url: 'https://api.example.com/v1', method: get, path: '/things/{id}'}\n",
    );
    file(
        "agent",
        "name: invoke_helper\ndescription: Helps with things.\nkind: agent\nmodel: claude-sonnet-4-20250514\n\
         tools: [calculator, get_thing, '*']\n",
    );
    project.write("windlass.yaml", "outbound: {databases: {orders: 'sqlite:orders.db'}}\n");
    project.write("docs/handbook.md", "# Handbook\n");
    let ran = project.run(&["check"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn a_native_tool_is_the_business_of_the_program_that_has_its_function() {
    let project = Project::empty();
    let desk = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/immigration-desk");
    assert_eq!(
        project.ok(&["check", "--strict", desk]),
        "3 files, 15 tools, 0 errors, 0 warnings\n"
    );
}
