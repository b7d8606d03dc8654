//! `windlass batch`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::project::{Project, Ran};

/// A built-in that waits, declared as something that changes things.
const SAVE: &str = "name: save_order\ndescription: Takes its time to change something.\n\
    parameters:\n  - {name: seconds, type: number, required: true}\n\
    entry: {type: builtin, handler: wait}\nbehaviour: {concurrency_safe: false}\n";

fn waits(count: usize, seconds: f64) -> String {
    Value::Array(vec![json!({"tool": "wait", "arguments": {"seconds": seconds}}); count])
        .to_string()
}

/// The results of a run with `--json`.
#[track_caller]
fn results(ran: &Ran) -> Vec<Value> {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

/// The queue events of a run with `--progress --json`.
fn events(ran: &Ran) -> Vec<Value> {
    ran.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// How long the calls took, without the program's own start and end.
fn between(ran: &Ran) -> (f64, f64) {
    let (_, sum) = ran.out.trim_end().rsplit_once(" in ").unwrap();
    let (wall, sum) = sum.split_once("; their run times add up to ").unwrap();
    (millis(wall), millis(sum))
}

fn millis(text: &str) -> f64 {
    let (number, unit) = text.split_once(' ').unwrap();
    let number: f64 = number.parse().unwrap();
    if unit == "s" { number * 1000.0 } else { number }
}

#[test]
fn reads_run_together_and_one_by_one_when_asked() {
    let project = Project::new();
    let together = project.run(&["batch", &waits(3, 0.3)]);
    let (wall, sum) = between(&together);
    assert_eq!(together.code, Some(0), "{together:?}");
    assert!(wall < 800.0, "three waits of 300 ms took {wall} ms: {together:?}");
    assert!(sum >= 900.0, "{together:?}");
    let serial = project.run(&["batch", &waits(3, 0.3), "--serial"]);
    let (wall, _) = between(&serial);
    assert!(wall >= 900.0, "{wall} ms: {serial:?}");
    // The third waited for the two before it.
    let waited = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        millis(&words[3..5].join(" "))
    };
    let lines: Vec<&str> = serial.out.lines().collect();
    assert!(waited(lines[1]) < 300.0 && waited(lines[3]) >= 600.0, "{serial:?}");
}

#[test]
fn a_write_runs_alone_and_results_are_in_order() {
    let project = Project::new();
    project.write("tools/save.yaml", SAVE);
    let calls = json!([
        {"tool": "wait", "arguments": {"seconds": 0.2}, "id": "read_1"},
        {"tool": "wait", "arguments": {"seconds": 0.05}, "id": "read_2"},
        {"tool": "save_order", "arguments": {"seconds": 0.05}, "id": "write"},
        {"tool": "wait", "arguments": {"seconds": 0.05}, "id": "read_3"},
    ]);
    let ran = project.run(&["batch", &calls.to_string(), "--json", "--progress"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let order: Vec<Value> = results(&ran).iter().map(|one| one["call_ref"].clone()).collect();
    assert_eq!(order, ["read_1", "read_2", "write", "read_3"]);
    let told: Vec<(Value, Value)> = events(&ran)
        .iter()
        .map(|event| (event["type"].clone(), event["toolUseId"].clone()))
        .filter(|(name, _)| name != "tool_queued")
        .collect();
    let expected = [
        ("tool_started", "read_1"),
        ("tool_started", "read_2"),
        ("tool_completed", "read_2"),
        ("tool_completed", "read_1"),
        ("tool_started", "write"),
        ("tool_completed", "write"),
        ("tool_started", "read_3"),
        ("tool_completed", "read_3"),
    ];
    let expected = expected.map(|(name, id)| (json!(name), json!(id)));
    assert_eq!(told[..8], expected, "{ran:?}");
    assert_eq!(told[8..], [(json!("queue_drained"), Value::Null)]);
}

#[test]
fn a_failure_costs_nobody_else_anything() {
    let project = Project::new();
    let calls = r#"[{"tool": "echo", "arguments": {"message": "one"}}, {"tool": "no_such_tool"},
        {"tool": "calculator", "arguments": {"expression": "1/0"}},
        {"tool": "echo", "arguments": {}}, {"tool": "echo", "arguments": {"message": "two"}}]"#;
    let ran = project.run(&["batch", calls]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let lines: Vec<&str> = ran.out.lines().collect();
    for (line, parts) in [
        (0, &["#", "TOOL", "STATUS", "WAITED", "RAN", "RESULT"][..]),
        (1, &["1", "echo", "succeeded", "one"]),
        (2, &["2", "no_such_tool", "refused", "-"]),
        (3, &["3", "calculator", "failed", "division by zero"]),
        (4, &["4", "echo", "refused"]),
        (5, &["5", "echo", "succeeded", "two"]),
        (6, &["5 calls (3 did not succeed) in ", "; their run times add up to "]),
    ] {
        for part in parts {
            assert!(lines[line].contains(part), "no {part:?} in line {line} of {ran:?}");
        }
    }
    let kinds: Vec<Value> = results(&project.run(&["batch", calls, "--json"]))
        .iter()
        .map(|one| one["error_kind"].clone())
        .collect();
    assert_eq!(
        kinds,
        [
            Value::Null,
            json!("tool_not_found"),
            json!("tool_error"),
            json!("invalid_arguments"),
            Value::Null
        ]
    );
    assert_eq!(project.json(&["stats"])["total"]["calls"], 10, "every call is recorded");
}

#[test]
fn every_form_of_input_is_understood() {
    let project = Project::empty();
    let anthropic = r#"{"role": "assistant", "content": [
        {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "id": "toolu_1", "name": "echo", "input": {"message": "hi"}}]}"#;
    let openai = r#"{"role": "assistant", "content": null, "tool_calls": [{"id": "call_1",
        "type": "function",
        "function": {"name": "echo", "arguments": "{\"message\": \"hi\"}"}}]}"#;
    let line = r#"{"name": "echo", "input": {"message": "hi"}}"#;
    for (text, count) in [
        (r#"[{"tool": "echo", "arguments": {"message": "hi"}}]"#, 1),
        (r#"{"calls": [{"tool": "echo", "params": {"message": "hi"}, "priority": 1}]}"#, 1),
        (anthropic, 1),
        (openai, 1),
        (line, 1),
        (&format!("{line}\n\n{line}\n"), 2),
    ] {
        let piped = project.pipe(text, &["batch", "--json"]);
        project.write("calls.json", text);
        let read = project.run(&["batch", "calls.json", "--json"]);
        let dash = project.pipe(text, &["batch", "-", "--json"]);
        for ran in [piped, read, dash] {
            let outputs: Vec<Value> =
                results(&ran).iter().map(|one| one["output"].clone()).collect();
            assert_eq!(outputs, vec![json!("hi"); count], "{text}: {ran:?}");
            assert_eq!(ran.code, Some(0));
        }
    }
    // What a model wrote badly is the model's to hear of; the batch goes on.
    let broken = openai.replace(r#"\"hi\"}"#, "hi");
    let ran = project.pipe(&broken, &["batch", "--json"]);
    assert_eq!((ran.code, &results(&ran)[0]["error_kind"]), (Some(1), &json!("invalid_arguments")));
}

#[test]
fn a_mistake_in_the_input_runs_nothing() {
    let project = Project::new();
    let good = r#"{"tool": "echo", "arguments": {"message": "hi"}}"#;
    for (text, part) in [
        (format!("[{good}, {{}}]"), "stdin: item 2: it does not say which `tool` to call"),
        (format!("[{good}, {{\"tool\": \"a\", \"inputs\": 1}}]"), "did you mean `input`?"),
        (format!("[{good}, 5]"), "item 2: expected a call, found a number"),
        (format!("[{good}"), "stdin: not valid JSON: EOF"),
        (format!("{good}\n{{\n"), "not valid JSON"),
        ("\"echo\"".to_owned(), "expected a list of calls, found a text"),
    ] {
        let ran = project.pipe(&text, &["batch"]);
        ran.fails(2, &["error: ", part, "nothing was run", "hint: "]);
        assert_eq!(ran.out, "");
    }
    project.run(&["batch", "missing.json"]).fails(2, &["missing.json: cannot be opened"]);
    assert!(!project.path(".windlass").exists(), "no call was begun");
    for text in ["", "[]", "{\"calls\": []}"] {
        let ran = project.pipe(text, &["batch"]);
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), "", ""), "{text}");
        assert_eq!(project.pipe(text, &["batch", "--json"]).out, "[]\n");
        assert_eq!(project.pipe(text, &["batch", "--format", "openai"]).out, "[]\n");
    }
}

