//! Quotas: each resource has one, reports when it is exhausted, and has room again when
//! something is deleted or expires.

use serde_json::{Value, json};

use super::server::{Server, until};
use super::wire::{Answer, Client};

/// A quota of somebody.
fn quota(client: &Client, name: &str, scope: &str) -> Value {
    let all = client.get("/v1/quotas").is(200);
    let found = all["quotas"].as_array().unwrap().iter();
    let mut found = found.filter(|one| one["name"] == name && one["scope"] == scope);
    found.next().unwrap_or_else(|| panic!("no {name} of the {scope} in {all}")).clone()
}

/// Refused because of this quota, which does not end by itself.
#[track_caller]
fn is_over(answer: &Answer, what: &str) {
    let problem = answer.problem(429, "quota_exceeded");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.starts_with(what) && detail.contains("until some are given up"), "{detail}");
    assert_eq!(answer.header("retry-after"), None, "{answer}");
}

fn tool(name: &str) -> Value {
    json!({"definition": {
        "name": name,
        "description": "Says it again.",
        "parameters": [{"name": "message", "type": "string", "required": true}],
        "entry": {"type": "builtin", "handler": "echo"},
    }})
}

fn provider(name: &str, tools: usize) -> Value {
    let tool = |at| {
        format!(
            "---\nname: {name}_{at}\nprovider: {name}\ndescription: Says it again.\n\
             entry: {{type: builtin, handler: echo}}\n\
             parameters: [{{name: message, type: string, required: true}}]\n"
        )
    };
    let tools: String = (0..tools).map(tool).collect();
    let key = "credentials_schema: {key: {type: secret-input, required: true}}";
    json!({"definition": format!("identity: {{name: {name}}}\n{key}\n{tools}")})
}

fn echo(client: &Client) -> Answer {
    client.post("/v1/calls", &json!({"tool": "echo", "arguments": {"message": "x"}}))
}

#[test]
fn tools_are_counted_whichever_way_they_come() {
    let server = Server::with("quotas: {tools: 3}", &[]);
    let (one, other) = (server.key("one", "operator"), server.key("two", "operator"));
    one.post("/v1/tools", &tool("first")).is(201);
    is_over(&one.post("/v1/providers", &provider("shop", 3)), "tools of the tenant `one`");
    one.post("/v1/providers", &provider("shop", 2)).is(201);
    is_over(&one.post("/v1/tools", &tool("second")), "tools of the tenant `one`: all of 3");
    // What is there may be replaced, and others have their own.
    one.put("/v1/tools/first", &tool("first")).is(200);
    other.post("/v1/tools", &tool("second")).is(201);
    assert_eq!(quota(&one, "tools", "tenant")["used"], 3.0);
    assert_eq!(quota(&one, "tools", "tenant")["limit"], 3.0);
    assert_eq!(one.delete("/v1/tools/first").status, 204);
    one.post("/v1/tools", &tool("second")).is(201);
}

#[test]
fn many_tools_at_once_do_not_slip_past_the_quota() {
    let server = Server::with("quotas: {tools: 5}", &[]);
    let client = server.key("one", "operator");
    let made = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16)
            .map(|at| {
                let client = client.clone();
                scope.spawn(move || client.post("/v1/tools", &tool(&format!("t{at}"))).status)
            })
            .collect();
        let statuses = threads.into_iter().map(|thread| thread.join().unwrap());
        statuses.filter(|status| *status == 201).count()
    });
    assert_eq!(made, 5);
}

#[test]
fn providers_and_credentials_are_counted_until_they_are_deleted() {
    let server = Server::with("quotas: {providers: 2, credentials: 2}", &[]);
    let client = server.key("one", "operator");
    client.post("/v1/providers", &provider("a", 1)).is(201);
    client.post("/v1/providers", &provider("b", 1)).is(201);
    is_over(&client.post("/v1/providers", &provider("c", 1)), "providers of the tenant `one`");
    let keep = |provider: &str, name: &str| {
        let body = json!({"name": name, "values": {"key": "s3cret"}});
        client.post(&format!("/v1/providers/{provider}/credentials"), &body)
    };
    let first = keep("a", "x").is(201);
    keep("b", "x").is(201);
    is_over(&keep("a", "y"), "credentials of the tenant `one`: all of 2");
    assert_eq!(quota(&client, "credentials", "tenant")["used"], 2.0);
    let id = first["id"].as_str().unwrap();
    assert_eq!(client.delete(&format!("/v1/credentials/{id}")).status, 204);
    keep("a", "y").is(201);
    assert_eq!(client.delete("/v1/providers/b").status, 204);
    client.post("/v1/providers", &provider("c", 1)).is(201);
}

