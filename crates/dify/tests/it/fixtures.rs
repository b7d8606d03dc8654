//! Dify's own fixtures: 81 cases over 22 workflows, under the mocks of its suite.

use std::fs;

use needs_shared::needs_shared;
use serde_json::{Map, Value as Json};
use windlass_dify::document::Document;
use windlass_dify::node::{Node, NodeKind, OnError};
use windlass_dify::pool::Pool;
use windlass_dify::run::{self, Event, Limits, Outside};
use windlass_dify::step::{Answer, Failure, Outcome, Work};
use windlass_dify::value::{Object, Value};

use crate::vectors::corpus;

/// What a case puts in place of its nodes.
struct Mocks<'c> {
    mocks: &'c Json,
}

impl Mocks<'_> {
    fn outputs(&self, node: &Node, pool: &Pool) -> Option<Result<Json, String>> {
        let own = &self.mocks["nodes"][&node.id];
        if let Some(error) = own["error"].as_str() {
            return Some(Err(error.to_owned()));
        }
        if let Some(outputs) = own.get("outputs") {
            return Some(Ok(outputs.clone()));
        }
        if own["rule"].as_str().is_some_and(|rule| rule.contains("[item, item * 2]")) {
            let item =
                pool.get(&[node.parent.as_deref().unwrap(), "item"]).unwrap().value.to_json();
            let item = item.as_i64().unwrap();
            return Some(Ok(serde_json::json!({"result": [item, item * 2]})));
        }
        assert!(own.is_null(), "a mock that is not understood: {own}");
        let text =
            |name: &str| self.mocks[name].as_str().map(|text| serde_json::json!({"text": text}));
        match &node.kind {
            NodeKind::Llm(_) => text("llm").map(Ok),
            NodeKind::Agent(_) => text("agent").map(Ok),
            NodeKind::Tool(_) => self.mocks.get("tool").cloned().map(Ok),
            NodeKind::Http(_) => self.mocks.get("http").cloned().map(Ok),
            NodeKind::Knowledge(_) => self
                .mocks
                .get("retrieval")
                .map(|text| Ok(serde_json::json!({"result": [{"content": text}]}))),
            _ => None,
        }
    }
}

impl Outside for Mocks<'_> {
    fn answer(
        &mut self,
        node: &Node,
        work: &Work,
        _: &mut dyn FnMut(&str, &str, bool),
    ) -> Result<Answer, Failure> {
        match work {
            // The two cases that have a tool without a mock do not look at what it gives.
            Work::Tool(_) => Ok(Answer::Tool(Box::default())),
            _ => Err(Failure::new("NoMock", format!("nothing answers for `{}`", node.id))),
        }
    }

    fn stand_in(
        &mut self,
        node: &Node,
        pool: &Pool,
        text: &mut dyn FnMut(&str, &str, bool),
    ) -> Option<Result<Outcome, Failure>> {
        let outputs = match self.outputs(node, pool)? {
            Ok(outputs) => outputs,
            Err(error) => return Some(Err(Failure::new("MockError", error))),
        };
        if let (NodeKind::Llm(_), Some(answer)) = (&node.kind, outputs["text"].as_str()) {
            answer.split(' ').enumerate().for_each(|(at, word)| {
                let word = if at == 0 { word.to_owned() } else { format!(" {word}") };
                text("text", &word, false);
            });
            text("text", "", true);
        }
        let mut outcome = Outcome::default();
        for (name, value) in outputs.as_object().unwrap() {
            outcome.outputs.insert(name.clone(), Value::from_json(value.clone()).into());
        }
        Some(Ok(outcome))
    }
}

/// The name of an event in Dify's suite.
fn event_name(document: &Document, event: &Event) -> Option<String> {
    let rounds = |node: usize, what: &str| {
        let kind = match document.graph.node(node).kind {
            NodeKind::Loop(_) => "Loop",
            _ => "Iteration",
        };
        format!("NodeRun{kind}{what}Event")
    };
    Some(match event {
        Event::RunStarted => "GraphRunStartedEvent".to_owned(),
        Event::NodeStarted { .. } => "NodeRunStartedEvent".to_owned(),
        Event::NodeRetried { .. } => "NodeRunRetryEvent".to_owned(),
        Event::VariableUpdated { .. } => "NodeRunVariableUpdatedEvent".to_owned(),
        Event::Text(_) => "NodeRunStreamChunkEvent".to_owned(),
        Event::NodeSucceeded { .. } => "NodeRunSucceededEvent".to_owned(),
        Event::NodeExcepted { .. } => "NodeRunExceptionEvent".to_owned(),
        Event::NodeFailed { .. } => "NodeRunFailedEvent".to_owned(),
        Event::NodeSkipped { .. } => return None,
        Event::RoundsStarted { node, .. } => rounds(*node, "Started"),
        Event::RoundNext { node, .. } => rounds(*node, "Next"),
        Event::RoundsSucceeded { node } => rounds(*node, "Succeeded"),
        Event::RoundsFailed { node } => rounds(*node, "Failed"),
        Event::RunEnded { .. } => "GraphRunSucceededEvent".to_owned(),
    })
}

