//! Authorization matrix: every route with every role, and with the ids of another tenant.

use serde_json::{Value, json};

use super::described::learn;
use super::server::{Server, until};
use super::wire::{Answer, Client};

/// Who may do what: the least role that may, and whether only the tenant that
/// the installation begins with may. What is not here fails the test.
const ALLOWED: &[(&str, &[&str])] = &[
    ("open", &["healthz", "readyz", "get_linked_file", "oauth_callback"]),
    (
        "viewer",
        &[
            "list_tools",
            "list_agents",
            "list_workflows",
            "list_workflow_runs",
            "get_run",
            "get_tool",
            "validate_definition",
            "list_providers",
            "get_provider",
            "list_changes",
            "list_calls",
            "get_call",
            "get_questions",
            "list_approvals",
            "get_approval_rules",
            "get_approval",
            "get_summary",
            "get_stats",
            "get_limits",
            "get_quotas",
            "get_groups",
            "follow_events",
            "list_files",
            "get_file",
            "openapi",
            "docs",
        ],
    ),
    ("viewer of default", &["metrics"]),
    (
        "caller",
        &[
            "run_call",
            "cancel_call",
            "answer_questions",
            "cancel_conversation",
            "run_batch",
            "run_turn",
            "run_agent",
            "resume_run",
            "run_workflow",
            "signal_run",
            "cancel_run",
            "retry_run",
            "stream_turn",
            "cancel_batch",
            "set_groups",
            "reset_groups",
            "upload_file",
            "delete_file",
            "link_file",
        ],
    ),
    (
        "operator",
        &[
            "register_tool",
            "replace_tool",
            "delete_tool",
            "create_provider",
            "update_provider",
            "accept_changes",
            "delete_provider",
            "list_credentials",
            "store_credential",
            "get_credential",
            "rotate_credential",
            "delete_credential",
            "validate_credential",
            "validate_values",
            "set_approval_rules",
            "answer_run",
            "decide_approval",
            "resume_call",
        ],
    ),
    (
        "admin",
        &[
            "list_keys",
            "create_key",
            "revoke_key",
            "rotate_key",
            "set_key_quotas",
            "list_audit",
            "verify_audit",
        ],
    ),
    ("admin of default", &["set_limits"]),
];

const ROLES: [&str; 4] = ["viewer", "caller", "operator", "admin"];
const UNKNOWN: &str = "00000000-0000-7000-8000-00000000dead";

/// One method of one path of the document.
struct Route {
    id: String,
    method: String,
    path: String,
    body: Option<Vec<u8>>,
}

fn routes(document: &Value) -> Vec<Route> {
    let mut routes = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let content = operation["requestBody"]["content"].as_object();
            let body = content.map(|content| match content.get("application/json") {
                Some(json) => json["example"].to_string().into_bytes(),
                None => b"a file".to_vec(),
            });
            let id = operation["operationId"].as_str().unwrap().to_owned();
            routes.push(Route { id, method: method.to_uppercase(), path: path.clone(), body });
        }
    }
    routes
}

impl Route {
    /// The request with this in place of the parameter.
    fn ask(&self, client: &Client, name: &str) -> Answer {
        let path = self.path.split('/').map(|part| if part.starts_with('{') { name } else { part });
        let path = path.collect::<Vec<_>>().join("/");
        let headers = [("Content-Type", "application/json")];
        let body = self.body.as_deref().unwrap_or_default();
        let mut stream = client.begin(&self.method, &path, &headers, body);
        // This one never ends.
        match self.id.as_str() {
            "follow_events" => Answer::head(&mut stream),
            _ => Answer::read(&mut stream),
        }
    }

    fn least(&self) -> &'static str {
        let own = |(_, ids): &&(&str, &[&str])| ids.contains(&self.id.as_str());
        ALLOWED.iter().find(own).unwrap_or_else(|| panic!("{} is not in the table", self.id)).0
    }
}

#[test]
fn every_route_is_open_to_the_roles_of_the_table_and_to_no_other() {
    let server = Server::start();
    let routes = routes(learn(&server.admin()));
    assert_eq!(routes.len(), ALLOWED.iter().map(|(_, ids)| ids.len()).sum::<usize>());
    for tenant in ["default", "theirs"] {
        let keys: Vec<(usize, Client)> =
            ROLES.iter().enumerate().map(|(at, role)| (at, server.key(tenant, role))).collect();
        for route in &routes {
            let least = route.least();
            let (role, of_default) = match least.split_once(' ') {
                Some((role, _)) => (role, true),
                None => (least, false),
            };
            let nobody = route.ask(&server.nobody(), UNKNOWN);
            assert_eq!(
                nobody.status == 401,
                least != "open",
                "{} without a key: {nobody}",
                route.id
            );
            let needed = ROLES.iter().position(|own| *own == role).unwrap_or(0);
            for (at, client) in &keys {
                let may = *at >= needed && (!of_default || tenant == "default");
                let answer = route.ask(client, UNKNOWN);
                let place = format!("{} as {} of {tenant}: {answer}", route.id, ROLES[*at]);
                assert_eq!(answer.status == 403, !may, "{place}");
                assert!(answer.status != 401 && answer.status < 500, "{place}");
                if !may {
                    assert_eq!(answer.problem(403, "forbidden")["code"], "forbidden");
                }
            }
        }
    }
}

