//! Leak detection: secrets of credentials and API keys must appear nowhere.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::server::{Server, until};

const CANARIES: [&str; 3] = ["canary-7f3a9c-first", "canary-51b0de-second", "canary-9e2d44-third"];
/// One that callers know and send along: it is in the arguments of their records,
/// and nowhere else.
const KNOWN: &str = "canary-c0ffee-known";
const PROVIDER: &str = "
identity: {name: acme}
credentials_schema:
- {name: token, type: secret-input, required: true}
- {name: host, type: text-input}
---
name: acme_echo
provider: acme
description: Says it again.
entry: {type: builtin, handler: echo}
parameters: [{name: message, type: string, required: true}]
behaviour: {read_only: true}
---
name: acme_write
provider: acme
description: Says it again, and may change something.
entry: {type: builtin, handler: echo}
parameters: [{name: message, type: string, required: true}]
---
name: acme_add
provider: acme
description: Computes, or fails with what it was given.
entry: {type: builtin, handler: calculator}
parameters: [{name: expression, type: string, required: true}]
behaviour: {read_only: true}
";

/// Every file in a folder, however deep.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push((path.display().to_string(), fs::read(&path).unwrap())),
        }
    }
    found
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

#[test]
fn a_secret_shows_in_no_answer_record_event_metric_log_or_file() {
    let mut server = Server::with("", &[("WINDLASS_LOG", "trace")]);
    let client = server.admin();
    let mut events = client.follow("/v1/events", None);
    client.post("/v1/providers", &json!({"definition": PROVIDER})).is(201);
    let mut answers = Vec::new();
    let path = "/v1/providers/acme/credentials";
    let store = |name: &str, canary: &str| json!({"name": name, "values": {"token": canary}});
    let made = client.post(path, &store("default", CANARIES[0]));
    let id = made.is(201)["id"].as_str().unwrap().to_owned();
    answers.push(made.text());
    answers.push(client.post(path, &store("second", CANARIES[1])).text());
    // Wrong requests that carry a secret.
    for body in [
        json!({"name": "x", "values": {"token": CANARIES[1], "nothing": CANARIES[1]}}),
        json!({"name": "x", "values": {"token": [CANARIES[1]]}}),
        json!({"name": "x", "values": {"token": CANARIES[1]}, "colour": "red"}),
        json!({"name": 1, "values": {"token": CANARIES[1]}}),
        json!({"values": CANARIES[1]}),
    ] {
        let refused = client.post(path, &body);
        assert_eq!(refused.status, 400);
        if body["values"].is_object() {
            answers.push(refused.text());
        }
    }
    answers.push(client.post(path, &store("known", KNOWN)).text());
    let mut results = Vec::new();
    for tool in ["acme_echo", "acme_write"] {
        for name in ["default", "second"] {
            let body = json!({
                "tool": tool, "arguments": {"message": "plain"}, "credential": name,
                "conversation_id": "c",
            });
            let result = client.post("/v1/calls", &body);
            assert_eq!(result.is(200)["output"], "plain");
            answers.push(result.text());
        }
        // The tool gives back what it was given.
        let message = format!("sent with {KNOWN}, and again {KNOWN}");
        let body = json!({"tool": tool, "arguments": {"message": message}, "credential": "known"});
        let result = client.post("/v1/calls", &body);
        assert_eq!(result.is(200)["output"], "sent with [hidden], and again [hidden]");
        results.push(result.text());
    }
    let add = |expression: &str| {
        let arguments = json!({"expression": expression});
        client.post(
            "/v1/calls",
            &json!({"tool": "acme_add", "arguments": arguments, "credential": "known"}),
        )
    };
    let failed = add(KNOWN);
    assert_eq!(failed.is(200)["is_success"], false);
    results.push(failed.text());
    let call = json!({"tool": "acme_echo", "arguments": {"message": KNOWN}, "credential": "known"});
    let batch = json!({"calls": [call]});
    let told = client.stream("/v1/batches", &batch).rest();
    results.extend(told.iter().map(|event| format!("{event:?}")));
    let place = format!("/v1/credentials/{id}");
    answers.push(client.put(&place, &json!({"values": {"token": CANARIES[2]}})).text());
    answers.push(client.send("POST", &format!("{place}/validate"), &[], b"").text());
    let values = json!({"values": {"token": CANARIES[2]}});
    answers.push(client.post("/v1/providers/acme/credentials/validate", &values).text());
    until("all are recorded", || {
        let page = client.get("/v1/calls?limit=100").is(200);
        (page["records"].as_array().unwrap().len() >= 8).then_some(())
    });
    for path in [
        "/v1/calls?limit=100",
        "/v1/credentials",
        "/v1/providers",
        "/v1/stats",
        "/metrics",
        "/v1/approvals",
        "/v1/keys",
    ] {
        answers.push(client.get(path).text());
    }
    let told = events.up_to("queue_drained");
    results.extend(told.iter().map(|event| format!("{event:?}")));
    results.push(client.get("/metrics").text());
    assert!(results.iter().all(|result| !result.contains(KNOWN)), "{results:#?}");
    answers.extend(results);
    for canary in CANARIES {
        let shown: Vec<_> = answers.iter().filter(|answer| answer.contains(canary)).collect();
        assert!(shown.is_empty(), "{canary} in {shown:#?}");
    }
    // Also not at rest: the server writes everything when it ends.
    #[cfg(unix)]
    server.terminate();
    let key = client.key.unwrap();
    let log = server.log();
    assert!(
        log.contains("\"level\":\"TRACE\"") || log.contains("\"level\":\"DEBUG\""),
        "it was on"
    );
    let folder = server.project.path("");
    for (name, bytes) in files(&folder) {
        for canary in CANARIES {
            assert!(!holds(&bytes, canary), "{canary} in {name}");
        }
        assert!(!holds(&bytes, &key), "the key in {name}");
    }
}
