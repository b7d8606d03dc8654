//! Agents in the program: on the command line, over HTTP, and resumed after `SIGKILL`.

mod model;
mod serving;

use std::sync::Arc;

use serde_json::json;

use crate::http::Server;
use crate::project::Project;
pub(crate) use model::Model;
use model::{call, say};

/// An agent with a tool that only looks, and one that writes.
pub(crate) const HELPER: &str = "
name: helper
kind: agent
description: Answers questions, and can calculate.
model: claude-sonnet-4-20250514
system: Be brief.
tools: [calculator, write_note, wait]
";

pub(crate) fn settings(model: &Model) -> String {
    format!("models:\n  providers:\n    anthropic: anthropic {}\n", model.url())
}

fn project(model: &Model) -> Project {
    let project = Project::empty();
    project.write("windlass.yaml", &settings(model)).write("tools/helper.yaml", HELPER);
    project
}

pub(crate) fn calculating() -> Model {
    Model::start(|request| match request["messages"].as_array().unwrap().len() {
        1 => vec![say("Let me see. "), call("t1", "calculator", &json!({"expression": "6*7"}))],
        heard => vec![say("It is "), say(&format!("42, after {heard} messages."))],
    })
}

#[test]
fn a_definition_is_checked_with_the_models_of_the_settings() {
    let project = Project::empty();
    let helper = HELPER.replace("claude-sonnet-4-20250514", "own/qwen3");
    project.write("windlass.yaml", "models: {providers: {own: openai http://127.0.0.1:9/v1}}\n");
    project.write("tools/helper.yaml", &helper);
    project.write(
        "tools/write_note.yaml",
        "name: write_note\ndescription: Writes a note down for later.\n\
         parameters: [{name: message, type: string, required: true, description: What to write.}]\n\
         entry: {type: builtin, handler: echo}\nbehaviour: {destructive: true}\n",
    );
    let checked = project.json(&["check"]);
    assert_eq!((&checked["errors"], &checked["warnings"]), (&json!(0), &json!(0)), "{checked}");
    let server = Server::run(Arc::new(project), &[], &[], None);
    let asked = json!({"definition": helper});
    let checked = server.admin().post("/v1/definitions/validate", &asked).is(200);
    assert_eq!(checked["valid"], true, "{checked}");
    let other = json!({"definition": helper.replace("own/", "nobodys/")});
    let checked = server.admin().post("/v1/definitions/validate", &other).is(200);
    assert_eq!(checked["valid"], false, "{checked}");
}

#[test]
fn an_agent_runs_on_the_command_line() {
    let model = calculating();
    let project = project(&model);
    let listed = project.ok(&["agent"]);
    assert!(listed.contains("helper") && listed.contains("claude-sonnet-4-20250514"), "{listed}");
    let mut command = project.command(&["agent", "run", "helper", "What is 6 * 7?"]);
    let ran: crate::project::Ran =
        command.env("ANTHROPIC_API_KEY", "sk-cli").output().unwrap().into();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.ends_with("It is 42, after 3 messages.\n"), "{ran:?}");
    assert!(ran.err.contains("calls calculator {\"expression\":\"6*7\"}"), "{ran:?}");
    assert!(ran.err.contains("200 tokens in, 40 out, $0.0012"), "{ran:?}");
    assert_eq!(model.keys(), ["sk-cli", "sk-cli"]);
    // For scripts: one document, and nothing else.
    let told = project.json(&["agent", "run", "helper", "message=What?"]);
    assert_eq!(told["output"], "It is \n42, after 3 messages.");
    assert_eq!(told["usage"]["input_tokens"], 200);
    assert_eq!(told["metadata"]["agentMetadata"]["toolCallsMade"], json!(["calculator"]));
    let detail = project.ok(&["calls", told["call_id"].as_str().unwrap()]);
    assert!(detail.contains("$0.0012 for 240 tokens"), "{detail}");
    let stats = project.ok(&["stats", "helper"]);
    assert!(stats.contains("$0.0024") && stats.contains("480"), "{stats}");
    project.run(&["agent", "run", "helpr", "x"]).fails(3, &["did you mean `helper`?"]);
    project.run(&["agent", "run", "helper"]).fails(2, &["message"]);
    project.run(&["agent", "resume", "nothing"]).fails(3, &["no run"]);
    // A run that has ended gives its result again, and asks nobody.
    let asked = model.requests().len();
    let run = told["metadata"]["agentMetadata"]["runId"].as_str().unwrap().to_owned();
    let again = project.json(&["agent", "resume", &run]);
    assert_eq!((&again["output"], model.requests().len()), (&told["output"], asked));
}

#[test]
fn a_stored_key_wins_over_the_environment() {
    let model = calculating();
    let project = project(&model);
    let secret = "{\"api_key\": \"sk-stored\"}";
    let stored = project.pipe(secret, &["credentials", "set", "anthropic", "--stdin"]);
    assert_eq!(stored.code, Some(0), "{stored:?}");
    let mut command = project.command(&["agent", "run", "helper", "Hi"]);
    let output = command.env("ANTHROPIC_API_KEY", "sk-cli").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(model.keys()[0], "sk-stored");
}

#[test]
fn a_provider_of_the_settings_has_keys_and_prices() {
    let model = calculating();
    let project = Project::empty();
    let settings = format!(
        "models:\n  providers:\n    own: anthropic {}\n  prices: {{own/m: 0/0}}\n",
        model.url()
    );
    project.write("windlass.yaml", &settings);
    project.write("tools/helper.yaml", &HELPER.replace("claude-sonnet-4-20250514", "own/m"));
    let secret = "{\"api_key\": \"sk-own\"}";
    let stored = project.pipe(secret, &["credentials", "set", "own", "--stdin"]);
    assert_eq!(stored.code, Some(0), "{stored:?}");
    let told = project.json(&["agent", "run", "helper", "Hi"]);
    assert_eq!(told["usage"]["estimated_cost_usd"], 0.0, "{told}");
    assert_eq!(model.keys(), ["sk-own", "sk-own"]);
}

#[test]
fn a_message_may_have_an_equals_sign() {
    let model = calculating();
    let project = project(&model);
    project.json(&["agent", "run", "helper", "solve x+1=2 for x"]);
    let asked = &model.requests()[0]["messages"][0]["content"][0]["text"];
    assert_eq!(asked, "solve x+1=2 for x");
}

#[test]
fn a_run_that_failed_says_how_it_goes_on() {
    // Nobody listens there any more.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let project = Project::empty();
    let settings = format!("models:\n  providers:\n    anthropic: anthropic http://{gone}\n");
    project.write("windlass.yaml", &settings).write("tools/helper.yaml", HELPER);
    let failed = project.run(&["agent", "run", "helper", "Hi"]);
    let (_, run) = failed.err.split_once("windlass agent resume ").unwrap();
    let run = run.split_whitespace().next().unwrap().to_owned();
    let model = calculating();
    project.write("windlass.yaml", &self::settings(&model));
    let told = project.json(&["agent", "resume", &run]);
    assert_eq!(told["output"], "It is \n42, after 3 messages.", "{told}");
}

#[test]
fn a_chat_remembers_what_was_said() {
    let model = calculating();
    let project = project(&model);
    let ran = project.pipe("What is 6 * 7?\nAnd now?\n", &["chat", "helper"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let said: Vec<&str> = ran.out.lines().collect();
    assert!(said.iter().any(|line| line.contains("after 3 messages.")), "{ran:?}");
    assert!(said.last().unwrap().contains("after 5 messages."), "{ran:?}");
    assert!(ran.err.contains("all in all $0.00"), "{ran:?}");
}
