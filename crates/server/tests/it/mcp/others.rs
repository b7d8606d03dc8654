//! More third-party servers and clients, installed by `cargo xtask test`: each server
//! lists and runs a tool through Windlass, and so does each client library through
//! `/mcp`.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};

use super::played;
use super::real::installed;
use crate::http::{Server, until};
use crate::project::Project;

const PYTHON_CLIENT: &str = include_str!("clients/client.py");
const NODE_CLIENT: &str = include_str!("clients/client.mjs");

/// A server, a tool of it that harms nothing, and a part of what that says.
struct Other {
    name: &'static str,
    definition: Value,
    call: (&'static str, Value),
    says: &'static str,
}

fn apart(name: &str) -> PathBuf {
    installed().join("apart").join(name).join("bin")
}

fn modules() -> PathBuf {
    installed().join("npm/node_modules")
}

fn others(folder: &str) -> Vec<Other> {
    let python = |name: &'static str, program: &str, args: &[&str], call, says| {
        let definition = json!({"command": apart(name).join(program), "args": args});
        Other { name, definition, call, says }
    };
    let node = |name: &'static str, script: &str, call, says| {
        let definition = json!({"command": modules().join("node/bin/node"),
            "args": [modules().join(script)]});
        Other { name, definition, call, says }
    };
    let thought = json!({"thought": "one", "nextThoughtNeeded": false, "thoughtNumber": 1,
        "totalThoughts": 1});
    let note = format!("{folder}/note.txt");
    let part = json!({"files": [{"file_path": note, "ranges": [{"start": 1}]}]});
    let words = json!({"command": ["echo", "said it"], "directory": folder});
    let memory = ["--db-path", ":memory:", "--read-write"];
    let mut all = vec![
        python(
            "arxiv",
            "arxiv-mcp-server",
            &["--storage-path", folder],
            ("list_papers", json!({})),
            "papers",
        ),
        python(
            "calculator",
            "mcp-server-calculator",
            &[],
            ("calculate", json!({"expression": "6*7"})),
            "42",
        ),
        python(
            "cli",
            "cli-mcp-server",
            &[],
            ("show_security_rules", json!({})),
            "Allowed Commands",
        ),
        python(
            "duck",
            "mcp-server-motherduck",
            &memory,
            ("execute_query", json!({"sql": "select 41+1"})),
            "42",
        ),
        python("editor", "mcp-text-editor", &[], ("get_text_file_contents", part), "first line"),
        python(
            "excel",
            "excel-mcp-server",
            &["stdio"],
            ("create_workbook", json!({"path": format!("{folder}/a.xlsx")})),
            "a.xlsx",
        ),
        python(
            "interpreter",
            "mcp-python-interpreter",
            &["--dir", folder],
            ("list_sessions", json!({})),
            "sessions",
        ),
        python("shell", "mcp-shell-server", &[], ("shell_execute", words), "said it"),
        python(
            "sqlite",
            "mcp-server-sqlite",
            &["--db-path", "other.db"],
            ("list_tables", json!({})),
            "[]",
        ),
        python(
            "timeserver",
            "mcp-simple-timeserver",
            &[],
            ("get_local_time", json!({})),
            "Timezone",
        ),
        python(
            "word",
            "word_mcp_server",
            &[],
            ("list_available_documents", json!({"directory": folder})),
            "Word documents",
        ),
        node(
            "thinking",
            "@modelcontextprotocol/server-sequential-thinking/dist/index.js",
            ("sequentialthinking", thought),
            "totalThoughts",
        ),
        node(
            "commands",
            "mcp-server-commands/build/index.js",
            ("run_command", json!({"command": "echo said it"})),
            "said it",
        ),
        node(
            "hello",
            "mcp-hello-world/build/stdio.js",
            ("echo", json!({"message": "said it"})),
            "said it",
        ),
    ];
    for other in &mut all {
        let env = match other.name {
            "cli" => json!({"ALLOWED_DIR": folder, "ALLOWED_COMMANDS": "echo"}),
            "shell" => json!({"ALLOW_COMMANDS": "echo"}),
            _ => continue,
        };
        other.definition["env"] = env;
    }
    all
}

