//! `windlass call`.

use std::process::Stdio;

use serde_json::json;

use crate::project::{Project, Ran, text};

#[test]
fn arguments_come_in_every_form() {
    let project = Project::empty();
    project.write("a.json", r#"{"message": "from a file"}"#).write("b.txt", "long\ntext");
    for (args, out) in [
        (&[r#"{"message": "json"}"#][..], "json\n"),
        (&["message=a pair"], "a pair\n"),
        (&["message=007"], "007\n"),
        (&["message=@b.txt"], "long\ntext\n"),
        (&["message:=\"forced\""], "forced\n"),
        (&["@a.json"], "from a file\n"),
        (&["@a.json", "message=changed"], "changed\n"),
    ] {
        assert_eq!(project.ok(&[&["call", "echo"], args].concat()), out, "{args:?}");
    }
    let ran = project.pipe(r#"{"message": "piped"}"#, &["call", "echo", "-"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "piped\n"));
    let sum = project.ok(&["call", "array", "operation=sum", "items=[1, 2, 3]"]);
    assert!(sum.contains('6'), "{sum}");
}

#[test]
fn bad_arguments_are_explained_and_change_nothing() {
    let project = Project::new();
    for (argument, part) in [
        ("{message: 1}", "not valid JSON"),
        ("[1]", "expected a JSON object, found an array"),
        ("hello", "`hello` is not an argument"),
        ("@missing.json", "@missing.json: cannot be opened"),
        ("message:=x", "message: not valid JSON"),
        (r#"{"message": "a", "message": "b"}"#, "the arguments: the key `message` is given twice"),
    ] {
        project.run(&["call", "echo", argument]).fails(2, &["error: ", part, "hint: "]);
    }
    project.pipe("{\"message\": ", &["call", "echo", "-"]).fails(2, &["stdin: not valid JSON"]);
    assert_eq!(project.ok(&["calls", "-q"]), "", "none of these was a call");
    // What the tool itself refuses is a call, and recorded.
    project.run(&["call", "calculator", "expression:=[]"]).fails(
        2,
        &["error: Invalid arguments:", "/expression", "hint: `windlass tools calculator`"],
    );
    assert_eq!(project.json(&["calls"])["records"][0]["status"], "refused");
}

#[test]
fn a_failure_has_a_code_and_a_next_step() {
    let project = Project::new();
    project.write("tools/ghost.yaml", "name: ghost\nentry: {type: builtin, handler: nope}\n");
    let failed = project.run(&["call", "calculator", "expression=1/0"]);
    failed.fails(1, &["error: division by zero", "hint: `windlass calls "]);
    assert_eq!(failed.out, "");
    let unknown = project.run(&["call", "calculater"]);
    unknown.fails(3, &["did you mean `calculator`?", "hint: `windlass tools`"]);
    project.run(&["call", "ghost"]).fails(5, &["no built-in handler `nope`"]);
    project.run(&["call", "echo", "message=a", "--nope"]).fails(2, &["--nope"]);
    project.run(&["call", "echo", "message=a", "--timeout", "soon"]).fails(2, &["not a duration"]);
    project
        .run(&["call", "echo", "message=a", "--strict", "other=1"])
        .fails(2, &["/other: expected no such key"]);
    let chinese = project.run(&["call", "nothing_like_it", "--lang", "zh"]);
    chinese.fails(3, &["error: 未知工具: nothing_like_it"]);
}

#[test]
fn json_is_one_document_whatever_happens() {
    let project = Project::new();
    let good = project.json(&["call", "calculator", "expression=6*7"]);
    assert_eq!(good["is_success"], true);
    assert_eq!(good["output"]["result"], 42);
    let ran = project.run(&["call", "calculator", "expression=1/0", "--json"]);
    let bad: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &bad["error_kind"]), (Some(1), &json!("tool_error")));
    let ran = project.run(&["call", "echo", "{", "--json"]);
    let usage: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &usage["exit_code"]), (Some(2), &json!(2)));
}

#[test]
fn a_long_result_is_cut_and_kept_whole() {
    let project = Project::empty();
    project.write("windlass.yaml", "max_output_bytes: 1000\n");
    let long = "x".repeat(50_000);
    project.write("long.txt", &long);
    let ran = project.run(&["call", "echo", "message=@long.txt"]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.out.len() < 1000 && !ran.out.contains("read_output"), "{ran:?}");
    let (_, command) = ran.err.split_once("for all of it: windlass ").unwrap();
    let args: Vec<&str> = command.split_whitespace().collect();
    assert_eq!(project.ok(&args), long);
    let memory = project.run(&["call", "echo", "message=@long.txt", "--database", ":memory:"]);
    assert!(memory.err.contains("raise max_output_bytes"), "{memory:?}");
}

#[test]
fn raw_output_is_the_results_own_bytes() {
    let project = Project::empty();
    let escape = "\u{1b}[31mred";
    assert_eq!(project.ok(&["call", "echo", &format!("message={escape}"), "--raw"]), escape);
    let lines = project.ok(&["call", "echo", &format!("message={escape}")]);
    assert_eq!(lines, format!("{escape}\n"), "a pipe gets what the tool gave");
}

#[test]
fn events_are_told_on_request() {
    let project = Project::empty();
    let ran = project.run(&["call", "echo", "message=hi", "--progress"]);
    assert_eq!(ran.out, "hi\n");
    assert!(ran.err.contains("execution_started echo"), "{ran:?}");
    assert!(ran.err.contains("execution_completed"), "{ran:?}");
    let ran = project.run(&["call", "echo", "message=hi", "--progress", "--json"]);
    let events: Vec<serde_json::Value> =
        ran.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.last().unwrap()["event_type"], "execution_completed");
}

