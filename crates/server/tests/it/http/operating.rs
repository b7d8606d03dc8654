//! Routes for operators.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};

use super::server::{Server, until};
use super::wire::Client;
use crate::project::Project;

fn echo(client: &Client, message: &str, conversation: &str) {
    let body = json!({
        "tool": "echo", "arguments": {"message": message}, "conversation_id": conversation,
    });
    client.post("/v1/calls", &body).is(200);
}

#[test]
fn summaries_and_statistics_count_a_tenants_calls() {
    let server = Server::start();
    let (ours, theirs) = (server.key("ours", "caller"), server.key("theirs", "caller"));
    (0..3).for_each(|_| echo(&ours, "x", "c"));
    ours.post("/v1/calls", &json!({"tool": "echo", "conversation_id": "c"})).is(200);
    echo(&theirs, "x", "c");
    until("the summary", || {
        let summary = ours.get("/v1/conversations/c/summary").is(200);
        (summary["total_calls"] == 4).then_some(summary)
    });
    let summary = ours.get("/v1/conversations/c/summary").is(200);
    assert_eq!(
        summary,
        json!({
            "conversation_id": "c", "total_calls": 4, "successful_calls": 3, "failed_calls": 1,
            "success_rate": 75.0, "tool_usage": {"echo": 4},
        })
    );
    let stats = ours.get("/v1/stats").is(200);
    assert_eq!(stats["total"]["calls"], 4);
    assert_eq!(stats["tools"]["echo"]["by_status"], json!({"refused": 1, "succeeded": 3}));
    assert_eq!(ours.get("/v1/conversations/nothing/summary").is(200)["total_calls"], 0);
}

#[test]
fn limits_are_read_and_set_while_calls_run() {
    let server = Server::start();
    let client = server.admin();
    let limits = client.get("/v1/limits").is(200);
    assert_eq!(limits["settings"]["max_concurrent"], 10);
    for name in [
        "current_concurrent",
        "queue_length",
        "total_acquired",
        "total_rejected",
        "total_timeout",
        "avg_execution_time",
    ] {
        assert!(limits["metrics"][name].is_number(), "{name}");
    }
    let set = json!({
        "max_concurrent": 2, "queue_size": 0, "strategy": "reject", "bucket_limits": {"custom": 1},
        "per_tenant": 5, "calls_per_second": 1000,
    });
    let now = client.put("/v1/limits", &set).is(200);
    assert_eq!(now["settings"]["bucket_limits"], json!({"custom": 1}));
    // They hold at once.
    let body = json!({"tool": "wait", "arguments": {"seconds": 2}});
    let headers = [("Prefer", "respond-async")];
    client.json("POST", "/v1/calls", &headers, &body).is(202);
    until("it runs", || {
        let limits = client.get("/v1/limits").is(200);
        (limits["metrics"]["buckets"]["custom"]["current"] == 1).then_some(())
    });
    let refused = client.post("/v1/calls", &json!({"tool": "echo", "arguments": {"message": "x"}}));
    let problem = refused.problem(429, "queue_full");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(problem["result"]["error_kind"], "queue_full", "also a result: {problem}");
    let back = json!({"per_tenant": null, "bucket_limits": {}, "max_concurrent": 10.0});
    let now = client.put("/v1/limits", &back).is(200);
    assert_eq!(now["settings"]["per_tenant"], Value::Null);
    assert_eq!(now["settings"]["calls_per_second"], 1000, "what is not named stays");
    for (bad, place) in [
        (json!({"max_concurrent": 0}), "/max_concurrent"),
        (json!({"max_concurrent": 1.5}), "/max_concurrent"),
        (json!({"per_tenant": -1}), "/per_tenant"),
        (json!({"strategy": "lifo"}), "/strategy"),
        (json!({"bucket_limits": {"http": 0}}), "/bucket_limits/http"),
        (json!({"ageing": "soon"}), "/ageing"),
        (json!({"max_concurent": 1}), "/max_concurent"),
    ] {
        let problem = client.put("/v1/limits", &bad).problem(400, "invalid_request");
        assert_eq!(problem["errors"][0]["path"], place, "{problem}");
    }
    // Only whoever runs the installation changes what all tenants share.
    let theirs = server.key("theirs", "admin");
    theirs.put("/v1/limits", &json!({"max_concurrent": 1})).problem(403, "forbidden");
    assert_eq!(client.get("/v1/limits").is(200)["settings"]["max_concurrent"], 10);
}