#[test]
fn results_are_what_the_next_message_wants() {
    let project = Project::empty();
    let calls = r#"[{"tool": "echo", "arguments": {"message": "hi"}, "id": "a"},
        {"tool": "calculator", "arguments": {"expression": "1/0"}, "id": "b"}]"#;
    let ran = project.run(&["batch", calls, "--format", "anthropic"]);
    assert_eq!(ran.code, Some(1));
    let blocks = results(&ran);
    assert_eq!(
        blocks[0],
        json!({"type": "tool_result", "tool_use_id": "a", "content": "hi", "is_error": false})
    );
    assert_eq!((&blocks[1]["tool_use_id"], &blocks[1]["is_error"]), (&json!("b"), &json!(true)));
    let text = blocks[1]["content"].as_str().unwrap();
    assert!(text.starts_with("Tool execution failed: division by zero"), "{text}");
    let messages = results(&project.run(&["batch", calls, "--format", "openai"]));
    assert_eq!(messages[0], json!({"role": "tool", "tool_call_id": "a", "content": "hi"}));
    assert_eq!(messages[1]["tool_call_id"], "b");
}

#[test]
fn what_is_over_the_limit_has_an_error_of_its_own() {
    let project = Project::new();
    let calls = vec![json!({"tool": "echo", "arguments": {"message": "hi"}}); 51];
    let ran = project.pipe(&json!(calls).to_string(), &["batch", "--json"]);
    let results = results(&ran);
    assert_eq!((ran.code, results.len()), (Some(1), 51));
    assert!(results[..50].iter().all(|one| one["is_success"] == true));
    assert_eq!(results[50]["error_kind"], "batch_limit");
    project.write("windlass.yaml", "concurrency: {max_batch: 51}\n");
    assert_eq!(project.pipe(&json!(calls).to_string(), &["batch", "--json"]).code, Some(0));
}

