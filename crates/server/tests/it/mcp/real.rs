//! Third-party servers and clients, installed by `cargo xtask test`.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::Server;
use crate::project::Project;

/// Where the programs are.
pub(super) fn installed() -> PathBuf {
    let folder = std::env::var("WINDLASS_TEST_MCP");
    let folder = folder.unwrap_or_else(|_| {
        panic!("run `cargo xtask test`, or set WINDLASS_TEST_MCP to where the programs are")
    });
    folder.into()
}

fn node(package: &str, args: &[&str]) -> Value {
    let modules = installed().join("npm/node_modules");
    let script = modules.join("@modelcontextprotocol").join(package).join("dist/index.js");
    let mut all = vec![script.display().to_string()];
    all.extend(args.iter().map(|arg| (*arg).to_owned()));
    json!({"command": modules.join("node/bin/node"), "args": all})
}

fn python(program: &str) -> Value {
    json!({"command": installed().join("py/bin").join(program)})
}

/// A project with five servers of others.
fn project() -> Project {
    let project = Project::new();
    let folder = project.path("").display().to_string();
    let mut memory = node("server-memory", &[]);
    memory["env"] = json!({"MEMORY_FILE_PATH": project.path("memory.json")});
    let servers = json!({"mcpServers": {
        "everything": node("server-everything", &["stdio"]),
        "files": node("server-filesystem", &[&folder]),
        "memory": memory,
        "time": python("mcp-server-time"),
        "git": python("mcp-server-git"),
    }});
    project.write("tools/servers.json", &servers.to_string());
    project
}

/// Calls of tools that harm nothing, in order.
fn safe_calls(folder: &str) -> Vec<(&'static str, Value)> {
    let file = format!("{folder}/note.txt");
    let entity = json!({"name": "Ada", "entityType": "person", "observations": ["writes"]});
    vec![
        ("everything/echo", json!({"message": "hi"})),
        ("everything/get-sum", json!({"a": 2, "b": 3})),
        ("everything/get-tiny-image", json!({})),
        (
            "everything/get-annotated-message",
            json!({"messageType": "success", "includeImage": true}),
        ),
        ("everything/get-resource-links", json!({"count": 2})),
        ("everything/get-resource-reference", json!({"resourceType": "Text", "resourceId": 1})),
        ("everything/get-structured-content", json!({"location": "New York"})),
        ("everything/get-env", json!({})),
        ("everything/trigger-long-running-operation", json!({"duration": 0.2, "steps": 2})),
        ("files/write_file", json!({"path": file, "content": "a\nb\n"})),
        ("files/read_text_file", json!({"path": file})),
        ("files/read_multiple_files", json!({"paths": [file]})),
        ("files/edit_file", json!({"path": file, "edits": [{"oldText": "a", "newText": "c"}]})),
        ("files/get_file_info", json!({"path": file})),
        ("files/list_directory", json!({"path": folder})),
        ("files/list_directory_with_sizes", json!({"path": folder})),
        ("files/directory_tree", json!({"path": folder})),
        ("files/search_files", json!({"path": folder, "pattern": "*.txt"})),
        ("files/list_allowed_directories", json!({})),
        ("files/create_directory", json!({"path": format!("{folder}/made")})),
        ("memory/create_entities", json!({"entities": [entity]})),
        (
            "memory/add_observations",
            json!({"observations": [{"entityName": "Ada", "contents": ["counts"]}]}),
        ),
        ("memory/read_graph", json!({})),
        ("memory/search_nodes", json!({"query": "Ada"})),
        ("memory/open_nodes", json!({"names": ["Ada"]})),
        ("time/get_current_time", json!({"timezone": "Europe/Berlin"})),
        (
            "time/convert_time",
            json!({"source_timezone": "UTC", "time": "12:00",
            "target_timezone": "Asia/Tokyo"}),
        ),
        ("git/git_status", json!({"repo_path": folder})),
        ("git/git_log", json!({"repo_path": folder})),
        ("git/git_branch", json!({"repo_path": folder, "branch_type": "local"})),
        ("git/git_diff_unstaged", json!({"repo_path": folder})),
        ("git/git_show", json!({"repo_path": folder, "revision": "HEAD"})),
    ]
}

#[test]
fn every_safe_tool_of_five_servers_answers() {
    let project = project();
    let folder = project.path("").canonicalize().unwrap().display().to_string();
    project.write("note.txt", "first");
    for line in [
        "git init -q . && git config user.email a@b.c && git config user.name A",
        "git add note.txt && git commit -qm first",
    ] {
        assert!(project.shell(line).status().unwrap().success());
    }
    let calls: Vec<Value> = (safe_calls(&folder).into_iter())
        .map(|(tool, arguments)| json!({"tool": tool, "arguments": arguments}))
        .collect();
    let count = calls.len();
    project.write("calls.json", &json!(calls).to_string());
    let results = project.run(&["batch", "calls.json", "--json", "--serial"]);
    let results: Value =
        serde_json::from_str(&results.out).unwrap_or_else(|error| panic!("{error}: {results:?}"));
    let results = results.as_array().or_else(|| results["results"].as_array()).unwrap();
    assert_eq!(results.len(), count);
    for (call, result) in calls.iter().zip(results) {
        assert_eq!(result["is_success"], true, "{call}: {result}");
    }
    let find = |tool: &str| results.iter().find(|result| result["tool_name"] == tool).unwrap();
    let image = find("everything/get-tiny-image")["content"].to_string();
    assert!(image.contains("image/png"), "{image}");
    assert!(find("everything/get-structured-content")["output"]["temperature"].is_number());
}