#[test]
fn groups_are_switched_for_a_conversation() {
    let project = Project::empty();
    project.write(
        "tools/a.yaml",
        "name: deep\ngroup: research\ndescription: x\n\
        entry: {type: builtin, handler: echo}\nparameters: [{name: message, type: string}]\n",
    );
    let server = Server::run(project.into(), &[], &[], None);
    let client = server.admin();
    let declared = |conversation: &str| {
        let page =
            client.get(&format!("/v1/tools?format=anthropic&conversation_id={conversation}"));
        page.is(200)["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "deep")
    };
    let call = |conversation: &str| {
        let body =
            json!({"tool": "deep", "arguments": {"message": "x"}, "conversation_id": conversation});
        client.post("/v1/calls", &body).is(200)["error_kind"].clone()
    };
    let groups = client.get("/v1/sessions/c1/groups").is(200);
    assert_eq!(groups["groups"][0]["name"], "research");
    let off = json!({"deactivate": ["research"]});
    let now = client.put("/v1/sessions/c1/groups", &off).is(200);
    assert_eq!(now["groups"][0]["active"], false);
    assert_eq!((declared("c1"), declared("c2")), (false, true));
    assert_eq!((call("c1"), call("c2")), ("tool_inactive".into(), Value::Null));
    let theirs = server.key("theirs", "caller");
    assert_eq!(theirs.get("/v1/sessions/c1/groups").is(200)["groups"][0]["active"], true);
    client.delete("/v1/sessions/c1/groups").is(200);
    assert!(declared("c1"));
    let unknown = client.put("/v1/sessions/c1/groups", &json!({"activate": ["nothing"]}));
    unknown.problem(404, "not_found");
}

#[test]
fn keys_are_shown_once_expire_and_stop_working() {
    let server = Server::start();
    let admin = server.admin();
    let made = admin.post("/v1/keys", &json!({"name": "agent", "role": "caller"})).is(201);
    let (secret, id) = (made["secret"].as_str().unwrap(), made["key"]["id"].as_str().unwrap());
    assert!(secret.starts_with(made["key"]["prefix"].as_str().unwrap()));
    let listed = admin.get("/v1/keys");
    assert!(!listed.text().contains(secret), "only its beginning is kept");
    let client = server.client(secret);
    client.get("/v1/tools").is(200);
    until("it is noted that it was used", || {
        let page = admin.get("/v1/keys").is(200);
        let keys = page["keys"].as_array().unwrap().clone();
        keys.iter().any(|key| key["id"] == id && key["last_used_at"].is_string()).then_some(())
    });
    let rotated = admin.send("POST", &format!("/v1/keys/{id}/rotate"), &[], b"").is(200);
    client.get("/v1/tools").problem(401, "unauthorized");
    let client = server.client(rotated["secret"].as_str().unwrap());
    client.get("/v1/tools").is(200);
    assert!(admin.delete(&format!("/v1/keys/{id}")).is(200)["revoked_at"].is_string());
    let late = admin.send("POST", &format!("/v1/keys/{id}/rotate"), &[], b"");
    assert!(late.problem(409, "conflict")["detail"].as_str().unwrap().contains("was revoked"));
    client.get("/v1/tools").problem(401, "unauthorized");
    let short = json!({"name": "short", "role": "viewer", "expires_in": "1s"});
    let short = admin.post("/v1/keys", &short).is(201);
    let client = server.client(short["secret"].as_str().unwrap());
    client.get("/v1/tools").is(200);
    until("it expires", || (client.get("/v1/tools").status == 401).then_some(()));

    // An admin of another tenant is an admin of that tenant.
    let theirs = server.key("theirs", "admin");
    let page = theirs.get("/v1/keys").is(200);
    assert_eq!(page["keys"].as_array().unwrap().len(), 1);
    let body = json!({"name": "x", "role": "admin", "tenant_id": "default"});
    theirs.post("/v1/keys", &body).problem(403, "forbidden");
    theirs.delete(&format!("/v1/keys/{id}")).problem(404, "not_found");
    for bad in [
        json!({"name": "", "role": "caller"}),
        json!({"name": "x", "role": "root"}),
        json!({"name": "x", "role": "caller", "tenant_id": ""}),
        json!({"name": "x", "role": "caller", "tenant_id": "../x"}),
        json!({"name": "x", "role": "caller", "tenant_id": ".x"}),
        json!({"name": "x", "role": "caller", "tenant_id": "a b"}),
        json!({"name": "x", "role": "caller", "tenant_id": "x".repeat(65)}),
    ] {
        admin.post("/v1/keys", &bad).problem(400, "invalid_request");
    }
    admin.get("/v1/keys?cursor=garbage").problem(400, "invalid_request");

    // Whoever runs the installation keeps the keys of all.
    let page = admin.get("/v1/keys?tenant_id=theirs").is(200);
    assert_eq!(page["keys"][0]["tenant"], "theirs");
    let id = page["keys"][0]["id"].as_str().unwrap();
    admin.delete(&format!("/v1/keys/{id}")).problem(404, "not_found");
    let path = format!("/v1/keys/{id}/rotate?tenant_id=theirs");
    let rotated = admin.send("POST", &path, &[], b"").is(200);
    theirs.get("/v1/tools").problem(401, "unauthorized");
    let theirs = server.client(rotated["secret"].as_str().unwrap());
    theirs.get("/v1/keys?tenant_id=theirs").is(200);
    theirs.get("/v1/keys?tenant_id=default").problem(403, "forbidden");
    theirs.delete("/v1/keys/key_first?tenant_id=default").problem(403, "forbidden");
    admin.delete(&format!("/v1/keys/{id}?tenant_id=theirs")).is(200);
    theirs.get("/v1/tools").problem(401, "unauthorized");
}

/// The samples of a text in Prometheus' form: name and labels, value.
/// The load goes on while it is killed, so that calls are in every state.
#[test]
fn a_server_that_is_killed_under_load_has_what_it_answered() {
    let mut server = Server::with("concurrency: {max_concurrent: 100}", &[]);
    let client = server.admin();
    let (answered, asked) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        for at in 0..8 {
            let (client, answered, asked, ends) = (&client, &answered, &asked, &ends);
            scope.spawn(move || {
                while !ends.load(Ordering::SeqCst) {
                    let tool = if at % 2 == 0 { "write_note" } else { "slow_write" };
                    let arguments = match tool {
                        "write_note" => json!({"message": "x"}),
                        _ => json!({"seconds": 0.05}),
                    };
                    let body =
                        json!({"tool": tool, "arguments": arguments, "conversation_id": "c"});
                    asked.fetch_add(1, Ordering::SeqCst);
                    let Some(result) = client.try_post("/v1/calls", &body) else { return };
                    answered.lock().unwrap().push(result["call_id"].as_str().unwrap().to_owned());
                }
            });
        }
        until("it is busy", || (answered.lock().unwrap().len() > 100).then_some(()));
        server.kill();
        ends.store(true, Ordering::SeqCst);
    });
    let server = server.kill_and_start();
    let client = server.client(client.key.as_deref().unwrap());
    let answered = answered.into_inner().unwrap();
    for id in &answered {
        let record = client.get(&format!("/v1/calls/{id}")).is(200);
        assert_eq!(record["status"], "succeeded", "{record}");
    }
    // What was under way is closed, and nothing is open.
    let summary = client.get("/v1/conversations/c/summary").is(200);
    let total = summary["total_calls"].as_u64().unwrap() as usize;
    assert!((answered.len()..=asked.into_inner()).contains(&total), "{summary}");
    assert!(client.get("/metrics").text().contains("\nwindlass_calls_under_way 0\n"));
    let interrupted = client.get("/v1/calls?status=interrupted&limit=100").is(200);
    assert!(!interrupted["records"].as_array().unwrap().is_empty(), "{interrupted}");
}