#[test]
fn what_a_call_carries_is_recorded() {
    let project = Project::new();
    let calls = r#"[{"tool": "wait", "arguments": {"seconds": 30}, "timeout": "100ms"},
        {"tool": "wait", "arguments": {"seconds": 30}}]"#;
    let began = Instant::now();
    let mut args = vec!["batch", calls, "--timeout", "200ms", "--conversation", "c1"];
    args.extend(["--user", "bob", "--caller", "ada", "--var", "x=1"]);
    let ran = project.run(&args);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.contains("after 100ms") && ran.out.contains("after 200ms"), "{ran:?}");
    assert!(began.elapsed() < Duration::from_secs(15));
    let page = project.json(&["calls", "--conversation", "c1", "--caller", "ada"]);
    assert_eq!(page["records"].as_array().unwrap().len(), 2);
    assert_eq!(page["records"][0]["status"], "timed_out");
}

#[cfg(unix)]
#[test]
fn an_interrupt_cancels_all_calls_and_records_them() {
    use std::process::{Command, Stdio};
    let project = Project::new();
    project.write("tools/save.yaml", SAVE);
    let calls = r#"[{"tool": "echo", "arguments": {"message": "done"}},
        {"tool": "wait", "arguments": {"seconds": 60}},
        {"tool": "save_order", "arguments": {"seconds": 60}},
        {"tool": "wait", "arguments": {"seconds": 60}}]"#;
    let mut command = project.command(&["batch", calls, "--timeout", "2m", "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Long enough for the calls to begin, also on a slow machine.
    std::thread::sleep(Duration::from_millis(1500));
    let start = Instant::now();
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert!(start.elapsed() < Duration::from_secs(10), "the calls were stopped, not waited for");
    let kinds: Vec<Value> = results(&ran).iter().map(|one| one["error_kind"].clone()).collect();
    assert_eq!(kinds, [Value::Null, json!("cancelled"), json!("cancelled"), json!("cancelled")]);
    let page = project.json(&["calls", "--status", "cancelled"]);
    assert_eq!(page["records"].as_array().unwrap().len(), 3, "{page}");
}

#[test]
fn events_are_told_on_request() {
    let project = Project::empty();
    let calls = r#"[{"tool": "echo", "arguments": {"message": "hi"}, "id": "a"}]"#;
    let ran = project.run(&["batch", calls, "--progress"]);
    for part in ["tool_queued echo (a) is call 1", "execution_started echo (a)", "queue_drained"] {
        assert!(ran.err.contains(part), "no {part:?} in {ran:?}");
    }
}

#[test]
fn a_long_result_is_shortened_in_the_table_only() {
    let project = Project::empty();
    let long = "x".repeat(500);
    let calls = json!([{"tool": "echo", "arguments": {"message": long}}]).to_string();
    let ran = project.run(&["batch", &calls]);
    assert!(ran.err.contains("--json prints all of them"), "{ran:?}");
    assert!(ran.out.contains("x…") && !ran.out.contains(&long), "{ran:?}");
    assert_eq!(results(&project.run(&["batch", &calls, "--json"]))[0]["output"], long);
}

#[test]
fn an_unknown_tool_is_called_unknown_in_the_tables() {
    let project = Project::new();
    let calls = json!([{"tool": "hullo", "arguments": {}}, {"tool": "nope", "arguments": {}}]);
    let ran = project.run(&["batch", &calls.to_string()]);
    assert!(ran.out.contains("unknown tool: hullo; did you mean `hello`?"), "{ran:?}");
    assert!(ran.out.contains("unknown tool: nope"), "{ran:?}");
    let listed = project.ok(&["calls"]);
    assert!(listed.contains("unknown tool: nope"), "{listed}");
    let id = listed.lines().find(|line| line.contains("nope")).unwrap();
    let id = id.split_whitespace().nth(2).unwrap();
    let shown = project.ok(&["calls", id]);
    assert!(
        shown.contains("unknown tool: nope") && shown.contains("Unknown tool: nope"),
        "{shown}"
    );
    let chinese = project.run(&["batch", &calls.to_string(), "--lang", "zh"]);
    assert!(chinese.out.contains("未知工具: nope"), "{chinese:?}");
}