#[test]
fn secrets_and_variables_reach_the_tool_and_nothing_else() {
    let project = Project::new();
    project.write(
        "tools/keyed.yaml",
        "name: keyed\nparameters:\n  - {name: message, type: string, form: form, required: true}\n  \
         - {name: api_key, type: secret-input, required: true}\n\
         entry: {type: builtin, handler: echo}\n",
    );
    let call = ["call", "keyed", "--var", "message=filled", "--secret", "api_key"];
    project.run(&call[..4]).fails(1, &["`api_key` is not set", "--secret"]);
    project.run(&call).fails(2, &["no value for the secret `api_key`", "WINDLASS_SECRET_API_KEY"]);
    let ran = project.command(&call).env("WINDLASS_SECRET_API_KEY", "hunter2").output().unwrap();
    assert_eq!(ran.stdout, b"filled\n", "{ran:?}");
    let ran = project.pipe("hunter2\n", &[&call[..], &["-v", "--progress"]].concat());
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "filled\n"), "{ran:?}");
    assert!(!ran.err.contains("hunter2"));
    assert!(!project.ok(&["calls", "--json"]).contains("hunter2"));
    project.run(&["call", "keyed", "api_key=x"]).fails(2, &["/api_key", "hidden"]);
    let detail = project.ok(&["tools", "keyed"]);
    assert!(detail.contains("by --secret") && detail.contains("by --var"), "{detail}");
}

#[test]
fn a_database_that_cannot_be_used_stops_the_call() {
    let project = Project::empty();
    project.write("not.db", &"this is no database ".repeat(100)).write("file", "");
    let below = project.path("file").join("below.db");
    for path in ["not.db", text(&below)] {
        let ran = project.run(&["call", "echo", "message=a", "--database", path]);
        ran.fails(7, &["error: ", "hint: choose another database with --database"]);
        assert_eq!(ran.out, "");
    }
    project.run(&["calls", "--database", "not.db"]).fails(7, &["not.db"]);
    assert_eq!(project.ok(&["call", "echo", "message=a", "--database", ":memory:"]), "a\n");
}

#[test]
fn how_often_a_call_was_tried_is_told() {
    let project = Project::empty();
    let ran = project.run(&["call", "echo", "message=a", "--attempts", "4", "-v"]);
    assert!(ran.err.contains(", tried once"), "{ran:?}");
    assert_eq!(project.json(&["call", "echo", "message=a"])["attempts"], 1);
    project.run(&["call", "echo", "message=a", "--attempts", "0"]).fails(2, &["1..=100"]);
}

#[test]
fn a_key_is_taken_under_both_names() {
    let project = Project::new();
    for (flag, key) in [("--idempotency-key", "one"), ("--key", "two")] {
        assert_eq!(project.ok(&["call", "echo", "message=a", flag, key]), "a\n");
    }
    project.run(&["call", "echo", "message=a", "--key", ""]).fails(2, &["--idempotency-key"]);
}

#[test]
fn the_key_of_an_earlier_process_gives_its_result_or_is_refused() {
    let project = Project::new();
    let first = project.json(&["call", "echo", "message=paid", "--key", "invoice-17"]);
    let id = first["call_id"].as_str().unwrap();
    let again = project.run(&["call", "echo", "message=paid", "--key", "invoice-17"]);
    assert_eq!((again.code, again.out.as_str()), (Some(0), "paid\n"), "{again:?}");
    let note = format!("note: nothing ran: this is the result of the call {id}\n");
    assert_eq!(again.err, note);
    let other = project.run(&["call", "echo", "message=more", "--key", "invoice-17"]);
    other.fails(2, &["error: call ", id, "has this key", "choose another"]);
    assert_eq!(other.out, "");
    let page = project.json(&["calls"]);
    let attempts = |at: usize| page["records"][at]["attempts"].as_u64().unwrap();
    assert_eq!([attempts(0), attempts(1), attempts(2)], [0, 0, 1], "{page}");
}

#[test]
fn of_two_processes_with_one_key_one_runs_and_both_tell() {
    let project = Project::new();
    let run = || {
        let mut command = project.command(&["call", "wait", "seconds=1", "--key", "once"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let ran = [run(), run()].map(|child| Ran::from(child.wait_with_output().unwrap()));
    assert!(ran.iter().all(|one| one.out.starts_with("Waited 1 ")), "{ran:?}");
    let told = ran.iter().filter(|one| one.err.contains("note: nothing ran")).count();
    assert_eq!(told, 1, "{ran:?}");
    assert_eq!(project.json(&["stats"])["total"]["successful"], 2);
}

#[test]
fn violations_are_told_in_chinese_with_lang_zh() {
    let project = Project::new();
    project
        .run(&["call", "calculator", "{\"expression\": 5}", "--lang", "zh", "--strict"])
        .fails(2, &["工具输入参数无效", "/expression: 应为字符串, 实为5"]);
    let missing = project.run(&["call", "calculator", "{}", "--lang", "zh"]);
    missing.fails(2, &["/expression: 应为必填的值, 实为空"]);
    let json = project.run(&["call", "calculator", "{}", "--lang", "zh", "--json"]);
    assert!(json.out.contains("应为必填的值"), "{json:?}");
    // English stays as it was.
    project.run(&["call", "calculator", "{}"]).fails(2, &["expected a required value"]);
}
