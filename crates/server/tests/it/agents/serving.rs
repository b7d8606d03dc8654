//! Agent runs over HTTP.

use std::sync::Arc;
use std::thread;

use serde_json::{Value, json};

use super::model::{Model, call, say, say_in_pieces};
use super::{HELPER, calculating, settings};
use crate::http::{Client, Server, WRITE, until};
use crate::project::Project;
use crate::upstream::{Said, TestUpstream};

fn server(model: &Model) -> Server {
    let project = Project::empty();
    let settings = format!("{}  share_keys: true\n", settings(model));
    project.write("windlass.yaml", &settings).write("tools/helper.yaml", HELPER);
    project.write("tools/write.yaml", WRITE);
    Server::run(Arc::new(project), &[], &[("ANTHROPIC_API_KEY", "sk-server")], None)
}

#[test]
fn a_run_is_answered_at_once_or_followed() {
    let model = calculating();
    let server = server(&model);
    let client = server.admin();
    let agents = client.get("/v1/agents").is(200)["agents"].clone();
    assert_eq!(
        (&agents[0]["name"], &agents[0]["model"]),
        (&json!("helper"), &json!("claude-sonnet-4-20250514"))
    );
    let body = json!({"message": "What is 6 * 7?", "conversation_id": "talk"});
    let answer = client.post("/v1/agents/helper/runs", &body).is(200);
    assert_eq!(answer["result"]["output"], "It is \n42, after 3 messages.", "{answer}");
    assert_eq!(answer["result"]["usage"]["output_tokens"], 40);
    let state = client.get(&format!("/v1/runs/{}", answer["run_id"].as_str().unwrap())).is(200);
    assert_eq!((&state["stop"], &state["turns"]), (&json!("done"), &json!(2)));
    assert_eq!(state["tools"], json!(["calculator"]));

    let body = json!({"message": "What is 6 * 7?", "conversation_id": "another"});
    let told = client.stream("/v1/agents/helper/runs", &body).rest();
    let names: Vec<&str> = told.iter().map(|sent| sent.name.as_str()).collect();
    assert_eq!((names[0], names[names.len() - 1]), ("run", "result"), "{names:?}");
    for name in ["text", "tool_queued", "tool_started", "tool_completed", "queue_drained"] {
        assert!(names.contains(&name), "no {name} in {names:?}");
    }
    let text: String = (told.iter())
        .filter(|sent| sent.name == "text")
        .map(|sent| sent.data["text"].as_str().unwrap())
        .collect();
    assert_eq!(text, "Let me see. It is 42, after 3 messages.");
    let metrics = client.get("/metrics").text();
    assert!(
        metrics.contains("windlass_model_tokens_total{tool=\"helper\",type=\"input\"} 400"),
        "{metrics}"
    );
    assert!(metrics.contains("windlass_model_cost_usd_total{tool=\"helper\"} 0.0024"), "{metrics}");
    let stats = until("it is counted", || {
        let stats = client.get("/v1/stats").is(200);
        (stats["tools"]["helper"]["calls"] == 2).then_some(stats)
    });
    assert_eq!(stats["tools"]["helper"]["usage"]["input_tokens"], 400, "{stats}");
    assert_eq!(stats["total"]["usage"]["output_tokens"], 80, "{stats}");
    let summary = client.get("/v1/conversations/talk/summary").is(200);
    assert_eq!(summary["usage"]["input_tokens"], 200, "{summary}");
    // The key is nowhere.
    let records = client.get("/v1/calls").text();
    assert!(!records.contains("sk-server") && records.contains("estimated_cost_usd"));
}

#[test]
fn what_does_not_exist_or_is_wrong_is_a_problem() {
    let model = calculating();
    let server = server(&model);
    let client = server.admin();
    client.post("/v1/agents/calculator/runs", &json!({"message": "x"})).problem(404, "not_found");
    client.get("/v1/runs/nothing").problem(404, "not_found");
    client.post("/v1/runs/nothing/resume", &json!({})).problem(404, "not_found");
    let twice = json!({"message": "a", "input": {"message": "b"}});
    client.post("/v1/agents/helper/runs", &twice).problem(400, "invalid_request");
    let wrong = client.post("/v1/agents/helper/runs", &json!({"input": {}})).is(200);
    assert_eq!(wrong["result"]["error_kind"], "invalid_arguments", "{wrong}");
    // The run of one tenant is nobody else's.
    let run = client.post("/v1/agents/helper/runs", &json!({"message": "x"})).is(200);
    let path = format!("/v1/runs/{}", run["run_id"].as_str().unwrap());
    client.get(&path).is(200);
    server.key("other", "operator").get(&path).problem(404, "not_found");
}

