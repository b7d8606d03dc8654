//! Configurations of VS Code: `servers`, and `inputs` that become credentials.

use serde_json::{Value, json};

use crate::http::{Server, until};
use crate::project::Project;

/// A server that is a shell script: its one tool tells its environment.
const SCRIPT: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
    *'"tools/list"'*) result='{"tools":[{"name":"show","description":"Shows it.","inputSchema":{"type":"object"}}]}' ;;
    *'"tools/call"'*) result='{"content":[{"type":"text","text":"'"$API_KEY of $1 for $PERSON"'"}]}' ;;
    *'"id"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id"; continue ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

fn servers() -> Value {
    json!({
        "inputs": [
            {"type": "promptString", "id": "api-key", "description": "Key of Svc", "password": true},
            {"type": "promptString", "id": "region", "description": "Where"},
            {"type": "promptString", "id": "person", "default": "ada"},
        ],
        "servers": {"svc": {
            "type": "stdio", "command": "sh", "args": ["-c", SCRIPT, "sh", "${input:region}"],
            "env": {"API_KEY": "${input:api-key}", "PERSON": "${input:person}"},
        }},
    })
}

#[test]
fn inputs_of_vs_code_are_a_credential_and_what_is_missing_is_told() {
    let project = Project::new();
    project.write("tools/mcp.json", &servers().to_string());
    assert_eq!(project.run(&["check"]).code, Some(0));
    let missing = project.run(&["call", "svc/show"]);
    assert_ne!(missing.code, Some(0), "{missing:?}");
    for part in [
        "the input `api-key` (Key of Svc)",
        "the input `region` (Where)",
        "windlass credentials set svc",
    ] {
        assert!(missing.err.contains(part), "no {part:?} in {missing:?}");
    }
    assert!(!missing.err.contains("`person`"), "it has a default: {missing:?}");
    let values = json!({"api-key": "s3cret-of-svc", "region": "eu-central"}).to_string();
    let stored = project.pipe(&values, &["credentials", "set", "svc", "--stdin"]);
    assert_eq!(stored.code, Some(0), "{stored:?}");
    let shown = project.run(&["call", "svc/show"]);
    assert_eq!(shown.out, "[hidden] of eu-central for ada\n", "{shown:?}");
}

#[test]
fn inputs_are_supplied_over_the_api_while_the_server_waits_for_them() {
    let server = Server::start();
    let admin = server.admin();
    admin.post("/v1/providers", &json!({"definition": servers()})).is(201);
    let shown = admin.get("/v1/providers/svc").is(200);
    let fields = shown["credentials_schema"].as_array().unwrap();
    let names: Vec<&str> = fields.iter().map(|field| field["name"].as_str().unwrap()).collect();
    assert!(["api-key", "region", "person"].iter().all(|name| names.contains(name)), "{shown}");
    let values = json!({"api-key": "s3cret-of-svc", "region": "us", "person": "bob"});
    let credential = json!({"name": "default", "values": values});
    admin.post("/v1/providers/svc/credentials", &credential).is(201);
    let text = until("the server has started", || {
        let answer = admin.post("/v1/calls", &json!({"tool": "svc/show", "arguments": {}}));
        let result: Value = serde_json::from_str(&answer.text()).ok()?;
        (result["is_success"] == true).then(|| result.to_string())
    });
    assert!(text.contains("[hidden] of us for bob") && !text.contains("s3cret"), "{text}");
}
