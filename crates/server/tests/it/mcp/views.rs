//! Views of API keys: what they hide, and what none hides.

use std::sync::Arc;

use serde_json::{Value, json};

use super::http::{body, newer, newer_at};
use super::played::{self, ROWS};
use crate::http::{Client, Server, until};
use crate::project::Project;

const LIBRARY: &str = "
prompts:
  - {name: hello, messages: [{text: Hello.}]}
  - {name: shout, arguments: [{name: message}], tool: echo}
resources:
  - {uri: \"docs://a\", name: a, text: A}
";

fn server() -> Server {
    let project = Project::new();
    played::add_to(&project);
    project.write("tools/library.yaml", LIBRARY);
    let server = Server::run(Arc::new(project), &[], &[], None);
    // What a server has besides tools is known when it has said so once.
    until("the server's prompts", || {
        let listed = names(&server.admin(), "prompts/list", "prompts", "name");
        listed.contains(&"played__p".to_owned()).then_some(())
    });
    server
}

/// A client whose key has this view.
fn seeing(server: &Server, tools: &[&str]) -> Client {
    let key = json!({"name": "claude", "role": "caller", "tools": tools});
    let made = server.admin().post("/v1/keys", &key).is(201);
    server.client(made["secret"].as_str().unwrap())
}

fn names(client: &Client, method: &str, items: &str, key: &str) -> Vec<String> {
    let list = body(&newer(client, method, json!({})));
    let all = list["result"][items].as_array().unwrap_or_else(|| panic!("{list}")).clone();
    all.iter().map(|item| item[key].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_view_holds_for_prompts_and_resources_and_for_what_prompts_call() {
    let server = server();
    let narrow = seeing(&server, &["calculator", "shout", "played/touch"]);
    assert_eq!(names(&narrow, "tools/list", "tools", "name"), ["calculator", "played__touch"]);
    assert!(names(&narrow, "prompts/list", "prompts", "name").is_empty());
    assert!(names(&narrow, "resources/list", "resources", "uri").is_empty());
    for name in ["hello", "shout", "played__p"] {
        let wanted = json!({"name": name, "arguments": {"message": "x"}});
        let refused = body(&newer(&narrow, "prompts/get", wanted));
        assert_eq!(refused["error"]["code"], -32602, "{name}: {refused}");
    }
    for uri in ["docs://a", "played://a"] {
        let refused = body(&newer(&narrow, "resources/read", json!({"uri": uri})));
        assert_eq!(refused["error"]["code"], -32602, "{uri}: {refused}");
    }
    let calls = server.admin().get("/v1/calls").is(200);
    assert!(!calls.to_string().contains("\"echo\""), "no tool was called: {calls}");
    // The same where the server stands alone.
    let at = |method: &str, params: Value| body(&newer_at(&narrow, "/mcp/played", method, params));
    assert_eq!(at("prompts/list", json!({}))["error"]["code"], -32601);
    assert_eq!(at("resources/read", json!({"uri": "played://a"}))["error"]["code"], -32601);
    assert_eq!(at("tools/list", json!({}))["result"]["tools"][0]["name"], "touch");
    let promised = at("server/discover", json!({}))["result"]["capabilities"].clone();
    assert!(promised.get("prompts").is_none() && promised.get("tools").is_some(), "{promised}");

    let wide = seeing(&server, &["echo", "played/*", "shout", "docs://*"]);
    assert_eq!(names(&wide, "prompts/list", "prompts", "name"), ["shout", "played__p"]);
    let uris = names(&wide, "resources/list", "resources", "uri");
    assert_eq!(uris, ["docs://a", "played://a", "played://never"]);
    let wanted = json!({"name": "shout", "arguments": {"message": "x"}});
    let said = body(&newer(&wide, "prompts/get", wanted));
    assert_eq!(said["result"]["messages"][0]["content"]["text"], "x", "{said}");
    let read = body(&newer(&wide, "resources/read", json!({"uri": "played://a"})));
    assert_eq!(read["result"]["contents"][0]["text"], "secret", "{read}");
    // What a server is asked for has a record, as its tools' calls do.
    let calls = server.admin().get("/v1/calls?tool=mcp_resource").is(200);
    let params = &calls["records"][0]["params"];
    assert_eq!(*params, json!({"server": "played", "uri": "played://a"}), "{calls}");
}

/// A call of the tool whose result is too large, and the handle of the rest.
fn cut(client: &Client, path: &str, tool: &str) -> String {
    let call = json!({"name": tool, "arguments": {}});
    let result = body(&newer_at(client, path, "tools/call", call))["result"].clone();
    assert_eq!(result["isError"], true, "clients look for a structured result otherwise: {result}");
    assert!(result.get("structuredContent").is_none(), "{result}");
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("x\n") && text.contains("call read_output"), "{text}");
    let (_, handle) = text.split_once("\"handle\": \"").unwrap();
    handle.split_once('"').unwrap().0.to_owned()
}

#[test]
fn a_structured_result_that_was_cut_is_read_to_its_end_in_every_view() {
    let server = server();
    let narrow = seeing(&server, &["played/big"]);
    for (path, tool) in [("/mcp", "played__big"), ("/mcp/played", "big")] {
        let handle = cut(&narrow, path, tool);
        let mut whole = String::new();
        loop {
            let arguments = json!({"handle": handle, "offset": whole.len()});
            let call = json!({"name": "read_output", "arguments": arguments});
            let part = body(&newer_at(&narrow, path, "tools/call", call));
            let text = part["result"]["content"][0]["text"].as_str();
            let text = text.unwrap_or_else(|| panic!("{path}: {part}"));
            match text.split_once("\n\n[") {
                Some((text, _)) => whole.push_str(text),
                None => break whole.push_str(text),
            }
        }
        let output: Value = serde_json::from_str(&whole).unwrap();
        assert_eq!(output["structured"]["rows"].as_array().unwrap().len(), ROWS);
        let uri = format!("windlass://files/{handle}");
        let read = body(&newer_at(&narrow, path, "resources/read", json!({"uri": uri})));
        assert_eq!(read["result"]["contents"][0]["text"], whole, "{path}");
    }
    let stranger = server.key("other", "caller");
    let handle = cut(&narrow, "/mcp", "played__big");
    let call = json!({"name": "read_output", "arguments": {"handle": handle}});
    let refused = body(&newer(&stranger, "tools/call", call));
    assert_eq!(refused["result"]["isError"], true, "{refused}");
}

#[test]
fn what_a_server_of_the_older_era_says_is_complete_for_clients_of_the_newer() {
    let server = server();
    let client = server.admin();
    let asked = [
        ("/mcp", "prompts/get", json!({"name": "played__p"})),
        ("/mcp", "resources/read", json!({"uri": "played://a"})),
        ("/mcp", "prompts/list", json!({})),
        ("/mcp", "resources/list", json!({})),
        ("/mcp", "tools/call", json!({"name": "played__touch", "arguments": {}})),
        ("/mcp/played", "prompts/get", json!({"name": "p"})),
        ("/mcp/played", "resources/read", json!({"uri": "played://a"})),
        ("/mcp/played", "prompts/list", json!({})),
        ("/mcp/played", "resources/list", json!({})),
        ("/mcp/played", "resources/templates/list", json!({})),
        ("/mcp/played", "tools/list", json!({})),
        ("/mcp/played", "tools/call", json!({"name": "touch", "arguments": {}})),
    ];
    for (path, method, params) in asked {
        let said = body(&newer_at(&client, path, method, params));
        assert_eq!(said["result"]["resultType"], "complete", "{path} {method}: {said}");
        let is_cacheable = method.ends_with("/list") || method == "resources/read";
        assert_eq!(said["result"].get("ttlMs").is_some(), is_cacheable, "{path} {method}: {said}");
    }
    let session = super::http::begin(&client);
    let read =
        super::http::older(&client, &session, "resources/read", json!({"uri": "played://a"}));
    assert!(body(&read)["result"].get("resultType").is_none(), "the older era has none");
}

#[test]
fn one_provider_over_http_on_this_machine_is_shown_alone() {
    use std::io::BufRead;
    let project = Project::new();
    played::add_to(&project);
    let mut command =
        project.command(&["mcp", "--provider", "played", "--listen", "127.0.0.1:0", "--json"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let told: Value = serde_json::from_str(&line).unwrap();
    let (_, place) = told["listening"].as_str().unwrap().split_once("://").unwrap();
    let client = Client::new(place.strip_suffix("/mcp").unwrap().parse().unwrap(), None);
    for path in ["/mcp", "/mcp/played"] {
        let list = body(&newer_at(&client, path, "tools/list", json!({})));
        let tools = list["result"]["tools"].as_array().unwrap_or_else(|| panic!("{list}")).clone();
        let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
        assert!(names.contains(&"touch") && !names.contains(&"calculator"), "{path}: {names:?}");
    }
    let call = json!({"name": "calculator", "arguments": {"expression": "1+1"}});
    assert_eq!(body(&newer_at(&client, "/mcp", "tools/call", call))["error"]["code"], -32602);
    assert_eq!(newer_at(&client, "/mcp/other", "tools/list", json!({})).status, 404);
    child.kill().unwrap();
    child.wait().unwrap();
}