/// A definition of a server that is a program; it leaves a file behind.
fn command(name: &str, mark: &std::path::Path) -> Value {
    let args = json!(["-c", format!("touch {}", mark.display())]);
    json!({"mcpServers": {name: {"command": "sh", "args": args}}})
}

#[test]
fn programs_and_files_are_for_whoever_runs_the_installation() {
    let server = Server::start();
    let (mark, key) = (server.project.path("ran"), server.project.path(".windlass/windlass.key"));
    let theirs = server.key("theirs", "operator");
    let tool = "name: own\ndescription: x\nentry: {type: builtin, handler: current_time}\n";
    let hidden = format!("{}\n---\n{tool}", command("x", &mark));
    let resource = format!(
        "identity: {{name: y}}\n---\nresources: [{{uri: 'a://k', name: k, file: {}}}]\n",
        key.display()
    );
    let document = "identity: {name: z}\n---\nidentity: {name: zz}\nopenapi: /etc/passwd\n";
    let may_not = [
        ("/v1/providers", command("x", &mark), "add commands"),
        ("/v1/tools", json!(hidden), "add commands"),
        ("/v1/tools", command("x", &mark), "add commands"),
        ("/v1/providers", json!(resource), "name files"),
        ("/v1/providers", json!(document), "name files"),
    ];
    for (route, definition, why) in may_not {
        let body = json!({"definition": definition});
        let refused = theirs.post(route, &body).problem(403, "forbidden");
        assert!(refused["detail"].as_str().unwrap().contains(why), "{refused}");
        let checked = theirs.post("/v1/definitions/validate", &body).is(200);
        assert_eq!(checked["valid"], false, "{checked}");
        assert!(checked["errors"][0]["message"].as_str().unwrap().contains(why), "{checked}");
    }
    let page = theirs.get("/v1/providers").is(200);
    assert!(page["providers"].as_array().unwrap().iter().all(|it| it["name"] != "x"), "{page}");
    assert!(!mark.exists(), "it ran");
    // An address is not a program; and the operator of the installation may add both.
    let url = json!({"mcpServers": {"far": {"url": "https://far.example/mcp"}}});
    theirs.post("/v1/providers", &json!({"definition": url})).is(201);
    let ours = server.key("default", "operator");
    ours.post("/v1/providers", &json!({"definition": command("x", &mark)})).is(201);
    until("it runs", || mark.exists().then_some(()));
}

#[test]
fn a_setting_lets_tenants_add_programs_and_without_it_kept_ones_do_not_start() {
    let project = crate::project::Project::empty();
    project.write("windlass.yaml", "server: {tenant_commands: true}\n");
    let mut server = Server::run(project.into(), &[], &[], None);
    let mark = server.project.path("ran");
    let theirs = server.key("theirs", "operator");
    theirs.post("/v1/providers", &json!({"definition": command("x", &mark)})).is(201);
    until("it runs", || mark.exists().then_some(()));
    server.project.write("windlass.yaml", "");
    // It ends at once, so it is started again and again for as long as its server runs.
    server.kill();
    std::fs::remove_file(&mark).unwrap();
    let server = server.kill_and_start();
    let theirs = server.client(theirs.key.as_deref().unwrap());
    theirs.get("/v1/providers/x").problem(404, "not_found");
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(!mark.exists(), "a kept one has started");
    assert!(server.log().contains("only the operator of the installation"), "{}", server.log());
    theirs.delete("/v1/providers/x").is(204);
}

