//! What people say and are asked is theirs: no other key of their tenant answers
//! for them, or goes on with what they said.

use std::sync::Arc;

use serde_json::{Value, json};

use super::server::{Server, until};
use super::wire::Client;
use crate::mcp::played;
use crate::project::Project;
use crate::upstream::{Said, TestUpstream};

fn key(server: &Server, role: &str, user: &Value) -> Client {
    let key = json!({"name": "k", "role": role, "user_id": user});
    let made = server.admin().post("/v1/keys", &key).is(201);
    server.client(made["secret"].as_str().unwrap())
}

#[test]
fn what_a_call_asks_is_answered_by_whoever_made_it_and_by_nobody_else() {
    let project = Project::empty();
    played::add_to(&project);
    let server = Server::run(Arc::new(project), &[], &[], None);
    let new = |role: &str, user: Value| key(&server, role, &user);
    let (plain, other) = (new("caller", json!(null)), new("caller", json!(null)));
    let (adas, second, bobs) =
        (new("caller", json!("ada")), new("caller", json!("ada")), new("caller", json!("bob")));
    let operator = new("operator", json!(null));
    until("the server's tools", || {
        (plain.get("/v1/tools/played%2Fask").status == 200).then_some(())
    });
    let later = [("Prefer", "respond-async")];
    let call = json!({"tool": "played/ask", "arguments": {}});
    for (maker, stranger, answerer) in [
        (&plain, &other, &plain),
        (&plain, &adas, &operator),
        (&adas, &bobs, &adas),
        (&adas, &plain, &second),
    ] {
        let begun = maker.json("POST", "/v1/calls", &later, &call).is(202);
        let place = format!("/v1/calls/{}", begun["call_id"].as_str().unwrap());
        until("it asks", || (maker.get(&place).is(200)["status"] == "suspended").then_some(()));
        let asked = maker.get(&format!("{place}/questions")).is(200);
        let name = asked["questions"].as_object().unwrap().keys().next().unwrap();
        let answers = json!({"answers": {name: {"action": "accept", "content": {"name": "A"}}}});
        let path = format!("{place}/answers");
        stranger.post(&path, &answers).problem(403, "forbidden");
        assert_eq!(maker.get(&place).is(200)["status"], "suspended", "it still waits");
        assert_eq!(answerer.post(&path, &answers).is(200)["answered"], 1);
        assert_eq!(maker.get(&format!("{place}?wait=20s")).is(200)["status"], "succeeded");
    }
}

#[test]
fn a_conversation_of_one_person_is_not_gone_on_with_by_another() {
    // It says how much it has been told.
    let model = TestUpstream::start(|asked| {
        let body: Value = serde_json::from_str(&asked.body).unwrap();
        let told = body["messages"].to_string();
        let text = format!("I know {}.", if told.contains("peanuts") { "it" } else { "nothing" });
        Said::json(
            "200 OK",
            &json!({"type": "message", "role": "assistant", "stop_reason": "end_turn",
                "content": [{"type": "text", "text": text}],
                "usage": {"input_tokens": 1, "output_tokens": 1}}),
        )
    });
    let project = Project::empty();
    let settings = format!("models: {{providers: {{anthropic: 'anthropic {}'}}}}\n", model.url());
    project.write("windlass.yaml", &settings).write(
        "tools/helper.yaml",
        "name: helper\nkind: agent\ndescription: Helps.\nmodel: claude-sonnet-4-20250514\n\
         system: Help.\ntools: [calculator]\n",
    );
    let variables = [("ANTHROPIC_API_KEY", "sk-of-the-server")];
    let server = Server::run(Arc::new(project), &[], &variables, None);
    let ask = |client: &Client, message: &str, user: Option<&str>| {
        let body = json!({"message": message, "conversation_id": "talk", "user_id": user});
        let answer = client.post("/v1/agents/helper/runs", &body).is(200);
        answer["result"]["output"].as_str().unwrap_or_default().to_owned()
    };
    let (adas, bobs) =
        (key(&server, "caller", &json!("ada")), key(&server, "caller", &json!("bob")));
    let (many, plain) = (key(&server, "caller", &json!("*")), key(&server, "caller", &json!(null)));
    assert_eq!(ask(&adas, "I must not eat peanuts.", None), "I know it.");
    assert_eq!(ask(&adas, "What do you know?", None), "I know it.");
    assert_eq!(ask(&bobs, "What do you know?", None), "I know nothing.");
    assert_eq!(ask(&plain, "What do you know?", None), "I know nothing.");
    assert_eq!(ask(&many, "What do you know?", None), "I know nothing.");
    assert_eq!(ask(&many, "What do you know?", Some("ada")), "I know it.");
    assert_eq!(ask(&many, "What do you know?", Some("bob")), "I know nothing.");
}