/// Sets what a case changes in the file.
fn patched(mut text: String, patch: &Json) -> String {
    for (id, fields) in patch.as_object().into_iter().flatten() {
        let Some(place) = text.find(&format!("id: {id}\n")) else { panic!("no node {id}") };
        let data = text[..place].rfind("- data:\n").unwrap() + "- data:\n".len();
        let indent = text[data..].len() - text[data..].trim_start().len();
        let lines: String = fields
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| format!("{}{name}: {value}\n", " ".repeat(indent)))
            .collect();
        text.insert_str(data, &lines);
    }
    text
}

fn check(case: &Json) -> Result<(), String> {
    let file = format!("{}.yml", case["fixture"].as_str().unwrap());
    let text = fs::read_to_string(corpus("dify-fixtures").join(&file)).unwrap();
    let text = patched(text, &case["patch"]);
    let document = Document::read(&file, &text).map_err(|faults| faults[0].to_string())?;
    let mut system = Object::new();
    system.insert("query".to_owned(), Value::from_json(case["query"].clone()));
    system.insert("files".to_owned(), std::iter::empty::<Value>().collect());
    let mut pool = run::pool(&document, &system);
    let root = document.graph.node(document.graph.root().unwrap());
    for (name, value) in case["inputs"].as_object().unwrap() {
        pool.set(&root.id, name, Value::from_json(value.clone()));
    }
    let (mut names, mut chunks) = (Vec::new(), Vec::new());
    // By hand: the suite mocks these models in the test's own code.
    let by_hand = serde_json::json!({"llm": "one two three"});
    let mocks = if case["mocks"].is_null() { &by_hand } else { &case["mocks"] };
    let ended =
        run::run(&document.graph, pool, Limits::default(), &mut Mocks { mocks }, &mut |event| {
            if let Event::Text(chunk) = &event {
                chunks.push(chunk.text.clone());
            }
            names.extend(event_name(&document, &event));
        });
    let outputs: Map<String, Json> =
        ended.outputs.iter().map(|(name, value)| (name.clone(), value.to_json())).collect();
    let fail = |what: &str| {
        Err(format!(
            "{what}\n  status {:?} {:?}\n  outputs {outputs:?}\n  events {names:?}\n  chunks {chunks:?}",
            ended.status, ended.failure
        ))
    };
    let status = case["expected_status"].as_str().unwrap_or("succeeded");
    if ended.status.name() != status {
        return fail("status");
    }
    for (name, value) in case["expected_outputs"].as_object().into_iter().flatten() {
        if outputs.get(name) != Some(value) {
            return fail(&format!("output {name}, expected {value}"));
        }
    }
    if let Some(expected) = case["expected_events"].as_array() {
        let expected: Vec<&str> = expected.iter().map(|name| name.as_str().unwrap()).collect();
        if names != expected {
            return fail(&format!("events, expected {expected:?}"));
        }
    }
    if let Some(expected) = case["expected_first_chunks"].as_array()
        && chunks
            .iter()
            .map(|chunk| Json::from(chunk.as_str()))
            .take(expected.len())
            .ne(expected.iter().cloned())
    {
        return fail("first chunks");
    }
    if let Some(note) = case["note"].as_str() {
        let holds = match note {
            note if note.starts_with("exactly 3 chunks") => chunks.len() == 3,
            note if note.starts_with("chunks of the LLM itself") => {
                chunks.iter().any(|c| c == " two")
            }
            note if note.starts_with("the run must fail") => {
                ended.failure.as_ref().is_some_and(|(_, f)| f.message == "Simulated LLM API error")
            }
            note if note.contains("exceptions_count is 1") => {
                ended.handled == 1
                    && document
                        .graph
                        .nodes()
                        .iter()
                        .any(|n| matches!(n.on_error, OnError::Default(_)))
            }
            _ => false,
        };
        if !holds {
            return fail(note);
        }
    }
    // What streamed is what was answered.
    if let (Some(Json::String(answer)), "succeeded") = (outputs.get("answer"), status)
        && !SPEAK_AT_ONCE.contains(&case["fixture"].as_str().unwrap())
        && chunks.concat() != *answer
    {
        return fail("the text that streamed is not the answer");
    }
    Ok(())
}

/// Answers in parallel branches are joined as they end, and come out as they are reached.
const SPEAK_AT_ONCE: [&str; 1] = ["test_complex_branch"];

/// The one case whose Python has no mock.
const PYTHON: &str = "array_iteration_formatting_workflow";

#[needs_shared]
#[test]
fn all_cases_of_difys_own_suite_give_the_expected_outputs_and_events() {
    let text = fs::read_to_string(corpus("dify-fixtures/cases.json")).unwrap();
    let cases: Vec<Json> = serde_json::from_str(&text).unwrap();
    assert_eq!(cases.len(), 81);
    let (python, cases): (Vec<_>, Vec<_>) = cases.into_iter().partition(|c| c["fixture"] == PYTHON);
    assert_eq!(python.len(), 1);
    let wrong: Vec<String> = (cases.iter())
        .filter_map(|case| check(case).err().map(|why| format!("{}: {why}", case["fixture"])))
        .collect();
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