#[test]
fn documents_are_bound_by_their_bytes() {
    let server = Server::with("quotas: {document_bytes: 4000}", &[]);
    let client = server.key("one", "operator");
    client.post("/v1/tools", &tool("small")).is(201);
    let mut large = tool("large");
    large["definition"]["description"] = "x".repeat(5000).into();
    is_over(&client.post("/v1/tools", &large), "document bytes of the tenant `one`: all of 4000");
    is_over(&client.put("/v1/tools/large", &large), "document bytes");
    // A tool that grows is the same as a new one; nothing of it is left.
    let mut grown = tool("small");
    grown["definition"]["description"] = "x".repeat(5000).into();
    is_over(&client.put("/v1/tools/small", &grown), "document bytes");
    client.put("/v1/tools/small", &tool("small")).is(200);
    let shown = client.get("/v1/tools/small").is(200);
    assert_eq!(shown["description"], "Says it again.", "{shown}");
    client.get("/v1/tools/large").problem(404, "not_found");
    let used = quota(&client, "document_bytes", "tenant")["used"].as_f64().unwrap();
    assert!((100.0..1000.0).contains(&used), "{used}");
}

#[test]
fn files_are_counted_and_so_are_their_bytes() {
    let server = Server::with("quotas: {files: 3, file_bytes: 1000}", &[]);
    let client = server.key("one", "caller");
    let keep = |size: usize| client.send("POST", "/v1/files", &[], &vec![b'x'; size]);
    let first = keep(600).is(201);
    is_over(&keep(500), "file bytes of the tenant `one`: all of 1000");
    keep(100).is(201);
    keep(100).is(201);
    is_over(&keep(1), "files of the tenant `one`: all of 3");
    assert_eq!(quota(&client, "file_bytes", "tenant")["used"], 800.0);
    let id = first["id"].as_str().unwrap();
    assert_eq!(client.delete(&format!("/v1/files/{id}")).status, 204);
    keep(500).is(201);
    assert_eq!(quota(&client, "files", "tenant")["used"], 3.0);
}

#[test]
fn subscribers_are_counted_while_they_read() {
    let settings = "quotas: {subscribers: 3, per_key: {subscribers: 2}}";
    let server = Server::with(settings, &[]);
    let (one, second) = (server.key("one", "viewer"), server.key("one", "viewer"));
    let other = server.key("two", "viewer");
    let held = [one.follow("/v1/events", None), one.follow("/v1/events", None)];
    let refused = one.get("/v1/events").problem(429, "quota_exceeded");
    assert!(refused["detail"].as_str().unwrap().starts_with("subscribers of the key"), "{refused}");
    let third = second.follow("/v1/events", None);
    is_over(&second.get("/v1/events"), "subscribers of the tenant `one`: all of 3");
    let _others = other.follow("/v1/events", None);
    assert_eq!(quota(&one, "subscribers", "key")["used"], 2.0);
    assert_eq!(quota(&one, "subscribers", "tenant")["used"], 3.0);
    drop((held, third));
    until("they are gone", || (quota(&one, "subscribers", "tenant")["used"] == 0.0).then_some(()));
}