fn samples(text: &str) -> Vec<(String, HashMap<String, String>, f64)> {
    let mut kinds = HashMap::new();
    let mut samples = Vec::new();
    for line in text.lines() {
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} twice");
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = name.split_once('{').unwrap_or((name, "}"));
        let mut own = HashMap::new();
        let mut rest = labels.strip_suffix('}').unwrap();
        while !rest.is_empty() {
            let (key, value) = rest.split_once("=\"").unwrap();
            let end = (0..value.len())
                .find(|at| value[*at..].starts_with('"') && !value[..*at].ends_with('\\'))
                .unwrap();
            own.insert(key.to_owned(), value[..end].to_owned());
            rest = value[end + 1..].trim_start_matches(',');
        }
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| {
            let base = name.strip_suffix(end)?;
            (kinds.get(base).map(String::as_str) == Some("histogram")).then_some(base)
        });
        assert!(kinds.contains_key(base.unwrap_or(name)), "{name} has no type");
        samples.push((name.to_owned(), own, value.parse().unwrap()));
    }
    samples
}

#[test]
fn metrics_are_counts_that_prometheus_reads() {
    let server = Server::start();
    let admin = server.admin();
    (0..4).for_each(|_| echo(&admin, "x", "c"));
    for at in 0..30 {
        let odd = format!("no\"such\\tool\n{at}");
        admin.post("/v1/calls", &json!({"tool": odd})).is(200);
    }
    let answer = admin.get("/metrics");
    assert!(answer.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    let samples = samples(&answer.text());
    let value = |name: &str, labels: &[(&str, &str)]| {
        let fits = |own: &HashMap<String, String>| {
            labels.iter().all(|(key, value)| own.get(*key).map(String::as_str) == Some(value))
        };
        samples.iter().find(|(own, own_labels, _)| own == name && fits(own_labels)).map(|it| it.2)
    };
    assert_eq!(
        value("windlass_calls_total", &[("tool", "echo"), ("status", "succeeded")]),
        Some(4.0)
    );
    assert_eq!(value("windlass_run_seconds_count", &[("tool", "echo")]), Some(4.0));
    assert_eq!(
        value("windlass_run_seconds_bucket", &[("tool", "echo"), ("le", "+Inf")]),
        Some(4.0)
    );
    assert!(value("windlass_queue_seconds_count", &[]).is_some());
    assert!(value("windlass_limits_slots", &[]).is_some());
    assert!(value("windlass_writer_behind", &[]).is_some());
    let tools: HashSet<&String> =
        samples.iter().filter_map(|(_, own, _)| own.get("tool")).collect();
    assert!(tools.len() <= 3, "names that callers make up are one: {tools:?}");
    let mut below = 0.0;
    for (name, labels, count) in &samples {
        if name == "windlass_run_seconds_bucket" && labels["tool"] == "echo" {
            assert!(*count >= below, "buckets add up");
            below = *count;
        }
    }
    // A tool that only a tenant has is of a kind, too.
    let theirs = server.key("theirs", "operator");
    let own = json!({"definition": {
        "name": "greet", "description": "x", "entry": {"type": "builtin", "handler": "echo"},
        "parameters": [{"name": "message", "type": "string"}],
    }});
    theirs.post("/v1/tools", &own).is(201);
    let greeting = json!({"tool": "greet", "arguments": {"message": "x"}});
    theirs.post("/v1/calls", &greeting).is(200);
    let counted = "windlass_calls_total{tool=\"greet\",kind=\"builtin\",status=\"succeeded\"} 1";
    let text = admin.get("/metrics").text();
    assert!(text.contains(counted), "{text}");
    // Other tenants' tools have names, too.
    server.key("theirs", "admin").get("/metrics").problem(403, "forbidden");
}

#[test]
fn health_is_open_and_says_little() {
    let server = Server::start();
    for path in ["/healthz", "/readyz"] {
        let health = server.nobody().get(path).is(200);
        assert_eq!(health["status"], "ok");
    }
}