#[test]
fn fourteen_more_servers_list_and_run_their_tools() {
    let project = Project::new();
    project.write("note.txt", "first line\n");
    let folder = project.path("").canonicalize().unwrap().display().to_string();
    let others = others(folder.trim_end_matches('/'));
    let servers: serde_json::Map<String, Value> =
        others.iter().map(|other| (other.name.to_owned(), other.definition.clone())).collect();
    project.write("tools/servers.json", &json!({"mcpServers": servers}).to_string());
    let calls: Vec<Value> = (others.iter())
        .map(|Other { name, call: (tool, arguments), .. }| {
            json!({"tool": format!("{name}/{tool}"), "arguments": arguments})
        })
        .collect();
    project.write("calls.json", &json!(calls).to_string());
    let ran = project.run(&["batch", "calls.json", "--json", "--serial"]);
    let results: Value =
        serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    let results = results.as_array().or_else(|| results["results"].as_array()).unwrap();
    assert_eq!(results.len(), others.len(), "{ran:?}");
    for (other, result) in others.iter().zip(results) {
        assert_eq!(result["is_success"], true, "{}: {result}", other.name);
        assert!(result.to_string().contains(other.says), "{}: {result}", other.name);
    }
}

/// Runs a client and gives what it printed.
fn used(library: &str, mut client: Command) -> Value {
    let output = client.output().unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{library}: {out} {err}");
    let line = out.lines().last().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{library}: {error}: {out}"))
}

#[test]
fn eight_libraries_of_clients_list_call_and_read() {
    let project = Project::new();
    played::add_to(&project);
    project.write("client.py", PYTHON_CLIENT).write("client.mjs", NODE_CLIENT);
    let server = Server::run(Arc::new(project), &[], &[], None);
    until("the server behind it", || {
        let tools = server.admin().get("/v1/tools/played%2Ftouch");
        (tools.status == 200).then_some(())
    });
    let url = format!("http://{}/mcp", server.address);
    let script = |name: &str| server.project.path(name).display().to_string();
    let npm = installed().join("npm").display().to_string();
    let node = |library: &str| {
        let mut client = server.project.isolated(modules().join("node/bin/node"));
        client.args([&script("client.mjs"), &npm, library, &url, &server.admin]);
        used(library, client)
    };
    let python = |library: &str| {
        let program = apart(&format!("client-{library}")).join("python");
        let mut client = server.project.isolated(program);
        client.args([&script("client.py"), library, &url, &server.admin]);
        used(library, client)
    };
    let said = ["mcp", "fastmcp", "langchain", "openai-agents", "pydantic-ai"]
        .map(|library| (library, python(library)))
        .into_iter()
        .chain(["client", "sdk", "ai-sdk"].map(|library| (library, node(library))));
    for (library, said) in said {
        let tools = said["tools"].as_array().unwrap_or_else(|| panic!("{library}: {said}"));
        for wanted in ["calculator", "played__touch"] {
            assert!(tools.iter().any(|tool| tool == wanted), "{library}: {said}");
        }
        assert!(said["said"].as_str().is_some_and(|sum| sum.contains('5')), "{library}: {said}");
        let read = |key: &str| said[key].as_str().map(str::to_owned);
        assert!(read("prompt").is_none_or(|prompt| prompt == "P."), "{library}: {said}");
        assert!(read("resource").is_none_or(|resource| resource == "secret"), "{library}: {said}");
        let reads = ["mcp", "fastmcp", "client", "sdk"].contains(&library);
        assert!(!reads || read("prompt").is_some() && read("resource").is_some(), "{said}");
    }
}