#[test]
fn calls_of_a_minute_are_counted_by_tenant_key_user_and_tool() {
    let settings = "quotas: {calls_per_minute: 1000, per_key: {calls_per_minute: 40}, \
                    per_user: {calls_per_minute: 10}, per_tool: {calls_per_minute: 60}}";
    let server = Server::with(settings, &[]);
    // A program that serves many people.
    let many = json!({"name": "many", "role": "caller", "tenant_id": "one", "user_id": "*"});
    let many = server.admin().post("/v1/keys", &many).is(201);
    let one = server.client(many["secret"].as_str().unwrap());
    let (second, other) = (server.key("one", "caller"), server.key("two", "caller"));
    // Whatever the clock says, one of two minutes has enough of them.
    let over = |client: &Client, user: Option<&str>, most: usize| {
        let body = json!({"tool": "echo", "arguments": {"message": "x"}, "user_id": user});
        let answers = (0..=2 * most).map(|_| client.post("/v1/calls", &body));
        answers.into_iter().find(|answer| answer.status != 200).unwrap()
    };
    let refused = over(&one, Some("ada"), 10);
    let problem = refused.problem(429, "quota_exceeded");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.starts_with("calls per minute of the user `ada`: all of 10"), "{detail}");
    let after: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&after), "{after}");
    assert_eq!(problem["result"]["is_success"], false, "the call has a result, too");
    let feedback = problem["result"]["feedback"].as_str().unwrap();
    assert!(feedback.contains("quota is used up"), "{feedback}");
    let detail = |answer: Answer| {
        let problem = answer.problem(429, "quota_exceeded");
        problem["detail"].as_str().unwrap().to_owned()
    };
    assert!(detail(over(&one, None, 40)).contains("of the key"));
    assert!(detail(over(&second, None, 60)).contains("of the tool `echo`"));
    assert_eq!(echo(&other).is(200)["is_success"], true, "another tenant has its own");
    let shown = quota(&one, "calls_per_minute", "tenant");
    assert!(shown["ends_at"].is_string() && shown["limit"] == 1000.0, "{shown}");
}

#[test]
fn calls_of_a_day_are_counted_across_restarts_and_batches() {
    let server = Server::with("quotas: {calls_per_day: 6}", &[]);
    let client = server.key("one", "caller");
    echo(&client).is(200);
    echo(&client).is(200);
    // What is wrong with a call costs nothing.
    client.post("/v1/calls", &json!({"tool": "echo", "arguments": {}})).is(200);
    let call = json!({"tool": "echo", "arguments": {"message": "x"}});
    client.post("/v1/batches", &json!({"calls": [call, call]})).is(200);
    assert_eq!(quota(&client, "calls_per_day", "tenant")["used"], 4.0);
    let mut server = server;
    server.terminate();
    let server = server.kill_and_start();
    let client = server.client(client.key.as_deref().unwrap());
    let shown = quota(&client, "calls_per_day", "tenant");
    assert_eq!(shown["used"], 4.0, "it outlives the server");
    let many = client.post("/v1/batches", &json!({"calls": vec![call; 4]})).is(200);
    let refused: Vec<_> = (many["results"].as_array().unwrap().iter())
        .filter(|result| result["is_success"] == false)
        .collect();
    assert_eq!(refused.len(), 2, "{many}");
    assert_eq!(refused[0]["error_type"], "execution_error");
    let problem = echo(&client).problem(429, "quota_exceeded");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.starts_with("calls per day of the tenant `one`: all of 6"), "{detail}");
    assert!(detail.ends_with("T00:00:00Z"), "it ends at midnight: {detail}");
}

#[test]
fn quotas_are_spoken_of_in_the_language_of_the_models() {
    let server = Server::with("lang: zh\nquotas: {calls_per_day: 0}", &[]);
    let problem = echo(&server.key("one", "caller")).problem(429, "quota_exceeded");
    let feedback = problem["result"]["feedback"].as_str().unwrap();
    assert!(feedback.starts_with("配额已用完"), "{feedback}");
}

#[test]
fn calls_that_wait_for_a_person_are_counted_until_somebody_decides() {
    let settings = "quotas: {approvals: 2}\napprovals: {rules: [{tool: echo, then: ask}]}";
    let server = Server::with(settings, &[]);
    let client = server.key("one", "operator");
    let first = echo(&client).is(202);
    echo(&client).is(202);
    let problem = echo(&client).problem(429, "quota_exceeded");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.starts_with("calls that wait for approval of the tenant `one`"), "{detail}");
    assert_eq!(quota(&client, "approvals", "tenant")["used"], 2.0);
    let path = format!("/v1/approvals/{}", first["call_id"].as_str().unwrap());
    client.post(&path, &json!({"approved": false})).is(200);
    until("there is room again", || (echo(&client).status == 202).then_some(()));
}

