//! The canary matrix for OAuth: what clients and people are given by an
//! authorization server, while the database is open and traces hold content.

use serde_json::{Value, json};

use super::secrets::{around, files, holds, shapes, told};
use super::server::{Server, until};
use super::wire::Client;
use crate::upstream::{Asked, Said, TestUpstream};

/// The client's secret, a person's tokens, and the client's own token.
const CLIENT: &str = "canary-client-7d1e02+/";
const ACCESS: &str = "canary-access-4f8a11";
const REFRESH: &str = "canary-refresh-93bc55";
const MACHINE: &str = "canary-machine-20af6b";
const ALL: [&str; 4] = [CLIENT, ACCESS, REFRESH, MACHINE];

/// A service that repeats whatever it is told in secret, as an error.
fn service(asked: &Asked) -> Said {
    let quote = |secrets: &[&str]| {
        let secrets: Vec<String> = secrets.iter().map(|secret| (*secret).to_owned()).collect();
        let why = told(&secrets);
        let error = json!({"error": why, "error_description": why, "message": why});
        Said::json("400 Bad Request", &error)
    };
    if asked.contains("grant_type=authorization_code") {
        let seconds = if asked.what().1.contains("short") { 1 } else { 3600 };
        return Said::token(ACCESS, Some(REFRESH), seconds);
    }
    if asked.contains("grant_type=client_credentials") {
        return match asked.what().1.contains("short") {
            true => quote(&[CLIENT]),
            false => Said::token(MACHINE, None, 3600),
        };
    }
    if asked.contains("grant_type=refresh_token") {
        return quote(&[CLIENT, REFRESH]);
    }
    let bearer = asked.header("authorization").unwrap_or_default().trim_start_matches("Bearer ");
    quote(&[bearer])
}

fn offer(client: &Client, service: &TestUpstream, name: &str) {
    let url = service.url();
    let flow = json!({"tokenUrl": format!("{url}/{name}/token"), "scopes": {},
        "authorizationUrl": "https://x.example/agree"});
    let schemes = json!({
        "person": {"type": "oauth2", "flows": {"authorizationCode": flow}},
        "machine": {"type": "oauth2", "flows": {"clientCredentials": flow}},
    });
    let get = |id: &str| {
        json!({"get": {"operationId": format!("{name}_{id}"), "responses": {},
            "security": [{(id): []}]}})
    };
    let document = json!({
        "openapi": "3.0.3", "info": {"title": name, "version": "1"}, "servers": [{"url": url}],
        "paths": {"/person": get("person"), "/machine": get("machine")},
        "components": {"securitySchemes": schemes},
    });
    client.post("/v1/providers", &json!({"name": name, "document": document})).is(201);
    let values = json!({"values": {
        "person_client_id": "client-7", "person_client_secret": CLIENT,
        "machine_client_id": "client-7", "machine_client_secret": CLIENT,
    }});
    client.post(&format!("/v1/providers/{name}/credentials"), &values).is(201);
}

