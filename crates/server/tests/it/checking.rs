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
    let tool = r#"{"name": "t", "description": "Takes a bad pattern.",
        "input_schema": {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}}"#;
    project.write("t.json", tool);
    project.run(&["check", "t.json"]).fails(6, &[]);
}

#[test]
fn nothing_to_check_is_said() {
    let project = Project::empty();
    project.run(&["check"]).fails(2, &["nothing to check: no tools", "windlass init"]);
    project.run(&["check", "missing.yaml"]).fails(2, &["missing.yaml: no such file or folder"]);
}