#[test]
fn what_a_key_made_is_counted_for_it_too() {
    let per_key = "{tools: 2, providers: 1, files: 1, file_bytes: 100, credentials: 1}";
    let server = Server::with(&format!("quotas: {{per_key: {per_key}}}"), &[]);
    let (one, second) = (server.key("one", "operator"), server.key("one", "operator"));
    one.post("/v1/providers", &provider("shop", 1)).is(201);
    is_over(&one.post("/v1/providers", &provider("more", 1)), "providers of the key `key_");
    one.post("/v1/tools", &tool("first")).is(201);
    is_over(&one.post("/v1/tools", &tool("second")), "tools of the key `key_");
    // Whoever replaces a thing does not get it.
    second.put("/v1/tools/first", &tool("first")).is(200);
    second.post("/v1/tools", &tool("second")).is(201);
    assert_eq!(quota(&one, "tools", "key")["used"], 2.0);
    assert_eq!(quota(&second, "tools", "key")["used"], 1.0);
    assert_eq!(quota(&second, "tools", "tenant")["used"], 3.0);
    let keep = |client: &Client, name: &str| {
        let body = json!({"name": name, "values": {"key": "s3cret"}});
        client.post("/v1/providers/shop/credentials", &body)
    };
    let kept = keep(&one, "x").is(201);
    is_over(&keep(&one, "y"), "credentials of the key `key_");
    keep(&second, "y").is(201);
    let file =
        |client: &Client, size: usize| client.send("POST", "/v1/files", &[], &vec![b'x'; size]);
    is_over(&file(&one, 101), "file bytes of the key `key_");
    file(&one, 50).is(201);
    is_over(&file(&one, 1), "files of the key `key_");
    file(&second, 50).is(201);
    assert_eq!(quota(&one, "file_bytes", "key")["used"], 50.0);
    assert_eq!(quota(&one, "file_bytes", "key")["limit"], 100.0);
    // What is given up makes room, also after a restart.
    let server = server.kill_and_start();
    let one = server.client(one.key.as_deref().unwrap());
    is_over(&keep(&one, "y"), "credentials of the key `key_");
    let id = kept["id"].as_str().unwrap();
    assert_eq!(one.delete(&format!("/v1/credentials/{id}")).status, 204);
    keep(&one, "z").is(201);
}

#[test]
fn api_keys_are_counted_while_they_work() {
    let server = Server::with("quotas: {api_keys: 2}", &[]);
    let admin = server.admin();
    let make = || {
        let body = json!({"name": "n", "role": "caller", "tenant_id": "one"});
        admin.post("/v1/keys", &body)
    };
    for _ in 0..4 {
        let first = make().is(201);
        make().is(201);
        is_over(&make(), "API keys that work of the tenant `one`: all of 2");
        let shown = admin.get("/v1/keys?tenant_id=one").is(200);
        let mut ids: Vec<String> = (shown["keys"].as_array().unwrap().iter())
            .filter(|key| key["revoked_at"].is_null())
            .map(|key| key["id"].as_str().unwrap().to_owned())
            .collect();
        assert!(ids.iter().any(|id| first["key"]["id"] == id.as_str()));
        for id in ids.drain(..) {
            admin.delete(&format!("/v1/keys/{id}?tenant_id=one")).is(200);
        }
    }
    // Of those that do not work, the oldest are forgotten.
    let shown = admin.get("/v1/keys?tenant_id=one").is(200);
    assert!(shown["keys"].as_array().unwrap().len() <= 4, "{shown}");
    assert_eq!(quota(&admin, "api_keys", "tenant")["used"], 1.0);
}

#[test]
fn a_tenant_has_quotas_of_its_own() {
    let settings = "quotas:\n  tools: 2\n  files: 1\n  subscribers: 1\n  tenants:\n    \
                    big: {tools: 3, subscribers: 2, calls_per_day: 4, per_key: {files: 1}}\n    \
                    none: {files: 0, runs: 0}\n";
    let server = Server::with(settings, &[]);
    let (big, small) = (server.key("big", "operator"), server.key("small", "operator"));
    for (client, most) in [(&big, 3.0), (&small, 2.0)] {
        for at in 0..most as usize {
            client.post("/v1/tools", &tool(&format!("t{at}"))).is(201);
        }
        let tenant = if most > 2.0 { "big" } else { "small" };
        let over = format!("tools of the tenant `{tenant}`: all of {most}");
        is_over(&client.post("/v1/tools", &tool("more")), &over);
        assert_eq!(quota(client, "tools", "tenant")["limit"], most);
    }
    let held = [big.follow("/v1/events", None), big.follow("/v1/events", None)];
    is_over(&big.get("/v1/events"), "subscribers of the tenant `big`: all of 2");
    let _one = small.follow("/v1/events", None);
    is_over(&small.get("/v1/events"), "subscribers of the tenant `small`: all of 1");
    drop(held);
    (0..4).for_each(|_| drop(echo(&big).is(200)));
    let problem = echo(&big).problem(429, "quota_exceeded");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.starts_with("calls per day of the tenant `big`: all of 4"), "{detail}");
    assert_eq!(quota(&big, "calls_per_day", "tenant")["limit"], 4.0);
    (0..6).for_each(|_| drop(echo(&small).is(200)));
    let file = |client: &Client| client.send("POST", "/v1/files", &[], b"x");
    is_over(&file(&server.key("none", "caller")), "files of the tenant `none`: all of 0");
    file(&big).is(201);
    is_over(&file(&big), "files of the tenant `big`: all of 1");
}