/// Writes a note, then waits, then is done.
fn saver() -> Model {
    Model::start(|request| match request["messages"].as_array().unwrap().len() {
        1 => vec![say("I write."), call("t1", "write_note", &json!({"message": "one"}))],
        3 => vec![
            call("t2", "write_note", &json!({"message": "two"})),
            call("t3", "wait", &json!({"seconds": 2})),
        ],
        _ => vec![say("Both are written.")],
    })
}

#[test]
fn a_run_goes_on_after_a_kill_and_repeats_nothing() {
    let model = saver();
    let server = server(&model);
    let client = server.admin();
    let mut events = client.stream("/v1/agents/helper/runs", &json!({"message": "Go"}));
    let run = events.next().unwrap().data["run_id"].as_str().unwrap().to_owned();
    // Killed in the second turn: its note is written, its wait is not over.
    let path = format!("/v1/runs/{run}");
    until("the second note is written", || {
        let notes = written(&client);
        (notes.len() == 2).then_some(())
    });
    let state = client.get(&path).is(200);
    assert_eq!((&state["has_ended"], &state["status"]), (&json!(false), &json!("running")));
    // Whoever drives it is alone: nothing may happen twice.
    let refused = client.post(&format!("{path}/resume"), &json!({})).problem(409, "conflict");
    let call = state["call_id"].as_str().unwrap();
    assert_eq!(refused["detail"], format!("this run is going on (call {call})"));
    drop(events);
    let server = server.kill_and_start();
    let client = server.admin();
    assert_eq!(model.requests().len(), 2);
    assert_eq!(client.get(&path).is(200)["status"], "interrupted");
    let answer = client.post(&format!("{path}/resume"), &json!({})).is(200);
    assert_eq!(answer["result"]["output"], "Both are written.", "{answer}");
    assert_eq!(answer["run_id"], run.as_str());
    // Nobody has paid for the turns before the kill, so this call does.
    assert_eq!(answer["result"]["usage"]["input_tokens"], 300, "{answer}");
    // The model was asked once more, and has heard everything.
    let requests = model.requests();
    assert_eq!(requests.len(), 3);
    let heard = requests[2]["messages"].as_array().unwrap();
    let answers = heard.last().unwrap()["content"].as_array().unwrap();
    assert_eq!((heard.len(), answers.len()), (5, 2), "{heard:?}");
    assert_eq!(answers[0]["content"][0]["text"], "two");
    let notes = until("all is recorded", || Some(written(&client)).filter(|it| it.len() == 3));
    let run_again = notes.iter().filter(|note| note["same_as"].is_null()).count();
    assert_eq!(run_again, 2, "{notes:?}");
    assert_eq!(client.get(&path).is(200)["status"], "ended");
    let again = client.post(&format!("{path}/resume"), &json!({})).is(200);
    assert_eq!(again["result"]["output"], "Both are written.");
    let stats = client.get("/v1/stats").is(200);
    assert_eq!(stats["tools"]["helper"]["usage"]["input_tokens"], 300, "{stats}");
}

#[test]
fn a_reader_hears_every_word() {
    let words: Vec<String> = (0..2_000).map(|at| format!("{at} ")).collect();
    let all = words.concat();
    let model = Model::start(move |_| vec![say_in_pieces(&words)]);
    let server = server(&model);
    let body = json!({"message": "Count."});
    let told = server.admin().stream("/v1/agents/helper/runs", &body).rest();
    let texts = told.iter().filter(|sent| sent.name == "text");
    let heard: String = texts.map(|sent| sent.data["text"].as_str().unwrap()).collect();
    assert!(heard == all, "{} of {} bytes", heard.len(), all.len());
    assert_eq!(told.last().unwrap().data["result"]["output"], all.as_str());
}