#[test]
fn a_server_that_is_killed_in_a_call_is_one_error_and_the_next_call_works() {
    let project = project();
    let mut session = super::stdio::StdioClient::older(&project, &["--provider", "everything"]);
    assert!(session.names().contains(&"echo".to_owned()));
    let slow = json!({"name": "trigger-long-running-operation",
        "arguments": {"duration": 30, "steps": 3}});
    session.say(&json!({"jsonrpc": "2.0", "id": 900, "method": "tools/call", "params": slow}));
    std::thread::sleep(Duration::from_millis(800));
    let folder = project.path("").display().to_string();
    let found =
        Command::new("pgrep").args(["-f", "server-everything/dist/index.js stdio"]).output();
    for id in String::from_utf8(found.unwrap().stdout).unwrap().split_whitespace() {
        // Only our own: it runs in this project's folder.
        let place = std::fs::read_link(format!("/proc/{id}/cwd")).unwrap_or_default();
        if place.starts_with(folder.trim_end_matches('/')) {
            assert!(Command::new("kill").args(["-9", id]).status().unwrap().success());
        }
    }
    let failed = session.answer_to(900);
    let text = failed["result"]["content"][0]["text"].as_str().unwrap_or_default();
    assert_eq!(failed["result"]["isError"], true, "{failed}");
    assert!(text.contains("may have taken effect"), "{failed}");
    let next = session.call("echo", json!({"message": "again"}));
    assert_eq!(next["result"]["content"][0]["text"], "Echo: again", "{next}");
    session.end();
}

#[test]
fn the_inspector_lists_and_calls_over_both_wires() {
    let project = Project::new();
    let modules = installed().join("npm/node_modules");
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", modules.join("node/bin").display());
    let inspect = |target: &[&str], rest: &[&str]| {
        let mut command = project.isolated(modules.join(".bin/mcp-inspector"));
        command.env("PATH", &path).arg("--cli").args(target).args(rest);
        let output = command.output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{out} {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_str::<Value>(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    };
    let call =
        ["--method", "tools/call", "--tool-name", "calculator", "--tool-arg", "expression=2+3"];
    let stdio = [env!("CARGO_BIN_EXE_windlass"), "mcp"];
    let mut command = project.command(&["mcp", "--listen", "127.0.0.1:0", "--json"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let output = child.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
    let told: Value = serde_json::from_str(&line).unwrap();
    let url = told["listening"].as_str().unwrap().to_owned();
    for era in ["legacy", "auto", "modern"] {
        let era = ["--protocol-era", era];
        for target in [&stdio[..], &[url.as_str(), "--transport", "http"]] {
            let list = inspect(target, &[&["--method", "tools/list"][..], &era].concat());
            let tools = list["tools"].as_array().unwrap();
            assert!(tools.iter().any(|tool| tool["name"] == "calculator"), "{list}");
            let sum = inspect(target, &[&call[..], &era].concat());
            assert_eq!(sum["content"][0]["text"], "5", "{sum}");
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_question_suspends_a_call_in_the_background_and_is_declined_where_nobody_waits_for_it() {
    const TOOL: &str = "everything/trigger-elicitation-request";
    let project = Project::new();
    let servers = json!({"mcpServers": {"everything": node("server-everything", &["stdio"])}});
    project.write("tools/servers.json", &servers.to_string());
    let server = Server::run(Arc::new(project), &[], &[], None);
    let client = server.admin();
    let call = json!({"tool": TOOL, "arguments": {}});
    let start = Instant::now();
    let refused = loop {
        let said = client.post("/v1/calls", &call).text();
        if !said.contains("tool_not_found") {
            break said;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{said}");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(refused.contains("declined"), "{refused}");

    let begun = client.json("POST", "/v1/calls", &[("Prefer", "respond-async")], &call).is(202);
    let id = begun["call_id"].as_str().unwrap();
    let place = format!("/v1/calls/{id}/questions");
    let start = Instant::now();
    let asked = loop {
        let asked = client.get(&place);
        if asked.status == 200 {
            break asked.value();
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{asked:?}");
        std::thread::sleep(Duration::from_millis(20));
    };
    let (name, question) = asked["questions"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(question["method"], "elicitation/create", "{asked}");
    let answers = format!("/v1/calls/{id}/answers");
    let stranger = server.key("other", "caller");
    let cancelled = json!({"answers": {name: {"action": "cancel"}}});
    assert_eq!(stranger.get(&place).status, 404, "another tenant's call is not there");
    assert_eq!(stranger.post(&answers, &cancelled).status, 404);
    assert_eq!(client.post(&answers, &json!({"answers": {name: {"yes": true}}})).status, 400);
    assert_eq!(client.post(&answers, &cancelled).is(200)["answered"], 1);
    let done = client.get(&format!("/v1/calls/{id}?wait=20s")).text();
    assert!(done.contains("cancelled the elicitation"), "{done}");
    assert_eq!(client.get(&place).status, 404);
}