#[test]
fn a_key_has_quotas_of_its_own() {
    let settings = "quotas: {per_key: {files: 2, calls_per_day: 5}}";
    let mut server = Server::with(settings, &[]);
    let admin = server.admin();
    let make = |quotas: Value| {
        let body = json!({"name": "n", "role": "operator", "tenant_id": "one", "quotas": quotas});
        admin.post("/v1/keys", &body)
    };
    let made = make(json!({"files": 1, "calls_per_day": 7, "subscribers": 1})).is(201);
    assert_eq!(made["key"]["quotas"]["files"], 1);
    let id = made["key"]["id"].as_str().unwrap().to_owned();
    let one = server.client(made["secret"].as_str().unwrap());
    let other = server.key("one", "operator");
    let file = |client: &Client| client.send("POST", "/v1/files", &[], b"x");
    file(&one).is(201);
    is_over(&file(&one), &format!("files of the key `{id}`: all of 1"));
    file(&other).is(201);
    file(&other).is(201);
    is_over(&file(&other), "files of the key `key_");
    let held = one.follow("/v1/events", None);
    is_over(&one.get("/v1/events"), &format!("subscribers of the key `{id}`: all of 1"));
    drop(held);
    (0..7).for_each(|_| drop(echo(&one).is(200)));
    let over = |client: &Client| {
        let problem = echo(client).problem(429, "quota_exceeded");
        problem["detail"].as_str().unwrap().to_owned()
    };
    assert!(over(&one).contains(&format!("the key `{id}`: all of 7")));
    (0..5).for_each(|_| drop(echo(&other).is(200)));
    assert!(over(&other).contains("all of 5"));
    assert_eq!(quota(&one, "calls_per_day", "key")["limit"], 7.0);
    assert_eq!(quota(&other, "calls_per_day", "key")["limit"], 5.0);

    // It is changed, here and by a command, and outlives the server.
    let path = format!("/v1/keys/{id}/quotas?tenant_id=one");
    let shown = admin.put(&path, &json!({"calls_per_day": 9, "cost_per_day": 0.5})).is(200);
    assert_eq!(shown["quotas"], json!({"calls_per_day": 9, "cost_per_day": 0.5}));
    (0..2).for_each(|_| drop(echo(&one).is(200)));
    assert!(over(&one).contains("all of 9"));
    file(&one).is(201);
    let set = ["keys", "quota", &id, "calls_per_day=10", "cost_per_day=default", "--tenant", "one"];
    assert_eq!(server.project.ok(&set), "calls_per_day=10\n");
    until("the server has heard of it", || {
        (quota(&one, "calls_per_day", "key")["limit"] == 10.0).then_some(())
    });
    echo(&one).is(200);
    server.terminate();
    let server = server.kill_and_start();
    let one = server.client(one.key.as_deref().unwrap());
    assert!(over(&one).contains("all of 10"));
    let admin = server.admin();
    admin.put(&path, &json!({})).is(200);
    assert_eq!(quota(&one, "calls_per_day", "key")["limit"], 5.0);

    // The settings bind admins of other tenants, and what is wrong is refused.
    let own = server.key("one", "admin");
    let path = format!("/v1/keys/{id}/quotas");
    let problem = own.put(&path, &json!({"calls_per_day": 6})).problem(400, "invalid_request");
    assert_eq!(problem["errors"][0]["path"], "/calls_per_day", "{problem}");
    own.put(&path, &json!({"calls_per_day": 4})).is(200);
    for wrong in [json!({"calls_per_day": -1}), json!({"cost_per_day": -0.5}), json!({"call": 1})] {
        own.put(&path, &wrong).problem(400, "invalid_request");
    }
    own.put("/v1/keys/key_unknown/quotas", &json!({})).problem(404, "not_found");
    server.key("one", "operator").put(&path, &json!({})).problem(403, "forbidden");
}