#[test]
fn a_conversation_goes_on_from_run_to_run() {
    let model = calculating();
    let server = server(&model);
    let client = server.admin();
    let ask = |client: &crate::http::Client, conversation: &str| {
        let body = json!({"message": "And now?", "conversation_id": conversation});
        let answer = client.post("/v1/agents/helper/runs", &body).is(200);
        answer["result"]["output"].as_str().unwrap().to_owned()
    };
    assert_eq!(ask(&client, "talk"), "It is \n42, after 3 messages.");
    assert_eq!(ask(&client, "talk"), "It is \n42, after 5 messages.");
    assert_eq!(ask(&client, "other"), "It is \n42, after 3 messages.");
    // Another tenant has said nothing in it.
    let other = server.key("other", "operator");
    assert_eq!(ask(&other, "talk"), "It is \n42, after 3 messages.");
    let server = server.kill_and_start();
    assert_eq!(ask(&server.admin(), "talk"), "It is \n42, after 7 messages.");
}

/// The records of notes.
fn written(client: &crate::http::Client) -> Vec<Value> {
    let page = client.get("/v1/calls?tool=write_note").is(200);
    page["records"].as_array().unwrap().clone()
}

#[test]
fn a_run_is_interrupted_by_cancelling_its_call() {
    let model = Model::start(|_| vec![call("t", "wait", &json!({"seconds": 60}))]);
    let server = server(&model);
    let client = server.admin();
    let mut events = client.stream("/v1/agents/helper/runs", &json!({"message": "Go"}));
    let begun = events.next().unwrap().data;
    let id = begun["call_id"].as_str().unwrap().to_owned();
    let path = format!("/v1/runs/{}", begun["run_id"].as_str().unwrap());
    let (canceller, run) = (server.admin(), path.clone());
    let cancelling = thread::spawn(move || {
        until("it is kept", || (canceller.get(&run).status == 200).then_some(()));
        until("it can be cancelled", || {
            let path = format!("/v1/calls/{id}/cancel");
            (canceller.post(&path, &json!({})).value()["cancelled"] == 1).then_some(())
        });
    });
    let last = events.up_to("result").pop().unwrap();
    assert_eq!(last.data["result"]["error_kind"], "cancelled", "{}", last.data);
    cancelling.join().unwrap();
    until("its record is kept", || {
        (client.get(&path).is(200)["status"] == "cancelled").then_some(())
    });
}