#[test]
fn ids_of_another_tenant_are_answered_like_unknown_ids() {
    // Nobody answers there; a run is kept before its model is asked.
    let server =
        Server::with("models: {providers: {anthropic: 'anthropic http://127.0.0.1:9'}}\n", &[]);
    let ours = server.key("ours", "admin");
    let definition = |name: &str| {
        json!({"definition": {
            "name": name, "description": "x", "entry": {"type": "builtin", "handler": "echo"},
            "parameters": [{"name": "message", "type": "string"}], "approval": "ask",
        }})
    };
    ours.post("/v1/tools", &definition("ours_tool")).is(201);
    let agent = json!({"name": "ours_agent", "kind": "agent", "model": "claude-haiku-4"});
    ours.post("/v1/tools", &json!({"definition": agent})).is(201);
    let run = ours.post("/v1/agents/ours_agent/runs", &json!({"message": "x"})).is(200);
    let provider = "identity: {name: ours_acme}\ncredentials_schema: {key: {type: secret-input}}\n";
    ours.post("/v1/providers", &json!({"definition": provider})).is(201);
    let path = "/v1/providers/ours_acme/credentials";
    let credential = ours.post(path, &json!({"values": {"key": "secret-1234567"}})).is(201);
    let file = ours.send("POST", "/v1/files", &[("Content-Type", "text/plain")], b"ours").is(201);
    let key = ours.post("/v1/keys", &json!({"name": "x", "role": "viewer"})).is(201);
    let echo =
        json!({"tool": "echo", "arguments": {"message": "ours"}, "conversation_id": "ours_c"});
    let ended = ours.post("/v1/calls", &echo).is(200);
    let asynchronous = [("Prefer", "respond-async")];
    let wait = json!({"tool": "wait", "arguments": {"seconds": 60}, "conversation_id": "ours_c"});
    let running = ours.json("POST", "/v1/calls", &asynchronous, &wait).is(202);
    let asked = json!({"tool": "ours_tool", "arguments": {"message": "x"}});
    let waiting = ours.post("/v1/calls", &asked).is(202);
    let wait = json!({"tool": "wait", "arguments": {"seconds": 60}});
    let mut batch = ours.stream("/v1/batches", &json!({"calls": [wait]}));
    let batch_id = batch.up_to("tool_started")[0].data["batch_id"].as_str().unwrap().to_owned();
    let text = |value: &Value, key: &str| value[key].as_str().unwrap().to_owned();
    let calls = [text(&ended, "call_id"), text(&running, "call_id"), text(&waiting, "call_id")];
    until("the record", || {
        (ours.get(&format!("/v1/calls/{}", calls[0])).status == 200).then_some(())
    });

    let theirs = server.key("theirs", "admin");
    let mut compared = 0;
    for route in routes(learn(&server.admin())) {
        let Some(parameter) = route.path.split('/').find_map(|part| part.strip_prefix('{')) else {
            continue;
        };
        let ids: Vec<String> = match parameter.trim_end_matches('}') {
            "name" if route.path.contains("tools") => vec!["ours_tool".into()],
            "name" if route.path.contains("agents") => vec!["ours_agent".into()],
            "run_id" => vec![text(&run, "run_id")],
            "name" => vec!["ours_acme".into()],
            "call_id" => calls.to_vec(),
            "credential_id" => vec![text(&credential, "id")],
            "file_id" => vec![text(&file, "id"), calls[0].clone()],
            "key_id" => vec![text(&key["key"], "id")],
            "batch_id" => vec![batch_id.clone()],
            "conversation_id" => vec!["ours_c".into()],
            other => panic!("{} has a parameter {other}", route.id),
        };
        for id in ids {
            // Of the same form and length, so that nothing but the id differs.
            let mut unknown = id.clone();
            unknown.replace_range(id.len() - 1.., if id.ends_with('0') { "1" } else { "0" });
            let (foreign, unknown) = (
                route.ask(&theirs, &id).comparable(&id),
                route.ask(&theirs, &unknown).comparable(&unknown),
            );
            assert_eq!(foreign, unknown, "{}", route.id);
            compared += 1;
        }
    }
    assert!(compared >= 25, "{compared}");
    // And nothing of it was touched.
    ours.get("/v1/tools/ours_tool").is(200);
    ours.get("/v1/providers/ours_acme").is(200);
    ours.get(&format!("/v1/credentials/{}", text(&credential, "id"))).is(200);
    assert_eq!(ours.get(&format!("/v1/calls/{}", calls[1])).is(200)["status"], "running");
    assert_eq!(ours.get(&format!("/v1/calls/{}", calls[2])).is(200)["status"], "waiting");
    server.client(key["secret"].as_str().unwrap()).get("/v1/tools").is(200);
    let cancelled = ours.send("POST", &format!("/v1/batches/{batch_id}/cancel"), &[], b"");
    assert_eq!(cancelled.is(200)["cancelled"], 1);
    // Lists have nothing of it.
    for list in [
        "/v1/tools",
        "/v1/agents",
        "/v1/providers",
        "/v1/credentials",
        "/v1/keys",
        "/v1/calls",
        "/v1/approvals",
        "/v1/files",
        "/v1/stats",
    ] {
        let text = theirs.get(list).text();
        assert!(!text.contains("ours_") && !text.contains("\"ours\""), "{list}: {text}");
    }
}