#[test]
fn no_secret_of_oauth_shows_in_any_shape_anywhere() {
    let other = TestUpstream::start(service);
    let collector = TestUpstream::start(|_| Said::json("200 OK", &json!({})));
    let settings = format!(
        "outbound: {{allow: [127.0.0.1]}}\nretry: 1\n\
         telemetry: {{endpoint: '{}', content: true}}\n",
        collector.url()
    );
    let mut server = Server::with(&settings, &[("WINDLASS_LOG", "trace")]);
    let client = server.admin();
    let mut events = client.follow("/v1/events", None);
    let mut shown: Vec<(String, Vec<u8>)> = Vec::new();
    let call = |tool: &str| client.post("/v1/calls", &json!({"tool": tool, "arguments": {}}));
    for name in ["long", "short"] {
        offer(&client, &other, name);
        let tool = format!("{name}_person");
        let asks: Value = call(&tool).value();
        assert_eq!(asks["error_kind"], "authorization_required", "{asks}");
        let feedback = asks["feedback"].as_str().unwrap();
        let state = feedback.split("state=").nth(1).unwrap().split('&').next().unwrap();
        let back = format!("/v1/oauth/callback?code=c-1&state={state}");
        shown.push((back.clone(), server.nobody().get(&back).text().into_bytes()));
        for tool in [tool.clone(), format!("{name}_machine"), tool] {
            shown.push((tool.clone(), call(&tool).text().into_bytes()));
        }
    }
    let batch = json!({"calls": [{"tool": "long_person"}, {"tool": "short_machine"}]});
    shown.push(("a batch".to_owned(), client.post("/v1/batches", &batch).text().into_bytes()));
    for secret in [ACCESS, MACHINE, REFRESH] {
        assert!(other.count(secret) > 0, "{secret} was sent to nobody");
    }
    assert!(shown.iter().any(|(_, text)| holds(text, "[hidden]")), "nothing was hidden");
    for path in [
        "/v1/calls?limit=100",
        "/v1/credentials",
        "/v1/providers",
        "/v1/tools?limit=500",
        "/v1/audit?limit=100",
        "/v1/stats",
        "/v1/quotas",
        "/metrics",
    ] {
        shown.push((path.to_owned(), client.get(path).text().into_bytes()));
    }
    let heard = format!("{:?}", events.up_to("queue_drained"));
    shown.push(("events".to_owned(), heard.into_bytes()));
    for command in [
        &["calls", "--json"][..],
        &["audit", "export"],
        &["credentials", "list", "--json"],
        &["stats", "--json"],
        &["doctor"],
    ] {
        let output = server.project.command(command).output().unwrap();
        shown.push((command.join(" "), [output.stdout, output.stderr].concat()));
    }
    // While it is open, the write-ahead log has what was written last.
    let folder = server.project.path("");
    let log = |files: &[(String, Vec<u8>)]| files.iter().any(|(name, _)| name.ends_with("-wal"));
    let open = until("a write-ahead log", || Some(files(&folder)).filter(|files| log(files)));
    shown.extend(open);
    server.terminate();
    shown.extend(files(&folder));
    let traces = collector.asked();
    assert!(traces.iter().any(|one| one.contains("execute_tool long_person")), "spans were sent");
    shown.extend(traces.into_iter().map(|one| ("a trace".to_owned(), one.body.into_bytes())));
    for (place, bytes) in shown {
        for secret in ALL {
            for shape in shapes(secret) {
                assert!(
                    !holds(&bytes, &shape),
                    "{secret} as {shape} in {place}: {}",
                    around(&bytes, &shape)
                );
            }
        }
    }
}

#[test]
fn who_let_tools_act_in_their_name_is_in_the_audit_log() {
    let other = TestUpstream::start(service);
    let server = Server::with("outbound: {allow: [127.0.0.1]}\n", &[]);
    let admin = server.admin();
    offer(&admin, &other, "long");
    let key = json!({"name": "k", "role": "caller", "user_id": "ada"});
    let made = admin.post("/v1/keys", &key).is(201);
    let adas = server.client(made["secret"].as_str().unwrap());
    let asks = adas.post("/v1/calls", &json!({"tool": "long_person", "arguments": {}})).value();
    let feedback = asks["feedback"].as_str().unwrap();
    let state = feedback.split("state=").nth(1).unwrap().split('&').next().unwrap();
    let back = format!("/v1/oauth/callback?code=c-1&state={state}");
    assert_eq!(server.nobody().get(&back).status, 200);
    // An admin deletes what somebody else uploaded; one's own is one's own business.
    let upload = |client: &Client| {
        let made = client.send("POST", "/v1/files", &[], b"x").is(201);
        format!("/v1/files/{}", made["id"].as_str().unwrap())
    };
    let (own, adas_file) = (upload(&admin), upload(&adas));
    admin.delete(&own).is(204);
    admin.delete(&adas_file).is(204);
    let log = admin.get("/v1/audit?limit=100").is(200);
    let of = |action: &str| -> Vec<Value> {
        let all = log["entries"].as_array().unwrap().iter();
        all.filter(|entry| entry["action"] == action).cloned().collect()
    };
    let granted = of("grant_consent");
    assert_eq!(granted.len(), 1, "{log}");
    assert_eq!((&granted[0]["target"], &granted[0]["status"]), (&json!("long"), &json!(200)));
    assert_eq!(granted[0]["actor"]["type"], "person");
    assert_eq!(granted[0]["actor"]["name"], "ada");
    let deleted = of("delete_file");
    assert_eq!(deleted.len(), 1, "{log}");
    assert_eq!(deleted[0]["target"], adas_file.as_str());
    assert_eq!(deleted[0]["actor"]["role"], "admin");
}