#[test]
fn deferred_tools_are_listed_once_they_were_found() {
    let project = Project::empty();
    let deferred = WRITE.replace("behaviour:", "exposure: deferred\nbehaviour:");
    project.write("tools/write.yaml", &deferred);
    let server = Server::run(Arc::new(project), &[], &[], None);
    let client = server.admin();
    let names = |conversation: &str| -> Vec<String> {
        let path = format!("/v1/tools?format=anthropic&conversation_id={conversation}");
        let listed = client.get(&path).is(200);
        let tools = listed["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let has = |conversation: &str, name: &str| names(conversation).iter().any(|own| own == name);
    assert!(has("talk", "tool_search") && !has("talk", "write_note"));
    let search = json!({
        "tool": "tool_search", "arguments": {"query": "write a note"}, "conversation_id": "talk",
    });
    let found = client.post("/v1/calls", &search).is(200);
    assert_eq!(found["output"]["tools"][0]["name"], "write_note", "{found}");
    assert!(has("talk", "write_note") && !has("other", "write_note"));
}

#[test]
fn kept_conversations_have_a_quota() {
    let model = calculating();
    let project = Project::empty();
    let quotas = "quotas: {conversations: 2, per_key: {conversations: 1}}\n";
    let settings = format!("{}  share_keys: true\n{quotas}", settings(&model));
    project.write("windlass.yaml", &settings).write("tools/helper.yaml", HELPER);
    let variables = [("ANTHROPIC_API_KEY", "sk-server")];
    let server = Server::run(Arc::new(project), &[], &variables, None);
    let (one, second) = (server.key("one", "caller"), server.key("one", "caller"));
    let ask = |client: &Client, conversation: &str| {
        let body = json!({"message": "And now?", "conversation_id": conversation});
        client.post("/v1/agents/helper/runs", &body)
    };
    let refused = |client: &Client, conversation: &str| {
        let answer = ask(client, conversation);
        assert!(answer.header("retry-after").is_some(), "it ends by itself: {answer}");
        let problem = answer.problem(429, "quota_exceeded");
        problem["detail"].as_str().unwrap().to_owned()
    };
    ask(&one, "a").is(200);
    let why = refused(&one, "b");
    assert!(why.starts_with("kept conversations of the key `key_"), "{why}");
    ask(&one, "a").is(200);
    ask(&second, "b").is(200);
    let third = server.key("one", "caller");
    let why = refused(&third, "c");
    assert!(why.starts_with("kept conversations of the tenant `one`: all of 2"), "{why}");
    assert!(why.contains("until the first ends at 20"), "{why}");
}

#[test]
fn runs_have_a_quota_and_so_has_what_they_cost() {
    // It says nothing until it is told to.
    let told = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let may_speak = Arc::clone(&told);
    let model = Model::start(move |_| {
        while !may_speak.load(std::sync::atomic::Ordering::Relaxed) {
            thread::sleep(std::time::Duration::from_millis(10));
        }
        vec![say("Done.")]
    });
    let project = Project::empty();
    let quotas = "quotas: {runs: 2, cost_per_day: 2, per_key: {runs: 1}}\n";
    let prices = "  prices: {claude-sonnet-4-20250514: 10/10}\n  share_keys: true\n";
    project.write("windlass.yaml", &format!("{}{prices}{quotas}", settings(&model)));
    project.write("tools/helper.yaml", HELPER);
    let variables = [("ANTHROPIC_API_KEY", "sk-server")];
    let server = Server::run(Arc::new(project), &[], &variables, None);
    let [one, two, three] = [(); 3].map(|()| server.key("acme", "caller"));
    let body = json!({"message": "Hi"});
    let (path, json) = ("/v1/agents/helper/runs", [("Content-Type", "application/json")]);
    let begin = |client: &crate::http::Client| {
        client.begin("POST", path, &json, body.to_string().as_bytes())
    };
    let mut first = begin(&one);
    let used = |scope: &str| {
        let all = one.get("/v1/quotas").is(200);
        let mut found = all["quotas"].as_array().unwrap().iter();
        found.find(|it| it["name"] == "runs" && it["scope"] == scope).unwrap()["used"].clone()
    };
    until("it runs", || (used("key") == 1.0).then_some(()));
    let refused = one.post(path, &body).problem(429, "quota_exceeded");
    assert!(refused["detail"].as_str().unwrap().starts_with("runs of the key"), "{refused}");
    let mut second = begin(&two);
    until("both run", || (used("tenant") == 2.0).then_some(()));
    let refused = three.post(path, &body).problem(429, "quota_exceeded");
    assert!(refused["detail"].as_str().unwrap().starts_with("runs of the tenant"), "{refused}");
    told.store(true, std::sync::atomic::Ordering::Relaxed);
    for run in [&mut first, &mut second] {
        let ended = crate::http::Answer::read(run).is(200);
        assert_eq!(ended["result"]["is_success"], true, "{ended}");
    }
    // Each cost 1.20 dollars, so the two have used up the day.
    let refused = three.post(path, &body).is(200);
    assert_eq!(refused["result"]["error_kind"], "quota_exceeded", "{refused}");
    let why = refused["result"]["error"].as_str().unwrap();
    assert!(why.starts_with("cost per day of the tenant `acme`: all of $2"), "{why}");
    let other = server.key("other", "caller");
    assert_eq!(other.post(path, &body).is(200)["result"]["is_success"], true);
}

#[test]
fn tenants_ask_models_with_their_own_keys_unless_the_servers_are_shared() {
    let agent = json!({"definition": HELPER.replace("name: helper", "name: own_helper")});
    for shares in [false, true] {
        let model = Model::start(|_| vec![say("Hello.")]);
        let project = Project::empty();
        let settings = format!("{}  share_keys: {shares}\n", settings(&model));
        project.write("windlass.yaml", &settings).write("tools/helper.yaml", HELPER);
        let variables = [("ANTHROPIC_API_KEY", "sk-operators-own")];
        let server = Server::run(Arc::new(project), &[], &variables, None);
        let theirs = server.key("theirs", "operator");
        theirs.post("/v1/tools", &agent).is(201);
        let run = |client: &Client, agent: &str| {
            let path = format!("/v1/agents/{agent}/runs");
            client.post(&path, &json!({"message": "Hi"})).is(200)["result"].clone()
        };
        // Their own agent, and one that is everybody's.
        for agent in ["own_helper", "helper"] {
            let result = run(&theirs, agent);
            assert_eq!(result["is_success"], shares, "{agent}: {result}");
            if !shares {
                assert_eq!(result["error_kind"], "credential_invalid", "{result}");
                assert!(result["error"].as_str().unwrap().contains("models.share_keys"));
                assert!(model.requests().is_empty(), "it was asked");
            }
        }
        let stored = json!({"values": {"api_key": "sk-their-own-key"}});
        theirs.post("/v1/providers/anthropic/credentials", &stored).is(201);
        assert_eq!(run(&theirs, "own_helper")["is_success"], true);
        assert_eq!(model.keys().last().unwrap(), "sk-their-own-key");
        assert_eq!(run(&server.admin(), "helper")["is_success"], true);
        assert_eq!(model.keys().last().unwrap(), "sk-operators-own");
    }
}

/// Vectors by whether a text is about the sky.
fn vectors(asked: &crate::upstream::Asked) -> Said {
    let body: Value = serde_json::from_str(&asked.body).unwrap();
    let about_sky = |text: &str| text.contains("umbrella") || text.contains("Forecast");
    let texts = body["input"].as_array().unwrap().iter().enumerate();
    let data: Vec<Value> = texts
        .map(|(at, text)| match about_sky(text.as_str().unwrap()) {
            true => json!({"index": at, "embedding": [1.0, 0.0]}),
            false => json!({"index": at, "embedding": [0.0, 1.0]}),
        })
        .collect();
    Said::json("200 OK", &json!({"data": data}))
}

#[test]
fn tools_are_found_by_meaning_where_an_embedding_model_is_set_and_by_words_where_it_fails() {
    const SKY: &str = "name: sky_report\ndescription: Forecast for a town.\nexposure: deferred\n\
        parameters: []\nentry: {type: builtin, handler: echo}\n";
    let found = |model: &TestUpstream, key: &str, query: &str| {
        let project = Project::empty();
        let settings = format!(
            "models:\n  providers: {{local: 'openai {}/v1'}}\nsearch: {{embedding_model: local/small}}\n",
            model.url()
        );
        project.write("windlass.yaml", &settings).write("tools/sky.yaml", SKY);
        let server = Server::run(Arc::new(project), &[], &[("LOCAL_API_KEY", key)], None);
        let body = json!({"tool": "tool_search", "arguments": {"query": query, "limit": 3}});
        server.admin().post("/v1/calls", &body).is(200)["output"]["tools"].clone()
    };
    let model = TestUpstream::start(vectors);
    let tools = found(&model, "sk-embed", "umbrella");
    assert_eq!(tools[0]["name"], "sky_report", "{tools}");
    let asked = model.asked();
    assert!(asked.len() >= 2 && asked.iter().all(|one| one.what() == ("POST", "/v1/embeddings")));
    assert!(asked.iter().all(|one| one.header("authorization") == Some("Bearer sk-embed")));
    let broken = TestUpstream::start(|_| Said::json("500 Broken", &json!({"error": "no"})));
    assert_eq!(found(&broken, "sk-embed", "umbrella"), json!([]), "no word of it is known");
    assert_eq!(found(&broken, "sk-embed", "forcast of a town")[0]["name"], "sky_report");
}

#[test]
fn an_embedding_model_of_nobody_is_refused_at_the_start() {
    let project = Project::empty();
    project.write("windlass.yaml", "search: {embedding_model: claude-sonnet-4-20250514}\n");
    let parts = ["search.embedding_model", "Anthropic has no embedding models"];
    project.run(&["serve", "--listen", "127.0.0.1:0"]).fails(2, &parts);
}
